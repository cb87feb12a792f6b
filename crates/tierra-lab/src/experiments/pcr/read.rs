//! Figure 4.6: sum, select and project on columns under policies of one and two copies.
//!
//! The thesis projects ten times as many unsorted positions as there are values. Here a thread draws a sixteenth as many as there are
//! values, and a query takes the next of them: more lines than any cache holds, so that more positions would cost as much each.
//!
//! What is near is measured twice. Beside emulated memory it shares that memory's channels, of which threads have their cores' part.
//! Bars on near memory are on what it does by itself, while nothing is emulated.

use std::time::Duration;

use tierra_column::Encoding;

use super::data::{Distribution, Store};
use super::operators::{Operator, READ};
use super::policy::{POLICY, Place, PlacedCopy, Policy, b, far, near};
use super::rates::{RATE, Rates};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, ScaleOption};
use crate::memory::optane;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// The key of the rate over that of one uncompressed far copy.
const OVER: &str = "over_far_plain";

const fn rates(title: &'static str, operator: Operator) -> View {
    View {
        title,
        category: operator.name(),
        series: POLICY,
        value: RATE,
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    rates(
        "values a second that are added (figure 4.6 a, b, c)",
        Operator::Sum,
    ),
    rates(
        "values a second of which a tenth is selected (figure 4.6 d, e, f)",
        Operator::Select,
    ),
    rates(
        "values a second that are projected by unsorted positions (figure 4.6 g, h)",
        Operator::Project,
    ),
    View {
        title: "values a second over those of one uncompressed far copy",
        category: "query",
        series: POLICY,
        value: OVER,
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

/// The copies that are read alone, the policies of the figure's panels, and a near copy in another encoding than the far one. Two near
/// copies on one socket are one.
fn policies() -> Vec<Policy> {
    let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
    let policies: &[&[PlacedCopy]] = &[
        &[far(plain)],
        &[far(fixed)],
        &[far(dynamic)],
        &[near(plain)],
        &[near(fixed)],
        &[near(dynamic)],
        &[far(plain), b(plain)],
        &[far(fixed), b(plain)],
        &[far(fixed), b(fixed)],
        &[far(fixed), b(dynamic)],
        &[far(dynamic), b(dynamic)],
        &[far(fixed), near(fixed)],
        &[far(dynamic), near(fixed)],
    ];
    policies.iter().map(|copies| Policy::of(copies)).collect()
}

/// The experiment.
pub(in super::super) struct PcrRead;

impl Experiment for PcrRead {
    fn name(&self) -> &'static str {
        "pcr-read"
    }

    fn about(&self) -> &'static str {
        "how many values are added, selected and projected a second, by the encodings and memories of a column's two copies?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Records, ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        // Larger than the caches; the thesis has 100 million.
        let count = lab.records(1 << 17, 1 << 25) as usize;
        let rates = Rates {
            policies: policies(),
            values: count,
            positions: count.div_ceil(lab.size(8, 16)),
            rounds: lab.runs(1, 5),
            lasts: Duration::from_millis(lab.size(1, 150)),
        };
        let mut rows = Vec::new();
        let steps =
            Distribution::ALL.len() * Operator::ALL.len() * lab::thread_counts().count() * 2;
        let bar = progress::bar("queries", steps);
        for distribution in Distribution::ALL {
            let store = Store::create(lab, lab::threads())?;
            let expected = rates.expected(distribution);
            let stored = rates.store(&store, &expected)?;
            let columns = Vec::from_iter(rates.policies.iter().zip(stored));
            let near = columns.iter().filter(|(policy, _)| is_near(policy));
            let (near_policies, mut near): (Vec<_>, Vec<_>) = near.cloned().unzip();
            let (all_policies, mut all): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
            for threads in lab::thread_counts() {
                for operator in Operator::ALL {
                    for is_emulated in [true, false] {
                        let (policies, stored) = match is_emulated {
                            true => (&all_policies, &mut all),
                            false => (&near_policies, &mut near),
                        };
                        let query = query(distribution, threads, is_emulated);
                        bar.set_message(format!("{} {query}", operator.name()));
                        let far = is_emulated.then(|| optane(threads));
                        let samples = rates.measure(&store, stored, operator, threads, far)?;
                        let columns = policies.iter().zip(&*stored);
                        for ((policy, stored), samples) in columns.zip(samples) {
                            let row = Row::new()
                                .text(operator.name(), &query)
                                .text(POLICY, policy.to_string())
                                .text(READ, stored.read(operator))
                                .count("threads", threads as u64);
                            rows.push(row.samples("values", "per_s", samples));
                        }
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        let over = over_far_plain(&rows);
        rows.extend(over);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: rates.parameters(),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
        let times = |operator, distribution, is_emulated, one, other| {
            let rate = |copy| rate(rows, operator, distribution, is_emulated, copy);
            Some(rate(one)? / rate(other)?)
        };
        let (sum, dyn32) = (Operator::Sum, Distribution::Dyn32);
        vec![
            Bar::at_least(
                "pcr-read: sum of a static copy over an uncompressed one, near, DYN32, all threads",
                1.5,
                times(sum, dyn32, false, near(fixed), near(plain)),
            ),
            Bar::at_least(
                "pcr-read: sum of a static copy over an uncompressed one, emulated optane, DYN32, all threads",
                1.8,
                times(sum, dyn32, true, far(fixed), far(plain)),
            ),
            Bar::at_least(
                "pcr-read: sum of a dynamic copy over a static one, emulated optane, DYN8, all threads",
                1.35,
                times(sum, Distribution::Dyn8, true, far(dynamic), far(fixed)),
            ),
            Bar::at_least(
                "pcr-read: project by unsorted positions, a sixteenth as many for each thread as values, of a static copy over an uncompressed one, near, DYN32, all threads",
                1.0,
                times(Operator::Project, dyn32, false, near(fixed), near(plain)),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.2.3, from the text: the figures are pictures. Over two uncompressed copies in persistent memory.
        let over = |query: &str, policy: &str, times: f64| {
            Row::new()
                .text("query", format!("{query} (paper)"))
                .text(POLICY, policy)
                .number(OVER, times)
        };
        vec![
            over("sum, 48 threads", "far/static, b/static", 1.69),
            over("sum, 96 threads", "far/static, b/static", 1.64),
            over("sum, 96 threads", "far/static, b/plain", 1.4),
            over("select 10 %, 48 threads", "far/static, b/static", 1.41),
            // Over two static copies in persistent memory.
            over(
                "sum, 96 threads, over far/static, b/static",
                "far/static, near/static",
                1.8,
            ),
            over(
                "sum of DYN8, 96 threads, over far/static, b/static",
                "far/dynamic, b/dynamic",
                1.35,
            ),
        ]
    }
}

pub(super) fn threads_name(threads: usize) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
    }
}

/// Whether the only copies that are read are near.
fn is_near(policy: &Policy) -> bool {
    let mut copies = policy.copies().iter();
    copies.all(|copy| copy.place == Place::Near)
}

/// What was asked, in rows.
fn query(distribution: Distribution, threads: usize, is_emulated: bool) -> String {
    let query = format!("{}, {}", distribution.name(), threads_name(threads));
    match is_emulated {
        true => query,
        false => format!("{query}, nothing emulated"),
    }
}

/// The rate of an operator on one copy, of all threads.
fn rate(
    rows: &[Row],
    operator: Operator,
    distribution: Distribution,
    is_emulated: bool,
    copy: PlacedCopy,
) -> Option<f64> {
    let of = rows.iter().filter(|row| row.get(operator.name()).is_some());
    let threads = of.filter_map(|row| row.value("threads"));
    let threads = threads.reduce(f64::max)? as usize;
    let query = query(distribution, threads, is_emulated);
    let policy = copy.to_string();
    find(rows, &[(operator.name(), &query), (POLICY, &policy)])?.value(RATE)
}

/// All rates over those of one uncompressed far copy.
fn over_far_plain(rows: &[Row]) -> Vec<Row> {
    let base = far(Encoding::Plain).to_string();
    let over = |row: &Row, operator: Operator| {
        let query = row.get(operator.name())?.to_string();
        let base = find(rows, &[(operator.name(), &query), (POLICY, &base)])?;
        let times = row.value(RATE)? / base.value(RATE)?;
        let row = Row::new()
            .text("query", format!("{}, {query}", operator.name()))
            .text(POLICY, row.get(POLICY)?.to_string());
        Some(row.number(OVER, times))
    };
    let of = |row| Operator::ALL.into_iter().find_map(|it| over(row, it));
    rows.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_copies_that_are_read_alone() {
        let rows = |fixed_rate: u64, dynamic_rate: u64| {
            let mut rows = Vec::new();
            for operator in Operator::ALL {
                for distribution in Distribution::ALL {
                    for policy in policies() {
                        let [copy] = policy.copies() else { continue };
                        let rate = match copy.encoding {
                            Some(Encoding::Static) => fixed_rate,
                            Some(Encoding::Dynamic) => dynamic_rate,
                            _ => 1000,
                        };
                        for (threads, is_emulated) in [(1, true), (2, true), (2, false)] {
                            // Near copies beside emulated memory are no bar's.
                            let rate = match is_near(&policy) && is_emulated {
                                true => 1000,
                                false => rate,
                            };
                            rows.push(
                                Row::new()
                                    .text(
                                        operator.name(),
                                        query(distribution, threads, is_emulated),
                                    )
                                    .text(POLICY, policy.to_string())
                                    .count("threads", threads as u64)
                                    .samples("values", "per_s", vec![rate; 3]),
                            );
                        }
                    }
                }
            }
            rows
        };
        let met = |rows: &[Row]| Vec::from_iter(PcrRead.bars(rows).iter().map(|bar| bar.met));
        assert_eq!(met(&rows(1900, 2600)), [true; 4]);
        assert_eq!(met(&rows(1600, 2000)), [true, false, false, true]);
        assert_eq!(met(&rows(900, 2600)), [false, false, true, false]);
        assert_eq!(met(&[]), [false; 4]);
        let far_plain = far(Encoding::Plain).to_string();
        let all = rows(2000, 2000);
        assert_eq!(over_far_plain(&all).len(), all.len());
        let without = |row: &&Row| !row.is(&[(POLICY, &far_plain)]);
        let without = Vec::from_iter(all.iter().filter(without).cloned());
        assert!(over_far_plain(&without).is_empty());
    }
}
