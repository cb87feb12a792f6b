//! A process that is killed at any moment leaves a database that opens: every row whose append or
//! load had returned is there, and no part of any other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{CITY, all_rows, options, rows, scan, spec, used_bytes};
use arrow::array::{ArrayRef, Int64Array};
use tierra_column::{Filter, Value};
use tierra_engine::{Database, IndexKind};
use tierra_interleave::Lookups;

const APPEND_ROWS: i64 = 37;
const LOAD_ROWS: i64 = 70_000;

fn start(test: &str, dir: &Path) -> Child {
    let this = std::env::current_exe().unwrap();
    let mut child = Command::new(this);
    child
        .args([
            "--exact",
            &format!("crash::{test}"),
            "--ignored",
            "--nocapture",
        ])
        .env("TIERRA_TEST_DIR", dir);
    child
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child some time after its first commit; returns how many commits it reported.
fn kill_after(mut child: Child, delay: Duration) -> i64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut committed = 0;
    // On one core the harness writes the test's name onto the line of the first commit.
    let count = |line: &str| i64::from(line.ends_with("committed"));
    while committed == 0 {
        committed += count(&lines.next().expect("the child commits at least once"));
    }
    std::thread::sleep(delay);
    // SIGKILL: nothing of the child runs after it.
    child.kill().unwrap();
    child.wait().unwrap();
    committed + lines.map(|line| count(&line)).sum::<i64>()
}

fn check(dir: &Path, committed: i64, unit: i64) {
    let database = Database::open(dir, &options()).unwrap();
    let table = database.table("t").unwrap();
    let count = table.snapshot().rows() as i64;
    // The last commit may have become durable without having been reported.
    assert!(
        count == committed * unit || count == (committed + 1) * unit,
        "{count} rows, {committed} commits of {unit}"
    );
    assert_eq!(all_rows(&table), rows(0..count));
    // And it goes on.
    table.append(&[rows(count..count + 5)]).unwrap();
    drop((table, database));
    let database = Database::open(dir, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..count + 5));
}

#[test]
fn killed_while_appending() {
    for delay in [0, 3, 20, 90] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let committed = kill_after(
            start("append_until_killed", &dir),
            Duration::from_millis(delay),
        );
        check(&dir, committed, APPEND_ROWS);
    }
}

#[test]
fn killed_while_loading() {
    for delay in [0, 25, 60, 110] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let committed = kill_after(
            start("load_until_killed", &dir),
            Duration::from_millis(delay),
        );
        check(&dir, committed, LOAD_ROWS);
    }
}

/// Parts of indexes are built, joined and built anew while rows come: whatever a kill leaves of them,
/// answers are right, what is missing is made, and no space is lost.
#[test]
fn killed_while_indexing() {
    for delay in [0, 15, 40, 90, 170] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let committed = kill_after(
            start("index_until_killed", &dir),
            Duration::from_millis(delay),
        );
        let open = || {
            let database = Database::open(&dir, &options()).unwrap();
            database.wait_for_near_copies().unwrap();
            let table = database.table("t").unwrap();
            (database, table)
        };
        let used = [(); 2].map(|()| {
            let (database, table) = open();
            let snapshot = table.snapshot();
            assert!(snapshot.rows() as i64 >= committed * APPEND_ROWS);
            assert_eq!(all_rows(&table), rows(0..snapshot.rows() as i64));
            let sealed = snapshot.rows() - snapshot.tail_rows();
            assert_eq!(snapshot.indexed_rows(CITY), sealed);
            let city = Value::Bytes(b"city number 007".as_slice().into());
            let (found, counters) = scan(&snapshot, &[0], &[(CITY, Filter::eq(city))]);
            assert_eq!(
                found.num_rows(),
                (0..snapshot.rows()).skip(7).step_by(200).count()
            );
            assert_eq!(counters.index_lookups > 0, sealed > 0);
            assert_eq!(snapshot.key_index().listed_rows, sealed);
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..snapshot.rows() as i64));
            let found = snapshot
                .rows_by_key(&[ids], &mut Lookups::default())
                .unwrap();
            assert!(found[0].is_none() && found[1..].iter().all(Option::is_some));
            drop((table, snapshot));
            used_bytes(&database)
        });
        assert_eq!(
            used[0], used[1],
            "bytes in use after one opening and after another"
        );
    }
}

/// Each commit changes two tables: it adds a row to both, and deletes one of each.
#[test]
fn killed_while_changing_two_tables() {
    for delay in [0, 5, 20, 60, 150] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let committed = kill_after(
            start("change_until_killed", &dir),
            Duration::from_millis(delay),
        );
        let database = Database::open(&dir, &options()).unwrap();
        let found = ["t", "u"].map(|name| {
            let snapshot = database.table(name).unwrap().snapshot();
            crate::changed::ids(&snapshot)
                .into_keys()
                .collect::<Vec<i64>>()
        });
        assert_eq!(found[0], found[1], "half of a commit");
        // The last commit may have become durable without having been reported.
        let commits = found[0].last().map_or(0, |last| last + 1);
        assert!(commits == committed || commits == committed + 1);
        let expected = (0..commits).filter(|key| key % 3 != 0 || key + 3 >= commits);
        assert!(found[0].iter().copied().eq(expected), "{:?}", found[0]);
    }
}

#[test]
#[ignore = "the child of `killed_while_changing_two_tables`"]
fn change_until_killed() {
    let dir = std::env::var_os("TIERRA_TEST_DIR").unwrap();
    let database = Database::create(Path::new(&dir), &options()).unwrap();
    let tables = ["t", "u"].map(|name| {
        let spec = crate::changed::spec(name, true);
        database.create_table(spec).unwrap()
    });
    for key in 0_i64.. {
        // Every third row goes when three others have come.
        let gone = (key >= 3 && key % 3 == 0).then_some(key - 3);
        let deleted = gone.as_slice();
        let changes = tables
            .iter()
            .map(|table| crate::changed::change(&table.snapshot(), deleted, &[(key, 0)]));
        database.commit(changes.collect()).unwrap();
        println!("committed");
        if key % 50 == 49 {
            tables[0].seal().unwrap();
        }
    }
}

fn child_table() -> (
    std::sync::Arc<Database>,
    std::sync::Arc<tierra_engine::Table>,
) {
    let dir = std::env::var_os("TIERRA_TEST_DIR").unwrap();
    let database = Database::create(Path::new(&dir), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    (database, table)
}

#[test]
#[ignore = "the child of `killed_while_indexing`"]
fn index_until_killed() {
    let dir = std::env::var_os("TIERRA_TEST_DIR").unwrap();
    let database = Database::create(Path::new(&dir), &options()).unwrap();
    let mut spec = spec("t", vec![0]);
    spec.columns[CITY].index = Some(IndexKind::Inverted);
    spec.columns[0].index = Some(IndexKind::Inverted);
    let table = database.create_table(spec).unwrap();
    for first in (0..).step_by(APPEND_ROWS as usize) {
        table.append(&[rows(first..first + APPEND_ROWS)]).unwrap();
        // Each new id is a new value: dictionaries are merged all the time.
        table.seal().unwrap();
        println!("committed");
    }
}

#[test]
#[ignore = "the child of `killed_while_appending`"]
fn append_until_killed() {
    let (_database, table) = child_table();
    for first in (0..).step_by(APPEND_ROWS as usize) {
        table.append(&[rows(first..first + APPEND_ROWS)]).unwrap();
        println!("committed");
    }
}

#[test]
#[ignore = "the child of `killed_while_loading`"]
fn load_until_killed() {
    let (_database, table) = child_table();
    for first in (0..).step_by(LOAD_ROWS as usize) {
        let mut loader = table.loader();
        for start in (first..first + LOAD_ROWS).step_by(10_000) {
            loader.push(rows(start..start + 10_000)).unwrap();
        }
        loader.finish().unwrap();
        println!("committed");
    }
}
