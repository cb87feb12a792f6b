//! Copies that SQL asked for are there when a tier is not, and SQL tells which is missing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Session, SessionOptions};

fn session(database: Arc<Database>) -> Session {
    Session::new(database, &SessionOptions::default()).unwrap()
}

/// The rows of a query, one text each.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches: Vec<RecordBatch> = session.query(sql).await.unwrap();
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let rows = table.lines().skip(3).filter(|line| line.starts_with('|'));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// A database with a table whose rows came while it was in tier b alone, and which has had a copy in the first since.
fn create(dir: &Path, pool: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = Database::create(dir, &DatabaseOptions::default()).unwrap();
    let sql = format!(
        "CREATE TIER b AT '{}';
         CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR) WITH ('replicas' = 'b');
         INSERT INTO t SELECT value, concat('name ', value % 7) FROM generate_series(1, 70000) AS s(value);
         ALTER TABLE t SET ('replicas' = 'b, far');
         INSERT INTO t VALUES (70001, 'last')",
        pool.display()
    );
    let session = session(database);
    runtime.block_on(session.execute(&sql)).unwrap();
}

#[test]
fn copies_are_there_without_their_tier_and_it_is_told_which_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (db, pool) = (dir.path().join("db"), dir.path().join("b.pool"));
    create(&db, &pool);
    fs::rename(&pool, dir.path().join("away")).unwrap();
    let database = Database::open(&db, &DatabaseOptions::default()).unwrap();
    let session = session(database);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        assert_eq!(
            rows(
                &session,
                "SELECT COUNT(*), SUM(id), COUNT(DISTINCT name) FROM t"
            )
            .await,
            ["| 70001 | 2450105001 | 8 |"]
        );
        let missing = "SELECT name, durability, used_bytes IS NULL, why LIKE '%b.pool%'
                       FROM tierra_tiers WHERE missing";
        assert_eq!(rows(&session, missing).await, ["| b | | true | true |"]);
        let replicas = "SELECT copy_number, tier, missing FROM tierra_replicas";
        assert_eq!(
            rows(&session, replicas).await,
            ["| 1 | b | true |", "| 2 | far | false |"]
        );
        let refused = "CREATE TABLE u (a INTEGER) WITH ('replicas' = 'b')";
        let error = session.sql(refused).await.unwrap_err().to_string();
        assert!(error.contains("tier \"b\" is missing"), "{error}");
        // What was in it is let go of, so that it can go as well.
        let sql = "ALTER TABLE t SET ('replicas' = 'far'); DROP TIER b";
        session.execute(sql).await.unwrap();
        assert_eq!(rows(&session, replicas).await, ["| 1 | far | false |"]);
        assert!(rows(&session, missing).await.is_empty());
    });
}
