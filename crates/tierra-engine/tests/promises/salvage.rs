//! Promise: what can be read of a damaged database is copied into a new one, what cannot is listed, and nothing is written to the
//! damaged one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{CITY, all_rows, options, rows, spec};
use arrow::array::{Array, RecordBatch};
use tierra_column::Encoding;
use tierra_engine::{
    Database, DatabaseOptions, OpenError, SalvageError, SalvageReport, SalvagedTable, Table,
};

/// `log`, `dictionary` and `block` are to be damaged, `whole` is not; each has rows 0 to 3,000, of which the last 60 are in the tail.
fn write(dir: &Path) {
    let database = Database::create(dir, &options()).unwrap();
    for name in ["log", "dictionary", "block", "whole"] {
        let mut of_table = spec(name, vec![0]);
        of_table.columns[CITY].encoding = Some(match name {
            "dictionary" => Encoding::Dictionary,
            _ => Encoding::Plain,
        });
        let table = database.create_table(of_table).unwrap();
        table.append(&[rows(0..2940)]).unwrap();
        table.seal().unwrap();
        // As many as tell the records of one table from those of another.
        match name {
            "log" => (2940..3000).step_by(20).for_each(|start| {
                table.append(&[rows(start..start + 20)]).unwrap();
            }),
            _ => drop(table.append(&[rows(2940..3000)]).unwrap()),
        }
    }
    database.wait_for_near_copies().unwrap();
}

/// Where lines begin so.
fn starts(pool: &[u8], begins: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    let lines = (16_384..pool.len()).step_by(64);
    lines.filter(|at| begins(&pool[*at..])).collect()
}

fn damage(dir: &Path) {
    let path = dir.join("far.pool");
    let mut pool = fs::read(&path).unwrap();
    let flip = |pool: &mut Vec<u8>, places: Vec<usize>, behind: usize| {
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| pool[at + behind] ^= 0x10);
    };
    // Record 2 of `log`, the second of three.
    let second = starts(&pool, |bytes| {
        bytes.starts_with(b"TLOG") && bytes[12] == 20 && bytes[16] == 2
    });
    flip(&mut pool, second, 90);
    // Of strings of which there are 200: the cities of `dictionary`.
    let images = starts(&pool, |bytes| {
        bytes.starts_with(b"TDIC") && bytes[6] == 1 && bytes[24] == 200
    });
    flip(&mut pool, images, 60);
    // Block 1 of the BIGINT column of `block`, whose number is 2: of its segments' extents, which have owner kind 3.
    let owner = (3_u64 << 56 | 2).to_le_bytes();
    let extent = starts(&pool, |bytes| {
        bytes.starts_with(b"TIERRAEX") && bytes[8..16] == owner
    })[0];
    let chunks = starts(&pool, |bytes| bytes.starts_with(b"TCHK") && bytes[5] == 3);
    let chunk = { chunks }.into_iter().find(|at| *at > extent).unwrap();
    let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap()) as usize;
    let entry = chunk + 128 + 32;
    let lines = u32::from_le_bytes(pool[entry + 20..entry + 24].try_into().unwrap()) as usize;
    let block = chunk + u64_at(chunk + 40) + 64 * lines;
    pool[block + 5] ^= 1;
    fs::write(path, pool).unwrap();
}

fn salvage(from: &Path, to: &Path) -> (Arc<Database>, SalvageReport) {
    let read_only = DatabaseOptions {
        read_only: true,
        degraded: true,
        ..options()
    };
    let before = files(from);
    let damaged = Database::open(from, &read_only).unwrap();
    let mut told = Vec::new();
    let report = tierra_engine::salvage(&damaged, to, &options(), |table| told.push(table.clone()));
    let report = report.unwrap();
    assert_eq!(told, report.tables);
    let new = Database::open(to, &options()).unwrap();
    drop(damaged);
    assert!(files(from) == before, "the damaged database was changed");
    (new, report)
}

/// The files of a directory with their bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn ids(table: &Arc<Table>) -> Vec<i64> {
    use arrow::array::AsArray;
    let all: RecordBatch = all_rows(table);
    all.column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn what_can_be_read_is_copied_and_what_cannot_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(&from);
    damage(&from);
    let (new, report) = salvage(&from, &to);
    assert!(!report.is_complete());
    let of = |name: &str| -> &SalvagedTable {
        report
            .tables
            .iter()
            .find(|table| table.table == name)
            .unwrap()
    };
    let says = |name: &str, what: &[&str]| {
        let problems = of(name).problems.join("; ");
        what.iter()
            .for_each(|what| assert!(problems.contains(what), "{what}: {problems}"));
    };
    assert_eq!(
        (of("whole").rows, &of("whole").problems[..]),
        (3000, &[][..])
    );
    assert_eq!(all_rows(&new.table("whole").unwrap()), rows(0..3000));

    assert_eq!(of("log").rows, 2980);
    says(
        "log",
        &[
            "record 2 of its log",
            "of 3 records, 1 before it and 1 behind it",
        ],
    );
    let expected: Vec<i64> = (0..2960).chain(2980..3000).collect();
    assert_eq!(ids(&new.table("log").unwrap()), expected);

    assert_eq!(of("dictionary").rows, 3000);
    says(
        "dictionary",
        &[
            "the dictionary of column \"city\"",
            "column \"city\" is NULL in 2940 rows",
        ],
    );
    let table = new.table("dictionary").unwrap();
    assert_eq!(ids(&table), (0..3000).collect::<Vec<_>>());
    assert_eq!(all_rows(&table).column(CITY).null_count(), 2940);

    assert_eq!(of("block").rows, 3000 - 1024);
    says(
        "block",
        &["rows 1024 to 2047 of segment 0 are lost: column \"id\""],
    );
    let expected: Vec<i64> = (0..1024).chain(2048..3000).collect();
    assert_eq!(ids(&new.table("block").unwrap()), expected);
    // It is a database like any other.
    drop((table, new));
    let new = Database::open(&to, &options()).unwrap();
    assert_eq!(new.unavailable(), []);
}

#[test]
fn what_is_whole_is_copied_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(&from);
    let (new, report) = salvage(&from, &to);
    assert!(report.is_complete(), "{report:?}");
    for name in ["log", "dictionary", "block", "whole"] {
        assert_eq!(all_rows(&new.table(name).unwrap()), rows(0..3000));
    }
}

#[test]
fn a_salvage_that_was_interrupted_opens_nowhere_and_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(&from);
    let read_only = DatabaseOptions {
        read_only: true,
        ..options()
    };
    let source = Database::open(&from, &read_only).unwrap();
    let salvage = |stops: bool| {
        let stop = |_: &SalvagedTable| assert!(!stops, "killed after the first table");
        tierra_engine::salvage(&source, &to, &options(), stop).map_err(Box::new)
    };
    let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| salvage(true)));
    assert!(interrupted.is_err());
    for opened in [
        Database::open(&to, &options()),
        Database::create(&to, &options()),
        Database::open_or_create(&to, &options()),
    ] {
        let error = opened.unwrap_err();
        assert!(matches!(error, OpenError::Salvaging { .. }), "{error}");
    }
    assert!(salvage(false).unwrap().is_complete());
    let refused = salvage(false).unwrap_err();
    assert!(matches!(
        *refused,
        SalvageError::Open(OpenError::Exists { .. })
    ));
    let salvaged = Database::open(&to, &options()).unwrap();
    assert_eq!(salvaged.tables(), source.tables());
}
