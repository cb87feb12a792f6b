//! Figure 4.11: bytes appended to columns by stores that stay in the caches until they are flushed, and by stores that stream past
//! them. Each thread has a pool of its own, as the thesis's have a column.
//!
//! Tierra packs the blocks of a chunk straight into its place in the pool and flushes them where the medium needs it, so that a
//! chunk is written once; streaming stores would need a copy of each packed block. The experiment shows what that copy would gain.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use tierra_memory::persist::{Flush, copy_nontemporal, fence, flush};
use tierra_memory::{Pool, PoolOptions};

use super::data::Memory;
use crate::error::{Context, LabError};
use crate::lab;
use crate::replicas::emulating;
use crate::row::Row;
use crate::turns::{Turn, samples};

/// What is appended at a time: about a packed block of 20-bit codes.
const BLOCK_BYTES: usize = 2_560;

/// How blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stores {
    Cached,
    Streamed,
}

const STORES: [Stores; 2] = [Stores::Cached, Stores::Streamed];

impl Stores {
    fn name(self) -> &'static str {
        match self {
            Stores::Cached => "cached, flushed",
            Stores::Streamed => "streamed",
        }
    }
}

/// Appends by one thread; bytes a second.
fn append(
    pool: &Arc<Pool>,
    bytes: usize,
    stores: Stores,
    begin: &Barrier,
) -> Result<f64, LabError> {
    let writer = pool.allocate(bytes as u64, 1).by("a pool", "allocating");
    let mut block = [0_u8; BLOCK_BYTES];
    // The others wait, whatever came of it.
    begin.wait();
    let mut writer = writer?;
    let start = Instant::now();
    for (number, place) in writer.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        // The values come from registers.
        let value = number as u64;
        match stores {
            Stores::Cached => {
                fill(place, value);
                flush(place);
                fence();
            }
            Stores::Streamed => {
                fill(&mut block, value);
                copy_nontemporal(place, &block);
            }
        }
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

fn fill(bytes: &mut [u8], value: u64) {
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(value + at as u64).to_le_bytes());
    }
}

/// Both kinds of stores on one and more threads, by turns.
pub(super) fn measure(
    dir: &Path,
    memory: Memory,
    bytes: usize,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    if Flush::best().is_none() {
        return Ok(Vec::new());
    }
    let pools = (0..lab::threads()).map(|thread| {
        let path = dir.join(format!("append-{}-{thread}", memory.table));
        Pool::create(&path, &PoolOptions::default()).by("a pool", "creating it")
    });
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    let bytes = bytes / BLOCK_BYTES * BLOCK_BYTES;
    let mut rows = Vec::new();
    for threads in lab::thread_counts() {
        let sample = |turn: Turn| -> Result<u64, LabError> {
            let (stores, begin) = (STORES[turn.contender], Barrier::new(threads));
            let rate: Result<f64, LabError> = thread::scope(|scope| {
                let running = pools[..threads].iter().map(|pool| {
                    let begin = &begin;
                    scope.spawn(move || append(pool, bytes, stores, begin))
                });
                let running = Vec::from_iter(running);
                let rates = running.into_iter().map(|thread| {
                    let rate = thread.join();
                    rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                });
                rates.sum()
            });
            Ok(rate? as u64)
        };
        let far = memory.far(threads);
        let samples = emulating(far, || samples(STORES.len(), rounds, sample))?;
        for (stores, samples) in STORES.iter().zip(samples) {
            rows.push(
                Row::new()
                    .text("append", format!("{}, {threads} thread(s)", memory.name))
                    .text("stores", stores.name())
                    .count("threads", threads as u64)
                    .samples("bytes", "per_s", samples),
            );
        }
    }
    Ok(rows)
}
