//! Promise: where a commit is made, on the thread that asks for it or by the writer's, is seen by its time alone.

use std::sync::atomic::{AtomicBool, Ordering};

use tierra_engine::{CommitError, Database, Submitted};

use crate::changed::{Model, change, check, commit, spec};
use crate::support::{folders, options};

/// In memory a small commit is made without another thread, and seen at once. A large one is left to be waited for.
#[test]
fn a_small_commit_into_memory_is_made_when_it_is_asked_for() {
    let dir = tempfile::TempDir::new_in("/dev/shm");
    let Ok(dir) = dir else {
        println!("left out: there is no /dev/shm");
        return;
    };
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", true)).unwrap();
    let other = database.create_table(spec("u", true)).unwrap();
    // The first makes room in a log.
    for table in [&table, &other] {
        commit(&database, table, &[], &[(0, 0)]).unwrap();
    }
    // The writer's thread may be at what creation and first rows have left to do.
    let mut rows = Model::from([(0, 0)]);
    let committed = loop {
        let key = *rows.keys().next().unwrap();
        let own = change(&table.snapshot(), &[key], &[(key + 1, 0)]);
        let theirs = change(&other.snapshot(), &[], &[(key + 1, 0)]);
        rows = Model::from([(key + 1, 0)]);
        match database.submit(vec![own, theirs]).unwrap() {
            Submitted::Done(committed) => break committed,
            Submitted::Waiting(waiting) => drop(waiting.wait().unwrap()),
        }
        assert!(key < 1_000, "each of them was left to the writer");
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!((committed.deleted, committed.appended), (1, 2));
    check(&table.snapshot(), &rows, &[], &[]);
    let key = *rows.keys().next().unwrap();
    let again = change(&table.snapshot(), &[], &[(key, 5)]);
    let outcome = match database.submit(vec![again]) {
        Ok(Submitted::Waiting(waiting)) => waiting.wait().map(drop),
        submitted => submitted.map(drop),
    };
    let error = outcome.unwrap_err();
    assert!(matches!(error, CommitError::DuplicateKey(_)), "{error}");
    let many: Vec<(i64, i64)> = (2_000..7_000).map(|key| (key, 0)).collect();
    let Submitted::Waiting(waiting) = database
        .submit(vec![change(&table.snapshot(), &[], &many)])
        .unwrap()
    else {
        panic!("5,000 rows were prepared where nothing may block");
    };
    assert_eq!(table.snapshot().rows(), 1);
    let later = waiting.wait().unwrap();
    assert!(later.number > committed.number && later.appended == 5_000);
    let none = database.submit(Vec::new()).unwrap();
    assert!(matches!(none, Submitted::Done(committed) if committed.number == 0));
    database.close();
    let closed = change(&table.snapshot(), &[], &[(9_000, 0)]);
    let outcome = match database.submit(vec![closed]) {
        Ok(Submitted::Waiting(waiting)) => waiting.wait().map(drop),
        submitted => submitted.map(drop),
    };
    assert!(outcome.is_err(), "a closed database has taken a commit");
}

/// Both ways at the same time, on the same tables: each commit has a number of its own or shares it, and all are there in the end.
#[test]
fn commits_made_at_once_and_by_the_writer_make_one_history() {
    const COMMITS: i64 = 2_000;
    for dir in folders() {
        let path = dir.path().join("db");
        let database = Database::create(&path, &options()).unwrap();
        let table = database.create_table(spec("t", true)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let committing: Vec<_> = (0..2)
                .map(|session| {
                    let (database, table) = (&database, &table);
                    scope.spawn(move || {
                        let mut last = 0;
                        for at in 0..COMMITS {
                            let key = session * COMMITS + at;
                            let change = change(&table.snapshot(), &[], &[(key, session)]);
                            let committed = match database.submit(vec![change]).unwrap() {
                                Submitted::Done(committed) => committed,
                                Submitted::Waiting(waiting) => waiting.wait().unwrap(),
                            };
                            assert!(committed.number > last);
                            last = committed.number;
                        }
                    })
                })
                .collect();
            // What the writer's thread does meanwhile.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    database.create_table(spec("u", false)).unwrap();
                    table.seal().unwrap();
                    database.drop_table("u").unwrap();
                }
            });
            let ended: Vec<_> = committing.into_iter().map(|thread| thread.join()).collect();
            stop.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        let model: Model = (0..2 * COMMITS).map(|key| (key, key / COMMITS)).collect();
        check(&table.snapshot(), &model, &[], &[]);
        drop(table);
        database.close();
        drop(database);
        let database = Database::open(&path, &options()).unwrap();
        check(&database.table("t").unwrap().snapshot(), &model, &[], &[]);
    }
}
