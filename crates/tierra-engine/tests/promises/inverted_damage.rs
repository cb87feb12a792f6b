//! Promise: a damaged inverted index costs time, never an answer, nor the database: its rows are scanned,
//! and what was damaged is built again.

use std::path::Path;
use std::sync::Arc;

use crate::support::{scan, used_bytes};
use arrow::array::{Int32Array, RecordBatch};
use tierra_column::{Filter, LogicalType, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, ScanCounters, Snapshot, TableSpec,
};

/// Rows of a segment; another one has the same values.
const ROWS: i32 = 70_000;

fn options(near_memory_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        threads: std::num::NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

fn open(dir: &Path, near_memory_bytes: u64) -> Arc<Database> {
    Database::open(dir, &options(near_memory_bytes)).unwrap()
}

/// The value of each row: different ones, in an order of their own.
fn number(row: i32) -> i32 {
    (i64::from(row) * 7_919 % 1_000_003) as i32
}

/// Makes a database with some segments of an indexed column; the bytes that it uses.
fn create(dir: &Path, segments: usize) -> u64 {
    let database = Database::create(dir, &options(0)).unwrap();
    let table = database.create_table(TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec {
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("number", LogicalType::Integer).not_null()
        }],
        primary_key: vec![],
    });
    let table = table.unwrap();
    for _ in 0..segments {
        let numbers = Int32Array::from_iter_values((0..ROWS).map(number));
        let rows = RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap();
        let mut loader = table.loader();
        loader.push(rows).unwrap();
        loader.finish().unwrap();
    }
    let bytes = used_bytes(&database);
    let indexed = table.snapshot().indexed_rows(0);
    assert_eq!(indexed, ROWS as u64 * segments as u64);
    bytes
}

/// What a list of values out of all parts of the index finds.
fn found(snapshot: &Snapshot) -> (usize, ScanCounters) {
    let values = (0..ROWS)
        .step_by(280)
        .map(|row| ordinal::of_i32(number(row)));
    let set = ValueSet::ordinals(values.collect());
    let (rows, counters) = scan(snapshot, &[], &[(0, Filter::in_set(Arc::new(set)))]);
    (rows.num_rows(), counters)
}

const FOUND: usize = 250;

/// Where a pool has lines that begin like this, in ascending order.
fn lines(pool: &[u8], begin: &[u8]) -> Vec<usize> {
    let lines = (0..pool.len()).step_by(64);
    lines.filter(|at| pool[*at..].starts_with(begin)).collect()
}

#[test]
fn a_damaged_part_is_built_again_and_answers_stay_right() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let bytes = create(&dir, 1);
    let path = dir.join("far.pool");
    let whole = std::fs::read(&path).unwrap();
    let [part] = lines(&whole, b"TINV")[..] else {
        panic!("one part")
    };
    let places = [
        ("the extent's header", vec![part - 64 + 10]),
        ("the header", vec![part + 24]),
        ("the checksums", vec![part + 64 + 9]),
        ("pages", (1..4).map(|page| part + page * 4096).collect()),
    ];
    for (what, places) in places {
        let mut pool = whole.clone();
        for at in places {
            pool[at] ^= 1;
        }
        for near in [0, 1 << 30] {
            std::fs::write(&path, &pool).unwrap();
            let database = open(&dir, near);
            let table = database.table("t").unwrap();
            // Whatever the background has or has not done by now,
            assert_eq!(found(&table.snapshot()).0, FOUND, "{what}");
            // ... and once it has done all.
            database.wait_for_near_copies().unwrap();
            let snapshot = table.snapshot();
            assert_eq!(snapshot.indexed_rows(0), snapshot.rows(), "{what}");
            let (rows, counters) = found(&snapshot);
            assert_eq!(rows, FOUND, "{what}");
            assert_eq!(counters.blocks_read, 0, "{what}: {counters:?}");
            assert_eq!(counters.index_lookups, FOUND as u64, "{what}");
            drop((snapshot, table, database));
            // It is durable, and the space of the other one was given back.
            let database = open(&dir, 0);
            assert_eq!(used_bytes(&database), bytes, "{what}");
            let snapshot = database.table("t").unwrap().snapshot();
            let (rows, counters) = found(&snapshot);
            assert_eq!((rows, counters.blocks_read), (FOUND, 0), "{what}");
        }
    }
}

/// Readers of a snapshot go on scanning: what is built again is not theirs.
#[test]
fn a_snapshot_with_a_damaged_part_stays_right() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    create(&dir, 1);
    let path = dir.join("far.pool");
    let mut pool = std::fs::read(&path).unwrap();
    let part = lines(&pool, b"TINV")[0];
    (1..4).for_each(|page| pool[part + page * 4096] ^= 1);
    std::fs::write(&path, &pool).unwrap();
    let database = open(&dir, 0);
    let snapshot = database.table("t").unwrap().snapshot();
    assert_eq!(snapshot.indexed_rows(0), ROWS as u64);
    for _ in 0..3 {
        let (rows, counters) = found(&snapshot);
        assert_eq!(rows, FOUND);
        assert_eq!(counters.blocks_read, 69, "{counters:?}");
        assert_eq!(snapshot.indexed_rows(0), 0);
        database.wait_for_near_copies().unwrap();
    }
}

#[test]
fn a_damaged_segment_does_not_keep_others_from_being_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    create(&dir, 2);
    let path = dir.join("far.pool");
    let mut pool = std::fs::read(&path).unwrap();
    // The index has to be built again, of chunks of which one cannot be read.
    for part in lines(&pool, b"TINV") {
        pool[part + 24] ^= 1;
    }
    let chunks = lines(&pool, b"TCHK");
    assert_eq!(chunks.len(), 2);
    pool[chunks[0] + 40_000] ^= 1;
    std::fs::write(&path, &pool).unwrap();
    let database = open(&dir, 0);
    database.wait_for_near_copies().unwrap();
    let snapshot = database.table("t").unwrap().snapshot();
    assert_eq!(snapshot.rows(), 2 * ROWS as u64);
    assert_eq!(snapshot.indexed_rows(0), ROWS as u64);
}
