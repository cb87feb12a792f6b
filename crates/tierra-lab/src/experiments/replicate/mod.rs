//! Figures 2.22, 3.3, 3.4 and 3.7 of the replication thesis: what 1 to 3 replicas add to durable 4-byte
//! updates of an array, by method of replication, ours and PMDK's.
//!
//! Everything is on tmpfs treated as persistent memory, as in the thesis's "DRAM emulation". The peers are PMDK's pool sets, if
//! installed, and the bare instructions in C, on one copy and on as many as ours: the lower limit of all methods that store
//! through the cache. Each contender is compared with its own update without replicas in the same minutes (a *phase* has one
//! number of replicas). What replicas add to an update among updates of its kind alone is measured apart ([`update_cost`]). Ours is
//! measured with every flush instruction: if `clwb` keeps the line, the thesis's result for
//! `clflushopt` may not hold. With the best of them it is measured in emulated Optane as well, where the peers, whose
//! instructions are not emulated, take no part.

mod bench;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{Composition, CopyBy, Master, Method, Scatter, Waits};

use self::bench::{Bench, Who};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::peers::plain::PlainC;
use crate::peers::pmdk::{Pmdk, PoolSet};
use crate::positions::{Pattern, Positions};
use crate::progress;
use crate::replicas::{Copies, FAR, MEMORIES, NEAR, emulating, panel};
use crate::results::Tier;
use crate::row::{Row, find};
use crate::update_cost;
use crate::view::{Unit, View};

/// The most replicas.
const REPLICAS: usize = 3;
/// Updates in a sample.
const UPDATES: usize = 10_000;
/// Updates per sample of methods that wake threads for each update.
const UPDATES_BY_THREADS: usize = 200;
/// The method of the bars: the one of a program that does not calibrate.
const OURS: &str = "SF+PF";

/// The experiment.
pub(super) struct Replicate;

impl Experiment for Replicate {
    fn name(&self) -> &'static str {
        "replicate"
    }

    fn about(&self) -> &'static str {
        "what do 1 to 3 replicas add to durable 4-byte updates, by method, ours and PMDK's?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(8 << 20, 512 << 20);
        let rounds = lab.size(2, 11);
        let folder = lab.folder("replicate")?;
        let plain = PlainC::compile(&folder)?;
        let pmdk = Pmdk::compile(&folder)?;
        if plain.is_none() {
            println!("C is not measured: a C compiler, clwb and AVX-512 are needed.");
        }
        if pmdk.is_none() {
            println!("PMDK is not measured: {} is not installed.", Pmdk::PACKAGE);
        }
        let version = pmdk.as_ref().map_or("absent", Pmdk::version).to_owned();
        let shared = lab.folder_in_memory()?;
        let elements = bytes / size_of::<u32>();
        // Enough that each turn has its own positions.
        let drawn = lab.size(20 * UPDATES, 400 * UPDATES);
        let mut positions = Positions::draw(elements, drawn, shared.path(), SEED)?;
        let best = Flush::best().unwrap_or(Flush::Clflush);
        let flushes: Vec<Flush> = Flush::available()
            .filter(|flush| *flush != Flush::Clflush)
            .collect();
        let mut copies = Copies::create(lab, 1 + REPLICAS, bytes, Flush::Clflush)?;
        let mut rows = Vec::new();
        let steps = progress::bar("phases", (flushes.len() + 1) * REPLICAS);
        let pool_bytes = lab.size(32 << 20, 1 << 30);
        let drawn_at = positions.path().to_owned();
        let create = |pmdk: &Pmdk, replicas| {
            let sizes = (pool_bytes, elements);
            PoolSet::create(pmdk, shared.path(), &drawn_at, replicas, sizes)
        };
        let mut alone = match &pmdk {
            Some(pmdk) => Some(create(pmdk, 0)?),
            None => None,
        };
        for flush in flushes {
            copies = copies.flushed_by(flush)?;
            for replicas in 1..=REPLICAS {
                let mut set = None;
                let mut bench = Bench::new(&copies, plain.as_ref(), flush, replicas, bytes)?;
                bench.updates = lab.size(500, UPDATES);
                // Only with the best flush instruction, because making PMDK's pools takes longest.
                if let Some(pmdk) = pmdk.as_ref().filter(|_| Flush::best() == Some(flush))
                    && let Some(alone) = &mut alone
                {
                    bench.pmdk = Some([alone, set.insert(create(pmdk, replicas)?)]);
                }
                rows.extend(bench.measure(NEAR, &mut positions, rounds)?);
                steps.inc(1);
            }
        }
        copies = copies.flushed_by(best)?;
        let [_, (memory, far)] = MEMORIES;
        for replicas in 1..=REPLICAS {
            let mut bench = Bench::new(&copies, None, best, replicas, bytes)?;
            bench.updates = lab.size(500, UPDATES);
            rows.extend(emulating(far, || {
                bench.measure(memory, &mut positions, rounds)
            })?);
            steps.inc(1);
        }
        steps.finish_and_clear();
        rows.extend(update_cost::measure(lab, &copies)?);
        let parameters = Row::new()
            .count("array_bytes", bytes as u64)
            .count("rounds", rounds as u64)
            .text("pmdk", version);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let flush = Flush::Clwb.to_string();
        let time = |who: &str, phase: usize, replicas: usize| {
            let identity = [
                ("memory", NEAR),
                ("pattern", Pattern::Uniform.name()),
                ("flush", &flush),
                ("who", who),
                ("phase", &phase.to_string()),
                ("replicas", &replicas.to_string()),
            ];
            find(rows, &identity)?.value("time_ns")
        };
        let over = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
        let added = |who: &str, base: &str| {
            let (with, without) = (time(who, REPLICAS, REPLICAS), time(base, REPLICAS, 0));
            over(with, without).map(|times| times - 1.0)
        };
        let ours = added(OURS, Who::UNREPLICATED);
        vec![
            Bar::at_most(
                "durable 4-byte update without replicas, time over C's store, clwb and sfence",
                1.05,
                over(
                    time(Who::UNREPLICATED, REPLICAS, 0),
                    time(PlainC::NAME, REPLICAS, 0),
                ),
            ),
            update_cost::bar(rows),
            Bar::at_most(
                "3 replicas, uniform: what they add, over what they add to PMDK's update",
                0.125,
                over(ours, added(Pmdk::NAME, Pmdk::NAME)),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // By clflushopt, which clwb was there. Figure 2.22 and section 2.6 (334 % to 1260 %); section 3.1.2: per replica about
        // 190 % on DRAM and about 330 % on Optane, and within 100 % for sequential updates on DRAM.
        let row = |view: &str, who: &str, replicas: usize, times: f64| {
            Row::new()
                .text(view, who)
                .text("replicas", replicas.to_string())
                .number("relative_time", times)
        };
        let dram = "PMDK, DRAM (paper)";
        let optane = "PMDK, Optane (paper)";
        let far = &panel("uniform clwb", FAR);
        let mut rows = vec![row(far, optane, 1, 4.34), row(far, optane, 3, 13.6)];
        for replicas in 1..=REPLICAS {
            let times = replicas as f64;
            rows.push(row("uniform clwb", dram, replicas, 1.0 + 1.9 * times));
            rows.push(row("sequential clwb", dram, replicas, 1.0 + times));
        }
        rows
    }
}

/// The compositions of figure 3.7.
fn methods() -> Vec<Method> {
    let basic = Composition::BASIC;
    let one_fence = Composition {
        waits: Waits::Once,
        ..basic
    };
    let streams = Composition {
        copy: CopyBy::Streams,
        ..basic
    };
    let fetched = Composition {
        prefetch: true,
        ..one_fence
    };
    let mut all = vec![
        basic,
        one_fence,
        Composition {
            master: Master::Post,
            ..basic
        },
        Composition {
            prefetch: true,
            ..basic
        },
        streams,
        fetched,
        Composition {
            copy: CopyBy::Streams,
            master: Master::Post,
            ..one_fence
        },
        Composition {
            copy: CopyBy::Streams,
            master: Master::Streamed,
            ..one_fence
        },
    ];
    all.extend(&Composition::THREADS[..1]);
    if let Some(leave) = Scatter::detect() {
        let copy = CopyBy::Scatter(leave);
        all.push(Composition { copy, ..basic });
        all.push(Composition { copy, ..fetched });
    }
    all.into_iter().map(Method::Always).collect()
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "replicas",
        series,
        value: "relative_time",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    }
}

const VIEWS: [View; 12] = [
    update_cost::VIEW,
    View {
        title: "4-byte durable update of one copy, uniform positions, clwb",
        category: "phase",
        series: "alone uniform clwb",
        value: "time_ns",
        per: Some("updates"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    view(
        "uniform, clwb: times the update of one copy",
        "uniform clwb",
    ),
    view("binomial, clwb", "binomial clwb"),
    view("sequential, clwb", "sequential clwb"),
    view("uniform, clflushopt", "uniform clflushopt"),
    view("binomial, clflushopt", "binomial clflushopt"),
    view("sequential, clflushopt", "sequential clflushopt"),
    View {
        title: "4-byte durable update of one copy in emulated Optane, uniform positions, clwb",
        category: "phase",
        series: "alone uniform clwb, emulated optane",
        value: "time_ns",
        per: Some("updates"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    view(
        "uniform, clwb, emulated Optane: times the update of one copy there",
        "uniform clwb, emulated optane",
    ),
    view(
        "binomial, clwb, emulated Optane",
        "binomial clwb, emulated optane",
    ),
    view(
        "sequential, clwb, emulated Optane",
        "sequential clwb, emulated optane",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_about_updates_of_one_phase() {
        let row = |who: &str, phase: &str, replicas: &str, time_ns| {
            Row::new()
                .text("memory", NEAR)
                .text("pattern", "uniform")
                .text("flush", "clwb")
                .text("who", who)
                .text("phase", phase)
                .text("replicas", replicas)
                .samples("time", "ns", vec![time_ns])
        };
        let mut rows = vec![
            row(Who::UNREPLICATED, "1", "0", 900),
            row(Who::UNREPLICATED, "3", "0", 102),
            row(PlainC::NAME, "3", "0", 100),
            row(OURS, "3", "3", 153),
            row(Pmdk::NAME, "3", "0", 100),
            row(Pmdk::NAME, "3", "3", 300),
        ];
        let bars = Replicate.bars(&rows);
        let met: Vec<bool> = bars.iter().map(|bar| bar.met).collect();
        assert_eq!(met, [true, false, false]);
        assert!((bars[2].measured.unwrap() - 0.25).abs() < 1e-9);
        assert!(methods().iter().any(|method| method.to_string() == OURS));
        rows.pop();
        assert_eq!(Replicate.bars(&rows)[2].measured, None);
    }
}
