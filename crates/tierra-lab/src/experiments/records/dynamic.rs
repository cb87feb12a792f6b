//! Dynamic placement compared with the static policies at the same near budget, and with near memory for everything.
//!
//! The stores of all policies serve the same workloads in turns. With records of one size a budget allows these static policies:
//! near while there is room (`only-dram` and `threshold` at a budget), a ratio of records near, and all far.
//!
//! Policies are compared once they have settled: `dynamic` has served sixteen requests a record of the workload by then, which are not
//! measured. What it loses meanwhile is measured by itself, with a quarter near ([`learning`]).

use std::time::Instant;

use tierra_data::ycsb::{Distribution, Requests, SCAN_MAX, Workload};
use tierra_kv::keyspace::{Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

use super::learning;
use super::sample::{self, Sample};
use super::{Store, WHO, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::{Context, LabError};
use crate::experiments::emulation::DUE;
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::steady;
use crate::view::{Unit, View};

const BUDGETS_PERCENT: [u64; 5] = [10, 25, 50, 75, 100];
/// The budget at which memory is drawn over time.
const DRAWN_PERCENT: u64 = 25;
const ALL_NEAR: &str = "all near";
const DYNAMIC: &str = "dynamic";
const STATIC: [&str; 3] = ["near while there is room", "ratio", "all far"];

/// The workloads of the bars, in which the emulation's own work is measured as well.
const OWN_WORK: [&str; 5] = ["A", "B", "C", "F", "D"];

/// E's index has its own cost, and I makes room for what it inserts: they come last.
const WORKLOADS: [(&str, Workload); 10] = [
    ("R", Workload::R),
    ("C", Workload::C.over(Distribution::Zipfian)),
    ("B", Workload::B.over(Distribution::Zipfian)),
    ("A", Workload::A.over(Distribution::Zipfian)),
    ("F", Workload::F.over(Distribution::Zipfian)),
    ("C scrambled", Workload::C),
    ("A scrambled", Workload::A),
    ("D", Workload::D),
    ("E", Workload::E.over(Distribution::Zipfian)),
    ("I", Workload::I),
];

/// Requests a record before the first measured one. The policy that learns gets more of them: records used once in a million
/// requests are distinguished slowly.
const SETTLING: u64 = 2;
const LEARNING: usize = (learning::REQUESTS_PER_RECORD / SETTLING) as usize;

/// Records that a scan of E reads, on average.
const SCANNED: usize = SCAN_MAX as usize / 2;

/// Measured turns.
const ROUNDS: usize = 11;

/// The experiment.
pub(in crate::experiments) struct YcsbDynamic;

impl Experiment for YcsbDynamic {
    fn name(&self) -> &'static str {
        "ycsb-dynamic"
    }

    fn about(&self) -> &'static str {
        "does placement by heat beat static placement at the same near budget, and how near is it to all near?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &ScaleOption::OF_A_STORE
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.records(4_000, 1_000_000);
        let operations = lab.operations(2_000, 200_000);
        let settling = (SETTLING * records) as usize;
        let rounds = lab.runs(2, ROUNDS);
        let budgets = if lab.is_quick() {
            &BUDGETS_PERCENT[1..2]
        } else {
            &BUDGETS_PERCENT[..]
        };
        let mut rows = Vec::new();
        let bar = progress::bar("workloads", budgets.len() * WORKLOADS.len());
        let started = Instant::now();
        for &percent in budgets {
            let names: Vec<&str> = [ALL_NEAR, DYNAMIC].into_iter().chain(STATIC).collect();
            let all_near = Store::load(settings(ALL_NEAR, 0, percent), records)?;
            let budget = all_near.report().near.held_bytes * percent / 100;
            if percent == DRAWN_PERCENT {
                for workload in learned() {
                    let policies = [ALL_NEAR, DYNAMIC];
                    let stores = policies.map(|name| (name, settings(name, budget, percent)));
                    learning::measure(stores, records, workload, &mut rows)?;
                }
            }
            let mut stores = vec![all_near];
            for name in &names[1..] {
                stores.push(Store::load(settings(name, budget, percent), records)?);
            }
            emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
            for (number, (workload_name, workload)) in WORKLOADS.into_iter().enumerate() {
                let operations = match workload_name {
                    "E" => operations / 20,
                    _ => operations,
                };
                let mut requests: Vec<_> = Vec::new();
                for (name, store) in names.iter().zip(&mut stores) {
                    if workload_name == "E" {
                        emulation::set(None).by(WHO, "ending emulation")?;
                        store.index(store.records)?;
                        emulation::set(Some(FarMemory::OPTANE.whole()))
                            .by(WHO, "asking for emulation")?;
                    }
                    sample::prepare(store, workload, operations)?;
                    // No workload requests just the keys that another one has taught a policy.
                    let mut asked = workload.requests(store.records, SEED + number as u64);
                    // There is nothing to learn from inserts alone.
                    let settling = match (workload_name, *name) {
                        ("I", _) => 0,
                        ("D", _) => settling * 2,
                        ("E", DYNAMIC) => settling * LEARNING / SCANNED,
                        ("E", _) => settling / 20,
                        (_, DYNAMIC) => settling * LEARNING,
                        _ => settling,
                    };
                    store.settle(&mut asked, settling, operations)?;
                    let done = store.report().migrations;
                    store.uses_before = (done.uses_near, done.uses_far);
                    requests.push(asked);
                }
                let sampled = steady::in_turns(
                    stores.len(),
                    rounds,
                    |at| {
                        let store = &mut stores[at];
                        store.tick();
                        let sample = Sample::take(store, &mut requests[at], operations, workload)?;
                        if percent == DRAWN_PERCENT && names[at] == DYNAMIC {
                            let (near, far) = tiers::held_bytes(&store.report());
                            let at_s = started.elapsed().as_secs_f64();
                            tiers::note(&mut rows, DYNAMIC, at_s, near, far);
                        }
                        Ok(sample)
                    },
                    Sample::time_ns,
                )?;
                if percent == DRAWN_PERCENT && OWN_WORK.contains(&workload_name) {
                    let of = (workload_name, workload);
                    let row = own_work(&mut stores[1], &mut requests[1], of, operations, rounds)?;
                    rows.push(row);
                }
                for (((name, sampled), store), asked) in
                    names.iter().zip(sampled).zip(&mut stores).zip(&requests)
                {
                    store.records = asked.records();
                    if workload_name == "E" {
                        store.drop_index();
                    }
                    let report = store.report();
                    let uses = store.uses_before;
                    let row = Row::new()
                        .text("policy", *name)
                        .text("workload", workload_name)
                        .text("near", format!("{percent} %"))
                        .text(near_key(percent), workload_name)
                        .count("operations", operations as u64)
                        .count("near_bytes", report.near.held_bytes)
                        .count("far_bytes", report.far.held_bytes)
                        .count("uses_near", report.migrations.uses_near - uses.0)
                        .count("uses_far", report.migrations.uses_far - uses.1)
                        .count("moved_near", report.migrations.to_near)
                        .count("moved_far", report.migrations.to_far)
                        .count("refused", report.migrations.refused);
                    rows.push(sampled.mark(sample::onto(&sampled, row, "")));
                }
                bar.inc(1);
            }
            emulation::set(None).by(WHO, "ending emulation")?;
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: Row::new()
                .count("records", records)
                .count("settling_operations", settling as u64)
                .count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let time = |near: &str, workload: &str, policy: &str| {
            find(
                rows,
                &[("near", near), ("workload", workload), ("policy", policy)],
            )?
            .value("time_ns")
        };
        let best_static = |near: &str, workload: &str| {
            STATIC
                .iter()
                .filter_map(|policy| time(near, workload, policy))
                .reduce(f64::min)
        };
        let over_static = |near: &str, workload: &str| {
            Some(best_static(near, workload)? / time(near, workload, DYNAMIC)?)
        };
        let over_near = |workload: &str| {
            Some(time("25 %", workload, ALL_NEAR)? / time("25 %", workload, DYNAMIC)?)
        };
        let nears = distinct(rows, "near");
        let every = nears
            .iter()
            .flat_map(|near| WORKLOADS.iter().map(move |(workload, _)| (near, workload)));
        let mut bars = vec![
            Bar::at_least(
                "25 % near, zipfian A, B, C, F: least throughput over all near",
                0.9,
                least(["A", "B", "C", "F"].into_iter().map(over_near)),
            ),
            Bar::at_least(
                "25 % near, D: throughput over all near",
                0.85,
                over_near("D"),
            ),
            Bar::at_least(
                "every workload and budget: least throughput over the best static policy",
                0.97,
                least(every.map(|(near, workload)| over_static(near, workload))),
            ),
            Bar::at_least(
                "25 % near, A, B, C, F: least throughput over the best static policy",
                1.3,
                least(
                    &mut ["A", "B", "C", "F"]
                        .into_iter()
                        .map(|workload| over_static("25 %", workload)),
                ),
            ),
            sample::faults_bar(rows),
        ];
        bars.extend(learned().map(|(workload, _)| learning::bar(rows, workload)));
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn curves(&self) -> &'static [Curve] {
        const CURVES: [Curve; 2] = [
            learning::CURVE,
            tiers::curve("memory of each tier under dynamic, 25 % near, workload after workload"),
        ];
        &CURVES
    }
}

/// What emulating adds by itself to the requests of a settled store: their time while everything far is due at once, over that without
/// emulation. While requests wait for far memory, part of it is hidden.
fn own_work(
    store: &mut Store,
    requests: &mut Requests,
    (name, workload): (&str, Workload),
    operations: usize,
    rounds: usize,
) -> Result<Row, LabError> {
    let due = FarMemory {
        cache_bytes: FarMemory::OPTANE.cache_bytes,
        ..DUE
    };
    let sides = [Some(due), None];
    let sampled = steady::in_turns(
        sides.len(),
        rounds,
        |at| {
            emulation::set(sides[at]).by(WHO, "asking for emulation")?;
            Sample::take(store, requests, operations, workload)
        },
        Sample::time_ns,
    )?;
    emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
    let [due, off] = &sampled[..] else {
        unreachable!("there are two sides");
    };
    let row = Row::new()
        .text("emulated", name)
        .text("own work of", "the emulation")
        .count("operations", operations as u64);
    let row = off.mark(due.mark(sample::onto(off, sample::onto(due, row, "_due"), "_off")));
    let times = row.value("time_due_ns").zip(row.value("time_off_ns"));
    let share = times.map_or(f64::NAN, |(due, off)| due / off - 1.0);
    Ok(row.number("own_work_share", share))
}

/// The workloads that are also served from the first request on.
fn learned() -> impl Iterator<Item = (&'static str, Workload)> {
    WORKLOADS
        .into_iter()
        .filter(|(name, _)| learning::WORKLOADS.contains(name))
}

/// The least value, if there are any and all are known.
fn least(mut of: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let least = of.try_fold(f64::INFINITY, |least, each| Some(least.min(each?)));
    least.filter(|least| least.is_finite())
}

fn settings(name: &str, budget: u64, percent: u64) -> Settings {
    let settings = Settings {
        near_bytes: budget,
        ..Settings::default()
    };
    match name {
        ALL_NEAR => Settings {
            policy: Policy::OnlyDram,
            near_bytes: u64::MAX,
            ..settings
        },
        DYNAMIC => settings,
        "ratio" => Settings {
            policy: Policy::Ratio,
            ratio: (percent as u32, 100 - percent as u32),
            ..settings
        },
        "all far" => Settings {
            policy: Policy::OnlyPmem,
            ..settings
        },
        _ => Settings {
            policy: Policy::OnlyDram,
            ..settings
        },
    }
}

const fn near_key(percent: u64) -> &'static str {
    match percent {
        10 => "10 % near",
        25 => "25 % near",
        50 => "50 % near",
        75 => "75 % near",
        _ => "100 % near",
    }
}

const fn view(title: &'static str, category: &'static str) -> View {
    View {
        title,
        category,
        series: "policy",
        value: "time_ns",
        per: Some("operations"),
        unit: Unit::Nanoseconds,
        mean: true,
    }
}

const VIEWS: [View; 7] = [
    view("time per request, 10 % of the records near", "10 % near"),
    view("25 % near", "25 % near"),
    view("50 % near", "50 % near"),
    view("75 % near", "75 % near"),
    view("100 % near", "100 % near"),
    learning::VIEW,
    View {
        title: "the emulation's own work, over the time of a request without emulation: dynamic, 25 % near",
        category: "emulated",
        series: "own work of",
        value: "own_work_share",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];
