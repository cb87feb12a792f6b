//! Rows that are deleted are gone from every answer, in every state that a table goes through, and nothing else is: random changes
//! against a model, which is compared with all ways of reading.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use tierra_engine::{
    Backup, BackupOptions, Change, CommitError, Compression, Database, DatabaseOptions, Pending,
    RestoreOptions, RowId, RowIds, ScrubOptions, Snapshot, Table, salvage,
};

use crate::changed::{Model, Random, batch, change, check, commit, ids, spec};
use crate::support::{Stops, folders, options};

/// A table, the keys that go, and the rows that come.
type TableChange<'a> = (&'a str, Vec<i64>, Vec<(i64, i64)>);

/// Tables, their models, and rows and keys that are gone.
struct World {
    /// `None` only between closing and opening.
    database: Option<Arc<Database>>,
    tables: BTreeMap<String, Model>,
    gone: BTreeMap<String, (Vec<RowId>, Vec<i64>)>,
    /// Old snapshots, and what they had.
    held: Vec<(Snapshot, Model)>,
    next_key: i64,
}

impl World {
    fn new(dir: &Path) -> World {
        let database = Database::create(dir, &options()).unwrap();
        for (name, has_key) in [("keyed", true), ("other", true), ("plain", false)] {
            database.create_table(spec(name, has_key)).unwrap();
        }
        World {
            tables: database
                .tables()
                .into_iter()
                .map(|name| (name, Model::new()))
                .collect(),
            gone: BTreeMap::new(),
            held: Vec::new(),
            next_key: 0,
            database: Some(database),
        }
    }

    fn database(&self) -> &Arc<Database> {
        self.database.as_ref().unwrap()
    }

    fn table(&self, name: &str) -> Arc<Table> {
        self.database().table(name).unwrap()
    }

    fn fresh(&mut self, count: usize) -> Vec<(i64, i64)> {
        let first = self.next_key;
        self.next_key += count as i64;
        (first..self.next_key).map(|key| (key, 0)).collect()
    }

    /// The model after a change was committed.
    fn changed(&mut self, name: &str, deleted: &[i64], rows: &RowIds, appended: &[(i64, i64)]) {
        let model = self.tables.get_mut(name).unwrap();
        for key in deleted {
            model.remove(key);
        }
        model.extend(appended.iter().copied());
        let (ids, keys) = self.gone.entry(name.to_owned()).or_default();
        ids.extend(rows.iter().take(20));
        keys.extend(deleted.iter().take(20));
        keys.retain(|key| !model.contains_key(key));
    }

    /// Commits changes of tables, and notes them.
    fn commit(&mut self, changes: &[TableChange<'_>]) {
        let made = changes.iter().map(|(name, deleted, appended)| {
            change(&self.table(name).snapshot(), deleted, appended)
        });
        let made: Vec<Change> = made.collect();
        let rows: Vec<RowIds> = made.iter().map(|change| change.deleted.clone()).collect();
        self.database().commit(made).unwrap();
        for ((name, deleted, appended), rows) in changes.iter().zip(rows) {
            self.changed(name, deleted, &rows, appended);
        }
    }

    fn close(&mut self) {
        self.held.clear();
        if let Some(database) = self.database.take() {
            database.close();
        }
    }

    fn step(&mut self, random: &mut Random, dir: &Path) {
        let names = ["keyed", "other", "plain"];
        let name = names[random.below(names.len())];
        let model = self.tables[name].clone();
        let table = self.table(name);
        let updated = |keys: &[i64]| -> Vec<(i64, i64)> {
            keys.iter().map(|key| (*key, model[key] + 1)).collect()
        };
        match random.below(26) {
            0..3 => {
                let count = 1 + random.below(40);
                let rows = self.fresh(count);
                table.append(&[batch(&rows)]).unwrap();
                self.changed(name, &[], &RowIds::default(), &rows);
            }
            3 => {
                let count = 1 + random.below(6000);
                let rows = self.fresh(count);
                self.commit(&[(name, vec![], rows)]);
            }
            4..7 => {
                let keys = random.keys(&model, 30);
                self.commit(&[(name, keys, vec![])]);
            }
            7 => {
                // A stretch, which empties blocks.
                let from = random.below(model.len().max(1));
                let keys: Vec<i64> = model.keys().copied().skip(from).take(2500).collect();
                self.commit(&[(name, keys, vec![])]);
            }
            8..11 => {
                let keys = random.keys(&model, 30);
                let rows = updated(&keys);
                self.commit(&[(name, keys, rows)]);
            }
            11 => {
                // One row, again and again.
                let keys = random.keys(&model, 1);
                for _ in 0..20 {
                    let rows = keys
                        .iter()
                        .map(|key| (*key, self.tables[name][key] + 1))
                        .collect();
                    self.commit(&[(name, keys.clone(), rows)]);
                }
            }
            12 => {
                // Many rows, which become a segment.
                let mut keys: Vec<i64> = model.keys().copied().collect();
                keys.retain(|key| key % 3 == 0);
                let mut rows = updated(&keys);
                if random.below(4) == 0 {
                    rows.extend(self.fresh(70_000));
                }
                self.commit(&[(name, keys, rows)]);
            }
            13 => {
                let keys = random.keys(&model, 10);
                let rows = updated(&keys);
                let other = names
                    [(random.below(2) + 1 + names.iter().position(|n| *n == name).unwrap()) % 3];
                let others = random.keys(&self.tables[other].clone(), 10);
                let fresh = self.fresh(3);
                self.commit(&[(name, keys, rows), (other, others, fresh)]);
            }
            14 => {
                // What another commit deleted meanwhile.
                let keys = random.keys(&model, 5);
                if keys.is_empty() {
                    return;
                }
                let late = change(&table.snapshot(), &keys[..1], &self.fresh(1));
                self.commit(&[(name, keys, vec![])]);
                let error = self.database().commit(vec![late]).unwrap_err();
                assert!(matches!(error, CommitError::Conflict { .. }), "{error}");
            }
            15 if name != "plain" => {
                let keys = random.keys(&model, 1);
                let Some(key) = keys.first() else { return };
                let error = commit(self.database(), &table, &[], &[(*key, 9)]).unwrap_err();
                assert!(matches!(error, CommitError::DuplicateKey(_)), "{error}");
                // Nor among those that a large commit brings.
                let mut rows = self.fresh(70_000);
                rows.push((*key, 9));
                let error = commit(self.database(), &table, &[], &rows).unwrap_err();
                assert!(matches!(error, CommitError::DuplicateKey(_)), "{error}");
            }
            16 | 17 => table.seal().unwrap(),
            18 => table.merge_dictionaries().unwrap(),
            19 => self.database().wait_for_near_copies().unwrap(),
            20 => {
                drop(table);
                self.close();
                self.database = Some(Database::open(dir, &options()).unwrap());
            }
            21 => {
                self.held.push((table.snapshot(), model));
                if self.held.len() > 4 {
                    self.held.remove(0);
                }
            }
            22 => self.transaction(random, name),
            23 => {
                drop(table);
                self.go_on_in_a_backup(random, dir);
            }
            _ if random.below(6) == 0 => {
                let rows = self.database().truncate(&[table]).unwrap();
                assert_eq!(rows, model.len() as u64);
                self.tables.get_mut(name).unwrap().clear();
            }
            _ => {}
        }
    }

    /// Goes on with the restored backup, in the place of the database.
    fn go_on_in_a_backup(&mut self, random: &mut Random, dir: &Path) {
        let file = dir.with_file_name("backup");
        let options_of_backup = BackupOptions {
            compression: [Compression::None, Compression::Zstd][random.below(2)],
            ..BackupOptions::default()
        };
        let taken = self.database().backup(&file, &options_of_backup, |_| {});
        let rows: usize = self.tables.values().map(Model::len).sum();
        assert_eq!(taken.unwrap().rows, rows as u64);
        self.close();
        std::fs::remove_dir_all(dir).unwrap();
        let backup = Backup::open(&file).unwrap();
        backup
            .restore(dir, &options(), &RestoreOptions::default(), |_| {})
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        self.database = Some(Database::open(dir, &options()).unwrap());
        // The numbers of rows in tails are others.
        self.gone.values_mut().for_each(|(ids, _)| ids.clear());
    }

    /// Several statements, which see what those before them did.
    fn transaction(&mut self, random: &mut Random, name: &str) {
        let mut pending = Pending::new(self.table(name).snapshot());
        let before = self.tables[name].clone();
        let mut model = before.clone();
        for _ in 0..1 + random.below(6) {
            let saved = (pending.clone(), model.clone());
            let keys = random.keys(&model, 8);
            let mut rows: Vec<(i64, i64)> = match random.below(3) {
                0 => vec![],
                _ => keys.iter().map(|key| (*key, model[key] + 1)).collect(),
            };
            let count = random.below(5);
            rows.extend(self.fresh(count));
            let Change {
                deleted, appended, ..
            } = change(pending.snapshot(), &keys, &rows);
            pending.apply(&deleted, &appended).unwrap();
            for key in &keys {
                model.remove(key);
            }
            model.extend(rows);
            if random.below(4) == 0 {
                (pending, model) = saved;
            }
            check(pending.snapshot(), &model, &[], &[]);
        }
        if name != "plain"
            && let Some(key) = model.keys().next()
        {
            let twice = pending.apply(&RowIds::default(), &[batch(&[(*key, 0)])]);
            assert!(matches!(twice, Err(CommitError::DuplicateKey(_))));
        }
        check(pending.base(), &before, &[], &[]);
        if random.below(3) > 0 {
            let change = pending.into_change();
            let gone = change.deleted.clone();
            self.database().commit(vec![change]).unwrap();
            let deleted: Vec<i64> = before
                .keys()
                .copied()
                .filter(|key| model.get(key) != before.get(key))
                .collect();
            let appended: Vec<(i64, i64)> = model
                .iter()
                .map(|(key, changes)| (*key, *changes))
                .collect();
            self.changed(name, &deleted, &gone, &appended);
        }
    }

    fn check(&self) {
        for (name, model) in &self.tables {
            let none = (Vec::new(), Vec::new());
            let (rows, keys) = self.gone.get(name).unwrap_or(&none);
            check(&self.table(name).snapshot(), model, rows, keys);
        }
        for (snapshot, model) in &self.held {
            check(snapshot, model, &[], &[]);
        }
    }
}

fn run(seed: u64, steps: usize) {
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut random = Random(seed);
    let mut world = World::new(&path);
    for step in 0..steps {
        world.step(&mut random, &path);
        if step % 5 == 4 {
            world.check();
        }
    }
    world.check();
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let report = world.database().scrub(&verify, |_| {}).unwrap();
    assert_eq!((report.damaged_copies, &report.lost[..]), (0, &[][..]));
    // What salvage copies is the same.
    world.close();
    let read_only = DatabaseOptions {
        read_only: true,
        ..options()
    };
    let from = Database::open(&path, &read_only).unwrap();
    let saved = dir.path().join("saved");
    let report = salvage(&from, &saved, &options(), |_| {}).unwrap();
    let to = Database::open(&saved, &options()).unwrap();
    assert!(report.is_complete(), "{report:?}");
    for (name, model) in &world.tables {
        check(&to.table(name).unwrap().snapshot(), model, &[], &[]);
    }
}

#[test]
fn random_changes_leave_what_the_model_says() {
    for seed in 1..=6 {
        run(seed, 120);
    }
}

#[test]
fn other_random_changes_leave_what_the_model_says() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    run(seed.unwrap().as_nanos() as u64, 200);
}

/// An old deleted row and a new one with the same key, in each place where they can be.
#[test]
fn a_key_finds_its_newest_row_wherever_the_older_ones_are() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    let mut model: Model = (0..3000).map(|key| (key, 0)).collect();
    table
        .append(&[batch(
            &model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(),
        )])
        .unwrap();
    for round in 0..6 {
        let keys: Vec<i64> = model
            .keys()
            .copied()
            .filter(|key| key % 2 == round % 2)
            .collect();
        let rows: Vec<(i64, i64)> = keys.iter().map(|key| (*key, model[key] + 1)).collect();
        commit(&database, &table, &keys, &rows).unwrap();
        model.extend(rows);
        check(&table.snapshot(), &model, &[], &[]);
        if round % 2 == 1 {
            table.seal().unwrap();
            check(&table.snapshot(), &model, &[], &[]);
            database.wait_for_near_copies().unwrap();
            check(&table.snapshot(), &model, &[], &[]);
        }
    }
}

/// Commits of several tables are in all snapshots of a moment or in none.
#[test]
fn snapshots_of_several_tables_are_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let tables: Vec<_> = ["a", "b", "c"]
        .map(|name| database.create_table(spec(name, true)).unwrap())
        .into();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let rows = database.snapshots(&tables);
                    let rows: Vec<u64> = rows.iter().map(Snapshot::rows).collect();
                    assert!(rows.iter().all(|count| *count == rows[0]), "{rows:?}");
                }
            });
        }
        for key in 0..300 {
            let changes = tables
                .iter()
                .map(|table| change(&table.snapshot(), &[], &[(key, 0)]));
            database.commit(changes.collect()).unwrap();
        }
    });
}

/// Many sessions at once: each commit counts once, and of two that delete a row one is told so.
#[test]
fn sessions_that_commit_at_once_share_records_and_lose_nothing() {
    folders().iter().for_each(sessions_commit_at_once);
}

fn sessions_commit_at_once(dir: &tempfile::TempDir) {
    let path = dir.path().join("db");
    let database = Database::create(&path, &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    let other = database.create_table(spec("u", false)).unwrap();
    commit(&database, &table, &[], &[(0, 0)]).unwrap();
    const SESSIONS: i64 = 8;
    const ROUNDS: i64 = 60;
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (database, table, other) = (&database, &table, &other);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = 1 + session * ROUNDS + round;
                    let own = change(&table.snapshot(), &[], &[(key, 0)]);
                    let theirs = change(&other.snapshot(), &[], &[(key, 1)]);
                    database.commit(vec![own, theirs]).unwrap();
                    // A counter that all change.
                    loop {
                        let snapshot = table.snapshot();
                        let row = ids(&snapshot)[&0];
                        let projection = table.projection(&[1]);
                        let mut lookups = tierra_interleave::Lookups::default();
                        let value = snapshot
                            .reconstruct(&[row], &projection, &mut lookups)
                            .unwrap();
                        let value = arrow::array::AsArray::as_primitive::<
                            arrow::datatypes::Int64Type,
                        >(value.column(0))
                        .value(0);
                        let change = change(&snapshot, &[0], &[(0, value + 1)]);
                        match database.commit(vec![change]) {
                            Ok(_) => break,
                            Err(CommitError::Conflict { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let mut model: Model = (1..=SESSIONS * ROUNDS).map(|key| (key, 0)).collect();
    let others: Model = model.keys().map(|key| (*key, 1)).collect();
    model.insert(0, SESSIONS * ROUNDS);
    check(&table.snapshot(), &model, &[], &[]);
    drop((table, other));
    database.close();
    drop(database);
    let database = Database::open(&path, &options()).unwrap();
    check(&database.table("t").unwrap().snapshot(), &model, &[], &[]);
    check(&database.table("u").unwrap().snapshot(), &others, &[], &[]);
}

/// The comparison with the model finds a row that came back, and one that is gone.
#[test]
fn the_check_can_fail() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    commit(&database, &table, &[], &[(1, 0), (2, 0), (3, 0)]).unwrap();
    commit(&database, &table, &[2], &[]).unwrap();
    let model = |keys: &[i64]| -> Model { keys.iter().map(|key| (*key, 0)).collect() };
    let snapshot = table.snapshot();
    check(&snapshot, &model(&[1, 3]), &[], &[2]);
    for wrong in [&[1, 2, 3][..], &[1], &[1, 4]] {
        let model = model(wrong);
        let checked =
            std::panic::catch_unwind(AssertUnwindSafe(|| check(&snapshot, &model, &[], &[])));
        assert!(checked.is_err(), "{wrong:?}");
    }
}

/// Segments with many deleted rows are rewritten, and their space is free again.
#[test]
fn compaction_gives_space_back_and_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = Database::create(&path, &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    let mut model: Model = (0..300_000).map(|key| (key, 0)).collect();
    for first in (0..300_000).step_by(100_000) {
        let rows: Vec<(i64, i64)> = (first..first + 100_000).map(|key| (key, 0)).collect();
        commit(&database, &table, &[], &rows).unwrap();
    }
    database.wait_for_near_copies().unwrap();
    let before = table.snapshot();
    let all = model.clone();
    assert_eq!(before.segments().len(), 3);
    let stored = before.stored_bytes();
    // A fifth of a segment stays as it is.
    let few: Vec<i64> = (0..20_000).collect();
    commit(&database, &table, &few, &[]).unwrap();
    database.wait_for_near_copies().unwrap();
    assert_eq!(table.snapshot().deleted_rows(), 20_000);
    // More than a quarter does not, nor where it is all of it.
    let many: Vec<i64> = (20_000..60_000).chain(100_000..200_000).collect();
    commit(&database, &table, &many, &[]).unwrap();
    database.wait_for_near_copies().unwrap();
    model.retain(|key, _| *key >= 60_000 && !(100_000..200_000).contains(key));
    let now = table.snapshot();
    assert_eq!((now.deleted_rows(), now.segments().len()), (0, 2));
    assert!(
        now.stored_bytes() < stored / 2,
        "{} of {stored}",
        now.stored_bytes()
    );
    assert_eq!(now.key_index().listed_rows, now.rows());
    check(&now, &model, &[], &[5, 150_000]);
    // What was seen before is what it was.
    check(&before, &all, &[], &[]);
    drop((before, now, table));
    database.close();
    drop(database);
    let database = Database::open(&path, &options()).unwrap();
    check(
        &database.table("t").unwrap().snapshot(),
        &model,
        &[],
        &[5, 150_000],
    );
}

/// What is deleted while a segment is compacted is deleted in the new one.
#[test]
fn rows_deleted_during_a_compaction_stay_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    let rows: Vec<(i64, i64)> = (0..120_000).map(|key| (key, 0)).collect();
    commit(&database, &table, &[], &rows).unwrap();
    database.wait_for_near_copies().unwrap();
    let mut model: Model = rows.into_iter().collect();
    let many: Vec<i64> = (0..40_000).collect();
    commit(&database, &table, &many, &[]).unwrap();
    model.retain(|key, _| *key >= 40_000);
    for key in (40_000..120_000).step_by(1600) {
        commit(&database, &table, &[key], &[(key + 1_000_000, 1)]).unwrap();
        model.remove(&key);
        model.insert(key + 1_000_000, 1);
    }
    check(&table.snapshot(), &model, &[], &[]);
    database.wait_for_near_copies().unwrap();
    check(&table.snapshot(), &model, &[], &[40_000]);
    table.seal().unwrap();
    check(&table.snapshot(), &model, &[], &[40_000]);
}
