//! A user who may only read changes nothing over HTTP, and cancels no statement of others.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tierra_http::Options;
use tierra_postgres::{Users, verifier};

use crate::client::{Answer, Client};
use crate::server::{LONG, PATIENCE, TestServer, open_to_all};

/// A server for alice, who may do anything, and reader and other, who may only read.
fn server() -> TestServer {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("users.toml");
    let verifier = verifier("secret").unwrap();
    let text = format!(
        "alice = \"{verifier}\"\nreader = {{ verifier = \"{verifier}\", read-only = true }}\n\
         other = {{ verifier = \"{verifier}\", read-only = true }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let server = TestServer::with(Options {
        users: Some(Users::read(&file).unwrap()),
        ..open_to_all()
    });
    let mut alice = As::of(&server, "alice");
    alice.well("CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR)");
    alice.well("INSERT INTO t VALUES (1, 'a'), (2, 'b')");
    server
}

/// A user's connection.
struct As {
    client: Client,
    login: String,
}

impl As {
    fn of(server: &TestServer, user: &str) -> Self {
        let encoded = STANDARD.encode(format!("{user}:secret"));
        Self {
            client: server.connect(),
            login: format!("Authorization: Basic {encoded}\r\n"),
        }
    }

    fn begin(&mut self, sql: &str) {
        self.client.begin(sql, &self.login);
    }

    fn sql(&mut self, sql: &str) -> Answer {
        self.begin(sql);
        self.client.answer().unwrap()
    }

    fn well(&mut self, sql: &str) -> Value {
        let answer = self.sql(sql);
        assert_eq!(answer.status, 200, "{sql}: {answer:?}");
        answer.json()
    }

    fn running(&mut self) -> Vec<u64> {
        let state = self.client.get_with("/api/state", &self.login).json();
        let running = state["running"].as_array().unwrap().iter();
        running.map(|one| one["id"].as_u64().unwrap()).collect()
    }

    fn cancel(&mut self, id: u64) -> Answer {
        self.client.send(format!(
            "POST /api/queries/{id}/cancel HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\nContent-Length: 0\r\n{}\r\n",
            self.client.host, self.login
        ));
        self.client.answer().unwrap()
    }
}

fn denied(answer: &Answer, sql: &str) {
    let told = (answer.status, answer.code());
    assert_eq!(told, (403, "42501".to_owned()), "{sql}: {answer:?}");
}

#[test]
fn no_statement_of_a_reader_changes_anything() {
    let server = server();
    let (mut alice, mut reader) = (As::of(&server, "alice"), As::of(&server, "reader"));
    let dir = server.scratch.path().display();
    let changes = [
        "INSERT INTO t VALUES (3, 'c')".to_owned(),
        "INSERT INTO t VALUES (4, 'c') RETURNING n".to_owned(),
        "UPDATE t SET s = 'x' WHERE n = 1".to_owned(),
        "DELETE FROM t WHERE n = 2".to_owned(),
        "EXPLAIN ANALYZE INSERT INTO t VALUES (5, 'c')".to_owned(),
        "PREPARE p AS DELETE FROM t; EXECUTE p".to_owned(),
        "BEGIN READ WRITE; UPDATE t SET s = 'y'; COMMIT".to_owned(),
        "SET tierra.threads = 1; SELECT 1; TRUNCATE t; SELECT 1".to_owned(),
        "CREATE TABLE u AS SELECT 1 AS n".to_owned(),
        "DROP TABLE u".to_owned(),
        format!("CREATE TIER b AT '{dir}/b.pool'"),
        format!("COPY t TO '{dir}/t.csv'"),
        format!("BACKUP DATABASE TO '{dir}/db.backup'"),
        "SET tierra.scrub_pace = '1M'".to_owned(),
    ];
    let mut all = || {
        let rows = alice.well("SELECT * FROM t ORDER BY n")["rows"].clone();
        let tables = alice.well("SHOW TABLES")["rows"].clone();
        let pace = alice.well("SHOW tierra.scrub_pace")["rows"].clone();
        let files = std::fs::read_dir(server.scratch.path()).unwrap().count();
        (rows, tables, pace, files)
    };
    let before = all();
    for sql in &changes {
        denied(&reader.sql(sql), sql);
        assert_eq!(all(), before, "{sql}");
    }
    for sql in &changes {
        As::of(&server, "alice").well(sql);
    }
    assert_ne!(all(), before);
}

/// A request has the rights of the user whose password it carries, also on a connection that another user had before.
#[test]
fn a_connection_gives_no_right_to_who_comes_next() {
    let server = server();
    let mut both = As::of(&server, "alice");
    both.well("INSERT INTO t VALUES (3, 'c')");
    both.login = As::of(&server, "reader").login;
    denied(&both.sql("DELETE FROM t"), "as reader");
    assert_eq!(
        both.well("SELECT count(*) AS n FROM t")["rows"],
        json!([{"n": 3}])
    );
    both.login = As::of(&server, "alice").login;
    both.well("DELETE FROM t");
}

#[test]
fn a_reader_cancels_what_is_the_readers_own() {
    let server = server();
    let mut reader = As::of(&server, "reader");
    for (user, is_cancelled) in [("alice", false), ("other", false), ("reader", true)] {
        let mut client = As::of(&server, user);
        client.begin(LONG);
        let start = Instant::now();
        let id = loop {
            if let Some(id) = reader.running().first() {
                break *id;
            }
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        };
        let answer = reader.cancel(id);
        if is_cancelled {
            assert_eq!(answer.status, 200, "{answer:?}");
        } else {
            denied(&answer, user);
            assert_eq!(reader.running(), [id], "it goes on");
            assert_eq!(As::of(&server, "alice").cancel(id).status, 200);
        }
        assert_eq!(client.client.answer().unwrap().code(), "57014");
        // The answer about a statement that does not run names no user.
        assert_eq!(reader.cancel(id).status, 404);
    }
}
