//! What the crash tests share: a database that is used and recorded, what it holds after each step, and the
//! promise that images of it are checked against. The lab's experiment `crash` includes this file as well; a seed makes
//! another program of the same kind.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

mod check;
mod program;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::Int64Type;
use tempfile::TempDir;
use tierra_column::{Encoding, Filter, LogicalType, Value};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, LookupError, ScanSpec, Snapshot, TableSpec,
};
use tierra_interleave::{Lookups, Scheduling};
use tierra_memory::simulation::{Limits, Recorder, Report};

pub(crate) use check::{Images, Scenario, check_one};
pub(crate) use program::{Program, Recorded, Step, encoded};

/// The tier that is added to the first.
pub(crate) const SECOND: &str = "b";

/// Where the pools of both lie in the directory.
pub(crate) const POOLS: [&str; 2] = ["far.pool", "b.pool"];

/// Both kinds of durability.
pub(crate) const RECORDERS: [fn() -> Recorder; 2] = [Recorder::by_line, Recorder::by_page];

/// In memory where possible: each image is written and opened.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(crate) fn options(recorder: &Recorder) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        threads: Some(NonZeroUsize::MIN),
        recorder: Some(recorder.clone()),
        ..DatabaseOptions::default()
    }
}

pub(crate) fn spec(name: &str) -> TableSpec {
    let word = ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        index: Some(IndexKind::Inverted),
        ..ColumnSpec::new("word", LogicalType::Varchar)
    };
    TableSpec {
        name: name.to_owned(),
        columns: vec![ColumnSpec::new("id", LogicalType::BigInt).not_null(), word],
        primary_key: vec![0],
    }
}

/// Every fifth row has no word; words come back after a while, and new ones keep coming.
fn word(id: i64) -> Option<String> {
    (id % 5 != 0).then(|| format!("{:05}", (id * 7919) % (40 + id / 2)))
}

pub(crate) fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let words: StringViewArray = ids.clone().map(word).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids.collect::<Int64Array>()), Arc::new(words)];
    RecordBatch::try_new(spec("any").schema(), columns).unwrap()
}

/// How many rows each table has: those with the ids from 0 on.
pub(crate) type State = BTreeMap<String, i64>;

/// What a database holds, every row checked.
pub(crate) fn state(database: &Database) -> Result<State, String> {
    let mut state = State::new();
    for name in database.tables() {
        let table = database.table(&name).ok_or("a table without a name")?;
        // A segment made of the tail may come before a load's.
        let found = in_order(&scan(&table.snapshot(), &[0, 1], &[])?)?;
        let ids = found.column(0).as_primitive::<Int64Type>();
        let words = found.column(1).as_string_view();
        for (at, id) in ids.values().iter().enumerate() {
            let found = words.is_valid(at).then(|| words.value(at));
            if *id != at as i64 || found != word(*id).as_deref() {
                return Err(format!("row {at} of {name} is ({id}, {found:?})"));
            }
        }
        let rows = ids.len() as i64;
        // The same by the index, as far as it has got.
        let sought = word(1).ok_or("row 1 has a word")?;
        let filter = Filter::eq(Value::Bytes(sought.as_bytes().into()));
        let found = scan(&table.snapshot(), &[0], &[(1, filter)])?.num_rows();
        let expected = (0..rows).filter(|id| word(*id).as_ref() == Some(&sought));
        if found != expected.count() {
            return Err(format!("the index of {name} finds {found} rows"));
        }
        by_key(&table.snapshot(), rows).map_err(|error| format!("{name}: {error}"))?;
        state.insert(name, rows);
    }
    Ok(state)
}

/// Looks up some of the keys, which are numbers from 0 on, and what is none.
fn by_key(snapshot: &Snapshot, rows: i64) -> Result<(), String> {
    let ids: Vec<i64> = (0..rows)
        .step_by(rows as usize / 7 + 1)
        .chain([-1, rows])
        .collect();
    let keys: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
    let text = |error: LookupError| error.to_string();
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups).map_err(text)?;
    let (there, none) = found.split_at(ids.len() - 2);
    if none.iter().any(Option::is_some) {
        return Err(format!("there is a key that was not added: {none:?}"));
    }
    let there: Option<Vec<_>> = there.iter().copied().collect();
    let there = there.ok_or("a key is not found")?;
    let projection = snapshot.table().projection(&[0]);
    let read = snapshot
        .reconstruct(&there, &projection, &mut lookups)
        .map_err(text)?;
    match read.column(0).as_primitive::<Int64Type>().values()[..] == ids[..there.len()] {
        true => Ok(()),
        false => Err(format!("keys {ids:?} lead to {read:?}")),
    }
}

/// All rows that meet the conditions.
fn scan(
    snapshot: &Snapshot,
    projection: &[usize],
    filters: &[(usize, Filter)],
) -> Result<RecordBatch, String> {
    let scan = snapshot.scan(ScanSpec {
        projection: projection.to_vec(),
        filters: filters.to_vec(),
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0).map_err(|error| error.to_string())? {
        batches.push(batch);
    }
    concat_batches(&scan.schema(), &batches).map_err(|error| error.to_string())
}

/// The rows by their first column.
fn in_order(batch: &RecordBatch) -> Result<RecordBatch, String> {
    let order = sort_to_indices(batch.column(0), None, None);
    let sorted = order.and_then(|order| take_record_batch(batch, &order));
    sorted.map_err(|error| error.to_string())
}

/// Fails with everything needed to see the same again.
pub(crate) fn assert_kept(report: &Report, limits: &Limits) {
    for violation in &report.violations {
        eprintln!("{violation}");
    }
    assert!(report.violations.is_empty(), "{limits:?}");
}
