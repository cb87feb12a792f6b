//! Promise: a database that another version of Tierra wrote is refused by the name of what is of another version, and stays
//! as it is.

use std::path::Path;
use std::sync::Arc;

use crate::seal;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, TableSpec};

/// A database with sealed rows and a tail.
fn pool(dir: &Path) -> Vec<u8> {
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(dir, &options).unwrap();
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec::new("n", LogicalType::BigInt)],
        primary_key: vec![],
    };
    let table = database.create_table(spec).unwrap();
    for _ in 0..2 {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let rows = RecordBatch::try_new(table.schema(), vec![numbers]).unwrap();
        table.append(&[rows]).unwrap();
        if table.snapshot().rows() == 10 {
            table.seal().unwrap();
        }
    }
    drop((table, database));
    std::fs::read(dir.join("far.pool")).unwrap()
}

/// What opening says where these structures have the version, and what the file is then.
fn refusal(dir: &Path, pool: &[u8], magic: &[u8], at: usize, version: u8) -> (String, bool) {
    let mut other = pool.to_vec();
    for line in other.chunks_mut(64).filter(|line| line.starts_with(magic)) {
        line[at] = version;
    }
    seal::pool(&mut other);
    let path = dir.join("far.pool");
    std::fs::write(&path, &other).unwrap();
    let error = Database::open(dir, &DatabaseOptions::default()).unwrap_err();
    (error.to_string(), std::fs::read(&path).unwrap() == other)
}

#[test]
fn a_manifest_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let pool = pool(&db);
    for version in [0, 2, 4, 255] {
        let (error, is_as_it_was) = refusal(&db, &pool, b"TIERRAMF", 8, version);
        let expected = format!(
            "the manifest has format version {version}, but this Tierra reads only version 1"
        );
        assert!(error.contains(&expected), "{error}");
        assert!(is_as_it_was);
    }
}
