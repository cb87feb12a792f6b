//! Promise: damage withholds what needs the damaged bytes, and nothing else: the table of a log, the column of a dictionary. What is
//! withheld is named with the place and a way out, and can be dropped.

use std::fs;
use std::path::Path;

use crate::support::{CITY, all_rows, options, rows, scan, sorted, spec};
use arrow::array::RecordBatch;
use tierra_column::{Encoding, Filter, Value};
use tierra_engine::{Database, ScanSpec, Table};
use tierra_interleave::Scheduling;

/// `t` with a dictionary, sealed rows and a tail, and `u` beside it.
fn write(dir: &Path) {
    let database = Database::create(dir, &options()).unwrap();
    let mut with_dictionary = spec("t", vec![0]);
    with_dictionary.columns[CITY].encoding = Some(Encoding::Dictionary);
    let t = database.create_table(with_dictionary).unwrap();
    let u = database.create_table(spec("u", vec![0])).unwrap();
    t.append(&[rows(0..900)]).unwrap();
    t.seal().unwrap();
    u.append(&[rows(900..960)]).unwrap();
    for start in (900..960).step_by(20) {
        t.append(&[rows(start..start + 20)]).unwrap();
    }
    database.wait_for_near_copies().unwrap();
}

/// Flips a bit of the first structure that begins so.
fn damage(dir: &Path, begins: impl Fn(&[u8]) -> bool, behind: usize) {
    let path = dir.join("far.pool");
    let mut pool = fs::read(&path).unwrap();
    let lines = (16_384..pool.len()).step_by(64);
    let start = { lines }.find(|at| begins(&pool[*at..])).unwrap();
    pool[start + behind] ^= 0x10;
    fs::write(path, pool).unwrap();
}

fn read(table: &std::sync::Arc<Table>, projection: &[usize]) -> Result<u64, String> {
    let scan = table.snapshot().scan(ScanSpec {
        projection: projection.to_vec(),
        filters: vec![],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let mut count = 0;
    while let Some(batch) = cursor.next(&[], 0).map_err(|error| error.to_string())? {
        count += RecordBatch::num_rows(&batch) as u64;
    }
    Ok(count)
}

/// What is well works, writing included, whatever else is damaged, and goes on to after the next opening.
fn check_other(database: &Database, from: i64) {
    let u = database.table("u").unwrap();
    assert_eq!(all_rows(&u), rows(900..from));
    u.append(&[rows(from..from + 10)]).unwrap();
    u.seal().unwrap();
    u.append(&[rows(from + 10..from + 20)]).unwrap();
    assert_eq!(all_rows(&u), rows(900..from + 20));
}

#[test]
fn a_damaged_log_withholds_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    write(&db);
    // Record 1, of 20 rows.
    let begins = |bytes: &[u8]| bytes.starts_with(b"TLOG") && bytes[12] == 20 && bytes[16] == 1;
    damage(&db, begins, 80);
    for opening in 0..2 {
        let database = Database::open(&db, &options()).unwrap();
        let t = database.table("t").unwrap();
        let error = read(&t, &[0]).unwrap_err();
        for part in [
            "table \"t\" has rows that cannot be read: record 1 of its log",
            "the payload's checksum is wrong",
            "tier \"far\" (byte ",
            "far.pool); of 3 records, 0 before it and 2 behind it can be read",
            &format!("`tierra salvage {} OUT`", db.display()),
            "drop the table",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert!(read(&t, &[]).is_err(), "rows are not counted, either");
        assert!(t.append(&[rows(2000..2001)]).is_err());
        assert_eq!(database.unavailable().len(), 1);
        check_other(&database, 960 + 20 * opening);
    }
    let database = Database::open(&db, &options()).unwrap();
    database.drop_table("t").unwrap();
    drop(database);
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.tables(), ["u"]);
    assert_eq!(database.unavailable(), []);
    check_other(&database, 1000);
}

#[test]
fn a_damaged_dictionary_withholds_its_column() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    write(&db);
    // That of the cities, strings of which there are 200.
    let begins = |bytes: &[u8]| bytes.starts_with(b"TDIC") && bytes[6] == 1 && bytes[24] == 200;
    damage(&db, begins, 60);
    let database = Database::open(&db, &options()).unwrap();
    let t = database.table("t").unwrap();
    let others: Vec<usize> = (0..t.spec().columns.len())
        .filter(|at| *at != CITY)
        .collect();
    let (found, _) = scan(&t.snapshot(), &others, &[]);
    assert_eq!(sorted(&found), rows(0..960).project(&others).unwrap());
    assert_eq!(read(&t, &[]).unwrap(), 960);
    let error = read(&t, &[CITY]).unwrap_err();
    for part in [
        "table \"t\" has rows of column \"city\" that cannot be read",
        "the dictionary of column \"city\"",
        "tier \"far\" (byte ",
        "tierra salvage",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let city = Filter::eq(Value::Bytes("city number 007".as_bytes().into()));
    let conditional = t.snapshot().scan(ScanSpec {
        projection: vec![0],
        filters: vec![(CITY, city)],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = conditional.cursor();
    assert!(
        cursor.next(&[], 0).is_err(),
        "a condition on it is not answered"
    );
    assert!(t.append(&[rows(2000..2001)]).is_err());
    check_other(&database, 960);
    database.drop_table("t").unwrap();
    drop((cursor, t, database));
    drop(conditional);
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.tables(), ["u"]);
}

/// The header of another extent stands before the only copy of a segment, as a misdirected write leaves it. What is written from then on
/// is not written over it: as long as a manifest names it, it is somebody's.
#[test]
fn what_is_withheld_keeps_its_space() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    write(&db);
    let path = db.join("far.pool");
    let mut pool = fs::read(&path).unwrap();
    // Extents of segments, one of `t`, and of manifests: kind 3 and 1 of owners, whose top byte is that.
    let headers = |kind: u8| {
        let grains = (16_384..pool.len()).step_by(4096);
        let of_kind = grains.filter(|at| pool[*at..].starts_with(b"TIERRAEX"));
        of_kind
            .filter(|at| pool[at + 15] == kind)
            .collect::<Vec<_>>()
    };
    let (segment, manifest) = (headers(3)[0], headers(1)[0]);
    pool.copy_within(manifest..manifest + 64, segment);
    fs::write(&path, &pool).unwrap();
    for opening in 0..4 {
        let database = Database::open(&db, &options()).unwrap();
        let t = database.table("t").unwrap();
        let error = read(&t, &[0]).unwrap_err();
        assert!(error.contains("table \"t\" has rows"), "{error}");
        check_other(&database, 960 + 20 * opening);
        database.wait_for_near_copies().unwrap();
    }
    // Behind the header all is as it was.
    let now = fs::read(&path).unwrap();
    assert!(now[segment + 64..segment + 4096] == pool[segment + 64..segment + 4096]);
    let database = Database::open(&db, &options()).unwrap();
    database.drop_table("t").unwrap();
    check_other(&database, 1040);
    drop(database);
    let database = Database::open(&db, &options()).unwrap();
    check_other(&database, 1060);
}
