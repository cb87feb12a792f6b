//! The operators of figure 4.6 on a column, each checked against the values in a plain vector: the sum, the positions of a tenth of the
//! values, and the values at unsorted positions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};
use tierra_column::{Filter, Value, WantedTotals, ordinal};
use tierra_engine::{ReadPattern, Reading, ReplicaSource, RowId, SEGMENT_ROWS, ScanSpec, Snapshot};
use tierra_interleave::{Lookups, Scheduling};

use super::data::Distribution;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::SEED;
use crate::random::Random;

/// Rows of a batch, and positions looked up together.
const BATCH_ROWS: usize = 8192;
/// Positions of a query. The next query, of whichever copy, takes the next ones, so that their lines are in no cache.
pub(super) const POSITIONS: usize = 1 << 15;

/// The key of the copies that were read.
pub(super) const READ: &str = "read";

/// What a query does with a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// Adds all values.
    Sum,
    /// Returns the positions of the smallest tenth.
    Select,
    /// Returns the values at positions.
    Project,
}

impl Operator {
    pub(super) const ALL: [Operator; 3] = [Operator::Sum, Operator::Select, Operator::Project];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Operator::Sum => "sum",
            Operator::Select => "select 10 %",
            Operator::Project => "project",
        }
    }

    const fn pattern(self) -> ReadPattern {
        match self {
            Operator::Sum | Operator::Select => ReadPattern::Sequential,
            Operator::Project => ReadPattern::Random,
        }
    }
}

/// A column's values, and the answers.
pub(super) struct Expected {
    distribution: Distribution,
    pub(super) values: Vec<i64>,
    sum: i64,
    selected: usize,
    /// Unsorted positions, a list for each thread.
    positions: Vec<Vec<u32>>,
    /// The sums of the values there, of each query.
    projected: Vec<Vec<i64>>,
    /// Queries for positions, of all copies that are compared: each takes other ones than those before it.
    queries: AtomicUsize,
}

impl Expected {
    /// Of a distribution's values; `positions` are drawn for each of so many threads.
    pub(super) fn new(
        distribution: Distribution,
        values: Vec<i64>,
        threads: usize,
        positions: usize,
    ) -> Expected {
        let mut random = Random::new(SEED ^ 1);
        let mut drawn =
            || Vec::from_iter((0..positions).map(|_| random.below(values.len() as u64) as u32));
        let positions: Vec<Vec<u32>> = (0..threads).map(|_| drawn()).collect();
        let at = |all: &[u32]| all.iter().map(|at| values[*at as usize]).sum::<i64>();
        let projected = positions.iter();
        let projected = projected.map(|all| all.chunks(POSITIONS).map(at).collect());
        let projected = projected.collect();
        Expected {
            distribution,
            sum: values.iter().sum(),
            selected: selected(&values, distribution).count(),
            projected,
            positions,
            values,
            queries: AtomicUsize::new(0),
        }
    }
}

/// The sum of row ids.
fn sum_of(ids: &[u64]) -> u64 {
    ids.iter()
        .fold(0, |sum: u64, id: &u64| sum.wrapping_add(*id))
}

/// The positions of a column's smallest tenth.
fn selected(values: &[i64], distribution: Distribution) -> impl Iterator<Item = usize> {
    let is_small = move |(at, value): (usize, &i64)| (*value <= distribution.tenth()).then_some(at);
    values.iter().enumerate().filter_map(is_small)
}

/// A column as it is stored.
#[derive(Clone)]
pub(super) struct Stored<'a> {
    snapshot: Snapshot,
    expected: &'a Expected,
    /// The wanted rows of each thread.
    rows: Arc<[Vec<RowId>]>,
    /// The sum of the row ids that a selection finds.
    selected_ids: u64,
}

impl<'a> Stored<'a> {
    /// A table's column, all of whose rows were loaded at once. All values, and all positions that a selection finds, are compared
    /// with the expected ones.
    pub(super) fn new(snapshot: Snapshot, expected: &'a Expected) -> Result<Stored<'a>, LabError> {
        let row = row_ids(&snapshot);
        let rows = expected.positions.iter();
        let rows = rows.map(|of_thread| of_thread.iter().map(|at| row(*at as usize)).collect());
        let all: Vec<RowId> = (0..expected.values.len()).map(&row).collect();
        let right = selected(&expected.values, expected.distribution).map(|at| all[at].get());
        let mut right: Vec<u64> = right.collect();
        right.sort_unstable();
        let stored = Stored {
            rows: rows.collect(),
            snapshot,
            expected,
            selected_ids: sum_of(&right),
        };
        let mut found = Vec::with_capacity(all.len());
        project(&stored.snapshot, &all, |values| {
            found.extend_from_slice(values);
        })?;
        check("all values", found == expected.values)?;
        let mut found = Vec::with_capacity(expected.selected);
        stored.select(|ids| found.extend_from_slice(ids))?;
        found.sort_unstable();
        check("the positions of a tenth", found == right)?;
        Ok(stored)
    }

    /// Reads the replicas that are chosen now.
    pub(super) fn follow_choice(&mut self) {
        self.snapshot = self.snapshot.table().snapshot();
    }

    /// The copies that an operator reads now.
    pub(super) fn sources(&self, operator: Operator) -> Vec<ReplicaSource> {
        self.snapshot.sources(0, operator.pattern())
    }

    /// The same as text.
    pub(super) fn read(&self, operator: Operator) -> String {
        let shown = |source: ReplicaSource| {
            let tier = source.tier.as_deref().unwrap_or("near");
            format!("{tier}/{}", source.encoding)
        };
        let sources = self.sources(operator).into_iter();
        Vec::from_iter(sources.map(shown)).join(", ")
    }

    /// Has every thread run an operator again and again for so long; values a second of all of them. Every answer is checked.
    pub(super) fn rate(
        &self,
        operator: Operator,
        threads: usize,
        lasts: Duration,
    ) -> Result<f64, LabError> {
        let begin = Barrier::new(threads);
        thread::scope(|scope| {
            let thread = |thread: usize| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    let (start, mut runs, mut values) = (Instant::now(), 0, 0);
                    while runs == 0 || start.elapsed() < lasts {
                        values += self.run(operator, thread)?;
                        runs += 1;
                    }
                    Ok(values as f64 / start.elapsed().as_secs_f64())
                })
            };
            let threads = Vec::from_iter((0..threads).map(thread));
            let rates = threads.into_iter().map(|thread| {
                let rate = thread.join();
                rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            rates.sum()
        })
    }

    /// A thread's query; how many values it reads.
    fn run(&self, operator: Operator, thread: usize) -> Result<usize, LabError> {
        let expected = self.expected;
        match operator {
            Operator::Sum => check("the sum", sum(&self.snapshot)? == expected.sum)?,
            Operator::Select => {
                // All of them are compared when the column is stored. Here their number and sum take no time that counts.
                let (mut found, mut sum) = (0, 0_u64);
                self.select(|ids| {
                    found += ids.len();
                    sum = sum.wrapping_add(sum_of(ids));
                })?;
                let is_right = found == expected.selected && sum == self.selected_ids;
                check("the number and sum of a tenth's positions", is_right)?;
            }
            Operator::Project => {
                let sums = &expected.projected[thread];
                let number = expected.queries.fetch_add(1, Ordering::Relaxed) % sums.len();
                let rows = &self.rows[thread][number * POSITIONS..];
                let rows = &rows[..rows.len().min(POSITIONS)];
                let mut sum = 0;
                project(&self.snapshot, rows, |values| {
                    sum += values.iter().sum::<i64>();
                })?;
                check("the sum of some values", sum == sums[number])?;
                return Ok(rows.len());
            }
        }
        Ok(expected.values.len())
    }

    fn select(&self, mut take: impl FnMut(&[u64])) -> Result<(), LabError> {
        let most = Value::Ordinal(ordinal::of_i64(self.expected.distribution.tenth()));
        let scan = self.snapshot.scan_with_row_ids(ScanSpec {
            projection: vec![],
            filters: vec![(0, Filter::less_or_equal(most))],
            batch_rows: BATCH_ROWS,
            execution: Scheduling::Auto,
        });
        let cursor = scan.cursor_by(Reading::default());
        let mut cursor = cursor.by(Tierra::ENGINE, "selecting")?;
        while let Some(batch) = cursor.next(&[], 0).by(Tierra::ENGINE, "selecting")? {
            take(batch.column(0).as_primitive::<UInt64Type>().values());
        }
        Ok(())
    }
}

/// The ids of rows by their positions in a table all of whose rows were loaded at once.
pub(super) fn row_ids(snapshot: &Snapshot) -> impl Fn(usize) -> RowId + use<> {
    let segments = Vec::from_iter(snapshot.segments().iter().map(|it| u64::from(it.id())));
    move |at| {
        let segment = segments[at / SEGMENT_ROWS];
        RowId::from_number(segment * SEGMENT_ROWS as u64 + (at % SEGMENT_ROWS) as u64)
    }
}

/// The values of a table's only column in some rows, some of them at a time.
pub(super) fn project(
    snapshot: &Snapshot,
    rows: &[RowId],
    mut take: impl FnMut(&[i64]),
) -> Result<(), LabError> {
    let projection = snapshot.table().projection(&[0]);
    let mut lookups = Lookups::new(Scheduling::Auto);
    for rows in rows.chunks(BATCH_ROWS) {
        let batch = snapshot.reconstruct(rows, &projection, &mut lookups);
        let batch = batch.by(Tierra::ENGINE, "projecting")?;
        take(batch.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(())
}

/// The sum of a table's only column.
pub(super) fn sum(snapshot: &Snapshot) -> Result<i64, LabError> {
    let spec = ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: BATCH_ROWS,
        execution: Scheduling::Auto,
    };
    let wanted = WantedTotals {
        sum: true,
        extremes: false,
    };
    let scan = snapshot.scan_totals(spec, vec![wanted]);
    let cursor = scan.cursor_by(Reading::default());
    let mut cursor = cursor.by(Tierra::ENGINE, "adding")?;
    let mut sum = 0;
    while let Some(totals) = cursor.next_totals(&[], 0).by(Tierra::ENGINE, "adding")? {
        sum += totals.columns[0].sum as i64;
    }
    Ok(sum)
}

/// Fails unless an answer is right.
pub(super) fn check(what: &str, is_right: bool) -> Result<(), LabError> {
    match is_right {
        true => Ok(()),
        false => Err(LabError::WrongAnswer {
            who: Tierra::ENGINE.to_owned(),
            what: format!("{what}: not that of a plain vector"),
        }),
    }
}
