//! No symbolic link is followed where the database writes, and what it makes is its owner's alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{all_rows, options, rows, spec};
use tierra_engine::{Database, OpenError};

#[test]
fn no_link_leads_a_write_to_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let (db, mine) = (dir.path().join("db"), dir.path().join("mine"));
    let database = Database::create(&db, &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    table.append(&[rows(0..10)]).unwrap();
    drop((table, database));
    fs::write(&mine, "not the database's").unwrap();
    let all = [
        "LOCK",
        "LOCK.new",
        "database",
        "database.new",
        "database.copy",
        "database.copy.new",
        "scrub",
        "scrub.new",
        "calibration.new",
        "replication.new",
    ];
    for name in all {
        let path = db.join(name);
        let before = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        symlink(&mine, &path).unwrap();
        match Database::open(&db, &options()) {
            Ok(database) => {
                database.add_tier("b", &db.join("b.pool")).unwrap();
                database.drop_tier("b").unwrap();
                drop(database);
                fs::remove_file(db.join("b.pool")).unwrap();
            }
            Err(error) => {
                assert!(matches!(error, OpenError::Link { .. }), "{name}: {error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        assert_eq!(fs::read(&mine).unwrap(), b"not the database's", "{name}");
        let _ = fs::remove_file(&path);
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
    }
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..10));
    // A new pool goes where nothing is.
    symlink(&mine, dir.path().join("link")).unwrap();
    database
        .add_tier("b", &dir.path().join("link"))
        .unwrap_err();
    symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
    database
        .add_tier("b", &dir.path().join("dangling"))
        .unwrap_err();
    assert!(!dir.path().join("nowhere").exists());
    assert_eq!(fs::read(&mine).unwrap(), b"not the database's");
}

#[test]
fn files_are_their_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = Database::create(&db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    drop(database);
    let mut names = Vec::new();
    for entry in fs::read_dir(&db).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    let expected = ["LOCK", "b.pool", "database", "database.copy", "far.pool"];
    assert_eq!(names, expected);
}
