//! Figure 4.7: one thread appends a megabyte at a time, by the encodings and memories of the column's two copies.
//!
//! Each megabyte is encoded and durable before the next; or all of them are one load. Near copies are made behind the commits, so
//! they take part of the same processors, and nothing waits for them.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use tierra_column::Encoding;
use tierra_engine::Table;
use tierra_memory::emulation::FarMemory;

use super::data::{Distribution, Store, array, batches, load};
use super::operators::{check, sum};
use super::policy::{POLICY, PlacedCopy, Policy, b, far, near};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{Lab, ScaleOption};
use crate::progress;
use crate::replicas::emulating;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::samples;
use crate::view::{Unit, View};

/// Values appended at a time: 1 MiB of them.
pub(super) const APPENDED: usize = (1 << 20) / size_of::<i64>();

const APPENDS: &str = "appends";
const RATE: &str = "bytes_per_s";

/// How rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each megabyte is durable before the next.
    Append,
    /// All are committed at once.
    Load,
}

impl Way {
    const ALL: [Way; 2] = [Way::Append, Way::Load];

    const fn name(self) -> &'static str {
        match self {
            Way::Append => "1 MB at a time",
            Way::Load => "one load",
        }
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "bytes of uncompressed values appended a second by one thread, emulated optane with all of its bandwidth (figure 4.7)",
        category: APPENDS,
        series: POLICY,
        value: RATE,
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    },
    View {
        title: "bytes written to both tiers for each of them",
        category: APPENDS,
        series: POLICY,
        value: "written_bytes",
        per: Some("appended_bytes"),
        unit: Unit::Ratio,
        mean: false,
    },
];

fn policies() -> Vec<Policy> {
    let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
    vec![
        Policy::of(&[far(plain)]),
        Policy::of(&[far(plain), b(plain)]),
        Policy::of(&[far(fixed), b(plain)]),
        Policy::of(&[far(fixed), b(fixed)]),
        Policy::of(&[far(fixed), b(dynamic)]),
        Policy::of(&[far(dynamic), b(dynamic)]),
        Policy::of(&[far(plain), near(plain)]),
        Policy::of(&[far(fixed), near(fixed)]),
    ]
}

/// The experiment.
pub(in super::super) struct PcrAppend;

impl Experiment for PcrAppend {
    fn name(&self) -> &'static str {
        "pcr-append"
    }

    fn about(&self) -> &'static str {
        "how fast does one thread append to a column with two copies, by their encodings and memories?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let count = APPENDED * lab.size(1, 64);
        let rounds = lab.runs(1, 7);
        let policies = policies();
        let bar = progress::bar("appends", Distribution::ALL.len() * Way::ALL.len());
        let mut rows = Vec::new();
        for distribution in Distribution::ALL {
            let values = distribution.values(count);
            let expected = values.iter().sum::<i64>();
            let store = Store::create(lab, 1)?;
            let values = array(&values);
            for way in Way::ALL {
                bar.set_message(format!("{}, {}", distribution.name(), way.name()));
                let mut written = vec![0; policies.len()];
                let times = samples(policies.len(), rounds, |turn| {
                    let policy = &policies[turn.contender];
                    let table = store.table("t", policy)?;
                    let batches = batches(&table, &values, APPENDED)?;
                    let before = store.written_bytes();
                    // One thread: the other cores leave the memory to it.
                    let time_ns = emulating(Some(FarMemory::OPTANE.whole()), || {
                        append(&table, batches, way)
                    })?;
                    written[turn.contender] = store.written_bytes() - before;
                    check(
                        "the sum of what was appended",
                        sum(&table.snapshot())? == expected,
                    )?;
                    store.drop_table(table)?;
                    Ok(time_ns)
                })?;
                let bytes = (count * size_of::<i64>()) as u64;
                for ((policy, times), written) in policies.iter().zip(times).zip(written) {
                    let rates = times
                        .iter()
                        .map(|ns| (bytes as f64 * 1e9 / *ns as f64) as u64);
                    rows.push(
                        Row::new()
                            .text(APPENDS, appends(distribution, way))
                            .text(POLICY, policy.to_string())
                            .count("appended_bytes", bytes)
                            .count("written_bytes", written)
                            .samples("bytes", "per_s", rates.collect()),
                    );
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("values", count as u64)
            .count("values_at_a_time", APPENDED as u64)
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let (plain, fixed) = (Encoding::Plain, Encoding::Static);
        let rate = |copies: &[PlacedCopy]| {
            let appends = appends(Distribution::Dyn32, Way::Append);
            let policy = Policy::of(copies).to_string();
            find(rows, &[(APPENDS, &appends), (POLICY, &policy)])?.value(RATE)
        };
        let times = rate(&[far(fixed), b(fixed)]).zip(rate(&[far(plain), b(plain)]));
        vec![Bar::at_least(
            "pcr-append: appends of 1 MB to two static copies over two uncompressed ones, emulated optane, DYN32, one thread",
            1.7,
            times.map(|(packed, plain)| packed / plain),
        )]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

fn appends(distribution: Distribution, way: Way) -> String {
    format!("{}, {}", distribution.name(), way.name())
}

/// Appends all of it; the time until it is durable.
fn append(table: &Arc<Table>, batches: Vec<RecordBatch>, way: Way) -> Result<u64, LabError> {
    let start = Instant::now();
    match way {
        Way::Append => {
            for batch in batches {
                table.append(&[batch]).by(Tierra::ENGINE, "appending")?;
            }
        }
        Way::Load => load(table, batches)?,
    }
    Ok(start.elapsed().as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_compares_two_packed_copies_with_two_that_are_not() {
        let met = |packed: u64| {
            let row = |policy: &Policy| {
                let rate = match policy.to_string().matches("static").count() {
                    2 => packed,
                    _ => 100,
                };
                Row::new()
                    .text(APPENDS, appends(Distribution::Dyn32, Way::Append))
                    .text(POLICY, policy.to_string())
                    .samples("bytes", "per_s", vec![rate; 3])
            };
            let rows: Vec<Row> = policies().iter().map(row).collect();
            PcrAppend.bars(&rows)[0].met
        };
        assert!(met(170) && !met(169));
        assert!(!PcrAppend.bars(&[])[0].met);
    }
}
