//! Statements that change rows: sessions that change the same rows, memory, statements that are planned once.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int32Array, Int64Array, StringArray};
use arrow::util::display::array_value_to_string;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{ErrorKind, Outcome, Session, SessionOptions};

use crate::twins::memory;

fn database(dir: &tempfile::TempDir) -> Arc<Database> {
    Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap()
}

fn session(database: &Arc<Database>) -> Session {
    let options = SessionOptions {
        threads: Some(2),
        ..SessionOptions::default()
    };
    Session::new(Arc::clone(database), &options).unwrap()
}

async fn one(session: &Session, sql: &str) -> String {
    let batches = session.query(sql).await.unwrap();
    array_value_to_string(batches[0].column(0), 0).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_add_to_one_row_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(&dir);
    let first = session(&database);
    first
        .execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 0), (2, 0)")
        .await
        .unwrap();
    let adding = (0..4).map(|_| {
        let session = session(&database);
        tokio::spawn(async move {
            for _ in 0..25 {
                session
                    .sql("UPDATE t SET n = n + 1 WHERE id = 1")
                    .await
                    .unwrap();
                session
                    .sql("INSERT INTO t VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n")
                    .await
                    .unwrap();
            }
        })
    });
    for adding in adding.collect::<Vec<_>>() {
        adding.await.unwrap();
    }
    assert_eq!(one(&first, "SELECT sum(n) FROM t").await, "200");
    assert_eq!(one(&first, "SELECT n FROM t WHERE id = 1").await, "100");
}

/// A list that cannot be one array is planned literal by literal, which takes memory.
#[tokio::test]
async fn a_long_list_of_another_type_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    let create = "CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR); INSERT INTO t VALUES (1, '1'), (2, '2')";
    session.execute(create).await.unwrap();
    let list = |items: usize| {
        let items: Vec<String> = (2..items + 2).map(|item| item.to_string()).collect();
        format!("IN ({})", items.join(", "))
    };
    let count = format!("SELECT count(*) FROM t WHERE s {}", list(100));
    assert_eq!(one(&session, &count).await, "1");
    // The tokens of a text fit, its plan does not.
    session.sql("SET tierra.query_memory = '8M'").await.unwrap();
    for changes in ["DELETE FROM t", "UPDATE t SET s = 'x'"] {
        let change = format!("{changes} WHERE s {}", list(5_000));
        let error = session.sql(&change).await.unwrap_err().to_string();
        assert!(error.contains("planning this text"), "{error}");
    }
    session.sql("RESET tierra.query_memory").await.unwrap();
    let deletes = format!("DELETE FROM t WHERE s {}", list(100));
    session.sql(&deletes).await.unwrap();
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_beyond_the_memory_of_queries_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    session
        .execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR);
             INSERT INTO t SELECT value, 'row ' || CAST(value AS VARCHAR) FROM generate_series(1, 300000);
             SET tierra.query_memory = '4M'",
        )
        .await
        .unwrap();
    let update = session.sql("UPDATE t SET s = s || '!'").await;
    let error = update.unwrap_err().to_string();
    assert!(error.contains("the rows of the change"), "{error}");
    assert!(error.contains("tierra.query_memory"), "{error}");
    session.sql("RESET tierra.query_memory").await.unwrap();
    assert_eq!(
        one(&session, "SELECT count(*) FROM t WHERE s LIKE '%!'").await,
        "0"
    );
    let updated = session
        .sql("UPDATE t SET s = s || '!' WHERE id % 10 = 0")
        .await
        .unwrap();
    let Outcome::Done(done) = updated else {
        panic!("{updated:?}");
    };
    assert_eq!(done.rows, Some(30_000));
    assert_eq!(
        one(&session, "SELECT count(*) FROM t WHERE s LIKE '%!'").await,
        "30000"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_given_up_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    session
        .execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (1, 1)")
        .await
        .unwrap();
    let endless = "UPDATE t SET n = (SELECT sum(value % 7) FROM generate_series(1, 9000000000000) AS s(value))";
    let given_up = tokio::time::timeout(Duration::from_millis(300), session.sql(endless)).await;
    assert!(given_up.is_err());
    assert_eq!(one(&session, "SELECT n FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_by_key_are_planned_once() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    session
        .execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER, s VARCHAR, d DECIMAL(5, 2));
             PREPARE ins AS INSERT INTO t (s, id, n) VALUES ($1, $2, $3);
             PREPARE upd AS UPDATE t SET n = $1, s = 'set' WHERE id = $2;
             PREPARE del AS DELETE FROM t WHERE id = $1;
             PREPARE dec AS UPDATE t SET d = $1 WHERE id = $2",
        )
        .await
        .unwrap();
    let planned = session.statements_planned();
    for id in 0..100 {
        session
            .sql(&format!("EXECUTE ins('s{id}', {id}, -{id})"))
            .await
            .unwrap();
    }
    for id in 100..200_i64 {
        let (text, id) = (
            StringArray::new_scalar(format!("s{id}")),
            Int64Array::new_scalar(id),
        );
        let n = Int32Array::new_scalar(7);
        session
            .run_prepared("ins", &[&text, &id, &n])
            .await
            .unwrap();
    }
    session.sql("EXECUTE upd(1000, 5)").await.unwrap();
    session.sql("EXECUTE del(6)").await.unwrap();
    session
        .run_prepared("del", &[&Int64Array::new_scalar(7)])
        .await
        .unwrap();
    session.sql("EXECUTE upd(NULL, 8)").await.unwrap();
    assert_eq!(session.statements_planned(), planned);
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "198");
    assert_eq!(one(&session, "SELECT sum(n) FROM t").await, "-3224");
    assert_eq!(
        one(&session, "SELECT count(*) FROM t WHERE s = 'set'").await,
        "2"
    );
    // A number that is rounded means what it means in the same statement unprepared.
    session.sql("EXECUTE dec(1.005, 5)").await.unwrap();
    let prepared = one(&session, "SELECT d FROM t WHERE id = 5").await;
    session
        .sql("UPDATE t SET d = 1.005 WHERE id = 5")
        .await
        .unwrap();
    assert_eq!(
        one(&session, "SELECT d FROM t WHERE id = 5").await,
        prepared
    );
    // Errors are those of the unprepared statement, too.
    let twice = session.sql("EXECUTE ins('x', 1, 1)").await.unwrap_err();
    assert!(twice.to_string().contains("already"), "{twice}");
    session.sql("EXECUTE ins('x', NULL, 1)").await.unwrap_err();
    session
        .sql("EXECUTE ins('x', 900, 3000000000)")
        .await
        .unwrap_err();
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "198");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_survive_and_transactions_that_did_not_end_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    {
        let database = database(&dir);
        let (session, other) = (session(&database), session(&database));
        session
            .execute(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
                 INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4);
                 DELETE FROM t WHERE id = 1;
                 BEGIN; UPDATE t SET n = 20 WHERE id = 2; DELETE FROM t WHERE id = 3; COMMIT",
            )
            .await
            .unwrap();
        other
            .execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (9, 9)")
            .await
            .unwrap();
        database.close();
    }
    let database = Database::open(&path, &DatabaseOptions::default()).unwrap();
    let session = session(&database);
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "2");
    assert_eq!(one(&session, "SELECT sum(n) FROM t").await, "24");
    assert_eq!(one(&session, "SELECT n FROM t WHERE id = 2").await, "20");
}

/// Each round takes a quarter of the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_savepoint_undoes_takes_no_memory() {
    let _memory = memory().await;
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    session
        .execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR);
             INSERT INTO t SELECT value, 'a row of some length ' || CAST(value AS VARCHAR) FROM generate_series(1, 50000);
             SET tierra.query_memory = '24M';
             BEGIN; UPDATE t SET s = s || '!' WHERE id <= 10; SAVEPOINT a",
        )
        .await
        .unwrap();
    for round in 0..20 {
        let update = session.sql("UPDATE t SET s = s || '?'").await;
        update.unwrap_or_else(|error| panic!("round {round}: {error}"));
        session.sql("ROLLBACK TO a").await.unwrap();
    }
    session.sql("COMMIT").await.unwrap();
    session.sql("RESET tierra.query_memory").await.unwrap();
    let ended = "SELECT count(*) FILTER (WHERE s LIKE '%!') - 100 * count(*) FILTER (WHERE s LIKE '%?') FROM t";
    assert_eq!(one(&session, ended).await, "10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_where_none_may_be_is_one_kind_of_error() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    session
        .execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER NOT NULL);
             CREATE TABLE u (id BIGINT, n INTEGER);
             INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (2, NULL);
             PREPARE ins AS INSERT INTO t VALUES ($1, $2)",
        )
        .await
        .unwrap();
    for statement in [
        "INSERT INTO t VALUES (2, NULL)",
        "INSERT INTO t VALUES (2, nullif(1, 1))",
        "INSERT INTO t SELECT * FROM u",
        "INSERT INTO t (id) SELECT id FROM u",
        "INSERT INTO t SELECT * FROM u ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t SELECT id, NULL FROM u",
        "EXECUTE ins(2, NULL)",
        "UPDATE t SET n = NULL",
        "MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.n)",
    ] {
        let error = session.sql(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Null, "{statement}: {error}");
        assert!(error.to_string().contains("column 'n'"), "{error}");
    }
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "1");
}

/// If one of several statements is not SQL, none of them runs.
#[tokio::test]
async fn an_error_of_syntax_is_found_before_anything_happens() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&database(&dir));
    let text = "CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1; SELECT 1";
    let error = session.execute(text).await.unwrap_err().to_string();
    assert!(error.contains("statement 2"), "{error}");
    assert!(session.query("SELECT * FROM t").await.is_err());
    // Other errors leave what came before.
    let text = "CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (1)";
    assert!(session.execute(text).await.is_err());
    assert_eq!(one(&session, "SELECT count(*) FROM t").await, "0");
}
