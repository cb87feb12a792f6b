//! A database is read where it cannot be written, by any number of processes at once, and nothing of it changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, OpenError, Replicas, ScrubOptions};

fn create(db: &Path) {
    let database = Database::create(db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..100)]).unwrap();
    table.seal().unwrap();
    table.append(&[rows(100..150)]).unwrap();
    database.wait_for_near_copies().unwrap();
}

fn content(db: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(db)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn read_only() -> DatabaseOptions {
    DatabaseOptions {
        read_only: true,
        ..options()
    }
}

/// Reads everything, and is told why it cannot write.
fn read_and_try_to_write(database: &Database) {
    assert!(database.read_only().is_some());
    let table = database.table("t").unwrap();
    assert_eq!(all_rows(&table), rows(0..150));
    let refused = |error: String| assert!(error.contains("reading only"), "{error}");
    refused(table.append(&[rows(150..151)]).unwrap_err().to_string());
    refused(table.seal().unwrap_err().to_string());
    let mut loader = table.loader();
    let loaded = loader
        .push(rows(150..70_150))
        .and_then(|()| loader.finish());
    refused(loaded.unwrap_err().to_string());
    refused(
        database
            .create_table(spec("u", vec![]))
            .unwrap_err()
            .to_string(),
    );
    refused(database.drop_table("t").unwrap_err().to_string());
    refused(database.drop_tier("b").unwrap_err().to_string());
    refused(
        table
            .set_replicas(&Replicas::of_table(["b"]))
            .unwrap_err()
            .to_string(),
    );
    refused(
        database
            .scrub(&ScrubOptions::default(), |_| {})
            .unwrap_err()
            .to_string(),
    );
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let scrubbed = database.scrub(&verify, |_| {}).unwrap();
    assert_eq!((scrubbed.damaged_copies, scrubbed.lost), (0, vec![]));
    database.wait_for_near_copies().unwrap();
    assert_eq!(all_rows(&table), rows(0..150));
}

#[test]
fn who_asks_to_read_only_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    create(&db);
    let before = content(&db);
    let one = Database::open(&db, &read_only()).unwrap();
    let two = Database::open(&db, &read_only()).unwrap();
    read_and_try_to_write(&one);
    read_and_try_to_write(&two);
    let refused = Database::open(&db, &options()).unwrap_err();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    drop((one, two));
    assert!(content(&db) == before);
    let writer = Database::open(&db, &options()).unwrap();
    assert!(writer.read_only().is_none());
    assert!(Database::open(&db, &read_only()).is_err());
}

/// Damage of one copy is read past, and stays.
#[test]
fn damage_is_read_past_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    create(&db);
    let mut bytes = fs::read(db.join("far.pool")).unwrap();
    let magic = bytes.windows(4).rposition(|at| at == b"TCHK").unwrap();
    bytes[magic + 128 + 64] ^= 0x40;
    fs::write(db.join("far.pool"), bytes).unwrap();
    let before = content(&db);
    let database = Database::open(&db, &read_only()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..150));
    drop(database);
    assert!(content(&db) == before);
}

#[test]
fn a_user_who_may_not_write_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    create(&db);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    for name in ["LOCK", "database", "database.copy", "far.pool", "b.pool"] {
        mode(&db.join(name), 0o444);
    }
    mode(&db, 0o555);
    let before = content(&db);
    // A process that is allowed everything runs it as another user.
    let exe = std::env::current_exe().unwrap();
    let runner = dir.path().join("runner");
    fs::copy(&exe, &runner).unwrap();
    mode(&runner, 0o755);
    let mut other = Command::new(&runner);
    other.args([
        "--exact",
        "read_only::read_as_another_user",
        "--ignored",
        "--nocapture",
    ]);
    other.env("TIERRA_TEST_DIR", &db);
    if rustix::process::geteuid().is_root() {
        other.uid(65_534).gid(65_534);
    }
    let output = other.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(content(&db) == before);
    mode(&db, 0o755);
    fs::remove_file(db.join("LOCK")).unwrap();
    mode(&db, 0o555);
    // No LOCK is needed.
    assert!(other.output().unwrap().status.success());
    mode(&db, 0o755);
}

/// Even root cannot write to a file system that is mounted read-only.
#[test]
fn a_read_only_file_system_is_read() {
    let namespace = ["--map-root-user", "--mount"];
    let is_allowed = Command::new("unshare").args(namespace).arg("true").status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        println!("no file system can be mounted here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    create(&db);
    let before = content(&db);
    let mut mounted = Command::new("unshare");
    mounted.args(namespace).args(["sh", "-ec"]);
    mounted.arg(
        "mount --bind \"$TIERRA_TEST_DIR\" \"$TIERRA_TEST_DIR\"; \
         mount -o remount,bind,ro \"$TIERRA_TEST_DIR\"; \
         ! touch \"$TIERRA_TEST_DIR/touched\" 2>/dev/null; \
         exec \"$TIERRA_TEST_EXE\" --exact read_only::read_as_another_user --ignored --nocapture",
    );
    mounted.env("TIERRA_TEST_DIR", &db);
    mounted.env("TIERRA_TEST_EXE", std::env::current_exe().unwrap());
    let has_lock = db.join("LOCK");
    for _ in 0..2 {
        let output = mounted.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && told.contains("1 passed"),
            "{told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // The second time without LOCK, which is not needed.
        if has_lock.exists() {
            assert!(content(&db) == before);
            fs::remove_file(&has_lock).unwrap();
        }
    }
}

#[test]
#[ignore = "the other process of the two tests above"]
fn read_as_another_user() {
    let dir = std::env::var_os("TIERRA_TEST_DIR").unwrap();
    let database = Database::open(Path::new(&dir), &options()).unwrap();
    read_and_try_to_write(&database);
}
