//! The promise of DROP TABLE: what the table took is the file system's again, other tables stay as they are, and the space is
//! used again where it is needed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{self, all_rows, options, rows, spec};
use tierra_engine::{Database, Table};

/// A table of some megabytes.
const ROWS: i64 = 200_000;

fn blocks(dir: &Path) -> u64 {
    fs::metadata(dir.join("far.pool")).unwrap().blocks() * 512
}

fn load(table: &std::sync::Arc<Table>, ids: std::ops::Range<i64>) {
    let mut loader = table.loader();
    for first in ids.clone().step_by(10_000) {
        loader
            .push(rows(first..ids.end.min(first + 10_000)))
            .unwrap();
    }
    loader.finish().unwrap();
}

/// A snapshot reads on behind DROP TABLE. Once the last one is gone so is what it held.
#[test]
fn a_snapshot_of_a_dropped_table_gives_its_space_back_when_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let before = blocks(&dir);
    let dropped = database.create_table(spec("dropped", vec![0])).unwrap();
    load(&dropped, 0..ROWS);
    database.wait_for_near_copies().unwrap();
    let full = blocks(&dir);
    let (one, two) = (dropped.snapshot(), dropped.snapshot());
    drop(dropped);
    database.drop_table("dropped").unwrap();
    drop(two);
    database.wait_for_near_copies().unwrap();
    assert_eq!(one.rows(), ROWS as u64);
    let held = blocks(&dir);
    assert!(
        held > before + (4 << 20),
        "{held} of {full}, {before} before"
    );
    let found = support::scan(&one, &[0], &[]).0;
    assert_eq!(found.num_rows() as i64, ROWS);
    drop(one);
    // Behind what the last holder asked for.
    database.wait_for_near_copies().unwrap();
    let after = blocks(&dir);
    // Where the file system takes nothing back, nothing is promised.
    database.create_table(spec("other", vec![0])).unwrap();
    database.drop_table("other").unwrap();
    let takes_back = blocks(&dir) + (4 << 20) < full;
    assert!(
        !takes_back || after < before + (2 << 20),
        "{after} of {full}, {before} before"
    );
}

#[test]
fn a_dropped_table_gives_its_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let kept = database.create_table(spec("kept", vec![0])).unwrap();
    load(&kept, 0..50_000);
    database.wait_for_near_copies().unwrap();
    let before = blocks(&dir);
    let dropped = database.create_table(spec("dropped", vec![0])).unwrap();
    load(&dropped, 0..ROWS);
    drop(dropped);
    database.wait_for_near_copies().unwrap();
    let full = blocks(&dir);
    assert!(full > before + (4 << 20), "{full} after {before}");
    database.drop_table("dropped").unwrap();
    let after = blocks(&dir);
    // Where the file system takes nothing back, nothing is promised.
    let takes_back = after < full;
    if takes_back {
        assert!(
            after < before + (2 << 20),
            "{after} of {full}, {before} before"
        );
    }
    let is_whole = |database: &Database| {
        let kept = database.table("kept").unwrap();
        all_rows(&kept) == rows(0..50_000)
    };
    assert!(is_whole(&database));
    // Opened again, the space is had anew as it is used, and nothing else is.
    drop((kept, database));
    let database = Database::open(&dir, &options()).unwrap();
    let again = database.create_table(spec("again", vec![0])).unwrap();
    if takes_back {
        assert!(
            blocks(&dir) < after + (2 << 20),
            "{} of {full}",
            blocks(&dir)
        );
    }
    load(&again, 0..ROWS);
    assert_eq!(all_rows(&again), rows(0..ROWS));
    assert!(is_whole(&database));
}
