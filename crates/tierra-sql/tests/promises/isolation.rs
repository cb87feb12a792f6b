//! What transactions see of each other: the anomalies of Hermitage's list, by two or three sessions.
//!
//! Every transaction has a snapshot, and of two that change a row the first to commit wins. So only write skew is left.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{ChangeError, ErrorKind, Session, SessionOptions, SqlError};

/// Sessions of one database with `test`: rows (1, 10) and (2, 20).
struct Sessions {
    sessions: Vec<Session>,
    _dir: tempfile::TempDir,
}

impl Sessions {
    async fn new(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database =
            Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
        let session = || Session::new(Arc::clone(&database), &SessionOptions::default()).unwrap();
        let sessions: Vec<Session> = (0..count).map(|_| session()).collect();
        sessions[0]
            .execute(
                "CREATE TABLE test (id INTEGER PRIMARY KEY, value INTEGER);
                 INSERT INTO test VALUES (1, 10), (2, 20)",
            )
            .await
            .unwrap();
        Self {
            sessions,
            _dir: dir,
        }
    }

    /// Runs statements of session `number`, from 1, that succeed.
    async fn run(&self, number: usize, sql: &str) {
        let outcome = self.sessions[number - 1].execute(sql).await;
        outcome.unwrap_or_else(|error| panic!("session {number}: {sql}: {error}"));
    }

    /// The rows that session `number` finds, values separated by spaces and rows by commas.
    async fn find(&self, number: usize, sql: &str) -> String {
        let batches = self.sessions[number - 1].query(sql).await.unwrap();
        let rows = batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(|row| {
                let cells = batch.columns().iter();
                let cells = cells.map(|column| array_value_to_string(column, row).unwrap());
                cells.collect::<Vec<_>>().join(" ")
            })
        });
        rows.collect::<Vec<_>>().join(", ")
    }

    async fn all(&self, number: usize) -> String {
        self.find(number, "SELECT * FROM test ORDER BY id").await
    }

    /// COMMIT of session `number`, which another transaction has forestalled.
    async fn loses(&self, number: usize) {
        let error = self.sessions[number - 1].sql("COMMIT").await.unwrap_err();
        let SqlError::Change(change) = &error else {
            panic!("{error}");
        };
        assert!(matches!(change, ChangeError::Conflict { .. }), "{error}");
        assert_eq!(change.sqlstate(), "40001");
    }

    /// Begins a transaction in every session.
    async fn begin(&self) {
        for number in 1..=self.sessions.len() {
            self.run(number, "BEGIN").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g0_no_write_cycles() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(2, "UPDATE test SET value = 12 WHERE id = 1").await;
    db.run(1, "UPDATE test SET value = 21 WHERE id = 2").await;
    db.run(1, "COMMIT").await;
    db.run(2, "UPDATE test SET value = 22 WHERE id = 2").await;
    db.loses(2).await;
    assert_eq!(db.all(1).await, "1 11, 2 21");
    assert_eq!(db.all(2).await, "1 11, 2 21");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g1a_no_aborted_reads() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = 101 WHERE id = 1").await;
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(1, "ROLLBACK").await;
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(2, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g1b_no_intermediate_reads() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = 101 WHERE id = 1").await;
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1; COMMIT")
        .await;
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(2, "COMMIT").await;
    assert_eq!(db.all(2).await, "1 11, 2 20");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g1c_no_circular_information_flow() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(2, "UPDATE test SET value = 22 WHERE id = 2").await;
    let two = "SELECT value FROM test WHERE id = 2";
    let one = "SELECT value FROM test WHERE id = 1";
    assert_eq!(db.find(1, two).await, "20");
    assert_eq!(db.find(2, one).await, "10");
    db.run(1, "COMMIT").await;
    db.run(2, "COMMIT").await;
    assert_eq!(db.all(1).await, "1 11, 2 22");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn otv_a_transaction_that_was_observed_does_not_vanish() {
    let db = Sessions::new(3).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(1, "UPDATE test SET value = 19 WHERE id = 2").await;
    db.run(2, "UPDATE test SET value = 12 WHERE id = 1").await;
    db.run(1, "COMMIT").await;
    assert_eq!(db.all(3).await, "1 11, 2 19");
    db.run(2, "UPDATE test SET value = 18 WHERE id = 2").await;
    assert_eq!(db.all(3).await, "1 11, 2 19");
    db.loses(2).await;
    assert_eq!(db.all(3).await, "1 11, 2 19");
    db.run(3, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pmp_a_predicate_finds_the_same_rows_again() {
    let db = Sessions::new(2).await;
    db.begin().await;
    assert_eq!(db.find(1, "SELECT * FROM test WHERE value = 30").await, "");
    db.run(2, "INSERT INTO test VALUES (3, 30); COMMIT").await;
    let later = "SELECT * FROM test WHERE value % 3 = 0";
    assert_eq!(db.find(1, later).await, "");
    assert_eq!(db.find(1, "SELECT count(*) FROM test").await, "2");
    assert_eq!(db.find(1, "SELECT * FROM test WHERE id = 3").await, "");
    db.run(1, "COMMIT").await;
    assert_eq!(db.find(1, later).await, "3 30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pmp_a_write_by_a_predicate_meets_a_write_in_between() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "UPDATE test SET value = value + 10").await;
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(2, "DELETE FROM test WHERE value = 20").await;
    db.run(1, "COMMIT").await;
    db.loses(2).await;
    assert_eq!(db.all(2).await, "1 20, 2 30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_no_update_is_lost() {
    let db = Sessions::new(2).await;
    db.begin().await;
    let read = "SELECT value FROM test WHERE id = 1";
    assert_eq!(db.find(1, read).await, "10");
    assert_eq!(db.find(2, read).await, "10");
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(2, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(1, "COMMIT").await;
    db.loses(2).await;
    // The session goes on, outside a transaction.
    db.run(2, "UPDATE test SET value = value + 1 WHERE id = 1")
        .await;
    assert_eq!(db.find(1, read).await, "12");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g_single_no_read_skew() {
    let db = Sessions::new(2).await;
    db.begin().await;
    assert_eq!(
        db.find(1, "SELECT value FROM test WHERE id = 1").await,
        "10"
    );
    db.run(
        2,
        "UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2; COMMIT",
    )
    .await;
    assert_eq!(
        db.find(1, "SELECT value FROM test WHERE id = 2").await,
        "20"
    );
    assert_eq!(
        db.find(1, "SELECT id FROM test WHERE value % 5 = 0 ORDER BY id")
            .await,
        "1, 2"
    );
    db.run(1, "DELETE FROM test WHERE value = 20").await;
    db.loses(1).await;
    assert_eq!(db.all(1).await, "1 12, 2 18");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_of_one_moment_in_all_tables() {
    let db = Sessions::new(2).await;
    db.run(
        1,
        "CREATE TABLE other (n INTEGER); INSERT INTO other VALUES (0)",
    )
    .await;
    db.begin().await;
    assert_eq!(db.all(1).await, "1 10, 2 20");
    db.run(
        2,
        "UPDATE test SET value = 0; UPDATE other SET n = 1; COMMIT",
    )
    .await;
    assert_eq!(db.find(1, "SELECT n FROM other").await, "0");
    db.run(1, "COMMIT").await;
    assert_eq!(db.find(1, "SELECT n FROM other").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_two_transactions_insert_is_the_first_ones() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, "INSERT INTO test VALUES (3, 1)").await;
    db.run(2, "INSERT INTO test VALUES (3, 2)").await;
    db.run(1, "COMMIT").await;
    let error = db.sessions[1].sql("COMMIT").await.unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
    assert_eq!(db.all(2).await, "1 10, 2 20, 3 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g1a_no_aborted_insert_or_delete_is_read() {
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(
        1,
        "SAVEPOINT a; INSERT INTO test VALUES (3, 30); DELETE FROM test WHERE id = 2",
    )
    .await;
    assert_eq!(db.all(1).await, "1 10, 3 30");
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(1, "ROLLBACK TO a").await;
    assert_eq!(db.all(1).await, "1 10, 2 20");
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1; COMMIT")
        .await;
    db.run(2, "COMMIT").await;
    assert_eq!(db.all(2).await, "1 11, 2 20");
}

/// Lost updates by all pairs of writes to one row, by statements that are planned once and by others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_of_two_writes_to_a_row_the_first_to_commit_wins() {
    const BY_KEY: &str = "PREPARE upd AS UPDATE test SET value = $1 WHERE id = $2;
        PREPARE del AS DELETE FROM test WHERE id = $1;
        PREPARE ins AS INSERT INTO test VALUES ($1, $2)";
    // A write of row 1, and what it leaves of it.
    let writes = [
        ("UPDATE test SET value = value + 1 WHERE id = 1", "1 11, "),
        ("EXECUTE upd(12, 1)", "1 12, "),
        ("EXECUTE del(1); EXECUTE ins(1, 13)", "1 13, "),
        (
            "INSERT INTO test VALUES (1, 4) ON CONFLICT (id) DO UPDATE SET value = test.value + excluded.value",
            "1 14, ",
        ),
        (
            "MERGE INTO test USING (VALUES (1, 15)) AS u(id, value) ON test.id = u.id
             WHEN MATCHED THEN UPDATE SET value = u.value",
            "1 15, ",
        ),
        ("DELETE FROM test WHERE value < 20", ""),
        ("EXECUTE del(1)", ""),
    ];
    for (first, left) in writes {
        for (second, _) in writes {
            let db = Sessions::new(2).await;
            db.run(1, BY_KEY).await;
            db.run(2, BY_KEY).await;
            db.begin().await;
            db.run(1, first).await;
            db.run(2, second).await;
            db.run(1, "COMMIT").await;
            println!("{first}, then {second}");
            db.loses(2).await;
            assert_eq!(db.all(2).await, format!("{left}2 20"));
        }
    }
}

/// A statement outside a transaction is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_a_single_statement_forestalls_a_transaction() {
    let db = Sessions::new(2).await;
    db.run(1, "BEGIN").await;
    db.run(1, "UPDATE test SET value = value + 1 WHERE id = 1")
        .await;
    db.run(2, "UPDATE test SET value = value * 2 WHERE id = 1")
        .await;
    db.loses(1).await;
    assert_eq!(db.all(1).await, "1 20, 2 20");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g_single_no_read_skew_by_predicates() {
    let db = Sessions::new(2).await;
    db.begin().await;
    let found = db
        .find(1, "SELECT * FROM test WHERE value % 5 = 0 ORDER BY id")
        .await;
    assert_eq!(found, "1 10, 2 20");
    db.run(2, "UPDATE test SET value = 12 WHERE value = 10; COMMIT")
        .await;
    let later = "SELECT * FROM test WHERE value % 3 = 0";
    assert_eq!(db.find(1, later).await, "");
    assert_eq!(db.find(1, "SELECT sum(value) FROM test").await, "30");
    db.run(1, "COMMIT").await;
    assert_eq!(db.find(1, later).await, "1 12");
}

/// The reader writes what it read, and gives up: the other goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g_single_a_write_that_was_given_up_forestalls_nobody() {
    let db = Sessions::new(2).await;
    db.begin().await;
    assert_eq!(
        db.find(1, "SELECT value FROM test WHERE id = 1").await,
        "10"
    );
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(2, "UPDATE test SET value = 12 WHERE id = 1").await;
    db.run(1, "DELETE FROM test WHERE value = 20").await;
    db.run(2, "UPDATE test SET value = 18 WHERE id = 2").await;
    db.run(1, "ROLLBACK").await;
    db.run(2, "COMMIT").await;
    assert_eq!(db.all(1).await, "1 12, 2 18");
}

/// Write skew: what snapshots do not prevent, and the documents say so (`docs/sql.md`, Transactions).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g2_item_write_skew_is_possible() {
    let db = Sessions::new(2).await;
    db.begin().await;
    assert_eq!(db.all(1).await, "1 10, 2 20");
    assert_eq!(db.all(2).await, "1 10, 2 20");
    db.run(1, "UPDATE test SET value = 11 WHERE id = 1").await;
    db.run(2, "UPDATE test SET value = 21 WHERE id = 2").await;
    db.run(1, "COMMIT").await;
    db.run(2, "COMMIT").await;
    assert_eq!(db.all(1).await, "1 11, 2 21");
}

/// Write skew by what is inserted: neither sees the other's row, of which each would have wanted to know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g2_write_skew_by_predicates_is_possible() {
    let db = Sessions::new(2).await;
    db.begin().await;
    let by_three = "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id";
    assert_eq!(db.find(1, by_three).await, "");
    assert_eq!(db.find(2, by_three).await, "");
    db.run(1, "INSERT INTO test VALUES (3, 30)").await;
    db.run(2, "INSERT INTO test VALUES (4, 42)").await;
    db.run(1, "COMMIT").await;
    db.run(2, "COMMIT").await;
    assert_eq!(db.find(1, by_three).await, "3 30, 4 42");
}

/// The third reads what no order of the other two gives: the second before the first, whose snapshot is older.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g2_two_edges_a_reader_may_see_the_skew() {
    let db = Sessions::new(3).await;
    db.run(1, "BEGIN").await;
    assert_eq!(db.all(1).await, "1 10, 2 20");
    db.run(
        2,
        "BEGIN; UPDATE test SET value = value + 5 WHERE id = 2; COMMIT",
    )
    .await;
    db.run(3, "BEGIN READ ONLY").await;
    assert_eq!(db.all(3).await, "1 10, 2 25");
    db.run(3, "COMMIT").await;
    db.run(1, "UPDATE test SET value = 0 WHERE id = 1").await;
    db.run(1, "COMMIT").await;
    assert_eq!(db.all(3).await, "1 0, 2 25");
}

/// A table that another session creates is not of the moment as of which a transaction reads, and has no rows of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_created_after_the_snapshot_is_not_read() {
    let later = "CREATE TABLE later (n INTEGER PRIMARY KEY); INSERT INTO later VALUES (1)";
    for statement in [
        "SELECT n FROM later",
        "SELECT (SELECT n FROM later) FROM test",
        "SELECT n FROM later WHERE n = 1",
        "INSERT INTO later VALUES (2)",
        "UPDATE later SET n = 2",
        "EXECUTE point(1)",
        "EXECUTE write(1)",
    ] {
        let db = Sessions::new(2).await;
        // Not yet read: the moment is that of the first statement.
        db.run(1, "BEGIN").await;
        db.run(2, later).await;
        assert_eq!(db.find(1, "SELECT n FROM later").await, "1");
        db.run(1, "ROLLBACK").await;
        db.run(2, "DROP TABLE later").await;

        db.run(1, "BEGIN; SAVEPOINT a").await;
        assert_eq!(db.all(1).await, "1 10, 2 20");
        db.run(2, later).await;
        db.run(
            1,
            "PREPARE point AS SELECT n FROM later WHERE n = $1;
             PREPARE write AS DELETE FROM later WHERE n = $1",
        )
        .await;
        let outcome = match db.sessions[0].sql(statement).await {
            Ok(mut outcome) => match &mut outcome {
                tierra_sql::Outcome::Rows(rows) => rows.collect().await.map(drop),
                tierra_sql::Outcome::Done(_) => Ok(()),
            },
            Err(error) => Err(error),
        };
        let error = outcome.expect_err(statement);
        let SqlError::Change(change) = &error else {
            panic!("{statement}: {error}");
        };
        assert!(matches!(change, ChangeError::Newer { .. }), "{error}");
        assert_eq!(change.sqlstate(), "40001");
        db.run(1, "ROLLBACK TO a").await;
        assert_eq!(db.all(1).await, "1 10, 2 20");
        db.run(1, "COMMIT").await;
        assert_eq!(db.find(1, "SELECT n FROM later").await, "1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upsert_whose_key_another_session_inserted_can_be_run_again() {
    let upsert =
        "INSERT INTO test VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET value = test.value + 1";
    let db = Sessions::new(2).await;
    db.begin().await;
    db.run(1, upsert).await;
    db.run(2, upsert).await;
    db.run(1, "COMMIT").await;
    db.loses(2).await;
    db.run(2, upsert).await;
    assert_eq!(db.all(1).await, "1 10, 2 20, 3 2");

    // What was undone no longer counts: the key is an INSERT's.
    db.begin().await;
    db.run(1, "INSERT INTO test VALUES (4, 1)").await;
    db.run(2, "SAVEPOINT a").await;
    db.run(2, &upsert.replace('3', "5")).await;
    db.run(2, "ROLLBACK TO a; INSERT INTO test VALUES (4, 2)")
        .await;
    db.run(1, "COMMIT").await;
    let error = db.sessions[1].sql("COMMIT").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_to_a_table_that_another_session_dropped_can_be_run_again() {
    let db = Sessions::new(2).await;
    db.run(1, "BEGIN; UPDATE test SET value = 11 WHERE id = 1")
        .await;
    db.run(2, "DROP TABLE test").await;
    let error = db.sessions[0].sql("COMMIT").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("dropped"), "{error}");
}
