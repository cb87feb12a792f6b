//! A scan tests rows by a condition of its owner: it returns those that pass and no others, shows the test no row that does not count,
//! and reads columns that the test does not need only where rows pass.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int64Type, UInt64Type};
use tierra_column::{Filter, LogicalType, Value, ordinal};
use tierra_engine::{
    Change, ColumnSpec, Database, RowId, RowIds, RowTest, ScanCounters, ScanError, ScanSpec,
    Snapshot, Table, TableSpec,
};
use tierra_interleave::Scheduling;

use crate::support;

const SEGMENT_ROWS: i64 = 100_000;
const TAIL_ROWS: i64 = 3_000;
/// Rows below this one do not meet the scan's own condition.
const FIRST: i64 = 1_500;

fn batch(table: &Table, rows: std::ops::Range<i64>) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone())),
        Arc::new(Int64Array::from_iter(rows.clone().map(other))),
        Arc::new(StringViewArray::from_iter_values(
            rows.map(|id| format!("row {id}")),
        )),
    ];
    RecordBatch::try_new(table.schema(), columns).unwrap()
}

/// The second column, which has NULLs.
fn other(id: i64) -> Option<i64> {
    (id % 13 != 0).then_some(id * 7_919 % 10_007)
}

fn passes(id: i64) -> bool {
    other(id).is_some_and(|other| (id + other) % 17 == 0)
}

fn is_deleted(id: i64) -> bool {
    id % 5 == 1
}

/// Two segments and a tail, of all of which rows are deleted.
fn table(dir: &std::path::Path) -> (Arc<Database>, Snapshot) {
    let database = Database::create(&dir.join("db"), &support::options()).unwrap();
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            ColumnSpec::new("other", LogicalType::BigInt),
            ColumnSpec::new("text", LogicalType::Varchar),
        ],
        primary_key: vec![],
    };
    let table = database.create_table(spec).unwrap();
    let mut from = 0;
    for rows in [SEGMENT_ROWS, SEGMENT_ROWS] {
        let mut loader = table.loader();
        loader.push(batch(&table, from..from + rows)).unwrap();
        loader.finish().unwrap();
        from += rows;
    }
    table
        .append(&[batch(&table, from..from + TAIL_ROWS)])
        .unwrap();
    let snapshot = table.snapshot();
    let all = rows_of(&snapshot, Arc::new(Every), 0).unwrap().0;
    let deleted: RowIds = all
        .iter()
        .filter(|(id, _, _)| is_deleted(*id))
        .map(|(_, _, row)| RowId::from_number(*row))
        .collect();
    database
        .commit(vec![Change {
            snapshot,
            deleted,
            appended: vec![],
        }])
        .unwrap();
    let snapshot = table.snapshot();
    (database, snapshot)
}

/// The rows that pass a test, by id, each with its text and row id.
type Found = Vec<(i64, String, u64)>;

fn rows_of(
    snapshot: &Snapshot,
    test: Arc<dyn RowTest>,
    first: i64,
) -> Result<(Found, ScanCounters), ScanError> {
    let scan = snapshot.scan_tested(
        ScanSpec {
            projection: vec![2, 0],
            filters: vec![(
                0,
                Filter::greater_or_equal(Value::Ordinal(ordinal::of_i64(first))),
            )],
            batch_rows: 8192,
            execution: Scheduling::default(),
        },
        test,
    );
    let mut cursor = scan.cursor();
    let mut found = Vec::new();
    while let Some(batch) = cursor.next(&[], 0)? {
        let texts = batch.column(0).as_string_view();
        let ids = batch.column(1).as_primitive::<Int64Type>();
        let rows = batch.column(2).as_primitive::<UInt64Type>();
        for at in 0..batch.num_rows() {
            found.push((ids.value(at), texts.value(at).to_owned(), rows.value(at)));
        }
    }
    found.sort_unstable();
    Ok((found, cursor.counters()))
}

#[derive(Debug)]
struct Every;

impl RowTest for Every {
    fn columns(&self) -> &[usize] {
        &[0]
    }

    fn test(&self, values: Vec<ArrayRef>) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>> {
        Ok(BooleanBuffer::new_set(values[0].len()))
    }
}

/// Keeps what it is shown.
#[derive(Debug, Default)]
struct Sum {
    shown: Mutex<Vec<i64>>,
    fails: AtomicBool,
}

impl RowTest for Sum {
    fn columns(&self) -> &[usize] {
        &[1, 0]
    }

    fn test(&self, values: Vec<ArrayRef>) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>> {
        if self.fails.load(Ordering::Relaxed) {
            return Err("the test failed".into());
        }
        let others = values[0].as_primitive::<Int64Type>();
        let ids = values[1].as_primitive::<Int64Type>();
        self.shown.lock().unwrap().extend(ids.values());
        let passes = others.iter().zip(ids.values()).map(|(value, id)| {
            assert_eq!(value, other(*id));
            passes(*id)
        });
        Ok(passes.collect())
    }
}

#[test]
fn the_rows_that_pass_are_returned() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let counts = |id: &i64| *id >= FIRST && !is_deleted(*id);
    let ids = (0..2 * SEGMENT_ROWS + TAIL_ROWS).filter(counts);
    let test = Arc::new(Sum::default());
    let (found, _) = rows_of(&snapshot, test.clone(), FIRST).unwrap();
    let mut shown = std::mem::take(&mut *test.shown.lock().unwrap());
    shown.sort_unstable();
    assert!(shown.iter().copied().eq(ids.clone()), "each row is tested");
    let expected = ids.filter(|id| passes(*id));
    assert!(found.iter().map(|(id, _, _)| *id).eq(expected));
    assert!(
        found
            .iter()
            .all(|(id, text, _)| *text == format!("row {id}"))
    );
    // The ids of the rows are those of any other scan.
    let all = rows_of(&snapshot, Arc::new(Every), 0).unwrap().0;
    assert!(found.iter().all(|row| all.binary_search(row).is_ok()));
}

/// Passes one row.
#[derive(Debug)]
struct Only(i64);

impl RowTest for Only {
    fn columns(&self) -> &[usize] {
        &[0]
    }

    fn test(&self, values: Vec<ArrayRef>) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>> {
        let ids = values[0].as_primitive::<Int64Type>().values();
        Ok(ids.iter().map(|id| *id == self.0).collect())
    }
}

#[test]
fn other_columns_are_read_where_rows_pass() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let id = SEGMENT_ROWS + 70_002;
    let (found, counters) = rows_of(&snapshot, Arc::new(Only(id)), 0).unwrap();
    assert_eq!(found.iter().map(|row| row.0).collect::<Vec<_>>(), [id]);
    let blocks = 2 * (SEGMENT_ROWS as u64).div_ceil(1024);
    assert_eq!(counters.blocks_decoded, blocks + 1);
    assert_eq!(counters.blocks_skipped, blocks - 1);
}

#[test]
fn the_error_of_a_test_is_that_of_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let test = Arc::new(Sum::default());
    test.fails.store(true, Ordering::Relaxed);
    for first in [0, 2 * SEGMENT_ROWS] {
        let error = rows_of(&snapshot, test.clone(), first).unwrap_err();
        assert!(matches!(error, ScanError::Test(_)));
        assert_eq!(error.to_string(), "the test failed");
    }
}
