//! A device that fails a write does not say what it stored: the outcome is unknown if no other tier has the write.

use tierra_memory::faults::Injector;

use crate::support::{all_rows, options, rows, spec};
use crate::{AppendError, Database, Replicas, StorageError};

#[test]
fn an_outcome_that_is_unknown_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let database = Database::create(&db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
    table.append(&[rows(0..150)]).unwrap();
    let pools = database.pools();
    let mut injector = Injector::new(1);
    injector.refuse_writes(&pools[1]);
    // Another tier has it.
    table.append(&[rows(150..151)]).unwrap();
    assert_eq!(database.missing_tiers()[0].0, "b");
    injector.refuse_writes(&pools[0]);
    let error = table.append(&[rows(151..152)]).unwrap_err();
    let is_unknown = matches!(error, AppendError::Storage(StorageError::Unknown { .. }));
    assert!(is_unknown, "{error}");
    assert!(error.to_string().contains("unknown until"), "{error}");
    // From here on nothing is written any more.
    let error = table.append(&[rows(151..152)]).unwrap_err();
    assert!(!error.to_string().contains("unknown until"), "{error}");
    drop((table, database, pools));
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..151));
}
