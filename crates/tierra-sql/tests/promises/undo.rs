//! A statement that does not end changes nothing: neither when it fails nor when its caller stops waiting.

use std::sync::Arc;
use std::time::Duration;

use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Session, SessionOptions};

const ENDLESS: &str = "SELECT value FROM generate_series(1, 9000000000000) AS t(value)";

fn session(dir: &tempfile::TempDir) -> (Arc<Database>, Session) {
    let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
    let session = Session::new(Arc::clone(&database), &SessionOptions::default()).unwrap();
    (database, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_whose_query_is_given_up_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (database, session) = session(&dir);
    let sql = format!("CREATE TABLE given_up AS {ENDLESS}");
    let given_up = tokio::time::timeout(Duration::from_millis(300), session.sql(&sql)).await;
    assert!(given_up.is_err());
    assert!(database.table("given_up").is_none());
    // The name is free, and what comes next is not disturbed.
    session
        .sql("CREATE TABLE given_up AS SELECT 1 AS x")
        .await
        .unwrap();
    assert_eq!(database.table("given_up").unwrap().snapshot().rows(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_is_given_up_leaves_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (database, session) = session(&dir);
    session.sql("CREATE TABLE t (x BIGINT)").await.unwrap();
    let sql = format!("INSERT INTO t {ENDLESS}");
    let given_up = tokio::time::timeout(Duration::from_millis(300), session.sql(&sql)).await;
    assert!(given_up.is_err());
    session.sql("INSERT INTO t VALUES (7)").await.unwrap();
    assert_eq!(database.table("t").unwrap().snapshot().rows(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_made_by_somebody_else_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (database, session) = session(&dir);
    let sql = format!("CREATE TABLE t AS {ENDLESS}");
    let mut statement = session.sql(&sql);
    tokio::select! {
        outcome = &mut statement => panic!("{outcome:?}"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    session.sql("CREATE TABLE t (y BIGINT)").await.unwrap();
    drop(statement);
    let table = database.table("t").unwrap();
    assert_eq!(table.spec().columns[0].name, "y");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_no_rows_is_there_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (database, session) = session(&dir);
    let empty = "CREATE TABLE empty AS SELECT 1 AS x WHERE 1 = 0";
    session.sql(empty).await.unwrap();
    assert_eq!(database.table("empty").unwrap().snapshot().rows(), 0);
    assert!(session.sql(empty).await.is_err());
}
