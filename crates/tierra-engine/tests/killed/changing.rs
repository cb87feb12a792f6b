//! What the child does when rows change: transactions over two tables, small ones through logs and large ones by manifests, while
//! segments are sealed and compacted; and what is there after so many of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tierra_engine::{Database, Pending, Replicas};
use tierra_interleave::Lookups;

use super::super::changed::{Model, batch, change, pairs, scan, spec};
use super::super::simulated::SECOND;

const TABLES: [&str; 2] = ["left", "right"];
/// Rows of the first table, with keys below 0, that are replaced at once: too many for a log.
const BASE_ROWS: i64 = 66_000;

/// Keys that go, and rows that come.
type Changes = (Vec<i64>, Vec<(i64, i64)>);

/// Makes the tables. They have what is there after no step.
pub(super) fn create(database: &Database) {
    let both = || Replicas::of_table(["far", SECOND]);
    for (name, model) in TABLES.iter().zip(after(0)) {
        let table = database.create_table_in(spec(name, true), both()).unwrap();
        let rows: Vec<(i64, i64)> = model.into_iter().collect();
        table.append(&[batch(&rows)]).unwrap();
    }
}

/// Takes step number `step` in one commit.
pub(super) fn take(database: &Database, step: i64) -> Result<(), String> {
    let tables = TABLES.map(|name| database.table(name));
    let [Some(left), Some(right)] = tables else {
        return Err("a table is gone".to_owned());
    };
    if step % 10 == 9 {
        left.seal().map_err(|error| error.to_string())?;
    }
    let made = database.snapshots(&[left, right]).into_iter();
    let made = made.zip(changes(step, &after(step - 1)));
    let made = made.map(|(snapshot, (deleted, appended))| {
        if deleted.len() > 1000 {
            return Ok(change(&snapshot, &deleted, &appended));
        }
        // As a transaction does it, in two statements.
        let mut pending = Pending::new(snapshot);
        for (deleted, appended) in [(deleted, Vec::new()), (Vec::new(), appended)] {
            let made = change(pending.snapshot(), &deleted, &appended);
            let applied = pending.apply(&made.deleted, &made.appended);
            applied.map_err(|error| error.to_string())?;
        }
        Ok(pending.into_change())
    });
    let made = made.collect::<Result<Vec<_>, String>>()?;
    let committed = database.commit(made);
    committed.map(drop).map_err(|error| error.to_string())
}

/// After which of these steps the database is as it is.
pub(super) fn found(database: &Database, steps: &[i64]) -> Result<i64, String> {
    let found = TABLES.map(|name| of_table(database, name));
    let [left, right] = found;
    let found = [left?, right?];
    let same = steps.iter().find(|step| after(**step) == found);
    let counts = found.each_ref().map(Model::len);
    same.copied()
        .ok_or_else(|| format!("tables of {counts:?} rows are the state after none of {steps:?}"))
}

/// The rows of a table, every value and the index of its keys checked.
fn of_table(database: &Database, name: &str) -> Result<Model, String> {
    let table = database.table(name).ok_or("a table is gone")?;
    let snapshot = table.snapshot();
    let mut model = Model::new();
    for rows in scan(&snapshot, &[0, 1, 2, 3], &[], None) {
        let pairs = pairs(&rows);
        if rows.columns()[..4] != *batch(&pairs).columns() {
            return Err(format!("{name} has wrong values"));
        }
        model.extend(pairs);
    }
    if model.len() as u64 != snapshot.rows() {
        return Err(format!("{name} counts {} rows", snapshot.rows()));
    }
    let keys: ArrayRef = Arc::new(model.keys().copied().collect::<Int64Array>());
    let rows = snapshot.rows_by_key(&[keys], &mut Lookups::default());
    let rows = rows.map_err(|error| error.to_string())?;
    match rows.iter().all(Option::is_some) {
        true => Ok(model),
        false => Err(format!("a key of {name} is not found")),
    }
}

/// What the tables hold after so many steps.
fn after(steps: i64) -> [Model; 2] {
    let base = (-BASE_ROWS..0).map(|key| (key, 0));
    let mut models = [base.collect(), Model::new()];
    for step in 1..=steps {
        let changes = changes(step, &models);
        for (model, (deleted, appended)) in models.iter_mut().zip(changes) {
            deleted.iter().for_each(|key| {
                model.remove(key);
            });
            model.extend(appended);
        }
    }
    models
}

/// What a step does to the tables, which are as it finds them.
fn changes(step: i64, [left, right]: &[Model; 2]) -> [Changes; 2] {
    if step % 24 == 0 {
        let base = left.range(..0);
        let all = base.map(|(key, changes)| (*key, changes + 1)).collect();
        let keys = left.range(..0).map(|(key, _)| *key).collect();
        return [(keys, all), (Vec::new(), vec![(step, 0)])];
    }
    if step % 7 == 0
        && let Some((key, _)) = left.range(1..).next()
    {
        // A row moves to the other table.
        return [
            (vec![*key], Vec::new()),
            (Vec::new(), vec![(key + 1_000_000, step)]),
        ];
    }
    let gone = (step % 3 == 0 && left.contains_key(&(step - 3))).then_some(step - 3);
    let replaced = right
        .get(&(step - 1))
        .map(|changes| (step - 1, changes + 1));
    [
        (gone.into_iter().collect(), vec![(step, 0)]),
        (
            replaced.iter().map(|(key, _)| *key).collect(),
            replaced.into_iter().chain([(step, 0)]).collect(),
        ),
    ]
}
