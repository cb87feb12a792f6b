//! Statements are known while they run, can be cancelled, and are remembered if they were slow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use futures::StreamExt;
use tierra_sql::{Outcome, Session, SqlError};

use crate::twins::Twins;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A query that runs for minutes.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 1000000) b(y) WHERE x * y % 7 = 3";

async fn texts(session: &Session, sql: &str) -> Vec<String> {
    let batches = session.query(sql).await.unwrap();
    let texts = |batch: &RecordBatch| -> Vec<String> {
        let text = |row| array_value_to_string(batch.column(0), row).unwrap();
        (0..batch.num_rows()).map(text).collect()
    };
    batches.iter().flat_map(texts).collect()
}

async fn number(session: &Session, sql: &str) -> i64 {
    let batches = session.query(sql).await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_running_statement_is_listed_and_ends_when_it_is_cancelled() {
    let twins = Twins::new();
    let worker =
        Arc::new(Session::new(twins.tierra.database().clone(), &Default::default()).unwrap());
    worker.set_client("ada", "a test");
    let session = &twins.tierra;
    let task = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.query(LONG).await }
    });
    let listed = format!(
        "SELECT text FROM tierra_queries WHERE session = {}",
        worker.id()
    );
    let began = Instant::now();
    while texts(session, &listed).await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(texts(session, &listed).await, [LONG]);
    let who = "SELECT user_name || ' with ' || application FROM tierra_sessions WHERE running = 1 AND user_name <> ''";
    assert_eq!(texts(session, who).await, ["ada with a test"]);
    let id = format!(
        "SELECT id FROM tierra_queries WHERE session = {}",
        worker.id()
    );
    let id = number(session, &id).await;
    let began = Instant::now();
    assert!(session.cancel(id as u64));
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(SqlError::Cancelled)), "{ended:?}");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(texts(session, &listed).await.is_empty());
    assert!(!session.cancel(id as u64));
    // The session goes on.
    assert_eq!(number(&worker, "SELECT 1").await, 1);
    drop(worker);
    assert_eq!(
        number(session, "SELECT count(*) FROM tierra_sessions").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn rows_that_are_read_slowly_can_be_cancelled() {
    let twins = Twins::new();
    let session = &twins.tierra;
    let sql = "SELECT * FROM generate_series(1, 100000000)";
    let Outcome::Rows(mut rows) = session.sql(sql).await.unwrap() else {
        panic!()
    };
    let first = rows.next().await.unwrap().unwrap().num_rows();
    let state = format!("SELECT state FROM tierra_queries WHERE text = '{sql}' AND rows = {first}");
    assert_eq!(texts(session, &state).await, ["streaming"]);
    session.interrupt();
    assert!(matches!(rows.next().await, Some(Err(SqlError::Cancelled))));
    assert!(rows.next().await.is_none());
    assert!(texts(session, &state).await.is_empty());
    // Rows that are dropped are no longer listed either.
    drop(session.sql(sql).await.unwrap());
    let count = "SELECT count(*) FROM tierra_queries";
    assert_eq!(number(session, count).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_statements_are_remembered_with_their_error() {
    let twins = Twins::new();
    let session = &twins.tierra;
    let slow = "SELECT count(*) FROM tierra_slow_queries";
    session.sql("SET tierra.slow_ms = 3600000").await.unwrap();
    session.query("SELECT 1").await.unwrap();
    assert_eq!(number(session, slow).await, 0);
    session.sql("SET tierra.slow_ms = 0").await.unwrap();
    session.query("SELECT 4711").await.unwrap();
    session.query("SELECT nosuch").await.unwrap_err();
    session.sql("RESET tierra.slow_ms").await.unwrap();
    let errors = "SELECT COALESCE(error, 'none') FROM tierra_slow_queries WHERE text LIKE 'SELECT %4711' OR text LIKE 'SELECT %nosuch' ORDER BY id";
    let errors = texts(session, errors).await;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[0], "none");
    assert!(errors[1].contains("nosuch"), "{errors:?}");
    let refused = session
        .sql("SET tierra.slow_ms = 'never'")
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("milliseconds"), "{refused}");
}
