//! Whether the engine reads the best copy: every operator on columns with two copies, beside the same on each copy alone.
//!
//! The socket's own copy is the one that the thesis reads by default. Where both lie on one socket it is the first one.

use std::time::Duration;

use tierra_column::Encoding;
use tierra_memory::emulation::FarMemory;

use super::data::{Distribution, Store, optane};
use super::operators::Operator;
use super::policy::{POLICY, Policy, b, far, near};
use super::rates::{RATE, Rates};
use super::read::threads_name;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::stats::quantile_of;
use crate::view::{Unit, View};

const CELL: &str = "cell";
const COPIES: &str = "copies";
/// The keys of what a policy's cells are compared with, and of the time of the chosen copy over that.
const OF: &str = "chosen over";
const OVER: &str = "time_over";

const VIEWS: [View; 2] = [
    View {
        title: "time with the chosen copy over that with another: above 1 the other is faster",
        category: POLICY,
        series: OF,
        value: OVER,
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "values a second of all threads",
        category: CELL,
        series: COPIES,
        value: RATE,
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    },
];

/// The policies among whose copies the engine chooses.
fn policies() -> Vec<Policy> {
    let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
    let (delta, lz4) = (Encoding::Delta, Encoding::Lz4);
    vec![
        Policy::of(&[far(plain), b(fixed)]),
        Policy::of(&[far(plain), b(dynamic)]),
        Policy::of(&[far(fixed), b(plain)]),
        Policy::of(&[far(fixed), b(dynamic)]),
        Policy::of(&[far(dynamic), b(fixed)]),
        Policy::of(&[far(fixed), b(delta)]),
        Policy::of(&[far(lz4), b(plain)]),
        Policy::of(&[far(fixed), near(fixed)]),
    ]
}

/// Those policies, and behind them the ones of a single copy that force it.
fn contenders() -> Vec<Policy> {
    let mut all = policies();
    for policy in policies() {
        for alone in policy.alone() {
            if !all.contains(&alone) {
                all.push(alone);
            }
        }
    }
    all
}

/// Far memory as it is measured: as near as it really is, or Optane.
fn memories(threads: usize) -> [(&'static str, Option<FarMemory>); 2] {
    [("near", None), ("emulated optane", Some(optane(threads)))]
}

/// The experiment.
pub(in super::super) struct ReplicaChoice;

impl Experiment for ReplicaChoice {
    fn name(&self) -> &'static str {
        "replica-choice"
    }

    fn about(&self) -> &'static str {
        "is the copy that the engine reads the fastest one, and is it better than the socket's own?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Records, ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let count = lab.records(1 << 17, 1 << 24) as usize;
        let rates = Rates {
            policies: contenders(),
            values: count,
            positions: count.div_ceil(16),
            rounds: lab.runs(1, 25),
            lasts: Duration::from_millis(lab.size(1, 30)),
        };
        let mut rows = Vec::new();
        let steps =
            Distribution::ALL.len() * 2 * Operator::ALL.len() * lab::thread_counts().count();
        let bar = progress::bar("cells", steps);
        for distribution in Distribution::ALL {
            let store = Store::create(lab, lab::threads())?;
            let expected = rates.expected(distribution);
            let mut stored = rates.store(&store, &expected)?;
            for threads in lab::thread_counts() {
                for (memory, emulated) in memories(threads) {
                    for operator in Operator::ALL {
                        let (name, at) = (operator.name(), threads_name(threads));
                        let cell = format!("{name}, {}, {memory}, {at}", distribution.name());
                        bar.set_message(cell.clone());
                        let samples =
                            rates.measure(&store, &mut stored, operator, threads, emulated)?;
                        for (policy, samples) in rates.policies.iter().zip(samples) {
                            rows.push(
                                Row::new()
                                    .text(CELL, &cell)
                                    .text(COPIES, policy.to_string())
                                    .samples("values", "per_s", samples),
                            );
                        }
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        let summary = summary(&rows);
        rows.extend(summary);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: rates.parameters(),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let choices = choices(rows);
        let best = Vec::from_iter(choices.iter().map(|choice| choice.over_best));
        let own = Vec::from_iter(choices.iter().map(|choice| choice.over_own));
        let bar = |what: &str, most: f64, measured: Option<f64>| {
            let what = format!("replica-choice: time of the chosen copy over {what}");
            Bar::at_most(what, most, measured)
        };
        vec![
            bar("the best copy, median cell", 1.02, quantile_of(&best, 0.5)),
            bar(
                "the best copy, 95 % of cells",
                1.05,
                quantile_of(&best, 0.95),
            ),
            bar("the best copy, worst cell", 1.15, quantile_of(&best, 1.0)),
            bar("the socket's own, worst cell", 1.05, quantile_of(&own, 1.0)),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// A policy in a cell: the time of the chosen copy over those of others.
struct Choice {
    policy: Policy,
    over_best: f64,
    over_own: f64,
}

/// All policies in all cells; empty if one was not measured.
fn choices(rows: &[Row]) -> Vec<Choice> {
    let rate = |cell: &str, policy: &Policy| {
        let policy = policy.to_string();
        find(rows, &[(CELL, cell), (COPIES, &policy)])?.value(RATE)
    };
    let choice = |cell: &str, policy: Policy| {
        let chosen = rate(cell, &policy)?;
        let alone: Option<Vec<f64>> = policy.alone().map(|copy| rate(cell, &copy)).collect();
        let alone = alone?;
        let best = alone.iter().copied().reduce(f64::max)?;
        Some(Choice {
            policy,
            over_best: best / chosen,
            over_own: alone[0] / chosen,
        })
    };
    let cells = distinct(rows, CELL);
    let of_cell = |cell: &String| Vec::from_iter(policies().into_iter().map(|it| choice(cell, it)));
    let all: Option<Vec<Choice>> = cells.iter().flat_map(of_cell).collect();
    all.unwrap_or_default()
}

/// The median and the worst of each policy's cells.
fn summary(rows: &[Row]) -> Vec<Row> {
    let choices = choices(rows);
    let mut summary = Vec::new();
    for policy in policies() {
        let of_policy = || choices.iter().filter(|choice| choice.policy == policy);
        let best = Vec::from_iter(of_policy().map(|choice| choice.over_best));
        let own = Vec::from_iter(of_policy().map(|choice| choice.over_own));
        for (of, times, part) in [
            ("the best copy, median cell", &best, 0.5),
            ("the best copy, worst cell", &best, 1.0),
            ("the socket's own, median cell", &own, 0.5),
            ("the socket's own, worst cell", &own, 1.0),
        ] {
            let row = Row::new().text(POLICY, policy.to_string()).text(OF, of);
            let over = quantile_of(times, part).unwrap_or(f64::NAN);
            summary.push(row.number(OVER, over));
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_the_chosen_copy_with_each_alone() {
        // Every policy reads at this rate, a static copy alone at 1000, and all others at 900.
        let rows = |chosen: u64| {
            let row = |policy: &Policy| {
                let is_static = policy.to_string().contains("static");
                let rate = match (policy.copies().len(), is_static) {
                    (2, _) => chosen,
                    (_, true) => 1000,
                    (_, false) => 900,
                };
                Row::new()
                    .text(CELL, "sum")
                    .text(COPIES, policy.to_string())
                    .samples("values", "per_s", vec![rate; 3])
            };
            Vec::from_iter(contenders().iter().map(row))
        };
        let met = |rows: &[Row]| Vec::from_iter(ReplicaChoice.bars(rows).iter().map(|bar| bar.met));
        assert_eq!(met(&rows(990)), [true; 4]);
        assert_eq!(met(&rows(970)), [false, true, true, true]);
        assert_eq!(met(&rows(900)), [false, false, true, false]);
        assert_eq!(met(&rows(800)), [false; 4]);
        assert_eq!(met(&[]), [false; 4]);
    }
}
