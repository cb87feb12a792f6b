//! A bitmap of deleted rows that is damaged is read from another copy, and repaired. If no copy has it, its table is unavailable:
//! its rows never come back.

use std::path::Path;

use tierra_engine::{Database, DatabaseOptions, Replicas, ScrubOptions, salvage};

use crate::changed::{Model, batch, check, commit, spec};
use crate::support::options;

/// A table with two sealed segments, some rows of the first of which are deleted by a bitmap, and some by the log.
fn create(dir: &Path, tiers: &[&str]) -> Model {
    let database = Database::create(dir, &options()).unwrap();
    for tier in &tiers[1..] {
        let path = dir.join(format!("{tier}.pool"));
        database.add_tier(tier, &path).unwrap();
    }
    let replicas = Replicas::of_table(tiers.iter().copied());
    let table = database.create_table_in(spec("t", true), replicas).unwrap();
    let rows: Vec<(i64, i64)> = (0..2000).map(|key| (key, 0)).collect();
    table.append(&[batch(&rows)]).unwrap();
    table.seal().unwrap();
    commit(&database, &table, &[1, 7, 1500], &[(3000, 0)]).unwrap();
    table.seal().unwrap();
    commit(&database, &table, &[2], &[(4000, 0)]).unwrap();
    let mut model: Model = rows.into_iter().chain([(3000, 0), (4000, 0)]).collect();
    model.retain(|key, _| ![1, 2, 7, 1500].contains(key));
    check(&table.snapshot(), &model, &[], &[]);
    model
}

/// Changes a byte of every bitmap in a pool's file; returns how many there are.
fn harm(pool: &Path) -> usize {
    let mut bytes = std::fs::read(pool).unwrap();
    let is_bitmap = |at: &usize| bytes[*at..].starts_with(b"TDEL\x01\0\0\0");
    let found: Vec<usize> = (0..bytes.len()).step_by(64).filter(is_bitmap).collect();
    found.iter().for_each(|at| bytes[at + 33] ^= 4);
    std::fs::write(pool, bytes).unwrap();
    found.len()
}

#[test]
fn a_damaged_bitmap_is_read_from_another_copy() {
    for harmed in ["far.pool", "b.pool"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let model = create(&path, &["far", "b"]);
        assert!(harm(&path.join(harmed)) > 0);
        let database = Database::open(&path, &options()).unwrap();
        check(&database.table("t").unwrap().snapshot(), &model, &[], &[]);
        let report = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(report.lost, []);
        let verify = ScrubOptions {
            only_verify: true,
            ..ScrubOptions::default()
        };
        let report = database.scrub(&verify, |_| {}).unwrap();
        assert_eq!(report.damaged_copies, 0, "{harmed}");
    }
}

/// While the database is open, the bitmap is in near memory, too.
#[test]
fn damage_is_found_by_verifying() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    create(&path, &["far"]);
    harm(&path.join("far.pool"));
    let read_only = DatabaseOptions {
        read_only: true,
        ..options()
    };
    let database = Database::open(&path, &read_only).unwrap();
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let report = database.scrub(&verify, |_| {}).unwrap();
    assert_eq!(report.damaged_copies, 1);
}

#[test]
fn a_lost_bitmap_makes_its_table_unavailable_and_the_rest_is_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut model = create(&path, &["far"]);
    assert!(harm(&path.join("far.pool")) > 0);
    let database = Database::open(&path, &options()).unwrap();
    let why = database.unavailable();
    assert!(
        why[0]
            .to_string()
            .contains("which rows of segment 0 are deleted is lost"),
        "{why:?}"
    );
    let table = database.table("t").unwrap();
    assert!(table.check_available().is_err());
    assert!(table.append(&[batch(&[(9999, 0)])]).is_err());
    drop(table);
    database.close();
    drop(database);
    let read_only = DatabaseOptions {
        read_only: true,
        ..options()
    };
    let from = Database::open(&path, &read_only).unwrap();
    let saved = dir.path().join("saved");
    let report = salvage(&from, &saved, &options(), |_| {}).unwrap();
    let to = Database::open(&saved, &options()).unwrap();
    assert!(!report.is_complete());
    model.retain(|key, _| *key >= 3000);
    check(&to.table("t").unwrap().snapshot(), &model, &[], &[]);
}
