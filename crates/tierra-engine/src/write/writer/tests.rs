//! A device that fails a write does not say what it stored: the outcome is unknown if no other tier has the write. What lies there
//! is read from another replica, in whatever encoding.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tierra_column::Encoding;
use tierra_memory::Pool;
use tierra_memory::faults::Injector;

use super::choose::TierCosts;
use crate::manifest::ReplicaNumber;
use crate::support::{CITY, all_rows, options, rows, spec};
use crate::table::requests::{BulkChange, BulkCommit, Request, SeenRows};
use crate::{AppendError, Database, DatabaseOptions, IndexKind, Replicas, StorageError, Table};

#[test]
fn an_outcome_that_is_unknown_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = Database::create(&db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..150)]).unwrap();
    let pools = database.pools();
    let mut injector = Injector::new(1);
    injector.refuse_writes(&pools[1]);
    // Another tier has it.
    table.append(&[rows(150..151)]).unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    injector.refuse_writes(&pools[0]);
    let error = table.append(&[rows(151..152)]).unwrap_err();
    let is_unknown = matches!(error, AppendError::Storage(StorageError::Unknown { .. }));
    assert!(is_unknown, "{error}");
    assert!(error.to_string().contains("unknown until"), "{error}");
    // From here on nothing is written any more.
    let error = table.append(&[rows(151..152)]).unwrap_err();
    assert!(!error.to_string().contains("unknown until"), "{error}");
    drop((table, database, pools));
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..151));
}

/// A tier fails in a commit through a log: nobody takes it for the newest state later.
#[test]
fn a_tier_that_failed_in_a_commit_counts_as_behind() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = Database::create(&db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..150)]).unwrap();
    // The directory's file cannot be written: what is acknowledged now is the last before it can.
    let blocked = db.join("database.new");
    std::fs::create_dir(&blocked).unwrap();
    Injector::new(1).refuse_writes(&database.pools()[1]);
    table.append(&[rows(150..151)]).unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    let error = table.append(&[rows(151..152)]).unwrap_err();
    assert!(error.to_string().contains("database"), "{error}");
    std::fs::remove_dir(&blocked).unwrap();
    table.append(&[rows(151..152)]).unwrap();
    drop((table, database));
    let away = dir.path().join("away");
    std::fs::rename(db.join("far.pool"), &away).unwrap();
    let degraded = DatabaseOptions {
        degraded: true,
        ..options()
    };
    let error = Database::open(&db, &degraded).unwrap_err();
    assert!(error.to_string().contains("newest"), "{error}");
    std::fs::rename(&away, db.join("far.pool")).unwrap();
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..152));
}

/// The other tier has the manifest, but not the rows: they would be lost with the one that has failed.
#[test]
fn rows_that_only_a_failed_tier_has_are_not_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = Database::create(&db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let alone = Replicas::of_table(["b"]);
    let table = database.create_table_in(spec("t", vec![0]), alone).unwrap();
    table.append(&[rows(0..150)]).unwrap();
    let mut loader = table.loader();
    loader.push(rows(150..ROWS)).unwrap();
    let load = loader.into_load().unwrap();
    let change = BulkChange {
        table: table.clone(),
        deleted: SeenRows::default(),
        load: Some(load),
    };
    let commit = BulkCommit {
        changes: vec![change],
    };
    Injector::new(1).refuse_writes(&database.pools()[1]);
    let committed = table
        .requests()
        .ask(|reply| Request::Bulk { commit, reply })
        .unwrap();
    let error = committed.unwrap_err();
    assert!(error.to_string().contains("b.pool"), "{error}");
    assert_eq!(database.missing_tiers()[0].0, "b");
    assert_eq!(table.snapshot().rows(), 150);
    // What lies elsewhere goes on.
    let other = database.create_table(spec("u", vec![0])).unwrap();
    other.append(&[rows(0..10)]).unwrap();
    drop((table, other, database));
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..150));
    assert_eq!(all_rows(&database.table("u").unwrap()), rows(0..10));
}

const ROWS: i64 = 5000;

/// A database whose column `id` has these replicas. It is opened anew, so that nothing is verified yet, and nothing is near.
fn opened(db: &Path, of_id: [&str; 2]) -> Arc<Database> {
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..options()
    };
    let database = Database::create(db, &options).unwrap();
    if of_id.iter().any(|tier| tier.starts_with("b/")) {
        database.add_tier("b", &db.join("b.pool")).unwrap();
    }
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: [("id".to_owned(), of_id.map(str::to_owned).to_vec())].into(),
    };
    let table = database.create_table_in(spec("t", vec![0]), replicas);
    let table = table.unwrap();
    table.append(&[rows(0..ROWS)]).unwrap();
    table.seal().unwrap();
    database.wait_for_near_copies().unwrap();
    drop((table, database));
    Database::open(db, &options).unwrap()
}

fn read_encoding(table: &Table) -> Encoding {
    let current = table.current();
    current.segments[0].encoding(0).unwrap()
}

/// Spoils all blocks of a replica of `id` and returns its pool.
fn spoil(table: &Table, number: usize) -> Arc<Pool> {
    let segment = table.current().segments[0].clone();
    let replica = ReplicaNumber { column: 0, number };
    let place = segment.entry().replica(replica);
    let extent = segment.extents()[place.extent as usize].clone().unwrap();
    let (copy, len) = (extent.read(), place.len_bytes as usize);
    let file = std::fs::File::options()
        .write(true)
        .open(copy.pool().path());
    let at = copy.extent().offset + place.offset;
    file.unwrap().write_all_at(&vec![0x77; len], at).unwrap();
    copy.pool().clone()
}

#[test]
fn damage_where_nothing_can_be_written_is_read_past() {
    for of_id in [["far/delta", "b/static"], ["far/delta", "far/static"]] {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("db");
        let database = opened(&db, of_id);
        let table = database.table("t").unwrap();
        assert_eq!(read_encoding(&table), Encoding::Static);
        let before = table.current().segments[0].clone();
        let pool = spoil(&table, 1);
        Injector::new(1).refuse_writes(&pool);
        // The query that finds the damage is answered, and later ones read the other replica.
        assert_eq!(all_rows(&table), rows(0..ROWS), "{of_id:?}");
        database.wait_for_near_copies().unwrap();
        assert_eq!(read_encoding(&table), Encoding::Delta, "{of_id:?}");
        assert_eq!(all_rows(&table), rows(0..ROWS));
        let (faults, totals) = database.faults();
        assert!(totals.found > 0 && totals.lost == 0, "{faults:?}");
        // It is right in memory alone: nothing may be given up for it.
        let replica = ReplicaNumber {
            column: 0,
            number: 1,
        };
        let error = before.verify_replica(table.spec(), replica).unwrap_err();
        assert!(error.to_string().contains("in memory alone"), "{error}");
        drop((before, table, database, pool));
        let database = Database::open(&db, &options()).unwrap();
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..ROWS));
    }
}

#[test]
fn a_tier_that_fails_is_left_for_replicas_in_other_encodings() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = opened(&db, ["far/delta", "b/static"]);
    let table = database.table("t").unwrap();
    let snapshot = table.snapshot();
    Injector::new(1).refuse_writes(&database.pools()[1]);
    table.append(&[rows(ROWS..ROWS + 1)]).unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    assert_eq!(read_encoding(&table), Encoding::Delta);
    // Nothing of what is there is read any more.
    spoil(&table, 1);
    assert_eq!(all_rows(&table), rows(0..ROWS + 1));
    assert_eq!(database.faults().1.lost, 0);
    drop(snapshot);
    drop((table, database));
    let database = Database::open(&db, &options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(all_rows(&table), rows(0..ROWS + 1));
    database.wait_for_near_copies().unwrap();
    let copies = database.copies().unwrap();
    assert!(copies.iter().all(|copy| copy.is_complete), "{copies:?}");
}

/// What it has is still mapped, and is opened as well when a placement opens the segment.
#[test]
fn a_tier_that_was_left_is_not_read_in_what_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = opened(&db, ["far/delta", "b/static"]);
    let table = database.table("t").unwrap();
    Injector::new(1).refuse_writes(&database.pools()[1]);
    table.append(&[rows(ROWS..ROWS + 1)]).unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    let segment = table.current().segments[0].clone();
    let (entry, extents) = (segment.entry().clone(), segment.extents().to_vec());
    let opened = segment.with_replicas(entry, extents, table.spec()).unwrap();
    assert_eq!(opened.tier(0), Some("b"));
    let costs = TierCosts::now(table.storage());
    let elsewhere = costs.read_elsewhere(&table, &opened).unwrap().unwrap();
    assert_eq!(elsewhere.tier(0), Some("far"));
    let none = costs.read_elsewhere(&table, &elsewhere).unwrap();
    assert!(none.is_none());
}

/// The publication of an index finds out that the tier is lost: the version that it makes is one of before that.
#[test]
fn a_tier_that_fails_in_a_publication_is_left_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..options()
    };
    let database = Database::create(&db, &options).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let mut indexed = spec("t", Vec::new());
    indexed.columns[CITY].encoding = Some(Encoding::Dictionary);
    indexed.columns[CITY].index = Some(IndexKind::Inverted);
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: [(
            "id".to_owned(),
            vec!["far/delta".to_owned(), "b/static".to_owned()],
        )]
        .into(),
    };
    let table = database.create_table_in(indexed, replicas).unwrap();
    let storage = table.shared_storage();
    let held = storage.held_by_test.lock().unwrap();
    table.append(&[rows(0..ROWS)]).unwrap();
    table.seal().unwrap();
    assert_eq!(read_encoding(&table), Encoding::Static);
    Injector::new(1).refuse_writes(&database.pools()[1]);
    drop(held);
    database.wait_for_near_copies().unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    assert_eq!(table.snapshot().indexed_rows(CITY), ROWS as u64);
    assert_eq!(read_encoding(&table), Encoding::Delta);
    assert_eq!(all_rows(&table), rows(0..ROWS));
}
