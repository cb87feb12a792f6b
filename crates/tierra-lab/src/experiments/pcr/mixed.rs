//! Figure 4.8: threads that append a megabyte or add all values, by the share of sums; and sums beside appends, and beside changes of
//! the column's policy.
//!
//! All policies get the same tasks, drawn by the seed. Each sum has to be that of a commit: of the rows that the snapshot has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use tierra_column::Encoding;
use tierra_engine::{Snapshot, Table};

use super::append::APPENDED;
use super::beside;
use super::data::{Distribution, Store, array, batches};
use super::operators::{check, sum};
use super::policy::{POLICY, Policy, b, far, near};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, SEED, ScaleOption};
use crate::progress;
use crate::random::Random;
use crate::replicas::{emulating, optane};
use crate::results::Tier;
use crate::row::{Row, find};
use crate::sessions::at_once;
use crate::turns::samples;
use crate::view::{Unit, View};

const SHARE: &str = "share of sums";
const OVER: &str = "over_plain";

const VIEWS: [View; 3] = [
    View {
        title: "tasks a second over those of two uncompressed far copies (figure 4.8)",
        category: SHARE,
        series: POLICY,
        value: OVER,
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "time of all tasks",
        category: SHARE,
        series: POLICY,
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    beside::VIEW,
];

/// The first is that which others are compared with.
fn policies() -> Vec<Policy> {
    let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
    vec![
        Policy::of(&[far(plain), b(plain)]),
        Policy::of(&[far(fixed), b(plain)]),
        Policy::of(&[far(fixed), b(fixed)]),
        Policy::of(&[far(fixed), b(dynamic)]),
        Policy::of(&[far(dynamic), b(dynamic)]),
        Policy::of(&[far(fixed), near(fixed)]),
    ]
}

/// A column of which the first rows are loaded, and the others appended piece by piece.
pub(super) struct Column {
    values: arrow::array::ArrayRef,
    rows: u64,
    sum: i64,
    piece: Vec<i64>,
}

impl Column {
    /// Of so many rows at first.
    pub(super) fn new(rows: usize) -> Column {
        let values = Distribution::Dyn32.values(rows);
        Column {
            rows: rows as u64,
            sum: values.iter().sum(),
            piece: values[..APPENDED.min(rows)].to_vec(),
            values: array(&values),
        }
    }

    /// A new table of them.
    pub(super) fn table(&self, store: &Store, policy: &Policy) -> Result<Arc<Table>, LabError> {
        let table = store.filled("t", policy, &self.values)?;
        store.settle()?;
        Ok(table)
    }

    /// What is appended at a time.
    pub(super) fn piece(&self, table: &Table) -> Result<RecordBatch, LabError> {
        let mut batches = batches(table, &array(&self.piece), self.piece.len())?;
        Ok(batches.remove(0))
    }

    /// Adds all values of a snapshot; fails if that is the sum of no commit.
    pub(super) fn add(&self, snapshot: &Snapshot) -> Result<(), LabError> {
        let appended = snapshot.rows().checked_sub(self.rows);
        let pieces = appended.filter(|rows| rows % self.piece.len() as u64 == 0);
        let pieces = pieces.map(|rows| (rows / self.piece.len() as u64) as i64);
        let piece: i64 = self.piece.iter().sum();
        let expected = pieces.map(|pieces| self.sum + pieces * piece);
        check("the sum of a commit", Some(sum(snapshot)?) == expected)
    }
}

/// Appends a piece: durable on return.
pub(super) fn append(table: &Arc<Table>, piece: &RecordBatch) -> Result<(), LabError> {
    let appended = table.append(std::slice::from_ref(piece));
    appended.map(drop).by(Tierra::ENGINE, "appending")
}

/// The experiment.
pub(in super::super) struct PcrMixed;

impl Experiment for PcrMixed {
    fn name(&self) -> &'static str {
        "pcr-mixed"
    }

    fn about(&self) -> &'static str {
        "how fast are appends and sums at the same time, and sums while a column's copies change?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let column = Column::new(lab.size(1 << 16, 1 << 23));
        let (rounds, tasks) = (lab.runs(1, 5), lab.size(4, 32));
        let shares: Vec<u64> = (0..=100).step_by(lab.size(50, 10)).collect();
        let policies = policies();
        let store = Store::create(lab, 1)?;
        let mut rows = Vec::new();
        let bar = progress::bar("shares", shares.len());
        for share in shares {
            let mut random = Random::new(SEED ^ share);
            let sums = Vec::from_iter((0..tasks).map(|_| random.below(100) < share));
            let times = samples(policies.len(), rounds, |turn| {
                let table = column.table(&store, &policies[turn.contender])?;
                let piece = column.piece(&table)?;
                let time_ns = emulating(Some(optane(lab::threads())), || {
                    all(&column, &table, &piece, &sums)
                })?;
                store.drop_table(table)?;
                Ok(time_ns)
            })?;
            for (policy, times) in policies.iter().zip(times) {
                rows.push(
                    Row::new()
                        .text(SHARE, format!("{share} %"))
                        .text(POLICY, policy.to_string())
                        .count("tasks", tasks as u64)
                        .count("sums", sums.iter().filter(|sum| **sum).count() as u64)
                        .samples("time", "ns", times),
                );
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let over = over_plain(&rows);
        rows.extend(over);
        rows.extend(beside::measure(lab, &store, &column, rounds)?);
        let parameters = Row::new()
            .count("values", column.rows)
            .count("values_at_a_time", column.piece.len() as u64)
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        beside::bars(rows)
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // "In the range 20-90 % of aggregators all the alternatives .. give 50 % speedup on average", 48 threads.
        let row = Row::new().text(SHARE, "20 to 90 % (paper)");
        vec![
            row.clone()
                .text(POLICY, "far/static, b/static")
                .number(OVER, 1.5),
            row.text(POLICY, "far/static, near/static")
                .number(OVER, 3.5),
        ]
    }
}

/// Has all threads take tasks until none is left; the time of all of them.
fn all(
    column: &Column,
    table: &Arc<Table>,
    piece: &RecordBatch,
    sums: &[bool],
) -> Result<u64, LabError> {
    let next = AtomicUsize::new(0);
    let mut threads = vec![(); lab::threads()];
    let time = at_once(&mut threads, |_, ()| {
        // Relaxed: a number of its own for each task.
        while let Some(is_sum) = sums.get(next.fetch_add(1, Ordering::Relaxed)) {
            match is_sum {
                true => column.add(&table.snapshot())?,
                false => append(table, piece)?,
            }
        }
        Ok(())
    })?;
    Ok(time.as_nanos() as u64)
}

/// Tasks a second over those of two uncompressed copies.
fn over_plain(rows: &[Row]) -> Vec<Row> {
    let base = policies()[0].to_string();
    let over = |row: &Row| {
        let (share, policy) = (row.get(SHARE)?.to_string(), row.get(POLICY)?.to_string());
        let base = find(rows, &[(SHARE, &share), (POLICY, &base)])?;
        let times = base.value("time_ns")? / row.value("time_ns")?;
        let row = Row::new().text(SHARE, share).text(POLICY, policy);
        Some(row.number(OVER, times))
    };
    rows.iter().filter_map(over).collect()
}

/// The time of some work.
pub(super) fn timed(work: impl FnOnce() -> Result<(), LabError>) -> Result<u64, LabError> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_no_commit_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab::new(true, folder.path()).unwrap();
        let (store, column) = (Store::create(&lab, 1).unwrap(), Column::new(2000));
        let policy = &policies()[3];
        let table = column.table(&store, policy).unwrap();
        column.add(&table.snapshot()).unwrap();
        append(&table, &column.piece(&table).unwrap()).unwrap();
        column.add(&table.snapshot()).unwrap();
        let torn = column.piece(&table).unwrap().slice(0, 7);
        append(&table, &torn).unwrap();
        let wrong = column.add(&table.snapshot()).unwrap_err();
        assert!(wrong.to_string().contains("the sum of a commit"), "{wrong}");
    }
}
