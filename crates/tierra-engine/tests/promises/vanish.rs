//! Promise: of what was acknowledged nothing is silently gone. Whatever of a log turns to zeros or changes while the database is
//! closed, all rows are there or the table says that it is damaged.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{all_rows, folders, options, rows, spec};
use tierra_engine::{Database, OpenError, Table, UnavailableError};

const RECORDS: i64 = 8;

/// Two tables that take turns, `t` with 3 rows a record; each has rows from 0 on.
fn write(dir: &Path) -> (Arc<Database>, [Arc<Table>; 2]) {
    let database = Database::create(dir, &options()).unwrap();
    let [t, u] = ["t", "u"].map(|name| database.create_table(spec(name, vec![0])).unwrap());
    for record in 0..RECORDS {
        t.append(&[rows(3 * record..3 * record + 3)]).unwrap();
        u.append(&[rows(record..record + 1)]).unwrap();
    }
    (database, [t, u])
}

/// Copies a directory, as a killed process would leave it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap();
        if name != "LOCK" {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// A record of a log in a pool: where it starts, and how long its payload is.
#[derive(Clone, Copy)]
struct Record {
    at: usize,
    payload: usize,
}

/// The records of each log, in the order of the pool, and where the log's extent ends.
fn logs(pool: &[u8]) -> Vec<(Vec<Record>, usize)> {
    let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap()) as usize;
    let extents = (16_384..pool.len()).step_by(4096);
    let logs = extents.filter(|at| pool[*at..].starts_with(b"TIERRAEX") && pool[at + 52] == 1);
    let records = logs.map(|extent| {
        let end = extent + 64 + u64_at(extent + 24);
        let starts = (extent + 128..end).step_by(64);
        let starts = starts.filter(|at| pool[*at..].starts_with(b"TLOG"));
        let record = |at: usize| Record {
            at,
            payload: u64_at(at + 8) & 0xffff_ffff,
        };
        (starts.map(record).collect(), end)
    });
    records.collect()
}

/// How many records of each log are marked as acknowledged.
fn marks(pool: &[u8]) -> Vec<u8> {
    let logs = logs(pool);
    logs.iter()
        .map(|(records, _)| pool[records[0].at - 8])
        .collect()
}

/// Opens a changed pool: the tables that can be read have all their rows. Which cannot be.
fn withheld(dir: &Path, pool: &[u8]) -> Vec<String> {
    fs::write(dir.join("far.pool"), pool).unwrap();
    let database = Database::open(dir, &options()).unwrap();
    let name = |error: UnavailableError| match error {
        UnavailableError::Damaged { table, .. } => table,
        other => panic!("{other}"),
    };
    let withheld: Vec<String> = database.unavailable().into_iter().map(name).collect();
    for (name, count) in [("t", 3 * RECORDS), ("u", RECORDS)] {
        let table = database.table(name).unwrap();
        if !withheld.iter().any(|other| other == name) {
            assert_eq!(all_rows(&table), rows(0..count), "{name}");
        } else {
            let error = table.append(&[rows(1000..1001)]).unwrap_err().to_string();
            assert!(error.contains("tierra salvage"), "{error}");
        }
    }
    withheld
}

#[test]
fn zeros_to_the_end_of_a_log_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    drop(write(&db));
    let whole = fs::read(db.join("far.pool")).unwrap();
    assert_eq!(withheld(&db, &whole), [""; 0]);
    let logs = logs(&whole);
    assert_eq!(logs.len(), 2);
    for (log, name) in logs.iter().zip(["t", "u"]) {
        let (records, end) = log;
        assert_eq!(records.len(), RECORDS as usize);
        for record in records {
            let mut zeros = whole.clone();
            zeros[record.at..*end].fill(0);
            assert_eq!(withheld(&db, &zeros), [name], "from {}", record.at);
        }
        // With the line that says how many records there are.
        let mut zeros = whole.clone();
        zeros[records[0].at - 64..*end].fill(0);
        assert_eq!(withheld(&db, &zeros), [name]);
    }
}

#[test]
fn a_changed_byte_of_any_record_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    drop(write(&db));
    let whole = fs::read(db.join("far.pool")).unwrap();
    for (log, name) in logs(&whole).iter().zip(["t", "u"]) {
        for record in &log.0 {
            for at in (record.at..record.at + 64 + record.payload).step_by(97) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                assert_eq!(withheld(&db, &flipped), [name], "byte {at}");
            }
        }
    }
}

/// A process that was killed has not marked its newest record of each table: that one alone can be taken for torn, and only where no other
/// table has a later one.
#[test]
fn what_a_killed_process_acknowledged_is_noticed_but_for_the_newest_record() {
    let dir = tempfile::tempdir().unwrap();
    let killed = dir.path().join("killed");
    // As it is at once: nothing has rested yet, unless the machine was busy for a second.
    let left = (0..20).find_map(|attempt| {
        let db = dir.path().join(format!("db{attempt}"));
        let open = write(&db);
        let left = fs::read(db.join("far.pool")).unwrap();
        drop(open);
        let has_rested = marks(&left).iter().any(|mark| i64::from(*mark) == RECORDS);
        (!has_rested).then(|| {
            copy(&db, &killed);
            left
        })
    });
    let left = left.expect("it takes no second each time");
    assert_eq!(withheld(&killed, &left), [""; 0]);
    let [t, u] = [0, 1].map(|log| logs(&left)[log].clone());
    let zeros = |(records, end): &(Vec<Record>, usize), from: usize| {
        let mut zeros = left.clone();
        zeros[records[from].at..*end].fill(0);
        zeros
    };
    let last = RECORDS as usize - 1;
    for from in 0..=last {
        // The last commit but one is its newest record: a later one of the other table says so.
        assert_eq!(withheld(&killed, &zeros(&t, from)), ["t"], "from {from}");
        // Not only when it is opened first: what is written meanwhile does not hide it.
        let database = Database::open(&killed, &options()).unwrap();
        assert_eq!(database.unavailable().len(), 1);
        database.create_table(spec("v", vec![])).unwrap();
        drop(database);
        let database = Database::open(&killed, &options()).unwrap();
        assert_eq!(database.unavailable().len(), 1, "from {from}");
    }
    for from in 0..last {
        assert_eq!(withheld(&killed, &zeros(&u, from)), ["u"], "from {from}");
    }
    fs::write(killed.join("far.pool"), zeros(&u, last)).unwrap();
    let database = Database::open(&killed, &options()).unwrap();
    assert_eq!(
        all_rows(&database.table("u").unwrap()),
        rows(0..RECORDS - 1)
    );
    assert_eq!(database.unavailable(), []);
}

/// After a second of rest not even the newest can go.
#[test]
fn after_a_rest_the_newest_record_is_noticed_too() {
    folders().iter().for_each(newest_record_after_a_rest);
}

fn newest_record_after_a_rest(dir: &tempfile::TempDir) {
    let (db, killed) = (dir.path().join("db"), dir.path().join("killed"));
    let database = Database::create(&db, &options()).unwrap();
    let [t, u] = ["t", "u"].map(|name| database.create_table(spec(name, vec![0])).unwrap());
    let began = Instant::now();
    t.append(&[rows(0..3 * RECORDS)]).unwrap();
    u.append(&[rows(0..RECORDS)]).unwrap();
    let fresh = fs::read(db.join("far.pool")).unwrap();
    if began.elapsed() < Duration::from_secs(1) {
        assert_eq!(marks(&fresh), [0, 0]);
    }
    let rested = loop {
        std::thread::sleep(Duration::from_millis(50));
        let pool = fs::read(db.join("far.pool")).unwrap();
        if marks(&pool) == [1, 1] {
            break pool;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no rest marks it"
        );
    };
    drop((t, u, database));
    copy(&db, &killed);
    for (log, name) in logs(&rested).iter().zip(["t", "u"]) {
        let mut zeros = rested.clone();
        zeros[log.0[0].at..log.1].fill(0);
        assert_eq!(withheld(&killed, &zeros), [name]);
    }
}

/// A copy of a running database of which some pages are older than others: the manifest is older than what follows it.
#[test]
fn records_that_follow_a_newer_manifest_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, torn) = (dir.path().join("db"), dir.path().join("torn"));
    let database = Database::create(&db, &options()).unwrap();
    let t = database.create_table(spec("t", vec![0])).unwrap();
    t.append(&[rows(0..3)]).unwrap();
    let before = fs::read(db.join("far.pool")).unwrap();
    database.create_table(spec("u", vec![0])).unwrap();
    t.append(&[rows(3..6)]).unwrap();
    let mut pool = fs::read(db.join("far.pool")).unwrap();
    copy(&db, &torn);
    drop((t, database));
    // The header and the superblock, which names the manifest.
    pool[..16_384].copy_from_slice(&before[..16_384]);
    fs::write(torn.join("far.pool"), &pool).unwrap();
    let error = Database::open(&torn, &options()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Ahead { table, .. } if table == "t"),
        "{error}"
    );
    let error = error.to_string();
    for part in ["record 1 of its log follows version", "--to-version"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert!(
        fs::read(torn.join("far.pool")).unwrap() == pool,
        "it was changed"
    );
}
