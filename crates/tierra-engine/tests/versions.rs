//! Promise: a database that an older Tierra wrote is opened, used, and of the newest format from its next commit on.

#[path = "../../../fuzz/src/image.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod image;
#[path = "../../../fuzz/src/seal.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod seal;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tierra_engine::{Database, DatabaseOptions, Snapshot};
use tierra_interleave::Lookups;

/// Format versions of the manifests in a pool.
fn manifests(pool: &[u8]) -> BTreeSet<u8> {
    let pages = pool.chunks(64);
    let manifests = pages.filter(|line| line.starts_with(b"TIERRAMF"));
    manifests.map(|line| line[8]).collect()
}

/// The keys are 0 to 25, of which the tail has the last six.
fn check(snapshot: &Snapshot) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..27));
    let found = snapshot.rows_by_key(&[ids], &mut Lookups::default());
    let found: Vec<bool> = found.unwrap().iter().map(Option::is_some).collect();
    let expected: Vec<bool> = (-1..27).map(|id| (0..26).contains(&id)).collect();
    assert_eq!(found, expected);
}

#[test]
fn keys_of_a_database_of_format_3_get_a_stored_index() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/database-3.image");
    let old = image::expand(&std::fs::read(golden).unwrap());
    assert_eq!(manifests(&old), [3].into());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("far.pool");
    std::fs::write(&path, &old).unwrap();
    for _ in 0..2 {
        let database = Database::open(dir.path(), &DatabaseOptions::default()).unwrap();
        let table = database.table("every").unwrap();
        check(&table.snapshot());
        database.wait_for_near_copies().unwrap();
        let snapshot = table.snapshot();
        check(&snapshot);
        let size = snapshot.key_index();
        assert_eq!((size.listed_rows, size.runs), (20, 1));
        drop((snapshot, table, database));
        assert!(manifests(&std::fs::read(&path).unwrap()).contains(&4));
    }
}
