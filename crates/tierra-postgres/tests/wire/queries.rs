//! COPY TO and cursors take what has rows, and know it before they run it.

use crate::client::{code_of, kinds, state, tags};
use crate::server::TestServer;

fn server() -> TestServer {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY)");
    client.rows("INSERT INTO t VALUES (1), (2), (3)");
    server
}

#[test]
fn copy_runs_no_statement_without_rows() {
    let server = server();
    let mut client = server.connect();
    client.rows("PREPARE d AS DELETE FROM t RETURNING id");
    client.rows("PREPARE q AS SELECT id FROM t");
    client.rows("BEGIN");
    client.rows("INSERT INTO t VALUES (4)");
    for statement in [
        "DROP TABLE t",
        "DELETE FROM t",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "INSERT INTO t VALUES (9)",
        "COMMIT",
        "ROLLBACK",
        "EXECUTE d",
        "EXECUTE q",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (9)",
        "SHOW server_version",
        "SET tierra.threads = 1",
        "",
    ] {
        client.rows("SAVEPOINT a");
        let messages = client.query(&format!("COPY ({statement}) TO STDOUT"));
        assert_eq!(code_of(&messages).as_deref(), Some("42601"), "{statement}");
        assert_eq!(state(&messages), 'E', "{statement}");
        client.rows("ROLLBACK TO SAVEPOINT a");
        assert_eq!(
            client.rows("SELECT count(*) FROM t"),
            [["4"]],
            "{statement}"
        );
    }
    client.rows("ROLLBACK");
    // The word is there, and no rows come of it.
    assert_eq!(
        client.code("COPY (INSERT INTO t SELECT id + 10 AS returning FROM t) TO STDOUT"),
        "42P11"
    );
    assert_eq!(client.code("COPY (SELECT $1) TO STDOUT"), "42P02");
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]]);
    for (query, rows) in [
        ("SELECT id FROM t", 3),
        ("(SELECT id FROM t WHERE id > 1)", 2),
        ("VALUES (1), (2)", 2),
        ("WITH a AS (SELECT id FROM t) SELECT * FROM a", 3),
        ("INSERT INTO t VALUES (4), (5) RETURNING id", 2),
        ("UPDATE t SET id = id + 10 WHERE id > 3 RETURNING id", 2),
        (
            "WITH a AS (SELECT 14) DELETE FROM t WHERE id > 3 RETURNING id",
            2,
        ),
    ] {
        let messages = client.query(&format!("COPY ({query}) TO STDOUT"));
        assert_eq!(tags(&messages), [format!("COPY {rows}")], "{query}");
    }
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]]);
}

#[test]
fn cursors_run_no_statement_that_changes_rows() {
    let server = server();
    let mut client = server.connect();
    client.rows("PREPARE d AS DELETE FROM t RETURNING id");
    for (statement, code) in [
        ("EXECUTE d", "42601"),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (9)", "42601"),
        ("EXPLAIN SELECT 1", "42601"),
        ("DESCRIBE t", "42601"),
        ("DELETE FROM t RETURNING id", "42P11"),
        ("WITH a AS (SELECT 1) DELETE FROM t RETURNING id", "42P11"),
        ("DELETE FROM t", "42P11"),
    ] {
        for hold in ["", "WITH HOLD "] {
            client.rows("BEGIN");
            let sql = format!("DECLARE c CURSOR {hold}FOR {statement}");
            assert_eq!(client.code(&sql), code, "{sql}");
            client.rows("COMMIT");
            assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]], "{sql}");
        }
    }
}

#[test]
fn execute_has_the_tag_of_what_was_prepared() {
    let server = server();
    let mut client = server.connect();
    for (name, statement, tag) in [
        ("s", "SELECT id FROM t WHERE id > 1", "SELECT 2"),
        ("p", "SELECT id FROM t WHERE id = 1", "SELECT 1"),
        (
            "i",
            "INSERT INTO t VALUES (4), (5) RETURNING id",
            "INSERT 0 2",
        ),
        ("n", "INSERT INTO t VALUES (6)", "INSERT 0 1"),
        (
            "u",
            "UPDATE t SET id = id + 10 WHERE id > 3 RETURNING id",
            "UPDATE 3",
        ),
        ("d", "DELETE FROM t WHERE id > 3 RETURNING id", "DELETE 3"),
    ] {
        client.rows(&format!("PREPARE {name} AS {statement}"));
        assert_eq!(tags(&client.query(&format!("EXECUTE {name}"))), [tag]);
    }
    let messages = client.run(&[
        crate::client::parse("", "EXECUTE i", &[]),
        crate::client::bind("", "", 0, &[], &[]),
        crate::client::execute("", 0),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), tags(&messages)),
        ("12DDCZ", vec!["INSERT 0 2".to_owned()])
    );
    // Not only EXECUTE: so has what WITH stands before.
    let with = client.query("WITH a AS (SELECT 1) DELETE FROM t WHERE id > 3 RETURNING id");
    assert_eq!(tags(&with), ["DELETE 2"]);
}
