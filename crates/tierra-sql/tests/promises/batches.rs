//! Queries that run at once share a pass over their columns, and answer as each alone: with conditions, while rows are appended,
//! when one is cancelled, and when one fails for memory. EXPLAIN ANALYZE shows the batch, its level and what was shared.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use futures::StreamExt;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Outcome, Session, SessionOptions};

use crate::twins::rows;

const ROWS: i64 = 1 << 20;
const QUERIES: usize = 8;

/// A table of numbers that all lie far.
fn database(dir: &tempfile::TempDir) -> Arc<Database> {
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    Database::create(&dir.path().join("db"), &options).unwrap()
}

fn session(database: &Arc<Database>) -> Session {
    let options = SessionOptions {
        threads: Some(2),
        ..SessionOptions::default()
    };
    Session::new(Arc::clone(database), &options).unwrap()
}

async fn filled(dir: &tempfile::TempDir) -> Arc<Database> {
    let database = database(dir);
    let session = session(&database);
    let create = "CREATE TABLE t (a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL)";
    session.sql(create).await.unwrap();
    let table = database.table("t").unwrap();
    let column = |factor: i64| -> ArrayRef {
        let value = |row: i64| row.wrapping_mul(factor).rem_euclid(1_000_003);
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(value)))
    };
    let columns = vec![column(7_919), column(104_729), column(15_485_863)];
    let batch = RecordBatch::try_new(table.schema(), columns).unwrap();
    let mut loader = table.loader();
    loader.push(batch).unwrap();
    loader.finish().unwrap();
    database
}

async fn answer(session: &Session, sql: &str) -> Vec<String> {
    rows(&session.query(sql).await.unwrap())
}

/// What EXPLAIN ANALYZE says of the scan, as a number or a word.
fn said<'p>(plan: &'p str, name: &str) -> &'p str {
    let scan = plan.lines().find(|line| line.contains("TierraScanExec"));
    let scan = scan.unwrap_or_else(|| panic!("no scan in {plan}"));
    let (_, rest) = scan
        .split_once(&format!("{name}="))
        .unwrap_or_else(|| panic!("no {name} in {scan}"));
    let end = rest.find([',', ']', ' ']).unwrap_or(rest.len());
    &rest[..end]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_at_once_answer_as_each_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = filled(&dir).await;
    let lone = session(&database);
    lone.sql("SET tierra.batch_queries = 1").await.unwrap();
    let queries = [
        "SELECT SUM(a) FROM t".to_owned(),
        "SELECT SUM(a), SUM(b), MIN(c), COUNT(*) FROM t".to_owned(),
        "SELECT SUM(a) FROM t WHERE b < 10000".to_owned(),
        "SELECT b % 10 AS k, COUNT(*), SUM(a) FROM t GROUP BY k ORDER BY k".to_owned(),
        "SELECT MAX(a) FROM t WHERE c BETWEEN 5 AND 500000".to_owned(),
        "SELECT COUNT(*) FROM t x JOIN (SELECT a FROM t WHERE a < 300) y ON x.b = y.a".to_owned(),
        "SELECT a, b FROM t ORDER BY a, b LIMIT 5".to_owned(),
        "SELECT SUM(a + b) FROM t WHERE a % 3 = 0".to_owned(),
    ];
    let mut expected = Vec::new();
    for sql in &queries {
        expected.push(answer(&lone, sql).await);
    }
    for (batch_ms, level) in [(0, "auto"), (20, "scalar"), (20, "auto")] {
        let mut running = Vec::new();
        for sql in queries.clone() {
            let session = session(&database);
            for set in [
                format!("SET tierra.batch_ms = {batch_ms}"),
                format!("SET tierra.simd = '{level}'"),
            ] {
                session.sql(&set).await.unwrap();
            }
            running.push(tokio::spawn(async move { answer(&session, &sql).await }));
        }
        for (query, expected) in running.into_iter().zip(&expected) {
            assert_eq!(query.await.unwrap(), *expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let database = filled(&dir).await;
    let alone = session(&database);
    let plan = answer(&alone, "EXPLAIN SELECT SUM(a) FROM t")
        .await
        .join("\n");
    assert!(
        !plan.contains("simd=") && !plan.contains("batch="),
        "{plan}"
    );
    let plan = answer(&alone, "EXPLAIN ANALYZE SELECT SUM(a) FROM t").await;
    let plan = plan.join("\n");
    assert_eq!(
        (said(&plan, "batch"), said(&plan, "blocks_shared")),
        ("1", "0")
    );
    assert_ne!(said(&plan, "blocks_read"), "0");
    assert_ne!(said(&plan, "simd"), "auto");
    alone.sql("SET tierra.simd = 'scalar'").await.unwrap();
    let plan = answer(&alone, "EXPLAIN ANALYZE SELECT SUM(a) FROM t").await;
    assert_eq!(said(&plan.join("\n"), "simd"), "scalar");

    // One that takes nothing for 2 ms is not waited for, and may find nothing to share: a busy machine tears batches apart.
    for _ in 0..20 {
        if shared_at_once(&database).await > QUERIES / 2 {
            return;
        }
    }
    panic!("few of {QUERIES} queries at once share what they read");
}

/// How many queries share what they read, of many that begin at once.
async fn shared_at_once(database: &Arc<Database>) -> usize {
    let mut running = Vec::new();
    for _ in 0..QUERIES {
        let session = session(database);
        for set in [
            "SET tierra.batch_ms = 10000".to_owned(),
            format!("SET tierra.batch_queries = {QUERIES}"),
        ] {
            session.sql(&set).await.unwrap();
        }
        running.push(tokio::spawn(async move {
            answer(&session, "EXPLAIN ANALYZE SELECT SUM(a) FROM t").await
        }));
    }
    let mut shared = 0;
    for query in running {
        let plan = query.await.unwrap().join("\n");
        assert_eq!(said(&plan, "batch"), QUERIES.to_string(), "{plan}");
        shared += usize::from(said(&plan, "blocks_shared") != "0");
    }
    shared
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_cancelled_or_fails_leaves_the_others_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = filled(&dir).await;
    let sum = "SELECT SUM(a), SUM(b) FROM t";
    let expected = answer(&session(&database), sum).await;
    let mut running = Vec::new();
    for query in 0..QUERIES {
        let session = session(&database);
        session.sql("SET tierra.batch_ms = 10").await.unwrap();
        running.push(tokio::spawn(async move {
            match query % 4 {
                // Dropped amid its rows.
                0 => {
                    let Outcome::Rows(mut rows) = session.sql("SELECT a, b FROM t").await.unwrap()
                    else {
                        panic!("a query yields rows");
                    };
                    rows.next().await.unwrap().unwrap();
                    None
                }
                // More values than it may hold.
                1 => {
                    session.sql("SET tierra.query_memory = '1M'").await.unwrap();
                    let many = "SELECT array_agg(a) FROM t";
                    let error = session.query(many).await.unwrap_err().to_string();
                    assert!(error.contains("query_memory"), "{error}");
                    None
                }
                // Its own arithmetic fails.
                2 => {
                    let failing = "SELECT SUM(b / (a - 500001)) FROM t";
                    let error = session.query(failing).await.unwrap_err().to_string();
                    assert!(error.to_lowercase().contains("divi"), "{error}");
                    None
                }
                _ => Some(answer(&session, sum).await),
            }
        }));
    }
    let mut answered = 0;
    for query in running {
        if let Some(found) = query.await.unwrap() {
            assert_eq!(found, expected);
            answered += 1;
        }
    }
    assert_eq!(answered, QUERIES / 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_appended_meanwhile_are_in_no_older_answer() {
    let dir = tempfile::tempdir().unwrap();
    let database = filled(&dir).await;
    let writer = session(&database);
    let reading = (0..3).map(|_| {
        let session = session(&database);
        tokio::spawn(async move {
            let mut counts = Vec::new();
            for _ in 0..15 {
                let found = answer(&session, "SELECT COUNT(a), SUM(c - c + 1) FROM t").await;
                let (count, sum) = found[0].split_once(|c: char| !c.is_ascii_digit()).unwrap();
                assert_eq!(count, sum.trim_matches(|c: char| !c.is_ascii_digit()));
                counts.push(count.parse::<i64>().unwrap());
            }
            counts
        })
    });
    let reading = Vec::from_iter(reading);
    for _ in 0..10 {
        let append =
            "INSERT INTO t SELECT value, value, value FROM generate_series(1, 70000) AS s(value)";
        writer.sql(append).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for query in reading {
        let counts = query.await.unwrap();
        assert!(counts.is_sorted());
        assert!(counts.iter().all(|count| (count - ROWS) % 70_000 == 0));
    }
}
