//! A cursor has the rows of the moment when it was declared.

use crate::client::{bind, code_of, execute, parse, rows_of, tags};
use crate::server::{TestServer, memory};

fn server() -> TestServer {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT)");
    client.rows("INSERT INTO t VALUES (1), (2), (3)");
    server
}

#[test]
fn what_changes_after_declare_is_not_seen() {
    let server = server();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.rows("BEGIN");
    client.rows("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id");
    client.rows("DELETE FROM t");
    assert_eq!(client.rows("FETCH ALL c"), [["1"], ["2"], ["3"]]);
    client.rows("ROLLBACK");
    client.rows("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id");
    other.rows("DELETE FROM t WHERE id > 1");
    assert_eq!(client.rows("FETCH ALL h"), [["1"], ["2"], ["3"]]);
}

#[test]
fn a_held_cursor_outlives_a_commit_and_no_rollback() {
    let server = server();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.rows("BEGIN");
    client.rows("INSERT INTO t VALUES (4)");
    client.rows("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id");
    assert_eq!(client.rows("FETCH 1 h"), [["1"]]);
    client.rows("COMMIT");
    other.rows("DELETE FROM t");
    assert_eq!(client.rows("FETCH 1 h"), [["2"]]);
    client.rows("BEGIN; ROLLBACK");
    assert_eq!(client.rows("FETCH ALL h"), [["3"], ["4"]]);
    client.rows("CLOSE h");
    client.rows("BEGIN");
    client.rows("INSERT INTO t VALUES (5)");
    client.rows("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t");
    client.rows("ROLLBACK");
    assert_eq!(client.code("FETCH ALL h"), "34000");
    // A statement that fails ends it, too.
    client.query("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT 1; SELECT nosuch");
    assert_eq!(tags(&client.query("COMMIT")), ["ROLLBACK"]);
    assert_eq!(client.code("FETCH ALL h"), "34000");
}

#[test]
fn what_a_held_cursor_keeps_is_bounded() {
    // By 256 MiB.
    let _memory = memory();
    let server = server();
    let mut client = server.connect();
    let long = "SELECT value, 'some text that makes the rows longer' AS s FROM generate_series(1, 20000000)";
    client.rows("BEGIN");
    client.rows("INSERT INTO t VALUES (9)");
    client.rows(&format!("DECLARE h CURSOR WITH HOLD FOR {long}"));
    let messages = client.query("COMMIT");
    assert_eq!(code_of(&messages).as_deref(), Some("53200"));
    assert_eq!(crate::client::state(&messages), 'I');
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]]);
    assert_eq!(client.code("FETCH 1 h"), "34000");
}

#[test]
fn answers_of_the_server_itself_can_be_fetched() {
    let server = server();
    let mut client = server.connect();
    client.rows("BEGIN");
    client.rows("DECLARE a CURSOR FOR SELECT version()");
    assert!(client.rows("FETCH 100 a")[0][0].starts_with("PostgreSQL"));
    assert_eq!(tags(&client.query("FETCH 100 a")), ["FETCH 0"]);
    client.rows("DECLARE b CURSOR FOR SHOW server_encoding");
    assert_eq!(client.rows("FETCH b"), [["UTF8"]]);
    assert_eq!(
        client.code("DECLARE c CURSOR FOR INSERT INTO t VALUES (7)"),
        "42P11"
    );
    client.rows("ROLLBACK");
    for nonsense in ["COMMIT", "DECLARE x CURSOR FOR SELECT 1"] {
        client.rows("BEGIN");
        assert_eq!(
            client.code(&format!("DECLARE c CURSOR FOR {nonsense}")),
            "42601"
        );
        client.rows("ROLLBACK");
    }
}

/// The end of a transaction is one, also amid a text.
#[test]
fn a_transaction_ends_where_its_commit_stands() {
    let server = server();
    let mut client = server.connect();
    let twice =
        "BEGIN; DECLARE c CURSOR FOR SELECT 1; COMMIT; BEGIN; DECLARE c CURSOR FOR SELECT 2";
    assert_eq!(code_of(&client.query(twice)), None);
    assert_eq!(client.rows("FETCH c"), [["2"]]);
    client.rows("ROLLBACK");
    client.rows("BEGIN; SET LOCAL statement_timeout = 1000; COMMIT; BEGIN");
    assert_eq!(client.rows("SHOW statement_timeout"), [["0"]]);
    client.rows("COMMIT");
    client.rows("BEGIN READ ONLY");
    assert_eq!(client.rows("SHOW transaction_read_only"), [["on"]]);
    client.rows("COMMIT");
    assert_eq!(client.rows("SHOW transaction_read_only"), [["off"]]);
}

/// A client that was told of a text is sent one, however often it fetches.
#[test]
fn every_fetch_has_the_columns_that_were_told() {
    let server = server();
    let mut client = server.connect();
    client.rows("BEGIN");
    client.run(&[
        parse("", "DECLARE c CURSOR FOR SELECT $1 AS x FROM t", &[1700]),
        bind("", "", 0, &[Some(b"1.5")], &[]),
        execute("", 0),
    ]);
    let fetch = [
        parse("f", "FETCH 1 FROM c", &[]),
        bind("", "f", 0, &[], &[0]),
        execute("", 0),
    ];
    assert_eq!(rows_of(&client.run(&fetch)), [["1.5"]]);
    client.rows("CLOSE c");
    client.rows("DECLARE c CURSOR FOR SELECT 1 AS x, 2 AS y FROM t");
    client.rows("FETCH 1 c");
    let messages = client.run(&[bind("", "f", 0, &[], &[0]), execute("", 0)]);
    assert_eq!(code_of(&messages).as_deref(), Some("0A000"));
}
