//! Figure 2 of the interleaving paper: binary search in 2 GB on 1 to 28 cores, by a model.
//!
//! Few machines have 28 cores beside persistent memory, so this is arithmetic, and its tier is `simulated`. A search of S
//! halvings, M of which miss, takes a core
//!
//! ```text
//!   T = S * instructions / clock + M * latency / (in flight * (1 - u))
//! ```
//!
//! where u is the share of the memory's bandwidth that all cores together use: requests queue, and wait longer the fuller the
//! memory is. The rate of k cores, k / T, uses just that bandwidth, so u is the fixed point. Memory loses 1.5 % of its bandwidth
//! for each further core; only that number is fitted (to the 8x at 18 cores). All others are the paper's: latencies, bandwidths,
//! ten line-fill buffers, 38.5 MB of cache, 7 instructions per halving and 2.7 to 4 GHz. The instructions of its coroutine
//! follow from its figure 1. Two assumptions: the clock falls evenly with the cores in use, and an instruction takes a cycle.
//!
//! The walk's instructions are measured here, as cycles at the paper's clock: the time of this code on that machine.

use std::time::Instant;

use tierra_interleave::{Cx, GroupSize, Interleaved, map_into};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::sorted::{Sorted, check, walk};
use crate::stats::median;
use crate::view::{Unit, View};

/// Cores of the paper's socket.
const CORES: u32 = 28;
/// Cores from which the paper finds Optane's bandwidth exhausted.
const SATURATED_CORES: u32 = 18;
/// The share of the best speed-up from which more cores do not help.
const SATURATED: f64 = 0.99;
/// GHz of one core and of all.
const CLOCK_GHZ: [f64; 2] = [4.0, 2.7];
const LINE_BYTES: f64 = 64.0;
const CACHE_BYTES: f64 = 38.5 * 1_048_576.0;
/// Line-fill buffers.
const MISSES_IN_FLIGHT: f64 = 10.0;
const BASELINE_INSTRUCTIONS: f64 = 7.0;
/// The fitted share of its bandwidth that memory loses for each further core.
const CONTENTION: f64 = 0.015;

const BASELINE: &str = "Baseline";
const CORO: &str = "Coro";
const WALK: &str = "walk";

/// Memory of table 1.
struct Memory {
    name: &'static str,
    latency_ns: f64,
    random_bytes_per_ns: f64,
}

const DRAM: Memory = Memory {
    name: "DRAM",
    latency_ns: 73.0,
    random_bytes_per_ns: 100.0,
};
const OPTANE: Memory = Memory {
    name: "Optane",
    latency_ns: 300.0,
    random_bytes_per_ns: 10.0,
};

/// A binary search in an array of `2^bits` bytes of 4-byte values.
#[derive(Clone, Copy)]
struct Search {
    halvings: f64,
    misses: f64,
}

impl Search {
    fn of(bits: i32) -> Search {
        let bytes = 2_f64.powi(bits);
        Search {
            halvings: f64::from(bits - 2),
            // The last halvings are within a line. Of the lines, the upper levels are cached, as many as fit.
            misses: (bytes / LINE_BYTES).log2() - (CACHE_BYTES / LINE_BYTES).log2(),
        }
    }
}

/// The execution of a core: instructions per halving, and misses in flight.
#[derive(Clone, Copy)]
struct Core {
    instructions: f64,
    in_flight: f64,
}

/// Searches per nanosecond of that many cores.
fn searches_per_ns(search: Search, core: Core, memory: &Memory, cores: u32) -> f64 {
    let others = f64::from(cores - 1);
    let clock = CLOCK_GHZ[0] - (CLOCK_GHZ[0] - CLOCK_GHZ[1]) * others / f64::from(CORES - 1);
    let computing = search.halvings * core.instructions / clock;
    let waiting = search.misses * memory.latency_ns / core.in_flight;
    let bandwidth = memory.random_bytes_per_ns / (1.0 + CONTENTION * others);
    let rate = |used: f64| f64::from(cores) / (computing + waiting / (1.0 - used));
    // The more bandwidth is used, the less is requested: bisection finds the fixed point.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let used = f64::midpoint(low, high);
        if rate(used) * search.misses * LINE_BYTES / bandwidth > used {
            low = used;
        } else {
            high = used;
        }
    }
    rate(low)
}

const BASE: Core = Core {
    instructions: BASELINE_INSTRUCTIONS,
    in_flight: 1.0,
};

/// The paper's coroutine. Its figure 1 says for 4 GB: Baseline takes 4.2 times as long on NVM, Coro 2.4 times, and Coro is 5
/// times as fast as Baseline there. So on DRAM it is 5 * 2.4 / 4.2 times as fast. The time that is not waiting is
/// instructions.
fn coro() -> Core {
    let search = Search::of(32);
    let gain = 5.0 * 2.4 / 4.2;
    let took = 1.0 / searches_per_ns(search, BASE, &DRAM, 1) / gain;
    let waiting = search.misses * DRAM.latency_ns / MISSES_IN_FLIGHT;
    Core {
        instructions: (took - waiting) * CLOCK_GHZ[0] / search.halvings,
        in_flight: MISSES_IN_FLIGHT,
    }
}

/// The experiment.
pub(super) struct Fig2;

impl Experiment for Fig2 {
    fn name(&self) -> &'static str {
        "fig2"
    }

    fn about(&self) -> &'static str {
        "how would binary search in 2 GB scale to 28 cores, by a model of the paper's machine?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let step_ns = walk_step_ns(lab.size(5, 101))?;
        let walk = Core {
            instructions: step_ns * CLOCK_GHZ[0],
            in_flight: MISSES_IN_FLIGHT,
        };
        let search = Search::of(31);
        let one = searches_per_ns(search, BASE, &DRAM, 1);
        let mut rows = Vec::new();
        for cores in 1..=CORES {
            for (way, core) in [(BASELINE, BASE), (CORO, coro()), (WALK, walk)] {
                for memory in [DRAM, OPTANE] {
                    let speedup = searches_per_ns(search, core, &memory, cores) / one;
                    rows.push(row(way, memory.name, cores, speedup));
                }
            }
        }
        let parameters = Row::new()
            .number("halvings", search.halvings)
            .number("misses", search.misses)
            .number("baseline_instructions", BASELINE_INSTRUCTIONS)
            .number("coro_instructions", coro().instructions)
            .number("walk_step_ns", step_ns)
            .number("contention_per_core", CONTENTION);
        Ok(Measured {
            tier: Tier::Simulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let speedup = |memory: &Memory, cores: u32| {
            let (series, cores) = (series(CORO, memory.name), cores.to_string());
            find(rows, &[("way", &series), ("cores", &cores)])?.value("speedup")
        };
        let off = |measured: Option<f64>, stated: f64| {
            measured.map(|measured| 100.0 * (measured - stated).abs() / stated)
        };
        let all: Vec<f64> = (1..=CORES)
            .filter_map(|cores| speedup(&OPTANE, cores))
            .collect();
        let best = all.iter().copied().fold(0.0, f64::max);
        let saturated = all
            .iter()
            .position(|speedup| *speedup >= SATURATED * best)
            .map(|cores| (cores + 1) as f64);
        let stated = |what: &str, measured, stated: f64| {
            let what = format!("fig2, simulated: {what}, per cent off the paper's {stated}");
            Bar::at_most(what, 10.0, off(measured, stated))
        };
        vec![
            stated(
                "Coro on Optane at 18 cores",
                speedup(&OPTANE, SATURATED_CORES),
                8.0,
            ),
            stated(
                "cores at which Coro on Optane reaches 99 % of its best",
                saturated,
                f64::from(SATURATED_CORES),
            ),
            stated("Coro on DRAM at 28 cores", speedup(&DRAM, CORES), 50.0),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        vec![
            row("Coro (paper)", OPTANE.name, SATURATED_CORES, 8.0),
            row("Coro (paper)", DRAM.name, CORES, 50.0),
        ]
    }
}

const VIEWS: [View; 1] = [View {
    title: "simulated speed-up over Baseline on DRAM with one core",
    category: "cores",
    series: "way",
    value: "speedup",
    per: None,
    unit: Unit::Ratio,
    mean: false,
}];

fn series(way: &str, memory: &str) -> String {
    format!("{way}, {memory}")
}

fn row(way: &str, memory: &str, cores: u32, speedup: f64) -> Row {
    Row::new()
        .text("way", series(way, memory))
        .text("cores", cores.to_string())
        .number("speedup", speedup)
}

/// Nanoseconds a halving of interleaved walks in cache.
fn walk_step_ns(rounds: usize) -> Result<f64, LabError> {
    const BYTES: usize = 1 << 14;
    const SEARCHES: usize = 10_000;
    let array = Sorted::new(BYTES)?;
    let sorted = array.values(BYTES);
    let mut random = Random::new(SEED);
    let mut ranks = vec![usize::MAX; SEARCHES];
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let draw = || random.below(sorted.len() as u64) as u32;
        let keys: Vec<u32> = std::iter::repeat_with(draw).take(SEARCHES).collect();
        let start = Instant::now();
        let lookup = |cx: Cx<Interleaved>, &key: &u32| walk(cx, sorted, key);
        map_into(GroupSize::DEFAULT, &keys, lookup, &mut ranks);
        samples.push(start.elapsed().as_nanos() as u64);
        check(WALK, &keys, &ranks)?;
    }
    let halvings = (sorted.len() as f64).log2().ceil();
    Ok(median(&samples).unwrap_or(f64::NAN) / (SEARCHES as f64 * halvings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_alone_is_limited_by_latency_and_many_by_bandwidth() {
        let search = Search::of(31);
        let one = 1.0 / searches_per_ns(search, BASE, &DRAM, 1);
        let alone = search.halvings * 7.0 / 4.0 + search.misses * 73.0;
        assert!(one >= alone && one < 1.05 * alone, "{one} {alone}");
        let most = OPTANE.random_bytes_per_ns / (search.misses * LINE_BYTES);
        let all = searches_per_ns(search, coro(), &OPTANE, CORES);
        assert!(all < most && all > most / 2.0);
    }

    #[test]
    fn the_papers_figure_comes_out() {
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab::new(true, folder.path()).unwrap();
        let measured = Fig2.run(&lab).unwrap();
        for bar in Fig2.bars(&measured.rows) {
            assert!(bar.met, "{bar:?}");
        }
    }
}
