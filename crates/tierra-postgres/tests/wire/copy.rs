//! COPY through the connection.

use crate::client::{
    Client, Message, bind, code_of, execute, kinds, message, parse, query, state, sync, tags,
};
use crate::server::{TestServer, memory};

/// Sends COPY FROM STDIN and its data in parts; returns what comes up to ReadyForQuery.
fn copy_in(client: &mut Client, sql: &str, parts: &[&[u8]]) -> Vec<Message> {
    client.send(&query(sql));
    let (kind, _) = client.read().unwrap();
    assert_eq!(kind, b'G');
    for part in parts {
        client.send(&message(b'd', part));
    }
    client.send(&message(b'c', b""));
    client.until_ready()
}

fn data(messages: &[Message]) -> Vec<u8> {
    let rows = messages.iter().filter(|(kind, _)| *kind == b'd');
    rows.flat_map(|(_, body)| body.clone()).collect()
}

#[test]
fn rows_go_in_and_come_out_alike() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR, d DECIMAL(9, 2), b BOOLEAN, f DOUBLE, day DATE, at TIMESTAMP)");
    client.rows("CREATE TABLE u (id BIGINT PRIMARY KEY, s VARCHAR, d DECIMAL(9, 2), b BOOLEAN, f DOUBLE, day DATE, at TIMESTAMP)");
    let messages = copy_in(
        &mut client,
        "COPY t FROM STDIN",
        &[
            b"1\ta\\tb\\\\\t1.50\tt\t0.1\t2024-02-29\t2024-02-29 12:00:00.5\n2\t\\N\t\\N\t\\N\t\\N\t",
            b"\\N\t\\N\n3\t\t-0.05\tf\t-Infinity\t0001-01-01\t9999-12-31 23:59:59.999999\n",
        ],
    );
    assert_eq!(tags(&messages), ["COPY 3"], "{messages:?}");
    for options in [
        "",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER, DELIMITER ';', NULL 'null')",
        "(FORMAT binary)",
    ] {
        client.rows("TRUNCATE u");
        let out = client.query(&format!("COPY t TO STDOUT {options}"));
        assert_eq!(tags(&out), ["COPY 3"]);
        // Each row is a message of its own.
        let rows = out.iter().filter(|(kind, _)| *kind == b'd').count();
        let extra = usize::from(options.contains("HEADER") || options.contains("binary"));
        assert_eq!(rows, 3 + extra, "{options}");
        let messages = copy_in(
            &mut client,
            &format!("COPY u FROM STDIN {options}"),
            &[&data(&out)],
        );
        assert_eq!(tags(&messages), ["COPY 3"], "{options}: {messages:?}");
        assert_eq!(
            client.rows("SELECT count(*) FROM t NATURAL JOIN u"),
            [["2"]],
            "{options}"
        );
        let both =
            ["t", "u"].map(|table| client.rows(&format!("SELECT * FROM {table} ORDER BY id")));
        assert_eq!(both[0], both[1], "{options}");
    }
    let messages =
        client.query("COPY (SELECT 1 AS a, 'x,y' AS b WHERE 1 = 1) TO STDOUT (FORMAT csv, HEADER)");
    assert_eq!(data(&messages), b"a,b\n1,\"x,y\"\n");
    let messages = client.query("COPY (SELECT 1 WHERE 1 = 2) TO STDOUT (FORMAT binary)");
    assert_eq!(kinds(&messages), "HdcCZ");
    let messages = copy_in(&mut client, "COPY t (s, id) FROM STDIN CSV", &[b"only,9"]);
    assert_eq!(tags(&messages), ["COPY 1"]);
    assert_eq!(
        client.rows("SELECT s, d FROM t WHERE id = 9"),
        [["only", "NULL"]]
    );
}

#[test]
fn a_copy_is_all_or_nothing() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER NOT NULL)");
    client.rows("CREATE TABLE f (id BIGINT, f DOUBLE)");
    for (sql, rows, code) in [
        ("COPY t FROM STDIN", &b"1\t1\n2\tx\n"[..], "22P02"),
        ("COPY t FROM STDIN", b"1\t1\n1\t2\n", "23505"),
        ("COPY t FROM STDIN", b"1\t\\N\n", "23502"),
        ("COPY t FROM STDIN", b"1\n", "22P04"),
        ("COPY t FROM STDIN (FORMAT binary)", b"no header", "22P04"),
        ("COPY f FROM STDIN", b"1\t1e-400\n", "22003"),
    ] {
        let messages = copy_in(&mut client, sql, &[rows]);
        assert_eq!(code_of(&messages).as_deref(), Some(code), "{rows:?}");
        assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    }
    // The client gives up, or goes.
    client.send(&query("COPY t FROM STDIN"));
    client.read().unwrap();
    client.send(&[message(b'd', b"1\t1\n"), message(b'f', b"enough\0")].concat());
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("57014"));
    let mut other = server.connect();
    other.send(&query("COPY t FROM STDIN"));
    other.read().unwrap();
    other.send(&message(b'd', b"1\t1\n"));
    drop(other);
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    for (sql, code) in [
        ("COPY nosuch FROM STDIN", "42P01"),
        ("COPY t (nosuch) FROM STDIN", "42703"),
        ("COPY t (id) FROM STDIN", "23502"),
        ("COPY t (id, id) FROM STDIN", "42701"),
        ("COPY t FROM '/etc/passwd'", "0A000"),
    ] {
        assert_eq!(client.code(sql), code, "{sql}");
    }
}

#[test]
fn a_table_that_is_dropped_meanwhile_is_not_there() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.rows("CREATE TABLE t (n BIGINT)");
    client.send(&query("COPY t FROM STDIN"));
    assert_eq!(client.read().unwrap().0, b'G');
    client.send(&message(b'd', b"1\n"));
    other.rows("DROP TABLE t");
    client.send(&message(b'c', b""));
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("42P01"));
}

#[test]
fn a_copy_in_a_transaction_is_a_part_of_it() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE \"T\"\"x\" (\"A b\" BIGINT, s VARCHAR)");
    for (end, left) in [("ROLLBACK", "0"), ("COMMIT", "2")] {
        client.rows("BEGIN");
        let messages = copy_in(
            &mut client,
            "COPY \"T\"\"x\" FROM STDIN",
            &[b"1\ta\n2\tb\n"],
        );
        assert_eq!(
            (tags(&messages), state(&messages)),
            (vec!["COPY 2".to_owned()], 'T'),
            "{messages:?}"
        );
        assert_eq!(client.rows("SELECT count(*) FROM \"T\"\"x\""), [["2"]]);
        client.rows(end);
        assert_eq!(client.rows("SELECT count(*) FROM \"T\"\"x\""), [[left]]);
    }
    client.rows("BEGIN");
    let messages = copy_in(&mut client, "COPY \"T\"\"x\" FROM STDIN", &[b"x\ta\n"]);
    assert_eq!(state(&messages), 'E');
    client.rows("ROLLBACK");
}

/// rust-postgres sends Sync behind the Execute of a COPY, and again behind its data.
#[test]
fn copies_can_be_prepared() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT)");
    let begin = [
        parse("", "COPY t FROM STDIN", &[]),
        bind("", "", 0, &[], &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    for (rows, is_good) in [(&b"1\n"[..], true), (b"x\n", false), (b"2\n", true)] {
        client.send(&begin);
        for expected in [b'1', b'2', b'G'] {
            assert_eq!(client.read().unwrap().0, expected);
        }
        client.send(&[message(b'd', rows), message(b'c', b""), sync()].concat());
        assert_eq!(code_of(&client.until_ready()).is_none(), is_good);
    }
    assert_eq!(client.rows("SELECT n FROM t ORDER BY n"), [["1"], ["2"]]);
    let out = client.run(&[
        parse("", "COPY t TO STDOUT", &[]),
        bind("", "", 0, &[], &[]),
        execute("", 0),
    ]);
    assert_eq!(kinds(&out), "12HddcCZ");
}

#[test]
fn many_rows_are_loaded() {
    let _memory = memory();
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR)");
    let rows: String = (0..200_000).map(|n| format!("{n}\trow {n}\n")).collect();
    let parts: Vec<&[u8]> = rows.as_bytes().chunks(8_000).collect();
    assert_eq!(
        tags(&copy_in(&mut client, "COPY t FROM STDIN", &parts)),
        ["COPY 200000"]
    );
    let sums = client.rows("SELECT count(*), sum(id), max(s) FROM t");
    assert_eq!(sums, [["200000", "19999900000", "row 99999"]]);
}
