//! The demo's queries, with every answer checked. Queries with lookups run plain and interleaved in turn.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int32Type,
};
use tierra::{
    Database,
    sql::{Outcome, Session, Work},
};
use tierra_data::ssb::{Answer, Datum};
use tierra_memory::{LINE_BYTES, Speed};

use super::{data::DemoData, rows};
use crate::cli::{CommandError, interrupt::Interrupt};

/// Runs of each query in each mode; the median counts.
const REPETITIONS: usize = 5;
/// Rows of `wide` read in each mode; each is read once, so that none is in a cache.
const POINTS: u32 = 200;
/// Values in the IN-list.
const IN_VALUES: u32 = 10_000;

/// The modes of queries that scan.
const SCAN: [&str; 1] = ["auto"];
/// The modes of queries with lookups.
const LOOKUP: [&str; 2] = ["plain", "interleaved"];

/// One line of the demo's tables.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) rows: u64,
    /// Median time; for a query with lookups, with interleaved ones.
    pub(super) time: Duration,
    /// Median time with plain lookups, for a query with lookups.
    pub(super) plain: Option<Duration>,
    pub(super) bytes_near: u64,
    pub(super) bytes_far: u64,
    /// The difference from the right answer, if an answer was wrong.
    pub(super) fault: Option<String>,
}

/// The measurements of a query so far.
struct Samples {
    name: String,
    modes: &'static [&'static str],
    /// By mode.
    times: Vec<Vec<Duration>>,
    rows: u64,
    work: Work,
    fault: Option<String>,
}

/// Runs and checks all queries.
pub(super) async fn run(
    database: &Database,
    data: &DemoData,
    answers: &[Answer],
    interrupt: &Interrupt,
) -> Result<Vec<Measured>, CommandError> {
    let session = database.session()?;
    let mut measured = Vec::new();
    for answer in answers {
        let mut samples = Samples::new(answer.query.name.to_uppercase(), &SCAN);
        for _ in 0..REPETITIONS {
            let check = |batches: &[RecordBatch]| {
                answer
                    .check(&rows::of_batches(batches)?)
                    .map_err(|e| e.to_string())
            };
            samples.run_all(&session, answer.query.sql, check).await?;
            interrupt.check()?;
        }
        measured.push(samples.median());
    }
    measured.push(in_predicate(&session, data, interrupt).await?);
    let (near, far) = row_bytes(database);
    measured.push(Measured {
        bytes_near: near,
        bytes_far: far,
        ..whole_rows(&session, data, interrupt).await?
    });
    Ok(measured)
}

/// Bytes near and far that reading one row of `wide` waits for: one cache line per cell, in the tier from which its chunk
/// is read.
fn row_bytes(database: &Database) -> (u64, u64) {
    let Some(table) = database.engine().table("wide") else {
        return (0, 0);
    };
    let snapshot = table.snapshot();
    let columns = table.spec().columns.len();
    let Some(segment) = snapshot.segments().first() else {
        // Few rows are still in the tail, which is in near memory.
        return ((columns * LINE_BYTES) as u64, 0);
    };
    let far = (0..columns).filter(|&column| segment.speed(column) == Speed::Far);
    let far = far.count();
    (
        ((columns - far) * LINE_BYTES) as u64,
        (far * LINE_BYTES) as u64,
    )
}

/// Looks up 10,000 values in the dictionary of a column.
async fn in_predicate(
    session: &Session,
    data: &DemoData,
    interrupt: &Interrupt,
) -> Result<Measured, CommandError> {
    let table = data.keys;
    let mut samples = Samples::new(format!("IN ({IN_VALUES})"), &LOOKUP);
    for repetition in 0..REPETITIONS as u32 {
        // An odd multiplier spreads consecutive numbers over all possible values.
        let value = |i: u32| {
            let spread = (repetition * IN_VALUES + i).wrapping_mul(0x9E37_79B1);
            (spread >> 1) as i32 & (table.rows().next_power_of_two() * 4 - 1) as i32
        };
        let mut values: Vec<i32> = (0..IN_VALUES).map(value).collect();
        values.sort_unstable();
        values.dedup();
        let found: Vec<u32> = values.iter().filter_map(|&v| table.row_of(v, 0)).collect();
        let sum = found.iter().map(|&row| i64::from(table.cell(row, 1))).sum();
        let expected = vec![vec![Datum::Int(found.len() as i64), Datum::Int(sum)]];

        let mut sql = String::from("SELECT count(*), sum(c1) FROM keys WHERE c0 IN (");
        for (i, value) in values.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(sql, "{comma}{value}").expect("a String takes every write");
        }
        sql.push(')');
        let check = |batches: &[RecordBatch]| {
            let found = rows::of_batches(batches)?;
            match found == expected {
                true => Ok(()),
                false => Err(format!("{found:?} instead of {expected:?}")),
            }
        };
        samples.run_all(session, &sql, check).await?;
        interrupt.check()?;
    }
    Ok(samples.median())
}

/// Rows of 1,000 columns, each found by its key and read from 1,000 positions.
async fn whole_rows(
    session: &Session,
    data: &DemoData,
    interrupt: &Interrupt,
) -> Result<Measured, CommandError> {
    let table = data.wide;
    let prepare = "PREPARE whole_row AS SELECT * FROM wide WHERE c0 = $1";
    session.sql(prepare).await?;
    let mut samples = Samples::new(format!("SELECT * ({} columns)", table.columns()), &LOOKUP);
    // A prime step visits rows far apart, each once.
    let row = |i: u32| i * 7_919 % table.rows();
    for i in 0..POINTS.min(table.rows() / 2) {
        for mode in 0..LOOKUP.len() {
            let row = row(2 * i + mode as u32);
            let key = table.cell(row, 0);
            let check = |batches: &[RecordBatch]| check_row(batches, row, data);
            let sql = format!("EXECUTE whole_row({key})");
            samples.run(session, mode, &sql, check).await?;
        }
        interrupt.check()?;
    }
    Ok(samples.median())
}

fn check_row(batches: &[RecordBatch], row: u32, data: &DemoData) -> Result<(), String> {
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let found = batches.iter().find(|batch| batch.num_rows() == 1);
    let Some(batch) = found.filter(|_| count == 1) else {
        return Err(format!("{count} rows instead of 1"));
    };
    if batch.num_columns() != data.wide.columns() as usize {
        return Err(format!("{} columns", batch.num_columns()));
    }
    for (column, values) in (0..).zip(batch.columns()) {
        let found = values
            .as_primitive_opt::<Int32Type>()
            .map(|values| values.value(0));
        let expected = data.wide.cell(row, column);
        if found != Some(expected) {
            return Err(format!("column c{column}: {found:?} instead of {expected}"));
        }
    }
    Ok(())
}

impl Samples {
    fn new(name: String, modes: &'static [&'static str]) -> Self {
        Self {
            name,
            modes,
            times: vec![Vec::new(); modes.len()],
            rows: 0,
            work: Work::default(),
            fault: None,
        }
    }

    /// Runs a query once in each mode.
    async fn run_all(
        &mut self,
        session: &Session,
        sql: &str,
        check: impl Fn(&[RecordBatch]) -> Result<(), String>,
    ) -> Result<(), CommandError> {
        for mode in 0..self.modes.len() {
            self.run(session, mode, sql, &check).await?;
        }
        Ok(())
    }

    async fn run(
        &mut self,
        session: &Session,
        mode: usize,
        sql: &str,
        check: impl Fn(&[RecordBatch]) -> Result<(), String>,
    ) -> Result<(), CommandError> {
        let execution = self.modes[mode];
        session
            .sql(&format!("SET tierra.execution = '{execution}'"))
            .await?;
        let start = Instant::now();
        let Outcome::Rows(mut rows) = session.sql(sql).await? else {
            self.fault = Some("no rows at all".to_owned());
            return Ok(());
        };
        let batches = rows.collect().await?;
        self.times[mode].push(start.elapsed());
        self.work = rows.work();
        self.rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if let Err(fault) = check(&batches) {
            self.fault.get_or_insert(format!("{execution}: {fault}"));
        }
        Ok(())
    }

    fn median(self) -> Measured {
        let medians = self.times.into_iter().map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        });
        let medians: Vec<Duration> = medians.collect();
        Measured {
            name: self.name,
            rows: self.rows,
            time: medians.last().copied().unwrap_or_default(),
            plain: (medians.len() > 1).then(|| medians[0]),
            bytes_near: self.work.bytes_near,
            bytes_far: self.work.bytes_far,
            fault: self.fault,
        }
    }
}
