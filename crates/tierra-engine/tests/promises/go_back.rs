//! Promise: where the newest version of a database is lost the one before is there, if it is asked for by its number: with what was
//! committed up to then, and nothing of what came later.

use std::fs;
use std::path::Path;

use crate::support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, OpenError};

/// `t` with 6 rows, `u`, and then 3 rows more: the last two records follow the publication that made `u`. As a killed process leaves
/// it, which published nothing at its end.
fn write(dir: &Path) {
    let running = dir.with_extension("running");
    let database = Database::create(&running, &options()).unwrap();
    let t = database.create_table(spec("t", vec![0])).unwrap();
    t.append(&[rows(0..3)]).unwrap();
    t.append(&[rows(3..6)]).unwrap();
    database.create_table(spec("u", vec![0])).unwrap();
    t.append(&[rows(6..8)]).unwrap();
    t.append(&[rows(8..9)]).unwrap();
    fs::create_dir(dir).unwrap();
    for name in ["database", "database.copy", "far.pool"] {
        fs::copy(running.join(name), dir.join(name)).unwrap();
    }
}

/// The version of the newest manifest in a pool.
fn newest(dir: &Path) -> u64 {
    let pool = fs::read(dir.join("far.pool")).unwrap();
    let lines = pool.chunks(64).filter(|line| line.starts_with(b"TIERRAMF"));
    // The first field of the body.
    let versions = lines.map(|line| u64::from_le_bytes(line[24..32].try_into().unwrap()));
    versions.max().unwrap()
}

#[test]
fn what_came_later_is_given_up_on_purpose_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    write(&db);
    let version = newest(&db) - 1;
    let to = |read_only| DatabaseOptions {
        to_version: Some(version),
        read_only,
        ..options()
    };
    let before = fs::read(db.join("far.pool")).unwrap();
    let database = Database::open(&db, &to(true)).unwrap();
    assert_eq!(database.given_up(), [("t".to_owned(), 2)]);
    assert_eq!(database.tables(), ["t"]);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..6));
    drop(database);
    assert!(fs::read(db.join("far.pool")).unwrap() == before);
    let none = DatabaseOptions {
        to_version: Some(version - 1),
        ..options()
    };
    let error = Database::open(&db, &none).unwrap_err();
    assert!(matches!(error, OpenError::Pool(_)), "{error}");

    let database = Database::open(&db, &to(false)).unwrap();
    assert_eq!(database.given_up(), [("t".to_owned(), 2)]);
    drop(database);
    for opening in 0..3 {
        let database = Database::open(&db, &options()).unwrap();
        assert_eq!(database.unavailable(), []);
        assert_eq!(database.tables(), ["t"]);
        let t = database.table("t").unwrap();
        assert_eq!(all_rows(&t), rows(0..6 + opening));
        t.append(&[rows(6 + opening..7 + opening)]).unwrap();
    }
}

/// The newest manifest is damaged: the error names its version, and the one before, which is all there after a close.
#[test]
fn the_way_back_is_told_where_the_newest_manifest_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    write(&db);
    drop(Database::open(&db, &options()).unwrap());
    let version = newest(&db);
    let path = db.join("far.pool");
    let mut pool = fs::read(&path).unwrap();
    let is_newest = |at: &usize| {
        pool[*at..].starts_with(b"TIERRAMF") && pool[at + 24..at + 32] == version.to_le_bytes()
    };
    let at = (0..pool.len()).step_by(64).find(is_newest).unwrap();
    pool[at + 40] ^= 4;
    fs::write(&path, pool).unwrap();
    let error = Database::open(&db, &options()).unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
    let before = version - 1;
    for part in [
        format!("version {version}, cannot be read: "),
        format!("go back to version {before},"),
        format!("tierra repair --db {} --to-version {before}", db.display()),
    ] {
        let error = error.to_string();
        assert!(error.contains(&part), "{part} is not in {error}");
    }
    let back = DatabaseOptions {
        to_version: Some(before),
        ..options()
    };
    let database = Database::open(&db, &back).unwrap();
    assert_eq!(database.given_up(), []);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..9));
    drop(database);
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.tables(), ["t", "u"]);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..9));
}
