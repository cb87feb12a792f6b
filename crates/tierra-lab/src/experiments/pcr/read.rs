//! Figure 4.6: sum, select and project on columns under policies of one and two copies.
//!
//! The thesis projects ten times as many unsorted positions as there are values. Here a query takes the next of a part of so many
//! positions, whose lines no cache holds.

use std::time::Duration;

use tierra_column::Encoding;

use super::data::{Distribution, Store};
use super::operators::Operator;
use super::policy::{POLICY, PlacedCopy, Policy, b, far, near};
use super::rates::{RATE, Rates};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, ScaleOption};
use crate::progress;
use crate::replicas::optane;
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
        let steps = Distribution::ALL.len() * Operator::ALL.len() * lab::thread_counts().count();
        let bar = progress::bar("queries", steps);
        for distribution in Distribution::ALL {
            let store = Store::create(lab, lab::threads())?;
            let expected = rates.expected(distribution);
            let mut stored = rates.store(&store, &expected)?;
            for threads in lab::thread_counts() {
                for operator in Operator::ALL {
                    let query = format!("{}, {}", distribution.name(), threads_name(threads));
                    bar.set_message(format!("{} {query}", operator.name()));
                    let far = Some(optane(threads));
                    let samples = rates.measure(&store, &mut stored, operator, threads, far)?;
                    for (policy, samples) in rates.policies.iter().zip(samples) {
                        let row = Row::new()
                            .text(operator.name(), &query)
                            .text(POLICY, policy.to_string())
                            .count("threads", threads as u64);
                        rows.push(row.samples("values", "per_s", samples));
                    }
                    bar.inc(1);
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
        let times = |operator, distribution, one, other| {
            Some(
                rate(rows, operator, distribution, one)?
                    / rate(rows, operator, distribution, other)?,
            )
        };
        let (sum, dyn32) = (Operator::Sum, Distribution::Dyn32);
        vec![
            Bar::at_least(
                "pcr-read: sum of a static copy over an uncompressed one, near, DYN32, all threads",
                1.5,
                times(sum, dyn32, near(fixed), near(plain)),
            ),
            Bar::at_least(
                "pcr-read: the same, emulated optane",
                1.8,
                times(sum, dyn32, far(fixed), far(plain)),
            ),
            Bar::at_least(
                "pcr-read: sum of a dynamic copy over a static one, emulated optane, DYN8, all threads",
                1.35,
                times(sum, Distribution::Dyn8, far(dynamic), far(fixed)),
            ),
            Bar::at_least(
                "pcr-read: project by unsorted positions of a static copy over an uncompressed one, near, DYN32, all threads",
                1.0,
                times(Operator::Project, dyn32, near(fixed), near(plain)),
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

/// The rate of an operator on one copy, of all threads.
fn rate(
    rows: &[Row],
    operator: Operator,
    distribution: Distribution,
    copy: PlacedCopy,
) -> Option<f64> {
    let of = rows.iter().filter(|row| row.get(operator.name()).is_some());
    let threads = of.filter_map(|row| row.value("threads"));
    let threads = threads.reduce(f64::max)? as usize;
    let query = format!("{}, {}", distribution.name(), threads_name(threads));
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
                        for threads in [1, 2] {
                            let query =
                                format!("{}, {}", distribution.name(), threads_name(threads));
                            rows.push(
                                Row::new()
                                    .text(operator.name(), query)
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
        assert_eq!(over_far_plain(&rows(2000, 2000)).len(), rows(1, 1).len());
    }
}
