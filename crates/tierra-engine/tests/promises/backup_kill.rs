//! A process that is killed while it writes or restores a backup leaves the database, and the backup, as they were: no file that is
//! half a backup has a backup's name, and no directory that is half a database opens as one. A power cut in a restore leaves no more.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tierra_engine::{
    Backup, BackupOptions, Compression, Database, OpenError, Replicas, RestoreOptions,
};
use tierra_memory::faults::Stop;
use tierra_memory::simulation::{Image, Limits, Recorder};

use crate::simulated::{self, Images, RECORDERS, SECOND, State, assert_kept};
use crate::support::{all_rows, options, rows, spec};

const ROWS: i64 = 90_000;
const RUNS: u64 = 12;
/// Files that a child writes before it just waits: should it be killed late, it has not filled the memory that they lie in.
const MOST: usize = 60;

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .unwrap()
}

/// A database in two tiers, with sealed rows and a tail.
fn make(dir: &Path) {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    database.add_tier("b", &dir.join("db/b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..ROWS - 100)]).unwrap();
    table.append(&[rows(ROWS - 100..ROWS)]).unwrap();
}

/// Runs the child that does `work` again and again, and kills it some time after it has begun.
fn kill(dir: &Path, work: &str, run: u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backup_kill::work", "--ignored", "--nocapture"])
        .env("TIERRA_TEST_DIR", dir)
        .env("TIERRA_TEST_WORK", work)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begun")));
    std::thread::sleep(Duration::from_micros(run * 7919 % 60_000));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it ended by itself");
}

#[test]
#[ignore = "the child of the others"]
fn work() {
    let variable = |name| std::env::var(name).unwrap();
    let dir = variable("TIERRA_TEST_DIR");
    let dir = Path::new(&dir);
    let tell = || {
        let mut out = std::io::stdout();
        let _ = out.write_all(b"begun\n").and_then(|()| out.flush());
    };
    if variable("TIERRA_TEST_WORK") == "backup" {
        let database = Database::open(&dir.join("db"), &options()).unwrap();
        tell();
        for number in 0..MOST {
            let how = BackupOptions {
                compression: [Compression::None, Compression::Zstd][number % 2],
                ..BackupOptions::default()
            };
            let file = dir.join(format!("backup-{number}"));
            database.backup(&file, &how, |_| {}).unwrap();
        }
        std::thread::sleep(Duration::from_secs(600));
    }
    let backup = Backup::open(&dir.join("backup")).unwrap();
    tell();
    for number in 0..MOST {
        let copy = dir.join(format!("copy-{number}"));
        let how = RestoreOptions {
            pools: vec![("b".to_owned(), dir.join(format!("pool-{number}")))],
            ..RestoreOptions::default()
        };
        backup.restore(&copy, &options(), &how, |_| {}).unwrap();
    }
    std::thread::sleep(Duration::from_secs(600));
}

fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn killed_while_backups_are_written() {
    let (mut whole, mut half) = (0, 0);
    for run in 1..=RUNS {
        let dir = folder();
        make(dir.path());
        kill(dir.path(), "backup", run);
        for name in names(dir.path(), "backup-") {
            if name.ends_with(".partial") {
                half += 1;
                continue;
            }
            whole += 1;
            let backup = Backup::open(&dir.path().join(&name)).unwrap();
            backup.check(&Stop::default(), |_| {}).unwrap();
            assert_eq!(backup.summary().rows, ROWS as u64);
        }
        let database = Database::open(&dir.path().join("db"), &options()).unwrap();
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..ROWS));
        // What was left is in nobody's way.
        for name in names(dir.path(), "backup-") {
            if let Some(name) = name.strip_suffix(".partial") {
                let file = dir.path().join(name);
                database
                    .backup(&file, &BackupOptions::default(), |_| {})
                    .unwrap();
                Backup::open(&file)
                    .unwrap()
                    .check(&Stop::default(), |_| {})
                    .unwrap();
            }
        }
        assert!(
            names(dir.path(), "backup-")
                .iter()
                .all(|name| !name.ends_with(".partial"))
        );
    }
    println!("{whole} whole, {half} half");
    assert!(half > 0);
}

#[test]
fn killed_while_backups_are_restored() {
    let (mut whole, mut half) = (0, 0);
    for run in 1..=RUNS {
        let dir = folder();
        make(dir.path());
        let database = Database::open(&dir.path().join("db"), &options()).unwrap();
        let file = dir.path().join("backup");
        database
            .backup(&file, &BackupOptions::default(), |_| {})
            .unwrap();
        drop(database);
        kill(dir.path(), "restore", run);
        let backup = Backup::open(&file).unwrap();
        backup.check(&Stop::default(), |_| {}).unwrap();
        for name in names(dir.path(), "copy-") {
            let copy = dir.path().join(&name);
            match Database::open(&copy, &options()) {
                Ok(database) => {
                    whole += 1;
                    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..ROWS));
                    continue;
                }
                Err(OpenError::Restoring { .. } | OpenError::NotADatabase { .. }) => half += 1,
                Err(error) => panic!("{error}"),
            }
            let number = name.strip_prefix("copy-").unwrap();
            let how = RestoreOptions {
                pools: vec![("b".to_owned(), dir.path().join(format!("pool-{number}")))],
                ..RestoreOptions::default()
            };
            backup.restore(&copy, &options(), &how, |_| {}).unwrap();
            let database = Database::open(&copy, &options()).unwrap();
            assert_eq!(database.missing_tiers(), []);
            assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..ROWS));
        }
        let database = Database::open(&dir.path().join("db"), &options()).unwrap();
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..ROWS));
    }
    println!("{whole} whole, {half} half");
    assert!(half > 0);
}

/// A backup of two tables in two tiers, and what they hold.
fn two_tables(dir: &Path) -> State {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    database.add_tier(SECOND, &dir.join("db/b.pool")).unwrap();
    let both = Replicas::of_table(["far", SECOND]);
    for (name, sealed, tail) in [("one", 40, 5), ("two", 0, 3)] {
        let table = database
            .create_table_in(simulated::spec(name), both.clone())
            .unwrap();
        if sealed > 0 {
            table.append(&[simulated::rows(0..sealed)]).unwrap();
            table.seal().unwrap();
        }
        table
            .append(&[simulated::rows(sealed..sealed + tail)])
            .unwrap();
    }
    database.wait_for_near_copies().unwrap();
    database
        .backup(&dir.join("backup"), &BackupOptions::default(), |_| {})
        .unwrap();
    simulated::state(&database).unwrap()
}

#[test]
fn the_power_is_cut_while_a_backup_is_restored() {
    let images = Images::new();
    let dir = folder();
    let state = two_tables(dir.path());
    let backup = Backup::open(&dir.path().join("backup")).unwrap();
    for recorder in RECORDERS {
        let recorder: Recorder = recorder();
        let restored = folder();
        let options = simulated::options(&recorder);
        let how = RestoreOptions::default();
        backup
            .restore(&restored.path().join("db"), &options, &how, |_| {})
            .unwrap();
        recorder.acknowledge(1);
        let trace = recorder.trace();
        let limits = Limits {
            images_per_cut: 12,
            seed: 0,
            ..Limits::default()
        };
        let (mut whole, mut half) = (0, 0);
        let check = |image: &Image<'_>| {
            let options = simulated::options(&image.recorder);
            match Database::open(image.path, &options) {
                Ok(database) => {
                    whole += 1;
                    let found = simulated::state(&database)?;
                    return match found == state {
                        true => Ok(()),
                        false => Err(format!("{found:?} in place of {state:?}")),
                    };
                }
                Err(error) if image.acknowledged > 0 => return Err(error.to_string()),
                Err(
                    OpenError::Restoring { .. }
                    | OpenError::NotADatabase { .. }
                    | OpenError::Missing { .. },
                ) => half += 1,
                // A directory file that was being written.
                Err(OpenError::DirectoryFile { .. }) => half += 1,
                Err(error) => return Err(error.to_string()),
            }
            Ok(())
        };
        let report = images.explore_by(&trace, &limits, check);
        println!("{} images: {whole} whole, {half} half", report.images);
        assert_kept(&report, &limits);
        assert!(whole > 0 && half > 20, "{report:?}");
    }
}
