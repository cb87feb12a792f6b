//! Copies that SQL asked for are there when a tier is not, and SQL tells which is missing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, TableSpec};
use tierra_sql::{Session, SessionOptions};

/// Without tiers that are missing.
fn degraded() -> DatabaseOptions {
    DatabaseOptions {
        degraded: true,
        ..DatabaseOptions::default()
    }
}

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
    let database = Database::open(&db, &degraded()).unwrap();
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

/// A table that lies in a missing tier alone: statements that need its rows are told what to do, all others work.
#[test]
fn a_table_in_a_missing_tier_says_so_and_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (db, pool) = (dir.path().join("db"), dir.path().join("b.pool"));
    create(&db, &pool);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = || session(Database::open(&db, &degraded()).unwrap());
    let sql = "CREATE TABLE gone (id BIGINT PRIMARY KEY) WITH ('replicas' = 'b');
               INSERT INTO gone VALUES (1), (2)";
    runtime.block_on(open().execute(sql)).unwrap();
    fs::rename(&pool, dir.path().join("away")).unwrap();
    let session = open();
    runtime.block_on(async {
        for sql in [
            "SELECT COUNT(*) FROM gone",
            "SELECT id FROM gone WHERE id = 1",
            "INSERT INTO gone VALUES (3)",
            "INSERT INTO gone SELECT id FROM t",
        ] {
            let error = session.execute(sql).await.unwrap_err().to_string();
            let says = |part: &str| assert!(error.contains(part), "{sql}: {error}");
            ["gone", "b.pool", "drop the table"]
                .into_iter()
                .for_each(says);
        }
        let count = "SELECT COUNT(*) FROM t";
        assert_eq!(rows(&session, count).await, ["| 70001 |"]);
        let told = "SELECT tier, kind, outcome FROM tierra_faults";
        assert_eq!(rows(&session, told).await, ["| b | missing | open |"]);
        session.execute("DROP TABLE gone").await.unwrap();
        let error = session.execute("SELECT * FROM gone").await.unwrap_err();
        assert!(error.to_string().contains("not found"), "{error}");
    });
}

/// Damage that a query finds, and what became of it.
#[test]
fn faults_are_told_with_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (db, pool) = (dir.path().join("db"), dir.path().join("b.pool"));
    create(&db, &pool);
    // A byte of the first block of each chunk, in the tier that holds the master.
    let mut bytes = fs::read(&pool).unwrap();
    let chunks = bytes.windows(5).enumerate();
    let chunks = chunks.filter(|(_, window)| window[..4] == *b"TCHK" && window[4] == 1);
    let chunks: Vec<usize> = chunks.map(|(at, _)| at).collect();
    for at in chunks {
        let data = u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap());
        bytes[at + data as usize] ^= 1;
    }
    fs::write(&pool, bytes).unwrap();
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let session = session(Database::open(&db, &options).unwrap());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let sums = "SELECT SUM(id), MAX(name) FROM t";
        assert_eq!(rows(&session, sums).await, ["| 2450105001 | name 6 |"]);
        let told =
            "SELECT tier, table_name, column_name, segment, first_row, end_row, kind, outcome
                    FROM tierra_faults ORDER BY column_name";
        assert_eq!(
            rows(&session, told).await,
            [
                "| b | t | id | 1 | 0 | 1024 | checksum | repaired from far |",
                "| b | t | name | 1 | 0 | 1024 | checksum | repaired from far |",
            ]
        );
        let totals = "SELECT faults_found, faults_repaired, faults_lost FROM tierra_scrub";
        assert_eq!(rows(&session, totals).await, ["| 2 | 2 | 0 |"]);
        let wear =
            "SELECT failed_checks, repair_bytes > 0, lost_pages FROM tierra_tiers WHERE name = 'b'";
        assert_eq!(rows(&session, wear).await, ["| 2 | true | 0 |"]);
    });
}

/// Versions that let a table be called so may have left one: it is found, filled and dropped.
#[test]
fn a_table_named_as_the_database_s_own_stays_what_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let database = Database::create(&dir, &DatabaseOptions::default()).unwrap();
    let spec = TableSpec {
        name: "tierra_tiers".to_string(),
        columns: vec![ColumnSpec::new("id", LogicalType::Integer)],
        primary_key: Vec::new(),
    };
    database.create_table(spec).unwrap();
    let session = session(database);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        session
            .sql("INSERT INTO tierra_tiers VALUES (7)")
            .await
            .unwrap();
        assert_eq!(
            rows(&session, "SELECT * FROM tierra_tiers").await,
            ["| 7 |"]
        );
        session.sql("DROP TABLE tierra_tiers").await.unwrap();
        let names = rows(&session, "SELECT name FROM tierra_tiers").await;
        assert_eq!(names, ["| near |", "| far |"]);
    });
}

#[test]
fn a_tier_says_how_it_is_read_and_a_session_may_say_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options).unwrap();
    let session = session(database.clone());
    let pool = dir.path().join("b.pool");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let sql = format!(
            "CREATE TIER b AT '{}' WITH (access = 'mapped');
             CREATE TABLE t (id BIGINT PRIMARY KEY) WITH ('replicas' = 'b');
             INSERT INTO t SELECT value FROM generate_series(1, 200000) AS s(value)",
            pool.display()
        );
        session.execute(&sql).await.unwrap();
        database.wait_for_near_copies().unwrap();
        let tiers = "SELECT name, access FROM tierra_tiers WHERE access IS NOT NULL ORDER BY name";
        assert_eq!(
            rows(&session, tiers).await,
            ["| b | mapped |", "| far | in-place |"]
        );
        let sum = "SELECT SUM(id) FROM t WHERE id % 7 = 3";
        let expected = rows(&session, sum).await;
        assert!(database.frames().used() > 0, "copied into frames");
        database.frames().clear();
        for sql in [
            "SET tierra.access = 'in-place'",
            "SET tierra.access = 'tier'; ALTER TIER b SET (access = 'in-place')",
            "SET tierra.helper_blocks = 4; SET tierra.threads = 1",
            "ALTER TIER b SET (access = 'auto')",
        ] {
            session.execute(sql).await.unwrap();
            assert_eq!(rows(&session, sum).await, expected, "{sql}");
            assert_eq!(database.frames().used(), 0, "{sql}");
        }
        let refused = session.execute("ALTER TIER c SET (access = 'auto')").await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("there is no tier \"c\""), "{refused}");
    });
}

#[test]
fn explain_names_the_replicas_that_are_read_where_there_is_a_choice() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default());
    let database = database.unwrap();
    let session = session(database.clone());
    let pool = dir.path().join("b.pool");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        // Of a few values every bit differs: one width for all takes seven times as many bytes.
        let sql = format!(
            "CREATE TIER b AT '{}';
             CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT NOT NULL) WITH ('x.tier' = 'far', 'x.replicas' = 'far/static, b/fastpfor');
             INSERT INTO t SELECT value, CASE WHEN value % 1000 = 7 THEN 90000000000000000 - value ELSE value % 100 END
               FROM generate_series(1, 70000) AS s(value);
             CREATE TABLE copied (x BIGINT NOT NULL) WITH ('x.tier' = 'near', 'x.replicas' = 'far/static, b/fastpfor');
             INSERT INTO copied SELECT x FROM t",
            pool.display()
        );
        session.execute(&sql).await.unwrap();
        let plan = async |sql: &str| rows(&session, sql).await.join("\n");
        let scanned = plan("EXPLAIN SELECT SUM(x) FROM t").await;
        assert!(scanned.contains(", replicas=[x=b/fastpfor]"), "{scanned}");
        let tested = plan("EXPLAIN SELECT id FROM t WHERE x < 7").await;
        assert!(tested.contains(", replicas=[x=b/fastpfor]"), "{tested}");
        let looked_up = plan("EXPLAIN SELECT x FROM t WHERE id = 7").await;
        assert!(looked_up.contains(", replicas=[x=far/static]"), "{looked_up}");
        let alone = plan("EXPLAIN SELECT SUM(id) FROM t").await;
        assert!(!alone.contains("replicas"), "{alone}");

        database.wait_for_near_copies().unwrap();
        let copied = plan("EXPLAIN ANALYZE SELECT SUM(x) FROM copied").await;
        assert!(copied.contains(", replicas=[x=near/fastpfor]"), "{copied}");
    });
}
