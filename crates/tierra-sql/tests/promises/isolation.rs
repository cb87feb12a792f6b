//! What transactions see of each other: the anomalies of Hermitage's list, by two or three sessions.
//!
//! Every transaction has a snapshot, and of two that change a row the first to commit wins. So only write skew is left.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{ChangeError, Session, SessionOptions, SqlError};

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

/// What snapshots do not prevent, and the documents say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g2_write_skew_is_possible() {
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
