//! Compaction moves rows and disturbs no transaction: a commit finds rows again that its snapshot knows by other numbers, and only what
//! another commit deleted is a conflict.

use std::path::Path;
use std::sync::Arc;

use tierra_engine::{Change, CommitError, Database, Pending, RowIds, Table};

use crate::changed::{Model, batch, change, check, commit, ids, spec};
use crate::support::options;

/// A table of 120,000 sealed rows and some in the tail, and what it holds.
struct World {
    database: Arc<Database>,
    table: Arc<Table>,
    model: Model,
}

impl World {
    fn new(path: &Path, has_key: bool) -> World {
        let database = Database::create(path, &options()).unwrap();
        let table = database.create_table(spec("t", has_key)).unwrap();
        let rows: Vec<(i64, i64)> = (0..120_000).map(|key| (key, 0)).collect();
        commit(&database, &table, &[], &rows).unwrap();
        let tail: Vec<(i64, i64)> = (120_000..120_020).map(|key| (key, 0)).collect();
        commit(&database, &table, &[], &tail).unwrap();
        database.wait_for_near_copies().unwrap();
        World {
            database,
            table,
            model: rows.into_iter().chain(tail).collect(),
        }
    }

    /// Deletes these keys, so many that their segment is compacted.
    fn compact_without(&mut self, keys: impl IntoIterator<Item = i64>) {
        let keys: Vec<i64> = keys.into_iter().collect();
        commit(&self.database, &self.table, &keys, &[]).unwrap();
        self.database.wait_for_near_copies().unwrap();
        self.model.retain(|key, _| keys.binary_search(key).is_err());
        assert_eq!(
            self.table.snapshot().deleted_rows(),
            0,
            "nothing was compacted"
        );
    }

    fn replace(&mut self, keys: &[i64]) {
        for key in keys {
            *self.model.get_mut(key).unwrap() += 1;
        }
    }

    fn check(&self) {
        check(&self.table.snapshot(), &self.model, &[], &[5, 45_000]);
    }
}

/// A statement of a transaction.
fn apply(pending: &mut Pending, deleted: &[i64], appended: &[(i64, i64)]) {
    let made = change(pending.snapshot(), deleted, appended);
    pending.apply(&made.deleted, &made.appended).unwrap();
}

fn replaced(keys: &[i64]) -> Vec<(i64, i64)> {
    keys.iter().map(|key| (*key, 1)).collect()
}

fn run(has_key: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut world = World::new(&path, has_key);
    let old = world.table.snapshot();
    // A transaction, of which a part is done before and a part while the rows move.
    let mut pending = Pending::new(old.clone());
    let first = [40_000, 49_999, 119_999, 120_003];
    apply(&mut pending, &first, &replaced(&first));
    world.compact_without(0..40_000);
    // A row of the tail is moved once it was sealed.
    world.table.seal().unwrap();
    let second = [90_000, 120_004];
    apply(
        &mut pending,
        &[90_000, 120_004, 119_999],
        &replaced(&second),
    );
    world.compact_without((45_000..49_000).chain(60_000..85_000));
    // Others change other rows meanwhile.
    commit(&world.database, &world.table, &[41_000], &[(41_000, 1)]).unwrap();
    world.replace(&[41_000]);
    let again = pending.clone();
    world.database.commit(vec![pending.into_change()]).unwrap();
    world.replace(&[40_000, 49_999, 120_003, 90_000, 120_004]);
    world.model.remove(&119_999);
    world.check();
    // Of what is gone each commit is told.
    let is_conflict = |change: Change| {
        let error = world.database.commit(vec![change]).unwrap_err();
        assert!(matches!(error, CommitError::Conflict { .. }), "{error}");
    };
    is_conflict(again.into_change());
    for gone in [5, 45_000, 41_000, 90_000, 119_999] {
        is_conflict(change(&old, &[50_000, gone], &[]));
    }
    world.check();
    // Many rows, which a manifest commits: half of them from the old segment, half of the tail.
    let at = ids(&old);
    let keys: Vec<i64> = (100_000..119_000).chain(120_010..120_020).collect();
    let fresh: Vec<(i64, i64)> = (200_000..270_000).map(|key| (key, 0)).collect();
    let many = Change {
        snapshot: old.clone(),
        deleted: keys.iter().map(|key| at[key]).collect::<RowIds>(),
        appended: vec![batch(&fresh)],
    };
    world.database.commit(vec![many]).unwrap();
    world
        .model
        .retain(|key, _| keys.binary_search(key).is_err());
    world.model.extend(fresh);
    world.check();
    drop(old);
    let World {
        database,
        table,
        model,
    } = world;
    drop(table);
    database.close();
    drop(database);
    let database = Database::open(&path, &options()).unwrap();
    check(
        &database.table("t").unwrap().snapshot(),
        &model,
        &[],
        &[5, 45_000],
    );
}

#[test]
fn commits_find_rows_again_that_compaction_moved() {
    run(true);
}

#[test]
fn so_they_do_in_tables_without_a_key() {
    run(false);
}

/// Rows that are truncated are gone, whatever was moved before.
#[test]
fn what_was_truncated_is_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(&dir.path().join("db"), true);
    let old = world.table.snapshot();
    world.compact_without(0..40_000);
    world.database.truncate(&[world.table.clone()]).unwrap();
    commit(&world.database, &world.table, &[], &[(50_000, 3)]).unwrap();
    let error = world
        .database
        .commit(vec![change(&old, &[50_000], &[])])
        .unwrap_err();
    assert!(matches!(error, CommitError::Conflict { .. }), "{error}");
}
