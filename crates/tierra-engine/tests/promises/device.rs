//! Promise: a database lives on a DAX device without a file system as it does in a file.
//!
//! Files stand in for devices, as in `tierra-memory/tests/promises/device.rs`; with `TIERRA_DAX_DEVICE=/dev/dax0.0` a true one, which
//! must begin with zeros and holds a database afterwards.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, Replicas, ScrubOptions};
use tierra_memory::{Durability, MediumKind};

const DEVICE_BYTES: u64 = 64 << 20;

/// A machine of which every file is a DAX device.
fn machine(root: &Path) -> DatabaseOptions {
    let folder = root.join("sys/devices/ndbus0/region0/dax0.0/dax0.0");
    let (bus, numbers) = (root.join("sys/bus/dax"), root.join("sys/dev/char"));
    for folder in [&folder, &bus, &numbers] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink(&folder, numbers.join("0:0")).unwrap();
    symlink(&bus, folder.join("subsystem")).unwrap();
    fs::write(folder.join("size"), DEVICE_BYTES.to_string()).unwrap();
    fs::write(folder.join("align"), (2 << 20).to_string()).unwrap();
    DatabaseOptions {
        machine: Some(root.to_owned()),
        ..options()
    }
}

fn device(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    let file = File::create_new(&path).unwrap();
    file.set_len(DEVICE_BYTES).unwrap();
    path
}

/// Makes a table on the device, and finds it again.
fn lives(dir: &Path, options: &DatabaseOptions) {
    let database = Database::create(dir, options).unwrap();
    let tiers = database.tiers();
    let far = tiers.last().unwrap();
    assert_eq!(far.medium, Some(MediumKind::Device));
    assert_eq!(far.durability, Some(Durability::CacheLine));
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..70_000)).unwrap();
    loader.finish().unwrap();
    table.append(&[rows(70_000..70_100)]).unwrap();
    database.close();
    drop((table, database));

    let database = Database::open(dir, options).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(all_rows(&table), rows(0..70_100));
    table.append(&[rows(70_100..70_200)]).unwrap();
    let report = database.scrub(&ScrubOptions::default(), |_| ()).unwrap();
    assert!(report.damaged_copies == 0);
    assert_eq!(all_rows(&table), rows(0..70_200));
}

#[test]
fn a_database_lives_on_a_device() {
    let root = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        pool_path: Some(device(root.path(), "dax0.0")),
        ..machine(root.path())
    };
    let dir = root.path().join("db");
    lives(&dir, &options);
    assert!(!dir.join("far.pool").exists());

    // Another database is not put in its place, and the device not removed.
    let other = root.path().join("other");
    let error = Database::create(&other, &options).unwrap_err();
    assert!(
        error.to_string().contains("holds a pool already"),
        "{error}"
    );
    assert!(!other.exists());
    let database = Database::open(&dir, &options).unwrap();
    assert_eq!(database.table("t").unwrap().snapshot().rows(), 70_200);
}

#[test]
fn a_device_is_a_second_tier() {
    let root = tempfile::tempdir().unwrap();
    let (first, second) = (device(root.path(), "dax0.0"), device(root.path(), "dax1.0"));
    let options = DatabaseOptions {
        pool_path: Some(first.clone()),
        ..machine(root.path())
    };
    let dir = root.path().join("db");
    let database = Database::create(&dir, &options).unwrap();
    let error = database.add_tier("b", &first).unwrap_err();
    assert!(error.to_string().contains("open elsewhere"), "{error}");
    database.add_tier("b", &second).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..1000)]).unwrap();
    table.seal().unwrap();
    drop((table, database));
    // Either is enough.
    for gone in [&first, &second] {
        let aside = gone.with_extension("gone");
        fs::rename(gone, &aside).unwrap();
        let degraded = DatabaseOptions {
            degraded: true,
            ..options.clone()
        };
        let database = Database::open(&dir, &degraded).unwrap();
        let table = database.table("t").unwrap();
        assert_eq!(all_rows(&table), rows(0..1000));
        drop((table, database));
        fs::rename(&aside, gone).unwrap();
        // Copies are made again.
        let database = Database::open(&dir, &options).unwrap();
        database.make_copies().unwrap();
    }
}

#[test]
fn a_device_of_this_machine() {
    let Some(path) = std::env::var_os("TIERRA_DAX_DEVICE") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        pool_path: Some(path.into()),
        ..options()
    };
    lives(&dir.path().join("db"), &options);
}
