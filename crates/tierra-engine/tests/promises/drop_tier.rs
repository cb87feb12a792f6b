//! Promise: a tier that no table is to have copies in goes, whatever was being written to it, and nothing names it afterwards.

use std::path::Path;
use std::sync::Arc;

use crate::support::{self, options};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tempfile::TempDir;
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, Loader, Replicas, Table, TableSpec};

/// More than two segments: the first is written once the second is begun.
const ROWS: i64 = (2 << 20) + 1000;

fn create(dir: &Path) -> (Arc<Database>, Arc<Table>) {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    database.add_tier("b", &dir.join("b.pool")).unwrap();
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec::new("id", LogicalType::BigInt).not_null()],
        primary_key: vec![],
    };
    let both = Replicas::of_table(["b", "far"]);
    let table = database.create_table_in(spec, both).unwrap();
    (database, table)
}

fn begin_load(table: &Arc<Table>) -> Loader {
    let mut loader = table.loader();
    let ids: ArrayRef = Arc::new((0..ROWS).collect::<Int64Array>());
    let batch = RecordBatch::try_new(table.schema(), vec![ids]).unwrap();
    loader.push(batch).unwrap();
    loader
}

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

#[test]
fn what_a_load_wrote_there_moves_away() {
    let dir = folder();
    let (database, table) = create(dir.path());
    let loader = begin_load(&table);
    table.set_replicas(&Replicas::of_table(["far"])).unwrap();
    loader.finish().unwrap();
    database.drop_tier("b").unwrap();
    drop((table, database));
    std::fs::remove_file(dir.path().join("b.pool")).unwrap();
    let database = Database::open(&dir.path().join("db"), &options()).unwrap();
    let found = support::all_rows(&database.table("t").unwrap());
    assert_eq!(found.num_rows() as i64, ROWS);
}

/// The load names copies in a tier that is none any more: it fails, and leaves nothing.
#[test]
fn a_load_into_a_tier_that_was_dropped_is_told() {
    let dir = folder();
    let (database, table) = create(dir.path());
    let loader = begin_load(&table);
    table.set_replicas(&Replicas::of_table(["far"])).unwrap();
    database.drop_tier("b").unwrap();
    let error = loader.finish().unwrap_err().to_string();
    assert!(error.contains("tier \"b\" was dropped"), "{error}");
    begin_load(&table).finish().unwrap();
    drop((table, database));
    let database = Database::open(&dir.path().join("db"), &options()).unwrap();
    let found = support::all_rows(&database.table("t").unwrap());
    assert_eq!(found.num_rows() as i64, ROWS);
}
