//! A restored backup is the database as of one commit, whatever happens to the database while the backup is written: the rows, their
//! encodings, indexes, keys, deletions, tiers and settings. It goes on as any database does, and is another one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tempfile::TempDir;
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{
    Access, Backup, BackupError, BackupOptions, BackupSummary, Change, ColumnSpec, CommitError,
    Compression, Database, DatabaseOptions, IndexKind, OpenError, Replicas, RestoreOptions,
    Restored, RowIds, Table, TableSpec,
};
use tierra_memory::CopyMethod;
use tierra_memory::faults::Stop;

use crate::changed::{self, Model};
use crate::support::{self, all_rows, options, rows};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Place(dir.unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn create(&self) -> Arc<Database> {
        Database::create(&self.path("db"), &options()).unwrap()
    }

    fn take(&self, database: &Database, name: &str) -> BackupSummary {
        let taken = database.backup(&self.path(name), &BackupOptions::default(), |_| {});
        taken.unwrap()
    }

    fn restore(&self, name: &str, to: &str) -> Result<Restored, BackupError> {
        let backup = Backup::open(&self.path(name))?;
        let how = RestoreOptions::default();
        backup.restore(&self.path(to), &options(), &how, |_| {})
    }

    fn open(&self, name: &str) -> Arc<Database> {
        Database::open(&self.path(name), &options()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The id in a database's directory file.
fn id_of(dir: &Path) -> String {
    let file = fs::read_to_string(dir.join("database")).unwrap();
    file.lines().nth(2).unwrap().to_owned()
}

#[test]
fn every_type_setting_index_and_tier_comes_back() {
    let place = Place::new();
    let database = place.create();
    database
        .add_tier_with("b", &place.path("b.pool"), Access::Auto)
        .unwrap();
    let mut typed = support::spec("typed", vec![0]);
    typed.columns[support::CITY].encoding = Some(Encoding::Dictionary);
    typed.columns[support::CITY].index = Some(IndexKind::Inverted);
    typed.columns[support::NOTE].near = Some(false);
    let mut replicas = Replicas::of_table(["far", "b"]);
    replicas
        .columns
        .insert("price".to_owned(), vec!["b".to_owned()]);
    let table = database.create_table_in(typed, replicas).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..80_000)).unwrap();
    loader.finish().unwrap();
    table.append(&[rows(80_000..80_500)]).unwrap();
    table.seal().unwrap();
    // Values that the dictionary does not have yet, in a tail.
    table.append(&[rows(80_500..81_000)]).unwrap();
    let key = TableSpec {
        name: "Ünïcode \"name\"".to_owned(),
        columns: vec![
            ColumnSpec::new("a", LogicalType::Varchar).not_null(),
            ColumnSpec::new("b", LogicalType::Integer).not_null(),
        ],
        primary_key: vec![1, 0],
    };
    database.create_table(key).unwrap();
    database.wait_for_near_copies().unwrap();
    let taken = place.take(&database, "backup");
    assert_eq!((taken.tables, taken.rows), (2, 81_000));
    assert_eq!(
        taken.file_bytes,
        fs::metadata(place.path("backup")).unwrap().len()
    );
    let restored = place.restore("backup", "copy").unwrap();
    assert_eq!(restored.backup, taken);
    assert_eq!(restored.in_place, []);
    let copy = place.open("copy");
    assert_eq!(names(&place.path("copy")), {
        let mut files = vec!["LOCK", "b.pool", "database", "database.copy", "far.pool"];
        files.extend(
            ["scrub"]
                .iter()
                .filter(|file| place.path("copy").join(file).exists()),
        );
        files
    });
    assert_ne!(id_of(&place.path("copy")), id_of(&place.path("db")));
    let tiers = |database: &Database| -> Vec<(String, Option<Access>)> {
        let tiers = database.tiers().into_iter();
        tiers.map(|tier| (tier.name, tier.access)).collect()
    };
    assert_eq!(tiers(&copy), tiers(&database));
    assert_eq!(copy.tables(), database.tables());
    copy.wait_for_near_copies().unwrap();
    for name in database.tables() {
        let [from, to] = [&database, &copy].map(|of| of.table(&name).unwrap());
        assert_eq!(from.spec(), to.spec());
        assert_eq!(from.replicas(), to.replicas());
    }
    let [from, to] = [&database, &copy].map(|of| of.table("typed").unwrap());
    assert_eq!(all_rows(&to), rows(0..81_000));
    let [before, after] = [&from, &to].map(|table| table.snapshot());
    assert_eq!(after.segments().len(), before.segments().len());
    for (before, after) in before.segments().iter().zip(after.segments()) {
        for column in 0..from.spec().columns.len() {
            assert_eq!(before.encoding(column), after.encoding(column));
            assert_eq!(before.stored_bytes(column), after.stored_bytes(column));
        }
    }
    // Indexes came with it: nothing had to be built.
    assert_eq!(
        after.indexed_rows(support::CITY),
        before.indexed_rows(support::CITY)
    );
    assert_eq!(
        after.key_index().listed_rows,
        before.key_index().listed_rows
    );
    let complete = copy.copies().unwrap();
    assert!(complete.iter().all(|copy| copy.is_complete), "{complete:?}");
    // It is writable, and its keys are unique.
    let twice = to.append(&[rows(80_990..81_010)]).unwrap_err();
    assert!(twice.to_string().contains("80990"), "{twice}");
    to.append(&[rows(81_000..81_010)]).unwrap();
    drop((from, to, before, after, copy));
    let copy = place.open("copy");
    assert_eq!(all_rows(&copy.table("typed").unwrap()), rows(0..81_010));
    assert_eq!(all_rows(&database.table("typed").unwrap()), rows(0..81_000));
}

#[test]
fn a_closed_or_read_only_database_is_backed_up_and_an_empty_one() {
    let place = Place::new();
    let database = place.create();
    assert_eq!(place.take(&database, "empty").tables, 0);
    place.restore("empty", "nothing").unwrap();
    assert!(place.open("nothing").tables().is_empty());
    let table = database.create_table(support::spec("t", vec![0])).unwrap();
    table.append(&[rows(0..10)]).unwrap();
    drop((table, database));
    let read_only = DatabaseOptions {
        read_only: true,
        ..options()
    };
    let before = fs::read(place.path("db/far.pool")).unwrap();
    let database = Database::open(&place.path("db"), &read_only).unwrap();
    assert_eq!(place.take(&database, "backup").rows, 10);
    drop(database);
    assert!(fs::read(place.path("db/far.pool")).unwrap() == before);
    place.restore("backup", "copy").unwrap();
    let copy = place.open("copy");
    assert_eq!(all_rows(&copy.table("t").unwrap()), rows(0..10));
}

/// Of what progress is told, everything else is done in between: it would never return if it waited for the backup.
#[test]
fn commits_go_on_in_the_middle_of_a_backup_which_does_not_see_them() {
    let place = Place::new();
    let database = place.create();
    let mut models = BTreeMap::new();
    for name in ["dropped", "truncated", "changed"] {
        let table = database.create_table(changed::spec(name, true)).unwrap();
        let some: Vec<(i64, i64)> = (0..70_000).map(|key| (key, 0)).collect();
        changed::commit(&database, &table, &[], &some).unwrap();
        let tail: Vec<(i64, i64)> = (70_000..70_100).map(|key| (key, 0)).collect();
        changed::commit(&database, &table, &[], &tail).unwrap();
        let gone: Vec<i64> = (0..70_100).step_by(9).collect();
        changed::commit(&database, &table, &gone, &[]).unwrap();
        let model = some.into_iter().chain(tail).collect::<Model>();
        let model = model.into_iter().filter(|(key, _)| key % 9 != 0);
        models.insert(name.to_owned(), model.collect::<Model>());
    }
    database.wait_for_near_copies().unwrap();
    let mut calls = 0;
    let file = place.path("backup");
    let backup = database.backup(&file, &BackupOptions::default(), |told| {
        assert!(told.bytes <= told.of_bytes);
        calls += 1;
        let changed = database.table("changed").unwrap();
        changed::commit(&database, &changed, &[], &[(1_000_000 + calls, 0)]).unwrap();
        match calls {
            1 => database.drop_table("dropped").unwrap(),
            2 => {
                let truncated = database.table("truncated").unwrap();
                database.truncate(&[truncated]).unwrap();
            }
            3 => {
                // Most rows go: what is left is moved to another segment, and the dictionary is made anew.
                let keys: Vec<i64> = (0..70_000).filter(|key| key % 9 != 0).collect();
                let others = keys.iter().map(|key| (*key + 2_000_000, 3));
                let others: Vec<(i64, i64)> = others.collect();
                changed::commit(&database, &changed, &keys, &others).unwrap();
                changed.merge_dictionaries().unwrap();
            }
            // What was given up is free, if anything is, and written over.
            4 => database.wait_for_near_copies().unwrap(),
            _ => {}
        }
    });
    let taken = backup.unwrap();
    assert!(calls > 4, "{calls}");
    let rows: usize = models.values().map(Model::len).sum();
    assert_eq!(taken.rows, rows as u64);
    place.restore("backup", "copy").unwrap();
    let copy = place.open("copy");
    for (name, model) in &models {
        let table = copy.table(name).unwrap();
        let gone: Vec<i64> = (0..70_100).step_by(9).collect();
        changed::check(&table.snapshot(), model, &[], &gone);
        // Deleted rows can be compacted away.
        let few: Vec<i64> = model.keys().copied().filter(|key| key % 2 == 0).collect();
        changed::commit(&copy, &table, &few, &[]).unwrap();
    }
    copy.wait_for_near_copies().unwrap();
    for (name, model) in &models {
        let model = model.iter().filter(|(key, _)| *key % 2 != 0);
        let model: Model = model.map(|(key, changes)| (*key, *changes)).collect();
        let table = copy.table(name).unwrap();
        changed::check(&table.snapshot(), &model, &[], &[0, 2]);
    }
}

/// Commit n adds the row n to both tables and takes n - 50 from both: what is there tells the number of commits.
fn commit(database: &Database, tables: &[Arc<Table>; 2], number: i64) {
    let snapshots = database.snapshots(tables);
    let changes = snapshots.into_iter().map(|snapshot| {
        let gone: Vec<i64> = (number >= 50).then_some(number - 50).into_iter().collect();
        changed::change(&snapshot, &gone, &[(number, number)])
    });
    database.commit(changes.collect()).unwrap();
}

fn keys(table: &Arc<Table>) -> Vec<i64> {
    let columns = support::scan(&table.snapshot(), &[0, 1], &[]).0;
    let mut pairs = changed::pairs(&columns);
    pairs.sort_unstable();
    assert!(pairs.iter().all(|(key, changes)| key == changes));
    pairs.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_backup_is_of_one_commit_while_others_commit() {
    let place = Place::new();
    let database = place.create();
    let tables = ["one", "two"].map(|name| {
        let table = database.create_table(changed::spec(name, true)).unwrap();
        table.append(&[changed::batch(&[])]).unwrap();
        table
    });
    let (stop, done) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let _stops = support::Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let number = done.load(Ordering::Relaxed);
                commit(&database, &tables, number);
                done.store(number + 1, Ordering::Relaxed);
                if number % 40 == 7 {
                    tables[(number / 40 % 2) as usize].seal().unwrap();
                }
            }
        });
        let mut last = -1;
        for round in 0..12 {
            let compression = [Compression::None, Compression::Zstd][round % 2];
            let how = BackupOptions {
                compression,
                ..BackupOptions::default()
            };
            let (file, dir) = (place.path("backup"), place.path("copy"));
            let before = done.load(Ordering::Relaxed);
            database.backup(&file, &how, |_| {}).unwrap();
            let after = done.load(Ordering::Relaxed);
            place.restore("backup", "copy").unwrap();
            let copy = place.open("copy");
            let [one, two] = ["one", "two"].map(|name| keys(&copy.table(name).unwrap()));
            assert_eq!(one, two, "round {round}");
            let newest = one.last().copied().unwrap_or(-1);
            let expected: Vec<i64> = ((newest - 49).max(0)..=newest).collect();
            assert_eq!(one, expected, "round {round}");
            assert!(newest >= last.max(before - 1) && newest <= after);
            last = newest;
            drop(copy);
            fs::remove_dir_all(dir).unwrap();
            fs::remove_file(file).unwrap();
        }
        assert!(last > 20, "{last}");
    });
}

/// What is sent elsewhere becomes the same file, if all of it arrives.
#[test]
fn a_backup_that_is_sent_arrives_whole_or_not_at_all() {
    let place = Place::new();
    let database = place.create();
    let table = database.create_table(support::spec("t", vec![0])).unwrap();
    table.append(&[rows(0..5000)]).unwrap();
    table.seal().unwrap();
    table.append(&[rows(5000..5100)]).unwrap();
    let mut sent = Vec::new();
    let summary = database.backup_to(&mut sent, &BackupOptions::default(), |_| {});
    let summary = summary.unwrap();
    assert_eq!(
        (summary.rows, summary.file_bytes),
        (5100, sent.len() as u64)
    );
    let receive = |mut bytes: &[u8]| {
        Backup::receive(&mut bytes, &place.path("arrived"), &Stop::default(), |_| {})
    };
    for len in [0, 1, 64, sent.len() / 2, sent.len() - 1] {
        receive(&sent[..len]).unwrap_err();
        assert_eq!(place.names(), ["db"], "{len}");
    }
    let mut wrong = sent.clone();
    wrong[sent.len() / 2] ^= 1;
    receive(&wrong).unwrap_err();
    let stop = Stop::default();
    stop.stop();
    let stopped = Backup::receive(&mut &sent[..], &place.path("arrived"), &stop, |_| {});
    assert!(matches!(stopped, Err(BackupError::Stopped)));
    assert_eq!(place.names(), ["db"]);
    assert_eq!(receive(&sent).unwrap(), summary);
    assert!(matches!(receive(&sent), Err(BackupError::Exists { .. })));
    place.restore("arrived", "copy").unwrap();
    let copy = place.open("copy");
    assert_eq!(all_rows(&copy.table("t").unwrap()), rows(0..5100));
    let refused = database.backup_to(&mut Full, &BackupOptions::default(), |_| {});
    let refused = refused.unwrap_err();
    assert!(matches!(refused, BackupError::Stream { .. }), "{refused}");
}

/// Takes nothing.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_replaced_and_nothing_half_is_left() {
    let place = Place::new();
    let database = place.create();
    let table = database.create_table(support::spec("t", vec![0])).unwrap();
    table.append(&[rows(0..5000)]).unwrap();
    place.take(&database, "backup");
    let before = fs::read(place.path("backup")).unwrap();
    let again = database.backup(&place.path("backup"), &BackupOptions::default(), |_| {});
    assert!(matches!(again, Err(BackupError::Exists { .. })));
    assert!(fs::read(place.path("backup")).unwrap() == before);
    // Into a database in use, a closed one, and a directory with anything.
    let pool = fs::read(place.path("db/far.pool")).unwrap();
    let refused = place.restore("backup", "db").unwrap_err();
    assert!(matches!(refused, BackupError::Occupied { .. }), "{refused}");
    assert!(fs::read(place.path("db/far.pool")).unwrap() == pool);
    place.restore("backup", "copy").unwrap();
    let refused = place.restore("backup", "copy").unwrap_err();
    assert!(matches!(refused, BackupError::Occupied { .. }), "{refused}");
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other/notes"), "mine").unwrap();
    let refused = place.restore("backup", "other").unwrap_err();
    assert!(matches!(refused, BackupError::Occupied { .. }), "{refused}");
    assert_eq!(names(&place.path("other")), ["notes"]);
    fs::write(place.path("file"), "mine").unwrap();
    assert!(place.restore("backup", "file").is_err());
    // Stopped, or without room.
    let names_before = place.names();
    let stop = Stop::default();
    let how = BackupOptions {
        stop: stop.clone(),
        ..BackupOptions::default()
    };
    stop.stop();
    let stopped = database.backup(&place.path("stopped"), &how, |_| {});
    assert!(matches!(stopped, Err(BackupError::Stopped)));
    let backup = Backup::open(&place.path("backup")).unwrap();
    let how = RestoreOptions {
        stop: stop.clone(),
        ..RestoreOptions::default()
    };
    let stopped = backup.restore(&place.path("stopped"), &options(), &how, |_| {});
    assert!(matches!(stopped, Err(BackupError::Stopped)));
    let little = DatabaseOptions {
        capacity_bytes: Some(64 << 10),
        ..options()
    };
    let how = RestoreOptions::default();
    let full = backup.restore(&place.path("full"), &little, &how, |_| {});
    let full = full.unwrap_err().to_string();
    assert!(full.contains("full"), "{full}");
    // A directory that was there stays, empty.
    fs::create_dir(place.path("there")).unwrap();
    assert!(
        backup
            .restore(&place.path("there"), &little, &how, |_| {})
            .is_err()
    );
    assert_eq!(names(&place.path("there")), Vec::<String>::new());
    fs::remove_dir(place.path("there")).unwrap();
    assert_eq!(place.names(), names_before);
}

#[test]
fn pools_are_made_where_it_is_said() {
    let place = Place::new();
    let database = place.create();
    let direct = Access::Framed(CopyMethod::Buffered);
    database
        .add_tier_with("b", &place.path("b.pool"), direct)
        .unwrap();
    let both = Replicas::of_table(["b", "far"]);
    let table = database
        .create_table_in(support::spec("t", vec![0]), both)
        .unwrap();
    table.append(&[rows(0..100)]).unwrap();
    table.seal().unwrap();
    table.append(&[rows(100..120)]).unwrap();
    place.take(&database, "backup");
    let backup = Backup::open(&place.path("backup")).unwrap();
    assert_eq!(backup.tiers().collect::<Vec<_>>(), ["far", "b"]);
    let how = |tier: &str, path: PathBuf| RestoreOptions {
        pools: vec![(tier.to_owned(), path)],
        ..RestoreOptions::default()
    };
    let unknown = backup.restore(
        &place.path("copy"),
        &options(),
        &how("c", place.path("c")),
        |_| {},
    );
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains("far, b"), "{unknown}");
    // The pool of the original is in the way.
    let taken = backup.restore(
        &place.path("copy"),
        &options(),
        &how("b", place.path("b.pool")),
        |_| {},
    );
    assert!(taken.is_err() && !place.path("copy").exists());
    assert_eq!(all_rows(&table), rows(0..120));
    let elsewhere = how("b", place.path("other.pool"));
    let restored = backup
        .restore(&place.path("copy"), &options(), &elsewhere, |_| {})
        .unwrap();
    assert_eq!(
        restored.pools[1],
        ("b".to_owned(), place.path("other.pool"))
    );
    drop((table, database));
    // Neither needs the other.
    fs::remove_dir_all(place.path("db")).unwrap();
    fs::remove_file(place.path("b.pool")).unwrap();
    let copy = place.open("copy");
    assert_eq!(copy.missing_tiers(), []);
    let b = copy.tiers().into_iter().find(|tier| tier.name == "b");
    assert_eq!(b.unwrap().access, Some(direct));
    assert_eq!(all_rows(&copy.table("t").unwrap()), rows(0..120));
    // Each tier has everything, alone.
    drop(copy);
    fs::remove_file(place.path("copy/far.pool")).unwrap();
    let degraded = DatabaseOptions {
        degraded: true,
        ..options()
    };
    let alone = Database::open(&place.path("copy"), &degraded).unwrap();
    assert_eq!(all_rows(&alone.table("t").unwrap()), rows(0..120));
}

#[test]
fn a_begun_table_and_an_open_transaction_are_not_in_it() {
    let place = Place::new();
    let database = place.create();
    let table = database.create_table(changed::spec("t", true)).unwrap();
    changed::commit(&database, &table, &[], &[(1, 0), (2, 0)]).unwrap();
    let begun = database.begin_table(changed::spec("begun", true)).unwrap();
    let change = Change {
        snapshot: table.snapshot(),
        deleted: RowIds::default(),
        appended: vec![changed::batch(&[(3, 0)])],
    };
    let mut loader = table.loader();
    loader.push(changed::batch(&[(4, 0)])).unwrap();
    place.take(&database, "backup");
    begun.append(&[changed::batch(&[(9, 0)])]).unwrap();
    loader.finish().unwrap();
    database.commit(vec![change]).unwrap();
    place.restore("backup", "copy").unwrap();
    let copy = place.open("copy");
    assert_eq!(copy.tables(), ["t"]);
    let table = copy.table("t").unwrap();
    assert_eq!(keys_of(&table), [1, 2]);
    // Its numbers go on.
    let next = copy.create_table(changed::spec("next", true)).unwrap();
    changed::commit(&copy, &next, &[], &[(9, 0)]).unwrap();
    let twice = changed::commit(&copy, &table, &[], &[(1, 0)]).unwrap_err();
    assert!(matches!(twice, CommitError::DuplicateKey(_)), "{twice}");
    table.seal().unwrap();
    changed::commit(&copy, &table, &[1], &[(3, 0)]).unwrap();
    drop((table, next, copy));
    let copy = place.open("copy");
    assert_eq!(keys_of(&copy.table("t").unwrap()), [2, 3]);
    assert_eq!(keys_of(&copy.table("next").unwrap()), [9]);
}

fn keys_of(table: &Arc<Table>) -> Vec<i64> {
    let columns = support::scan(&table.snapshot(), &[0, 1], &[]).0;
    let mut keys: Vec<i64> = changed::pairs(&columns)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    keys.sort_unstable();
    keys
}

/// Leaves a restored directory as a kill does before the last step; returns its directory file.
fn interrupt(dir: &Path) -> String {
    let file = fs::read_to_string(dir.join("database")).unwrap();
    let lines = file.replace("state ready", "state restoring");
    let lines = &lines[..lines.len() - "crc32c 00000000\n".len()];
    let crc = crc32c::crc32c(lines.as_bytes());
    let file = format!("{lines}crc32c {crc:08x}\n");
    fs::write(dir.join("database"), &file).unwrap();
    fs::remove_file(dir.join("database.copy")).unwrap();
    file
}

#[test]
fn a_restore_removes_only_what_is_its_own() {
    let place = Place::new();
    let database = place.create();
    database.add_tier("b", &place.path("db/b.pool")).unwrap();
    let both = Replicas::of_table(["b", "far"]);
    let table = database
        .create_table_in(support::spec("t", vec![0]), both)
        .unwrap();
    table.append(&[rows(0..100)]).unwrap();
    place.take(&database, "backup");
    let backup = Backup::open(&place.path("backup")).unwrap();
    let outside = |name: &str| RestoreOptions {
        pools: vec![("b".to_owned(), place.path(name))],
        ..RestoreOptions::default()
    };
    let restored =
        |dir: &str, how: &RestoreOptions| backup.restore(&place.path(dir), &options(), how, |_| {});
    // A file of the user where a pool was to be made.
    fs::write(place.path("mine"), "").unwrap();
    fs::create_dir(place.path("there")).unwrap();
    fs::set_permissions(place.path("there"), fs::Permissions::from_mode(0o700)).unwrap();
    let refused = restored("there", &outside("mine")).unwrap_err().to_string();
    assert!(refused.contains("exists already"), "{refused}");
    assert!(place.path("mine").exists());
    let mode = fs::metadata(place.path("there"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    // A directory that was copied while it was restored names the pool that the database has by now.
    restored("copy", &outside("b.pool")).unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .args([place.path("copy"), place.path("twin")])
        .status();
    assert!(copied.unwrap().success());
    interrupt(&place.path("twin"));
    restored("twin", &RestoreOptions::default()).unwrap();
    for dir in ["copy", "twin"] {
        let database = place.open(dir);
        assert_eq!(database.missing_tiers(), [], "{dir}");
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..100));
    }
}

#[test]
fn an_interrupted_restore_is_refused_until_another_one_ends_it() {
    let place = Place::new();
    let database = place.create();
    let table = database.create_table(support::spec("t", vec![0])).unwrap();
    table.append(&[rows(0..3000)]).unwrap();
    place.take(&database, "backup");
    place.restore("backup", "copy").unwrap();
    let file = interrupt(&place.path("copy"));
    let is_refused = |opened: Result<Arc<Database>, OpenError>| {
        let error = opened.unwrap_err();
        assert!(matches!(error, OpenError::Restoring { .. }), "{error}");
    };
    let copy = place.path("copy");
    is_refused(Database::open(&copy, &options()));
    is_refused(Database::create(&copy, &options()));
    is_refused(Database::open_or_create(&copy, &options()));
    let adopted = Database::adopt(&copy, &options(), &Default::default());
    assert!(matches!(adopted, Err(OpenError::Restoring { .. })));
    assert_eq!(fs::read_to_string(copy.join("database")).unwrap(), file);
    place.restore("backup", "copy").unwrap();
    let copy = place.open("copy");
    assert_eq!(all_rows(&copy.table("t").unwrap()), rows(0..3000));
}
