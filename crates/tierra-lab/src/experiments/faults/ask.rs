//! The queries to the table, and their right answers.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use tierra_column::{Filter, Value};
use tierra_engine::{Database, LookupError, RowId, ScanError, ScanSpec, Snapshot};
use tierra_interleave::{Lookups, Scheduling};

use super::super::database::simulated::rows;

/// Why a query was not answered correctly.
pub(super) enum Trouble {
    /// A wrong answer, or an error where there should be an answer.
    Wrong(String),
    /// An error that is allowed until a scrub pass has covered the lost data.
    Refused,
}

impl From<ScanError> for Trouble {
    fn from(error: ScanError) -> Trouble {
        match error {
            ScanError::Lost { .. } => Trouble::Refused,
            other => Trouble::Wrong(other.to_string()),
        }
    }
}

impl From<LookupError> for Trouble {
    fn from(error: LookupError) -> Trouble {
        match error {
            LookupError::Scan(error) => error.into(),
            other => Trouble::Wrong(other.to_string()),
        }
    }
}

/// The table's rows, and some right answers.
pub(super) struct Oracle {
    all: RecordBatch,
    word: Box<[u8]>,
    with_word: usize,
}

impl Oracle {
    /// The oracle of rows with these ids.
    pub(super) fn of(ids: Range<i64>) -> Oracle {
        let all = rows(ids);
        let words = all.column(1).as_string_view();
        let word = words.value(1).to_owned();
        let with_word = words.iter().filter(|found| *found == Some(word.as_str()));
        Oracle {
            with_word: with_word.count(),
            word: word.into_bytes().into(),
            all: all.clone(),
        }
    }

    /// Asks for everything, for a word by the index, and for some rows by their keys.
    pub(super) fn ask(&self, database: &Database) -> Result<(), Trouble> {
        let wrong = |what: &str| Trouble::Wrong(what.to_owned());
        let table = database
            .table("t")
            .ok_or_else(|| wrong("the table is gone"))?;
        let snapshot = table.snapshot();
        let found = scan(&snapshot, vec![0, 1], Vec::new())?;
        if sorted(&found)? != self.all {
            return Err(wrong("the rows are others"));
        }
        let filter = Filter::eq(Value::Bytes(self.word.clone()));
        if scan(&snapshot, vec![0], vec![(1, filter)])?.num_rows() != self.with_word {
            return Err(wrong("the index finds others"));
        }
        let ids: Vec<i64> = (0..self.all.num_rows() as i64).step_by(977).collect();
        let keys: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
        let mut lookups = Lookups::new(Scheduling::Auto);
        let found = snapshot.rows_by_key(&[keys], &mut lookups)?;
        let found: Vec<RowId> = found.into_iter().flatten().collect();
        let read =
            snapshot.reconstruct(&found, &snapshot.table().projection(&[0, 1]), &mut lookups)?;
        let places: UInt64Array = ids.iter().map(|id| *id as u64).collect();
        let expected = take_record_batch(&self.all, &places).map_err(arrow_trouble)?;
        match read == expected {
            true => Ok(()),
            false => Err(wrong("rows by key are others")),
        }
    }

    /// Asks until `end` is set, and once more. Counts queries, errors of each kind once, and refusals.
    pub(super) fn keep_asking(&self, database: &Database, end: &AtomicBool) -> Asked {
        let mut asked = Asked::default();
        loop {
            let is_last = end.load(Ordering::Acquire);
            asked.queries += 1;
            // A panic is a bug, but the experiment continues.
            let answer = catch_unwind(AssertUnwindSafe(|| self.ask(database)));
            asked.panics += u64::from(answer.is_err());
            match answer.unwrap_or_else(|_| Err(Trouble::Wrong("a query panicked".to_owned()))) {
                Ok(()) => {}
                Err(Trouble::Refused) => asked.refused += 1,
                Err(Trouble::Wrong(what)) if asked.wrong.contains(&what) => {}
                Err(Trouble::Wrong(what)) => asked.wrong.push(what),
            }
            if is_last {
                return asked;
            }
        }
    }
}

/// The results of repeated queries.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) queries: u64,
    pub(super) refused: u64,
    pub(super) panics: u64,
    pub(super) wrong: Vec<String>,
}

fn scan(
    snapshot: &Snapshot,
    projection: Vec<usize>,
    filters: Vec<(usize, Filter)>,
) -> Result<RecordBatch, Trouble> {
    let scan = snapshot.scan(ScanSpec {
        projection,
        filters,
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0)? {
        batches.push(batch);
    }
    concat_batches(&scan.schema(), &batches).map_err(arrow_trouble)
}

fn sorted(batch: &RecordBatch) -> Result<RecordBatch, Trouble> {
    let order = sort_to_indices(batch.column(0), None, None).map_err(arrow_trouble)?;
    take_record_batch(batch, &order).map_err(arrow_trouble)
}

fn arrow_trouble(error: arrow::error::ArrowError) -> Trouble {
    Trouble::Wrong(error.to_string())
}
