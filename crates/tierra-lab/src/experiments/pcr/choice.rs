//! Whether the engine reads the best copy: every operator on columns with two copies, as the engine chooses and with each copy forced.
//!
//! All read the same table: where a copy lies decides by several per cent how fast it is read, and two tables would lie in different
//! places. A near copy is read whenever there is one, so what it is compared with is the far copy of a table without.
//!
//! The socket's own copy is the one that the thesis reads by default. Where both lie on one socket it is the first one.

use std::collections::BTreeSet;
use std::time::Duration;

use tierra_column::Encoding;
use tierra_engine::ReplicaSource;
use tierra_memory::emulation::FarMemory;

use super::data::{Distribution, Store};
use super::operators::{Operator, Stored};
use super::policy::{POLICY, Place, PlacedCopy, Policy, b, far, near};
use super::rates::{RATE, Rates};
use super::read::threads_name;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::LabError;
use crate::lab::{self, Lab, ScaleOption};
use crate::progress;
use crate::replicas::{emulating, optane};
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

/// A column that is read in one way.
struct Contender {
    /// The policy of its table.
    table: Policy,
    /// The tier whose copy is forced; `None`: the engine's choice.
    tier: Option<&'static str>,
    /// Its name in rows.
    name: String,
}

/// The column's name in rows when that copy is read.
fn forced(policy: &Policy, copy: PlacedCopy) -> String {
    format!("{copy} of {policy}")
}

/// Every policy as the engine chooses, and with each of its far copies.
fn contenders() -> Vec<Contender> {
    let mut all = Vec::new();
    for policy in policies() {
        all.push(Contender {
            name: policy.to_string(),
            tier: None,
            table: policy.clone(),
        });
        let is_near = |copy: &PlacedCopy| copy.place == Place::Near;
        let has_near = policy.copies().iter().any(is_near);
        for copy in policy.copies() {
            let Place::Tier(tier) = copy.place else {
                continue;
            };
            all.push(Contender {
                name: forced(&policy, *copy),
                tier: Some(tier),
                table: match has_near {
                    true => Policy::of(&[*copy]),
                    false => policy.clone(),
                },
            });
        }
    }
    // Those that read one copy do not follow each other: the second would find its lines in the caches.
    all.sort_by_key(|contender| contender.tier);
    all
}

/// Has a contender's copy read from now on.
fn follow(
    contender: &Contender,
    stored: &mut Stored<'_>,
    operator: Operator,
) -> Result<(), LabError> {
    stored.follow_choice();
    let Some(tier) = contender.tier else {
        return Ok(());
    };
    let sources = stored.sources(operator);
    let is_forced = |source: &ReplicaSource| source.tier.as_deref() == Some(tier);
    match sources.iter().all(is_forced) {
        true => Ok(()),
        false => Err(LabError::WrongAnswer {
            who: Tierra::ENGINE.to_owned(),
            what: format!("{}: it reads {sources:?}", contender.name),
        }),
    }
}

/// Far memory as it is measured: as near as it really is, or Optane.
fn memories(threads: usize) -> [(&'static str, Option<FarMemory>); 2] {
    [("near", None), ("emulated optane", Some(optane(threads)))]
}

fn shown(source: ReplicaSource) -> String {
    let tier = source.tier.as_deref().unwrap_or("near");
    format!("{tier}/{}", source.encoding)
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
        let contenders = contenders();
        let mut tables: Vec<Policy> = Vec::new();
        for contender in &contenders {
            if !tables.contains(&contender.table) {
                tables.push(contender.table.clone());
            }
        }
        let rates = Rates {
            policies: tables,
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
            let tables = rates.store(&store, &expected)?;
            let table_of = |contender: &Contender| {
                let mut all = rates.policies.iter().zip(&tables);
                let found = all.find(|(policy, _)| **policy == contender.table);
                found.map(|(_, stored)| stored.clone())
            };
            let mut stored: Vec<Stored<'_>> = contenders.iter().filter_map(table_of).collect();
            for threads in lab::thread_counts() {
                for (memory, emulated) in memories(threads) {
                    for operator in Operator::ALL {
                        let (name, at) = (operator.name(), threads_name(threads));
                        let cell = format!("{name}, {}, {memory}, {at}", distribution.name());
                        bar.set_message(cell.clone());
                        let samples = emulating(emulated, || {
                            let tiers = contenders.iter().map(|contender| contender.tier);
                            for tier in BTreeSet::from_iter(tiers) {
                                match tier {
                                    Some(tier) => store.choose_replicas_in(tier)?,
                                    None => store.choose_replicas()?,
                                }
                                let all = contenders.iter().zip(&mut stored);
                                let of_tier = |it: &(&Contender, _)| it.0.tier == tier;
                                for (contender, stored) in all.filter(of_tier) {
                                    follow(contender, stored, operator)?;
                                }
                            }
                            rates.take_turns(&stored, operator, threads)
                        })?;
                        for ((contender, stored), samples) in
                            contenders.iter().zip(&stored).zip(samples)
                        {
                            let read = stored.sources(operator).into_iter().map(shown);
                            rows.push(
                                Row::new()
                                    .text(CELL, &cell)
                                    .text(COPIES, &contender.name)
                                    .text("read", Vec::from_iter(read).join(", "))
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
    let rate =
        |cell: &str, copies: &str| find(rows, &[(CELL, cell), (COPIES, copies)])?.value(RATE);
    let choice = |cell: &str, policy: Policy| {
        let chosen = rate(cell, &policy.to_string())?;
        let of_copy = |copy: &PlacedCopy| match copy.place {
            Place::Tier(_) => rate(cell, &forced(&policy, *copy)),
            // It is the chosen one.
            Place::Near => Some(chosen),
        };
        let each: Vec<f64> = policy.copies().iter().map(of_copy).collect::<Option<_>>()?;
        let best = each.iter().copied().reduce(f64::max)?;
        Some(Choice {
            policy,
            over_best: best / chosen,
            over_own: each[0] / chosen,
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
    fn bars_compare_the_chosen_copy_with_each_that_is_forced() {
        // What is chosen is read at this rate, a static copy that is forced at 1000, and all others at 900.
        let rows = |chosen: u64| {
            let row = |contender: &Contender| {
                let rate = match (contender.tier, contender.name.contains("static of")) {
                    (None, _) => chosen,
                    (_, true) => 1000,
                    (_, false) => 900,
                };
                Row::new()
                    .text(CELL, "sum")
                    .text(COPIES, &contender.name)
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
