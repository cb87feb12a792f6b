//! Steps to a placement, sent to the writer in an order that callers cannot choose.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use tierra_column::{Encoding, LogicalType};

use crate::spec::replicas::ReplicaPlacement;
use crate::support::options;
use crate::table::requests::{PlacingStep, Request};
use crate::{
    ColumnSpec, Database, DatabaseOptions, Replicas, ScanError, StorageError, Table, TableError,
    TableSpec,
};

/// A table of one column, whose replicas are these.
fn create(database: &Database, replicas: &[&str]) -> Arc<Table> {
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec::new("n", LogicalType::BigInt)],
        primary_key: Vec::new(),
    };
    database.create_table_in(spec, placed(replicas)).unwrap()
}

fn placed(replicas: &[&str]) -> Replicas {
    let tiers = replicas.iter().map(|tier| (*tier).to_owned()).collect();
    Replicas {
        table: vec!["b".to_owned()],
        columns: [("n".to_owned(), tiers)].into(),
    }
}

/// A segment of so many numbers in no order.
fn load(table: &Arc<Table>, count: i64) {
    let numbers = (0..count).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
    let numbers = Int64Array::from_iter_values(numbers);
    let mut loader = table.loader();
    let batch = RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap();
    loader.push(batch).unwrap();
    loader.finish().unwrap();
    // A few rows are appended.
    table.seal().unwrap();
}

/// How many replicas each segment's chunk has.
fn replicas(table: &Table) -> Vec<usize> {
    let current = table.current();
    let segments = current.segments.iter();
    segments
        .map(|segment| segment.entry().replicas(0).count())
        .collect()
}

/// Its first tier takes 4 MiB.
fn with_small_tier(dir: &tempfile::TempDir) -> Arc<Database> {
    let small = DatabaseOptions {
        capacity_bytes: Some(4 << 20),
        // Damage is not seen where a near copy is read.
        near_memory_bytes: Some(0),
        ..options()
    };
    let db = dir.path().join("db");
    let database = Database::create(&db, &small).unwrap();
    for tier in ["b", "c"] {
        database.add_tier(tier, &db.join(tier)).unwrap();
    }
    database
}

/// One caller's step is about to give up what its placement does not want, and another's placement comes in between.
#[test]
fn nothing_is_given_up_for_a_placement_that_lacks_anything() {
    let dir = tempfile::tempdir().unwrap();
    let database = with_small_tier(&dir);
    let table = create(&database, &["b/static", "c/delta"]);
    load(&table, 600_000);
    assert_eq!(replicas(&table), [2]);
    let stale = PlacingStep {
        gives_up: true,
        ..PlacingStep::first(&table)
    };
    // There is no room for it.
    table.set_replicas(&placed(&["far/static"])).unwrap_err();
    assert_eq!(replicas(&table), [2]);
    let go_on = |reply| Request::GoOnPlacing {
        table: table.clone(),
        step: stale,
        reply: Some(reply),
    };
    table.requests().ask(go_on).unwrap().unwrap_err();
    assert_eq!(replicas(&table), [2]);
}

/// One dead block keeps its segment from getting replicas, and no other one.
#[test]
fn a_damaged_segment_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let database = with_small_tier(&dir);
    let table = create(&database, &["b"]);
    for _ in 0..3 {
        load(&table, 5_000);
    }
    let segment = table.current().segments[1].clone();
    let place = segment.entry().chunks[0];
    let copy = segment.extents()[place.extent as usize]
        .as_ref()
        .unwrap()
        .read();
    let block = segment.chunk(0).block_range(2);
    let file = std::fs::File::options()
        .write(true)
        .open(copy.pool().path());
    let at = copy.extent().offset + place.offset + block.start as u64;
    file.unwrap().write_all_at(&[0xEE; 100], at).unwrap();
    let wanted = placed(&["b", "c/delta"]);
    for _ in 0..2 {
        let error = table.set_replicas(&wanted).unwrap_err();
        let error = match error {
            TableError::Storage(StorageError::Scan(error)) => error,
            other => panic!("{other}"),
        };
        let is_named = matches!(&*error, ScanError::Damaged { segment: id, block: 2, .. } if *id == segment.id());
        assert!(is_named, "{error}");
        assert_eq!(replicas(&table), [2, 1, 2]);
    }
    let copies = database.copies().unwrap();
    assert!(copies.iter().any(|copy| !copy.is_complete));
    // What others have is given up as well, and each still has one.
    table.set_replicas(&placed(&["c/delta"])).unwrap_err();
    assert_eq!(replicas(&table), [1, 1, 1]);
}

/// What an earlier process has left undone is made in steps, between which requests have their turn.
#[test]
fn what_is_made_in_the_background_lets_others_pass() {
    let dir = tempfile::tempdir().unwrap();
    let database = with_small_tier(&dir);
    let table = create(&database, &["b"]);
    for _ in 0..8 {
        load(&table, 20_000);
    }
    database.wait_for_near_copies().unwrap();
    // As a process leaves it that ends right after it has published a placement.
    let wanted = placed(&["b", "c/delta"]);
    let placement = database.storage().tiers().settle(&wanted, table.spec());
    table.move_to(placement.unwrap());
    table.ask_for_missing_copies();
    // Answered in its turn.
    let stored = table.requests().ask(|reply| Request::Extents { reply });
    let entry = stored.unwrap().remove(0).entry;
    let made = entry
        .segments
        .iter()
        .filter(|it| it.replicas(0).count() == 2);
    assert!(made.count() < 8, "all were made in one turn");
    database.wait_for_near_copies().unwrap();
    assert_eq!(replicas(&table), [2; 8]);
    let copies = database.copies().unwrap();
    assert!(copies.iter().all(|copy| copy.is_complete), "{copies:?}");
}

/// All ordinals and NULL leave no code for NULL: the header of what is plain for it says so, and nothing is planned again.
#[test]
fn what_gave_way_to_plain_is_known_without_planning() {
    let dir = tempfile::tempdir().unwrap();
    let database = with_small_tier(&dir);
    let table = create(&database, &["b/static", "c/dynamic"]);
    let numbers = Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(0)]);
    let batch = RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap();
    table.append(&[batch]).unwrap();
    table.seal().unwrap();
    let matched = |placement: &ReplicaPlacement| {
        let current = table.current();
        let segment = &current.segments[0];
        let encodings = segment.entry().replicas(0).map(|place| place.encoding);
        assert_eq!(encodings.collect::<Vec<_>>(), [Encoding::Plain; 2]);
        segment.matched(placement, 0, &[0, 1])
    };
    assert_eq!(matched(&table.placement()), [Some(0), Some(1)]);
    // Differences may have a code left: that has to be tried.
    let others = placed(&["b/plain", "c/delta", "far/lz4"]);
    let others = database.storage().tiers().settle(&others, table.spec());
    assert_eq!(matched(&others.unwrap()), [Some(0), None, None]);
    table.set_replicas(&placed(&["b/rle", "c/for"])).unwrap();
    assert_eq!(matched(&table.placement()), [Some(0), Some(1)]);
    assert!(database.copies().unwrap().iter().all(|it| it.is_complete));
}

/// A chunk has as many replicas as it should have, and one of them is not what it should be.
#[test]
fn a_replica_in_another_encoding_is_not_complete() {
    let dir = tempfile::tempdir().unwrap();
    let database = with_small_tier(&dir);
    let table = create(&database, &["b/static", "c/plain"]);
    load(&table, 5_000);
    let complete = || {
        let copies = database.copies().unwrap().into_iter();
        let of_column = copies.filter(|copy| copy.column.is_some());
        of_column.map(|it| it.is_complete).collect::<Vec<_>>()
    };
    assert_eq!(complete(), [true, true]);
    for other in ["c/delta", "c/dynamic"] {
        let wanted = placed(&["b/static", other]);
        let placement = database.storage().tiers().settle(&wanted, table.spec());
        // Before anything is made.
        table.move_to(placement.unwrap());
        assert_eq!(complete(), [true, false], "{other}");
        table.set_replicas(&wanted).unwrap();
        assert_eq!(complete(), [true, true], "{other}");
    }
}
