//! Memory: how fast are near and far memory by pattern, granularity, threads and access method?
//!
//! Figures 2.6 to 2.13 of the replication thesis (section 2.2), on real near memory, on far memory emulated over it, and on
//! pools and files of this machine. Every row names its memory.
//!
//! Emulation is no faster than the memory below it: in sequential reads one or two threads request hardly more than the thesis's
//! device delivers. Its channel is separate, while the thesis's memories shared theirs. It also costs work, more than the wait
//! of small random accesses: a flush reads the clock and takes the channel while lines are in transit. Those rows show the
//! emulator's limit, not the device's.

mod operation;
mod place;
mod points;
mod relations;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tierra_interleave::{Execution, Plain};
use tierra_memory::emulation::{self, FarMemory, count_as_far};
use tierra_memory::measure::Chase;
use tierra_memory::{Region, in_mode};

use self::operation::Done;
use self::place::{Place, THREADS};
use self::points::{Counted, Kind, Point};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::pin;
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::turns::turns;
use crate::view::{Unit, View};

/// A sample of a latency is the time of this many loads, so that it is a whole number.
const LOADS: u64 = 1_000;
/// The contender's name in messages.
const WHO: &str = "the lab";

/// The experiment.
pub(super) struct Memory;

impl Experiment for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "how fast are near and far memory by pattern, granularity, threads and access method?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (region_bytes, file_bytes) =
            (lab.size(32 << 20, 1 << 30), lab.size(16 << 20, 512 << 20));
        let (rounds, time) = (lab.size(3, 31), Duration::from_millis(lab.size(1, 3)));
        let in_memory = lab.folder_in_memory();
        let on_disk = lab.folder("memory")?;
        let mut places = vec![
            (Kind::Near, Place::region(region_bytes)?),
            (Kind::Far, Place::region(region_bytes)?),
            (Kind::FilePool, Place::pool(&on_disk, file_bytes)?),
            (Kind::File, Place::file(&on_disk, file_bytes)?),
        ];
        match &in_memory {
            Ok(folder) => {
                let folder = folder.path();
                places.push((Kind::TmpfsPool, Place::pool(folder, file_bytes)?));
                places.push((Kind::TmpfsFile, Place::file(folder, file_bytes)?));
            }
            Err(error) => println!("A pool on tmpfs is not measured: {error}"),
        }
        let mut chased = Region::near(file_bytes).by(WHO, "mapping memory")?;
        chased.populate().by(WHO, "bringing in memory")?;
        let page_bytes = chased.page_size_bytes() as u64;
        let far = [count_as_far(places[1].1.mapped()), count_as_far(&chased)];
        let mut chase = Chase::new(&mut chased);
        let near_ns = chase.ns_per_line::<Plain>(1, 10 * time);

        let points = points::all(FarMemory::remote_socket(near_ns));
        let has = |kind: Kind| places.iter().any(|(known, _)| *known == kind);
        let points: Vec<Point> = points
            .into_iter()
            .filter(|point| point.jobs.iter().all(|(kind, _)| has(*kind)))
            .collect();
        let mut samples = vec![Vec::with_capacity(rounds); points.len()];
        let bar = progress::bar("rounds", points.len() * (rounds + 1));
        for turn in turns(points.len(), rounds) {
            let point = &points[turn.contender];
            let sample = during(point.far, || point.measure(&mut places, &mut chase, time))?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(sample);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        drop(far);
        let mut rows: Vec<Row> = points
            .into_iter()
            .zip(samples)
            .map(|(point, samples)| point.row(samples))
            .collect();
        let relations = relations::here(&rows);
        rows.extend(relations);
        let parameters = Row::new()
            .count("region_bytes", region_bytes as u64)
            .count("file_bytes", file_bytes as u64)
            .count("page_bytes", page_bytes)
            .count("rounds", rounds as u64)
            .count("sample_ms", time.as_millis() as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        relations::bars(rows)
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        relations::stated()
    }
}

/// Runs `work` with this far memory; nothing is emulated before and after.
fn during<T>(
    far: Option<FarMemory>,
    work: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    emulation::set(far).by(WHO, "asking for emulation")?;
    let done = work();
    emulation::set(None).by(WHO, "ending emulation")?;
    done
}

impl Point {
    /// One sample: runs all jobs at once and counts some of them.
    fn measure(
        &self,
        places: &mut [(Kind, Place)],
        chase: &mut Chase<'_>,
        time: Duration,
    ) -> Result<u64, LabError> {
        if self.jobs.is_empty() {
            let ns = match self.far {
                None => chase.ns_per_line::<Plain>(1, time),
                Some(_) => in_mode!(Execution::Plain, M => chase.ns_per_line::<M>(1, time)),
            };
            return Ok((ns * LOADS as f64).round() as u64);
        }
        let mut parts: Vec<(Kind, _)> = places
            .iter_mut()
            .map(|(kind, place)| (*kind, place.parts()))
            .collect();
        let ready = AtomicUsize::new(0);
        let done: Result<Vec<Done>, LabError> = std::thread::scope(|scope| {
            let mut running = Vec::with_capacity(THREADS);
            for (thread, (kind, operation)) in self.jobs.iter().enumerate() {
                let part = parts
                    .iter_mut()
                    .find(|(known, _)| known == kind)
                    .and_then(|(_, parts)| parts[thread].take());
                let (ready, all) = (&ready, self.jobs.len());
                running.push(scope.spawn(move || {
                    pin::to_cpu(thread);
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < all {
                        std::thread::yield_now();
                    }
                    let mut part = part.ok_or("no such place").by(WHO, "measuring")?;
                    operation.run(&mut part, time)
                }));
            }
            running
                .into_iter()
                .map(|thread| {
                    let done = thread.join();
                    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        let done = done?;
        let counting = &done[..self.counting];
        let count: u64 = counting
            .iter()
            .map(|done| match self.counted {
                Counted::Bytes => done.bytes,
                Counted::Accesses => done.accesses,
            })
            .sum();
        // From the first start to the last end, so that time in which one thread runs alone adds no throughput.
        let start = counting.iter().map(|done| done.start).min();
        let end = counting.iter().map(|done| done.end).max();
        let span = start.zip(end).map(|(start, end)| end - start);
        let span = span.unwrap_or(time).as_secs_f64();
        Ok((count as f64 / span).round() as u64)
    }
}

const fn view(title: &'static str, category: &'static str, series: &'static str) -> View {
    View {
        title,
        category,
        series,
        value: "bytes_per_s",
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    }
}

const VIEWS: [View; 6] = [
    view(
        "bytes by pattern and threads (figures 2.6, 2.9, 2.11)",
        "pattern",
        "where",
    ),
    view(
        "bytes read at random by granularity, two threads (figures 2.7, 2.8)",
        "granularity_bytes",
        "read_from",
    ),
    view(
        "bytes in order, near and far at once, a thread each (figure 2.10)",
        "at_once",
        "beside",
    ),
    View {
        value: "time_ns",
        per: Some("loads"),
        unit: Unit::Nanoseconds,
        ..view(
            "a load that waits for the one before (figure 2.12)",
            "latency_of",
            "loaded",
        )
    },
    View {
        value: "updates_per_s",
        ..view(
            "updates of a column at random (figure 2.13)",
            "update",
            "method",
        )
    },
    View {
        value: "ratio_ppm",
        per: Some("one_ppm"),
        unit: Unit::Ratio,
        ..view("what the thesis states", "relation", "who")
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::find;

    #[test]
    fn everything_is_measured_and_every_relation_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let lab = Lab::new(true, scratch.path()).unwrap();
        let measured = Memory.run(&lab).unwrap();
        for view in Memory.views() {
            let grid = view.grid(&measured.rows);
            assert!(grid.medians().all(|median| median > 0.0), "{}", view.title);
            assert!(!grid.categories.is_empty(), "{}", view.title);
        }
        for stated in Memory.paper() {
            let name = stated.get("relation").unwrap().to_string();
            let ours = find(&measured.rows, &[("relation", &name)]);
            assert!(ours.is_some(), "{name}");
        }
        assert_eq!(emulation::current(), None);
    }
}
