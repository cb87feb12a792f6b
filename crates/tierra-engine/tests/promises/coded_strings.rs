//! Promise: strings that are not stored as they are outlive what others outlive. They are read by scans and by lookups, with conditions
//! and by key, repaired from another copy, rewritten when rows are deleted, and there when the database is opened again. What no copy
//! has is named.

use std::sync::Arc;

use crate::copied::{Place, ROWS, check, damage};
use crate::support::{NOTE, all_rows, options, rows, rows_of, scan, sorted, spec};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use tierra_column::{Encoding, Filter, Value};
use tierra_engine::{Change, Database, RowId, RowIds, ScanSpec, ScrubOptions, Table, TableSpec};
use tierra_interleave::{Execution, Lookups, Scheduling};

const ENCODINGS: [Encoding; 3] = [Encoding::Front, Encoding::Prefix, Encoding::Fsst];

fn coded(encoding: Encoding) -> impl FnOnce(&mut TableSpec) {
    move |spec| spec.columns[NOTE].encoding = Some(encoding)
}

/// Rows read cell by cell are the same, interleaved or not.
fn check_rows(table: &Arc<Table>, ids: &[i64]) {
    let snapshot = table.snapshot();
    let keys: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let projection = table.projection(&Vec::from_iter(0..10));
    for execution in [Execution::Plain, Execution::Interleaved] {
        let mut lookups = Lookups::new(execution);
        let found = snapshot
            .rows_by_key(std::slice::from_ref(&keys), &mut lookups)
            .unwrap();
        let found: Vec<_> = found.into_iter().map(Option::unwrap).collect();
        let read = snapshot.reconstruct(&found, &projection, &mut lookups);
        assert_eq!(read.unwrap(), rows_of(ids));
    }
}

/// A condition on the strings passes the rows that it passes of those in memory.
fn check_conditions(table: &Arc<Table>, all: &RecordBatch) {
    let text = |text: &str| Value::Bytes(text.as_bytes().into());
    for filter in [
        Filter::eq(text(&format!("ñote 778 {}", "x".repeat(28)))),
        Filter::between(text("ñote 30"), text("ñote 31")),
        Filter::greater(text("ñote 9")),
        Filter::is_null(),
    ] {
        let passing = tierra_column::evaluate(&filter, all.column(NOTE)).unwrap();
        let passing = arrow::array::BooleanArray::new(passing, None);
        let expected = arrow::compute::filter_record_batch(all, &passing).unwrap();
        assert!(expected.num_rows() > 0, "{filter:?}");
        let columns = Vec::from_iter(0..10);
        let (found, _) = scan(&table.snapshot(), &columns, &[(NOTE, filter.clone())]);
        assert_eq!(sorted(&found), sorted(&expected), "{filter:?}");
    }
}

#[test]
fn copies_are_repaired_from_each_other_and_what_none_has_is_named() {
    for (seed, encoding) in (0..).zip(ENCODINGS) {
        let place = Place::with(coded(encoding));
        let ids = Vec::from_iter((0..ROWS).step_by(83));
        for round in 0..3 {
            println!("{encoding}, round {round}");
            let database = place.open(0);
            let table = database.table("t").unwrap();
            let stored = table.snapshot().segments()[0].encoding(NOTE);
            assert_eq!(stored, Some(encoding));
            let victim = ["far", "b"][(seed + round) % 2];
            let len_bytes = std::fs::metadata(place.pool(victim)).unwrap().len();
            place.change(victim, &damage((3 * seed + round) as u64, len_bytes));
            match round {
                1 => check_rows(&table, &ids),
                _ => check(&database),
            }
            check_rows(&table, &ids);
            check(&database);
            check_conditions(&table, &rows(0..ROWS));
            let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
            assert_eq!(found.lost, [], "{encoding}, round {round}: {found:?}");
            assert_eq!(found.damaged_copies, found.repaired_copies);
        }
        let database = place.open(0);
        for tier in ["far", "b"] {
            let block = place.first_block(tier, 8);
            place.change(tier, std::slice::from_ref(&(block + 8..block + 300)));
        }
        let table = database.table("t").unwrap();
        let scan = table.snapshot().scan(spec_of(&[NOTE]));
        let error = scan.cursor().next(&[], 0).unwrap_err().to_string();
        assert!(error.contains("note"), "{encoding}: {error}");
        let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert!(!found.lost.is_empty(), "{encoding}");
    }
}

fn spec_of(columns: &[usize]) -> ScanSpec {
    ScanSpec {
        projection: columns.to_vec(),
        filters: vec![],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    }
}

/// The rows of a table whose ids are these.
fn ids_of(table: &Arc<Table>, is_wanted: impl Fn(i64) -> bool) -> RowIds {
    let scan = table.snapshot().scan_with_row_ids(spec_of(&[0]));
    let mut cursor = scan.cursor();
    let mut wanted = RowIds::default();
    while let Some(batch) = cursor.next(&[], 0).unwrap() {
        let keys = batch.column(0).as_primitive::<Int64Type>().values();
        let ids = batch.column(1).as_primitive::<UInt64Type>().values();
        for (_, id) in keys.iter().zip(ids).filter(|(key, _)| is_wanted(**key)) {
            wanted.insert(RowId::from_number(*id));
        }
    }
    wanted
}

#[test]
fn they_are_rewritten_by_compaction_and_read_when_opened_again() {
    const ALL: i64 = 140_000;
    for encoding in ENCODINGS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let database = Database::create(&path, &options()).unwrap();
        let mut spec = spec("t", vec![0]);
        coded(encoding)(&mut spec);
        let table = database.create_table(spec).unwrap();
        table.append(&[rows(0..ALL - 500)]).unwrap();
        table.append(&[rows(ALL - 500..ALL)]).unwrap();
        table.seal().unwrap();
        assert_eq!(all_rows(&table), rows(0..ALL));
        let is_left = |id: i64| id % 3 != 0;
        let change = Change {
            deleted: ids_of(&table, |id| !is_left(id)),
            snapshot: table.snapshot(),
            appended: vec![rows(ALL..ALL + 10)],
        };
        database.commit(vec![change]).unwrap();
        database.wait_for_near_copies().unwrap();
        let snapshot = table.snapshot();
        assert_eq!(snapshot.deleted_rows(), 0, "{encoding}: compacted");
        let left = Vec::from_iter((0..ALL).filter(|id| is_left(*id)).chain(ALL..ALL + 10));
        let expected = rows_of(&left);
        drop((snapshot, table));
        database.close();
        drop(database);
        let database = Database::open(&path, &options()).unwrap();
        let table = database.table("t").unwrap();
        assert_eq!(
            table.snapshot().segments()[0].encoding(NOTE),
            Some(encoding)
        );
        assert_eq!(all_rows(&table), expected, "{encoding}");
        check_conditions(&table, &expected);
        check_rows(&table, &left[..2000]);
    }
}

/// A primary key of strings: rows are found by it, and a second of the same key is refused.
#[test]
fn keys_are_found_and_unique() {
    for encoding in ENCODINGS {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("db"), &options()).unwrap();
        let mut spec = spec("t", vec![NOTE]);
        spec.columns[NOTE].encoding = Some(encoding);
        spec.columns[NOTE].nullable = false;
        let table = database.create_table(spec).unwrap();
        let name = |id: i64| format!("name of number {id:06}");
        let keyed = |ids: std::ops::Range<i64>| {
            let batch = rows(ids.clone());
            let mut columns = batch.columns().to_vec();
            columns[NOTE] = Arc::new(StringViewArray::from_iter_values(ids.map(name)));
            RecordBatch::try_new(table.schema(), columns).unwrap()
        };
        table.append(&[keyed(0..70_000)]).unwrap();
        let wanted = [0, 15, 16, 1023, 1024, 69_999, 70_000];
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(wanted.map(name)));
        for execution in [Execution::Plain, Execution::Interleaved] {
            let mut lookups = Lookups::new(execution);
            let found = table
                .snapshot()
                .rows_by_key(std::slice::from_ref(&keys), &mut lookups);
            let found = found.unwrap();
            let is_found = Vec::from_iter(found.iter().map(Option::is_some));
            assert_eq!(is_found, [true, true, true, true, true, true, false]);
            let rows = Vec::from_iter(found.into_iter().flatten());
            let read = table.snapshot();
            let read = read.reconstruct(&rows, &table.projection(&[0, NOTE]), &mut lookups);
            let read = read.unwrap();
            assert_eq!(
                read.column(0).as_primitive::<Int64Type>().values(),
                &wanted[..6]
            );
            assert_eq!(read.column(1), &keys.slice(0, 6));
        }
        let again = table.append(&[keyed(500..501)]).unwrap_err();
        assert!(again.to_string().contains("key"), "{again}");
        assert_eq!(table.snapshot().rows(), 70_000);
    }
}
