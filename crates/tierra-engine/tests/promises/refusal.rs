//! A directory that cannot be opened is refused with the reason, and left as it was found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{self, all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, OpenError};

/// Every file below `dir` and its bytes.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| (file.clone(), fs::read(file).unwrap()))
        .collect()
}

fn create(dir: &Path) {
    let database = Database::create(dir, &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    table.append(&[rows(0..100)]).unwrap();
    table.seal().unwrap();
    table.append(&[rows(100..200)]).unwrap();
}

fn refused(dir: &Path) -> OpenError {
    let before = content(dir);
    let error = Database::open(dir, &options()).unwrap_err();
    assert_eq!(content(dir), before, "nothing was touched");
    error
}

#[test]
fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = Database::open(&missing, &options()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!missing.exists());
    let error = refused(dir.path());
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    fs::write(dir.path().join("a file"), "of somebody else").unwrap();
    let error = Database::create(dir.path(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::Exists { .. }), "{error}");
    let file = dir.path().join("a file");
    assert!(matches!(
        Database::open(&file, &options()).unwrap_err(),
        OpenError::NotADatabase { .. }
    ));
    fs::write(dir.path().join("far.pool"), "not a pool").unwrap();
    fs::write(dir.path().join("LOCK"), "").unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
}

#[test]
fn a_database_is_open_in_one_place_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    create(&dir);
    let database = Database::open(&dir, &options()).unwrap();
    let error = refused(&dir);
    let told = error.to_string();
    assert!(matches!(error, OpenError::Locked { .. }), "{told}");
    assert!(told.contains(&std::process::id().to_string()), "{told}");

    // Another process hears the same.
    let this = std::env::current_exe().unwrap();
    let mut other = Command::new(this);
    other.args([
        "--exact",
        "refusal::open_from_another_process",
        "--ignored",
        "--nocapture",
    ]);
    let output = other.env("TIERRA_TEST_DIR", &dir).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains(&format!("process id {}", std::process::id())),
        "{told}"
    );

    // A snapshot that is still read keeps the others out.
    let snapshot = database.table("t").unwrap().snapshot();
    drop(database);
    assert!(matches!(refused(&dir), OpenError::Locked { .. }));
    drop(snapshot);
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..200));
}

#[test]
#[ignore = "the other process of `a_database_is_open_in_one_place_at_a_time`"]
fn open_from_another_process() {
    let dir = std::env::var_os("TIERRA_TEST_DIR").unwrap();
    println!(
        "{}",
        Database::open(Path::new(&dir), &options()).unwrap_err()
    );
}

#[test]
fn a_truncated_pool_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    create(&dir);
    let pool = dir.join("far.pool");
    let whole = fs::read(&pool).unwrap();
    for len in [0, 1, 4_096, whole.len() / 2, whole.len() - 1] {
        fs::write(&pool, &whole[..len]).unwrap();
        let error = refused(&dir);
        assert!(matches!(error, OpenError::Pool(_)), "{len} bytes: {error}");
    }
    fs::write(&pool, &whole).unwrap();
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..200));
}

#[test]
fn a_damaged_byte_is_refused_or_reported_but_never_believed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    create(&dir);
    let pool = dir.join("far.pool");
    let whole = fs::read(&pool).unwrap();
    let places = |magic: &[u8]| {
        let starts = whole.windows(magic.len()).enumerate();
        starts
            .filter(|(_, bytes)| *bytes == magic)
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let open_with = |at: usize| {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&pool, &damaged).unwrap();
        Database::open(&dir, &options())
    };
    // The newest manifest: its body begins with its number.
    let number = |at: &usize| u64::from_le_bytes(whole[at + 24..at + 32].try_into().unwrap());
    let manifest = places(b"TIERRAMF").into_iter().max_by_key(number).unwrap();
    assert!(matches!(
        open_with(manifest + 40).unwrap_err(),
        OpenError::Unreadable { .. }
    ));
    // A chunk's descriptor is checked when its segment is opened, its blocks when they are first read: either costs the rows
    // that lie there, and nothing else.
    let chunk = *places(b"TCHK").last().unwrap();
    let block = chunk + 128 + 64;
    for at in [chunk + 12, block] {
        let database = open_with(at).unwrap();
        let snapshot = database.table("t").unwrap().snapshot();
        let projection: Vec<usize> = (0..10).collect();
        let spec = tierra_engine::ScanSpec {
            projection,
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        };
        let error = snapshot.scan(spec).cursor().next(&[], 0).unwrap_err();
        assert!(error.to_string().contains("segment"), "{error}");
    }
    // One of another format is no damage, but withholds its table all the same.
    let database = open_with(chunk + 4).unwrap();
    let error = database.table("t").unwrap().check_available().unwrap_err();
    assert!(error.to_string().contains("format version"), "{error}");
    drop(database);
    fs::write(&pool, &whole).unwrap();
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..200));
}

#[test]
fn the_pool_may_lie_elsewhere_and_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (home, pool) = (dir.path().join("db"), dir.path().join("elsewhere.pool"));
    let options = DatabaseOptions {
        pool_path: Some(pool.clone()),
        ..options()
    };
    let database = Database::create(&home, &options).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    table.append(&[rows(0..10)]).unwrap();
    drop((table, database));
    assert!(pool.exists() && !home.join("far.pool").exists());
    let database = Database::open_or_create(&home, &support::options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..10));
    drop(database);
    let taken = Database::create(&dir.path().join("other"), &options).unwrap_err();
    assert!(matches!(taken, OpenError::Pool(_)), "{taken}");
    assert!(!dir.path().join("other").exists(), "nothing is left behind");
}
