//! The floor: what does a random line cost with 1 to 64 independent loads in flight, per memory and page size?
//!
//! No lookup can be faster per line than bare loads, so every other figure is compared with this. Near memory is measured on
//! the pages a region obtains (2 MiB if the system grants them). A pool on tmpfs is the same memory on small pages. A pool in
//! a file is the kernel's page cache. Both are far tiers to Tierra and have their own rows.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tierra_interleave::{Interleaved, Plain};
use tierra_memory::measure::Chase;
use tierra_memory::{ExtentWriter, Pool, PoolOptions, Region};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::sorted::size_name;
use crate::turns::turns;
use crate::view::{Unit, View};

/// Independent loads in flight.
const IN_FLIGHT: [usize; 11] = [1, 2, 4, 8, 10, 12, 16, 24, 32, 48, 64];
/// A sample is the time of this many lines, so that it is a whole number with three digits and more.
const LINES: u64 = 1_000;
/// Misses that a core of the paper's machine has in flight.
const MISSES: usize = 10;
/// What the names of near memory begin with.
const NEAR: &str = "near";
/// The contender's name in messages.
const WHO: &str = "the lab";

/// The experiment.
pub(super) struct Floor;

impl Experiment for Floor {
    fn name(&self) -> &'static str {
        "floor"
    }

    fn about(&self) -> &'static str {
        "what does a random line cost with 1 to 64 independent loads under way, near and far?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(16 << 20, 512 << 20);
        let (rounds, time) = (lab.size(3, 31), Duration::from_millis(lab.size(1, 2)));
        let mut memories = vec![
            Memory::large_pages(bytes)?,
            Memory::pool("pool in a file", &lab.folder("pool")?, bytes)?,
        ];
        let in_memory = lab.folder_in_memory();
        match &in_memory {
            Ok(folder) => {
                memories.push(Memory::pool("pool on tmpfs", folder.path(), bytes)?);
            }
            Err(error) => println!("A pool on tmpfs is not measured: {error}"),
        }
        let mut chases: Vec<(String, Chase<'_>)> = memories
            .iter_mut()
            .map(|memory| (memory.name.clone(), Chase::new(memory.held.bytes())))
            .collect();

        let points: Vec<(usize, usize, bool)> = (0..chases.len())
            .flat_map(|memory| IN_FLIGHT.map(|in_flight| (memory, in_flight)))
            .flat_map(|(memory, in_flight)| [true, false].map(|ahead| (memory, in_flight, ahead)))
            .collect();
        let mut samples = vec![Vec::with_capacity(rounds); points.len()];
        let bar = progress::bar("rounds", points.len() * (rounds + 1));
        for turn in turns(points.len(), rounds) {
            let (memory, in_flight, ahead) = points[turn.contender];
            let chase = &mut chases[memory].1;
            let ns = if ahead {
                chase.ns_per_line::<Interleaved>(in_flight, time)
            } else {
                chase.ns_per_line::<Plain>(in_flight, time)
            };
            if !turn.is_warm_up() {
                samples[turn.contender].push((ns * LINES as f64).round() as u64);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rows = points.iter().zip(samples).map(|(point, samples)| {
            let (memory, in_flight, ahead) = *point;
            let (key, loads) = if ahead {
                ("prefetched", "prefetched")
            } else {
                ("plain", "plain")
            };
            Row::new()
                .text(key, chases[memory].0.clone())
                .text("loads", loads)
                .text("in_flight", in_flight.to_string())
                .count("lines", LINES)
                .samples("time", "ns", samples)
        });
        let parameters = Row::new()
            .count("working_set_bytes", bytes as u64)
            .count("rounds", rounds as u64)
            .count("sample_ms", time.as_millis() as u64);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows: rows.collect(),
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        // How fast memory is, is the machine's. The bars say whether it was measured, and whether it is a machine on which
        // interleaving pays.
        let near = distinct(rows, "prefetched")
            .into_iter()
            .find(|name| name.starts_with(NEAR));
        let time = |loads: &str, in_flight: usize| {
            let in_flight = in_flight.to_string();
            let identity = [(loads, near.as_deref()?), ("in_flight", &in_flight)];
            find(rows, &identity)?.value("time_ns")
        };
        let gain = time("prefetched", 1).zip(time("prefetched", MISSES));
        let alone = time("prefetched", 1).zip(time("plain", 1));
        let steps = IN_FLIGHT.iter().zip(&IN_FLIGHT[1..]);
        let slower = steps
            .map(|(&few, &more)| Some(time("prefetched", more)? / time("prefetched", few)?))
            .reduce(|most, next| Some(most?.max(next?)));
        vec![
            Bar::at_least(
                "near: time of a line alone over that of ten in flight",
                7.0,
                gain.map(|(one, ten)| one / ten),
            ),
            Bar::at_most(
                "near: time of a line alone, prefetched and then read: times more or less than a plain load's",
                1.1,
                alone.map(|(prefetched, plain)| (prefetched / plain).max(plain / prefetched)),
            ),
            Bar::at_most(
                "near, prefetched: time of a line over that with the next fewer in flight, most of all steps",
                1.05,
                slower.flatten(),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Table 1 and section 3.3 of the interleaving paper: a latency, and ten misses in flight.
        let row = |memory: &str, in_flight: &str, ns: f64| {
            Row::new()
                .text("prefetched", memory)
                .text("in_flight", in_flight)
                .count("lines", LINES)
                .number("time_ns", ns * LINES as f64)
        };
        vec![
            row("DRAM (paper)", "1", 73.0),
            row("Optane (paper)", "1", 300.0),
            row("DRAM (paper)", "10", 7.3),
            row("Optane (paper)", "10", 30.0),
        ]
    }
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "in_flight",
        series,
        value: "time_ns",
        per: Some("lines"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 2] = [
    view(
        "a random line, prefetched, by loads under way",
        "prefetched",
    ),
    view(
        "a random line, plain loads, by chases taken in turn",
        "plain",
    ),
];

/// Memory to chase through.
struct Memory {
    name: String,
    held: Held,
}

/// Owns the memory.
enum Held {
    Region(Region),
    /// The pool is kept open by its writer, whose space is freed when it is dropped.
    Pool(ExtentWriter),
}

impl Held {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Held::Region(region) => region,
            Held::Pool(writer) => writer,
        }
    }
}

impl Memory {
    fn large_pages(bytes: usize) -> Result<Memory, LabError> {
        let doing = || "mapping memory";
        let mut region = Region::near(bytes).by(WHO, doing())?;
        region.populate().by(WHO, doing())?;
        let name = format!("{NEAR}, {} pages", size_name(region.page_size_bytes()));
        let held = Held::Region(region);
        Ok(Memory { name, held })
    }

    fn pool(name: &str, folder: &Path, bytes: usize) -> Result<Memory, LabError> {
        let doing = || format!("making the {name}");
        let pool: Arc<Pool> =
            Pool::create(&folder.join("far.pool"), &PoolOptions::default()).by(WHO, doing())?;
        let name = format!("{name}, {} pages", size_name(pool.page_size_bytes()));
        let held = Held::Pool(pool.allocate(bytes as u64, 0).by(WHO, doing())?);
        Ok(Memory { name, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_can_be_missed() {
        let rows = |of: &dyn Fn(&str, usize) -> u64| -> Vec<Row> {
            let each = |loads: &str| {
                IN_FLIGHT.map(|in_flight| {
                    Row::new()
                        .text(loads, "near, 2 MB pages")
                        .text("in_flight", in_flight.to_string())
                        .samples("time", "ns", vec![of(loads, in_flight)])
                })
            };
            [each("prefetched"), each("plain")].concat()
        };
        let met = |of: &dyn Fn(&str, usize) -> u64| {
            let bars = Floor.bars(&rows(of));
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&|_, in_flight| 100_000 / in_flight as u64), [true; 3]);
        assert_eq!(met(&|_, _| 100), [false, true, true]);
        let late = |loads: &str, in_flight: usize| match (loads, in_flight) {
            ("prefetched", 1) => 120_000,
            (_, 64) => 9_000,
            _ => 100_000 / in_flight as u64,
        };
        assert_eq!(met(&late), [true, false, false]);
        assert_eq!(Floor.bars(&[])[0].measured, None);
    }

    #[test]
    fn every_memory_can_be_chased() {
        let folder = tempfile::tempdir().unwrap();
        for mut memory in [
            Memory::large_pages(4 << 20).unwrap(),
            Memory::pool("far", folder.path(), 4 << 20).unwrap(),
        ] {
            assert!(memory.name.contains("pages"), "{}", memory.name);
            let mut chase = Chase::new(memory.held.bytes());
            assert!(chase.ns_per_line::<Interleaved>(4, Duration::ZERO) > 0.0);
        }
    }
}
