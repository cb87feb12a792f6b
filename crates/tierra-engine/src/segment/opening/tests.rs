//! Replicas of a chunk that have different values: an intact chunk is in the place of another one, as a device leaves it that wrote
//! to a wrong place.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use tierra_column::{Encoding, LogicalType};
use tierra_interleave::Scheduling;

use crate::manifest::ReplicaNumber;
use crate::support::options;
use crate::{
    ColumnSpec, Database, DatabaseOptions, Replicas, ScanError, ScanSpec, Table, TableSpec,
};

const ROWS: i64 = 3000;

fn how() -> DatabaseOptions {
    DatabaseOptions {
        degraded: true,
        // It finds the damage as well.
        scrub_bytes_per_s: Some(0),
        ..options()
    }
}

/// A table `t` of the numbers that follow `first`, in these replicas.
fn create(db: &Path, replicas: &[&str], first: i64) -> Arc<Database> {
    let database = Database::create(db, &how()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec::new("n", LogicalType::BigInt)],
        primary_key: Vec::new(),
    };
    let tiers = replicas.iter().map(|tier| (*tier).to_owned()).collect();
    let replicas = Replicas {
        table: vec!["far".to_owned(), "b".to_owned()],
        columns: [("n".to_owned(), tiers)].into(),
    };
    let table = database.create_table_in(spec, replicas).unwrap();
    let numbers = Int64Array::from_iter_values(first..first + ROWS);
    let batch = RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap();
    table.append(&[batch]).unwrap();
    table.seal().unwrap();
    database.wait_for_near_copies().unwrap();
    database
}

fn read(table: &Arc<Table>) -> Result<Vec<i64>, ScanError> {
    let scan = table.snapshot().scan(ScanSpec {
        projection: vec![0],
        filters: Vec::new(),
        batch_rows: 1024,
        execution: Scheduling::Auto,
    });
    let (mut cursor, mut all) = (scan.cursor(), Vec::new());
    while let Some(batch) = cursor.next(&[], 0)? {
        all.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(all)
}

/// Puts a replica's chunk of one database in the place of the same one of another.
fn misplace(from: &Database, to: &Database, number: usize) {
    let replica = ReplicaNumber { column: 0, number };
    let segment = |database: &Database| {
        let table = database.table("t").unwrap();
        table.current().segments[0].clone()
    };
    let image = segment(from).image(replica).unwrap();
    let there = segment(to);
    let place = there.entry().replica(replica);
    assert_eq!(image.len() as u64, place.len_bytes, "it has to fit");
    let extent = there.extents()[place.extent as usize].as_ref().unwrap();
    let copy = extent.read();
    let file = std::fs::File::options()
        .write(true)
        .open(copy.pool().path());
    let at = copy.extent().offset + place.offset;
    file.unwrap().write_all_at(&image, at).unwrap();
}

#[test]
fn of_two_that_differ_neither_is_believed() {
    for wrong in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("db");
        let replicas = ["far/static", "b/delta"];
        let database = create(&db, &replicas, 0);
        misplace(
            &create(&dir.path().join("other"), &replicas, 7),
            &database,
            wrong,
        );
        drop(database);
        for _ in 0..2 {
            let database = Database::open(&db, &how()).unwrap();
            let table = database.table("t").unwrap();
            let error = read(&table).unwrap_err();
            assert!(matches!(error, ScanError::Damaged { .. }), "{error}");
            let error = error.to_string();
            for part in [
                "far/static",
                "b/delta",
                "have different values",
                "without the tier",
            ] {
                assert!(error.contains(part), "{part} is not in {error}");
            }
            let (faults, totals) = database.faults();
            assert_eq!((totals.found, totals.lost), (2, 2), "{faults:?}");
            // Nothing is made of either.
            database.wait_for_near_copies().unwrap();
            assert!(read(&table).is_err());
        }
        // That is the way out.
        let pools = ["far.pool", "b.pool"];
        let away = db.join(pools[wrong]);
        std::fs::rename(&away, away.with_extension("away")).unwrap();
        let database = Database::open(&db, &how()).unwrap();
        let found = read(&database.table("t").unwrap()).unwrap();
        assert_eq!(found, (0..ROWS).collect::<Vec<_>>());
    }
}

#[test]
fn of_three_two_are_believed_and_the_third_is_made_again() {
    for wrong in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("db");
        let replicas = ["far/static", "b/delta", "b/for"];
        let database = create(&db, &replicas, 0);
        misplace(
            &create(&dir.path().join("other"), &replicas, 7),
            &database,
            wrong,
        );
        drop(database);
        let database = Database::open(&db, &how()).unwrap();
        let table = database.table("t").unwrap();
        let expected: Vec<i64> = (0..ROWS).collect();
        assert_eq!(read(&table).unwrap(), expected, "{wrong}");
        let (faults, totals) = database.faults();
        assert_eq!((totals.found, totals.lost), (1, 0), "{faults:?}");
        database.wait_for_near_copies().unwrap();
        assert_eq!(read(&table).unwrap(), expected, "{wrong}");
        drop((table, database));
        let database = Database::open(&db, &how()).unwrap();
        assert_eq!(database.faults().1.found, 0);
        let table = database.table("t").unwrap();
        let entry = table.current().segments[0].entry().clone();
        let mut encodings: Vec<Encoding> = entry.replicas(0).map(|place| place.encoding).collect();
        encodings.sort_unstable();
        let all = [
            Encoding::Static,
            Encoding::FrameOfReference,
            Encoding::Delta,
        ];
        assert_eq!(encodings, all);
        assert_eq!(read(&table).unwrap(), expected);
    }
}
