//! What the tests share: a table of every type, rows that are a function of their number, and ways
//! to read them back.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod indexed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use tierra_column::{Filter, LogicalType};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, ScanCounters, ScanSpec, Snapshot, Table, TableSpec,
};

/// Little near memory, so that some chunks are read near and most far.
pub(crate) fn options() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        ..DatabaseOptions::default()
    }
}

/// A folder where temporary files are, which is usually a disk, and one in memory, where small commits are made at once.
pub(crate) fn folders() -> [tempfile::TempDir; 2] {
    let memory = tempfile::TempDir::new_in("/dev/shm");
    [
        tempfile::tempdir().unwrap(),
        memory.unwrap_or_else(|_| tempfile::tempdir().unwrap()),
    ]
}

/// Tells threads to stop when it is dropped, also by an assertion that fails: their scope waits for them.
pub(crate) struct Stops<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Bytes in use in the pool, once what goes on in the background (merges) is done.
pub(crate) fn pool_bytes(database: &Database) -> u64 {
    database.wait_for_near_copies().unwrap();
    let tiers = database.tiers();
    tiers.last().expect("the pool is the last").used_bytes
}

/// Bytes in use, near and far, once what goes on in the background (near copies, merges) is done.
pub(crate) fn used_bytes(database: &Database) -> u64 {
    database.wait_for_near_copies().unwrap();
    database.tiers().iter().map(|tier| tier.used_bytes).sum()
}

/// A column of every type; `id` is unique.
pub(crate) fn spec(name: &str, primary_key: Vec<usize>) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", LogicalType::BigInt).not_null(),
        ColumnSpec::new("flag", LogicalType::Boolean),
        ColumnSpec::new("small", LogicalType::Integer),
        ColumnSpec::new(
            "price",
            LogicalType::Decimal {
                precision: 12,
                scale: 2,
            },
        ),
        ColumnSpec::new(
            "wide",
            LogicalType::Decimal {
                precision: 38,
                scale: 0,
            },
        ),
        ColumnSpec::new("ratio", LogicalType::Double),
        ColumnSpec::new("day", LogicalType::Date),
        ColumnSpec::new("moment", LogicalType::Timestamp),
        ColumnSpec::new("city", LogicalType::Varchar).not_null(),
        ColumnSpec::new("note", LogicalType::Varchar),
    ];
    TableSpec {
        name: name.to_owned(),
        columns,
        primary_key,
    }
}

pub(crate) const CITY: usize = 8;
pub(crate) const NOTE: usize = 9;

/// The rows with these ids.
pub(crate) fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    rows_of(&ids.collect::<Vec<_>>())
}

/// The rows with these ids, in their order.
pub(crate) fn rows_of(ids: &[i64]) -> RecordBatch {
    let schema = spec("any", vec![]).schema();
    let nullable = |id: i64, every: i64| id % every != 0;
    let column =
        |make: &dyn Fn(i64) -> Option<i64>| ids.iter().map(|id| make(*id)).collect::<Vec<_>>();
    let price = column(&|id| nullable(id, 7).then_some(((id * 2_654_435_761) >> 7) % 1_000_000));
    let wide: Vec<Option<i128>> = ids
        .iter()
        .map(|id| nullable(*id, 11).then_some(i128::from(*id) << 70))
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(
            ids.iter()
                .map(|id| nullable(*id, 3).then_some(id % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            ids.iter()
                .map(|id| nullable(*id, 5).then_some((id % 100) as i32))
                .collect::<Int32Array>(),
        ),
        Arc::new(
            price
                .iter()
                .map(|v| v.map(i128::from))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(
            wide.into_iter()
                .collect::<Decimal128Array>()
                .with_precision_and_scale(38, 0)
                .unwrap(),
        ),
        Arc::new(
            ids.iter()
                .map(|id| nullable(*id, 13).then_some(*id as f64 / 8.0 - 100.0))
                .collect::<Float64Array>(),
        ),
        Arc::new(
            ids.iter()
                .map(|id| nullable(*id, 17).then_some((id / 50) as i32))
                .collect::<Date32Array>(),
        ),
        Arc::new(TimestampMicrosecondArray::from(column(&|id| {
            nullable(id, 19).then_some(id * 1_000_003)
        }))),
        Arc::new(StringViewArray::from_iter_values(
            ids.iter().map(|id| format!("city number {:03}", id % 200)),
        )),
        Arc::new(
            ids.iter()
                .map(|id| {
                    nullable(*id, 4)
                        .then(|| format!("ñote {id} {}", "x".repeat((id % 30) as usize)))
                })
                .collect::<StringViewArray>(),
        ),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// All rows that meet the conditions, by one cursor, and what reading them took.
pub(crate) fn scan(
    snapshot: &Snapshot,
    projection: &[usize],
    filters: &[(usize, Filter)],
) -> (RecordBatch, ScanCounters) {
    let spec = ScanSpec {
        projection: projection.to_vec(),
        filters: filters.to_vec(),
        batch_rows: 8192,
        execution: tierra_interleave::Scheduling::Auto,
    };
    let scan = snapshot.scan(spec);
    let mut cursor = scan.cursor();
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0).unwrap() {
        assert!(batch.num_rows() > 0);
        batches.push(batch);
    }
    if projection.is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        return (
            RecordBatch::try_new_with_options(scan.schema(), vec![], &options).unwrap(),
            cursor.counters(),
        );
    }
    (
        concat_batches(&scan.schema(), &batches).unwrap(),
        cursor.counters(),
    )
}

/// Every row, sorted by id.
pub(crate) fn all_rows(table: &Arc<Table>) -> RecordBatch {
    let columns: Vec<usize> = (0..table.spec().columns.len()).collect();
    sorted(&scan(&table.snapshot(), &columns, &[]).0)
}

/// The batch ordered by its first column.
pub(crate) fn sorted(batch: &RecordBatch) -> RecordBatch {
    let order = arrow::compute::sort_to_indices(batch.column(0), None, None).unwrap();
    arrow::compute::take_record_batch(batch, &order).unwrap()
}
