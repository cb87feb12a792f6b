//! What a tier really gives: latency, random and sequential bandwidth.
//!
//! Latency is a pointer chase: a cycle through every line in random order, each address known only
//! once the line before has arrived. Bandwidths are independent reads by several threads. Invariant:
//! a measurement takes about [`Effort::time_per_figure`] four times plus the time to fill the
//! working set, whatever the memory's speed, and names the page size it ran on, for with small pages
//! a chase waits for address translation as well.
//!
//! Threads run where the scheduler puts them: to measure from one socket, call it from a thread that
//! is pinned there; the threads started here inherit the affinity.
//!
//! Two limits stand beside these figures: the [floor](Chase) of random lines with a given number in flight, and the
//! [replay](record) of the very lines that given lookups asked for.

mod cpu_time;
mod floor;
mod replay;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use cpu_time::CpuTime;
pub use floor::Chase;
pub use replay::{LoadTrace, record};

use crate::pool::{Pool, PoolError};
use crate::region::{Region, RegionError};
use crate::topology::NodeId;
use crate::{LINE_BYTES, persist};

/// How much to measure with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Bytes to roam over: more than the last-level cache, or it is the cache that is measured.
    /// At least [`Effort::MIN_BYTES`] are used.
    pub working_set_bytes: usize,
    /// Time for each of the four figures.
    pub time_per_figure: Duration,
    /// Threads that read or write at the same time for the bandwidths; at least one is used.
    pub threads: usize,
}

impl Effort {
    /// The least working set.
    pub const MIN_BYTES: usize = 64 << 10;

    fn bytes(&self) -> usize {
        self.working_set_bytes.max(Effort::MIN_BYTES) / LINE_BYTES * LINE_BYTES
    }
}

impl Default for Effort {
    /// 256 MiB, all CPUs, about a second in all.
    fn default() -> Effort {
        Effort {
            working_set_bytes: 256 << 20,
            time_per_figure: Duration::from_millis(100),
            threads: thread::available_parallelism().map_or(1, |threads| threads.get()),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Nanoseconds from one dependent load to the next, one thread.
    pub latency_ns: f64,
    /// Bytes per second of independent reads of random lines, all threads together.
    pub random_read_bytes_per_s: f64,
    /// Bytes per second of reads in order, all threads together.
    pub sequential_read_bytes_per_s: f64,
    /// Bytes per second of streaming stores in order, all threads together.
    pub sequential_write_bytes_per_s: f64,
    /// Bytes roamed over.
    pub working_set_bytes: usize,
    /// Bytes of the pages that backed them, as the kernel says.
    pub page_size_bytes: usize,
    /// Threads of the bandwidths.
    pub threads: usize,
}

/// Measures volatile memory: of a node, or wherever the kernel puts it.
///
/// # Errors
/// [`RegionError`] where the working set cannot be had.
pub fn region(node: Option<NodeId>, effort: &Effort) -> Result<Measurement, RegionError> {
    let mut region = match node {
        Some(node) => Region::on_node(node, effort.bytes())?,
        None => Region::near(effort.bytes())?,
    };
    region.populate()?;
    let page_size_bytes = region.page_size_bytes();
    Ok(measure(&mut region, effort, page_size_bytes))
}

/// Measures a pool in space of its own, which is given back.
///
/// # Errors
/// [`PoolError::Full`] where the working set does not fit, [`PoolError::Io`].
pub fn pool(pool: &Arc<Pool>, effort: &Effort) -> Result<Measurement, PoolError> {
    let mut writer = pool.allocate(effort.bytes() as u64, 0)?;
    Ok(measure(&mut writer, effort, pool.page_size_bytes()))
}

fn measure(bytes: &mut [u8], effort: &Effort, page_size_bytes: usize) -> Measurement {
    let threads = effort.threads.max(1);
    let time = effort.time_per_figure;
    lay_cycle(bytes);
    Measurement {
        latency_ns: chase_ns(bytes, time),
        random_read_bytes_per_s: rate(threads, time, |thread, deadline| {
            read_random(bytes, thread as u64, deadline)
        }),
        sequential_read_bytes_per_s: {
            let parts: Vec<&[u8]> = bytes.chunks(part_bytes(bytes.len(), threads)).collect();
            rate(parts.len(), time, |thread, deadline| {
                read_in_order(parts[thread], deadline)
            })
        },
        sequential_write_bytes_per_s: write_rate(bytes, threads, time),
        working_set_bytes: bytes.len(),
        page_size_bytes,
        threads,
    }
}

/// Whole lines for each thread.
fn part_bytes(len_bytes: usize, threads: usize) -> usize {
    len_bytes.div_ceil(threads).next_multiple_of(LINE_BYTES)
}

/// Stores into each line the number of the next one of a random cycle through all (Sattolo's
/// shuffle, which yields one cycle and nothing but).
fn lay_cycle(bytes: &mut [u8]) {
    let mut next: Vec<u64> = (0..(bytes.len() / LINE_BYTES) as u64).collect();
    let mut random = Random(1);
    for last in (1..next.len()).rev() {
        next.swap(last, random.below(last as u64) as usize);
    }
    for (line, next) in bytes.chunks_exact_mut(LINE_BYTES).zip(next) {
        line[..8].copy_from_slice(&next.to_ne_bytes());
    }
}

fn word_at(bytes: &[u8], line: u64) -> u64 {
    let at = line as usize * LINE_BYTES;
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn chase_ns(bytes: &[u8], time: Duration) -> f64 {
    const STEPS: u32 = 4096;
    let (mut line, mut steps) = (0, 0u64);
    let start = Instant::now();
    loop {
        for _ in 0..STEPS {
            line = word_at(bytes, line);
        }
        steps += u64::from(STEPS);
        let elapsed = start.elapsed();
        if elapsed >= time {
            black_box(line);
            return elapsed.as_nanos() as f64 / steps as f64;
        }
    }
}

/// Runs `work(thread, deadline)`, which returns the bytes it moved, on each thread at once.
fn rate(threads: usize, time: Duration, work: impl Fn(usize, Instant) -> u64 + Sync) -> f64 {
    let moved = AtomicU64::new(0);
    let start = Instant::now();
    let deadline = start + time;
    thread::scope(|scope| {
        for thread in 0..threads {
            let (work, moved) = (&work, &moved);
            scope.spawn(move || moved.fetch_add(work(thread, deadline), Ordering::Relaxed));
        }
    });
    moved.into_inner() as f64 / start.elapsed().as_secs_f64()
}

fn read_random(bytes: &[u8], seed: u64, deadline: Instant) -> u64 {
    const LINES: u64 = 8192;
    let count = (bytes.len() / LINE_BYTES) as u64;
    let mut random = Random(seed + 1);
    let (mut sum, mut moved) = (0u64, 0);
    loop {
        // The addresses depend on nothing read, so the processor overlaps as many as it can.
        for _ in 0..LINES {
            sum = sum.wrapping_add(word_at(bytes, random.below(count)));
        }
        moved += LINES * LINE_BYTES as u64;
        if Instant::now() >= deadline {
            black_box(sum);
            return moved;
        }
    }
}

fn read_in_order(part: &[u8], deadline: Instant) -> u64 {
    const STEP_BYTES: usize = 1 << 20;
    let (mut sum, mut moved) = (0u64, 0);
    for step in part.chunks(STEP_BYTES).cycle() {
        for word in step.chunks_exact(8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            sum = sum.wrapping_add(u64::from_ne_bytes(bytes));
        }
        moved += step.len() as u64;
        if Instant::now() >= deadline {
            break;
        }
    }
    black_box(sum);
    moved
}

fn write_rate(bytes: &mut [u8], threads: usize, time: Duration) -> f64 {
    const STEP_BYTES: usize = 64 << 10;
    let part_bytes = part_bytes(bytes.len(), threads);
    let start = Instant::now();
    let deadline = start + time;
    let moved: u64 = thread::scope(|scope| {
        let writers: Vec<_> = bytes
            .chunks_mut(part_bytes)
            .map(|part| {
                scope.spawn(move || {
                    let from = vec![1; STEP_BYTES];
                    let mut moved = 0;
                    while Instant::now() < deadline || moved == 0 {
                        for step in part.chunks_mut(STEP_BYTES) {
                            persist::copy_nontemporal(step, &from[..step.len()]);
                            moved += step.len() as u64;
                            if Instant::now() >= deadline {
                                break;
                            }
                        }
                    }
                    moved
                })
            })
            .collect();
        // A writer cannot panic: its copies have equal lengths.
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap_or(0))
            .sum()
    });
    moved as f64 / start.elapsed().as_secs_f64()
}

/// Xorshift, good enough to defeat a prefetcher and as cheap as the loop around it.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;

    fn effort() -> Effort {
        Effort {
            working_set_bytes: 1 << 20,
            time_per_figure: Duration::from_millis(5),
            threads: 2,
        }
    }

    fn assert_plausible(measured: &Measurement) {
        assert!(
            measured.latency_ns > 0.1 && measured.latency_ns < 1e6,
            "{measured:?}"
        );
        for rate in [
            measured.random_read_bytes_per_s,
            measured.sequential_read_bytes_per_s,
            measured.sequential_write_bytes_per_s,
        ] {
            assert!(rate > 1e5 && rate < 1e13, "{measured:?}");
        }
    }

    #[test]
    fn the_cycle_visits_every_line_once() {
        for lines in [1usize, 2, 3, 1000] {
            let mut bytes = vec![0; lines * LINE_BYTES];
            lay_cycle(&mut bytes);
            let mut seen = vec![false; lines];
            let mut line = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[line as usize], true));
                line = word_at(&bytes, line);
            }
            assert_eq!(line, 0);
        }
    }

    #[test]
    fn regions_and_pools_are_measured_and_given_back() {
        let measured = region(None, &effort()).unwrap();
        assert_plausible(&measured);
        assert_eq!(measured.working_set_bytes, 1 << 20);

        let dir = tempfile::tempdir().unwrap();
        let store = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
        assert_plausible(&pool(&store, &effort()).unwrap());
        assert_eq!(store.used_bytes(), 0);
    }

    #[test]
    fn odd_efforts_are_made_possible() {
        let odd = Effort {
            working_set_bytes: 0,
            time_per_figure: Duration::ZERO,
            threads: 0,
        };
        let measured = region(None, &odd).unwrap();
        assert_eq!(measured.working_set_bytes, Effort::MIN_BYTES);
        assert_eq!(measured.threads, 1);
        let odd = Effort {
            working_set_bytes: 100_001,
            threads: 7,
            ..odd
        };
        assert_eq!(
            region(None, &odd).unwrap().working_set_bytes,
            100_001 / 64 * 64
        );
    }
}
