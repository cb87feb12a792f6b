//! A text of several statements is one transaction, as in PostgreSQL 15, whose answers these are.

use crate::client::{Client, Message, code_of, field, message, query, state, tags};
use crate::server::TestServer;

fn server() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT PRIMARY KEY)");
    (server, client)
}

/// What `sql` leaves in the table, which is empty before.
fn left(client: &mut Client, sql: &str) -> (Option<String>, Vec<String>) {
    client.rows("DELETE FROM t");
    let messages = client.query(sql);
    if state(&messages) != 'I' {
        client.rows("ROLLBACK");
    }
    let rows = client.rows("SELECT n FROM t ORDER BY n");
    (code_of(&messages), rows.into_iter().flatten().collect())
}

const ONE: &str = "INSERT INTO t VALUES (1)";

#[test]
fn an_error_in_a_statement_stops_those_before_it() {
    let (_server, mut client) = server();
    for wrong in [
        "SELEC",
        "SELECT 1 +",
        "SET x",
        "FETCH 1 FROM",
        "COMMIT nonsense",
        "BEGIN; SELECT (1",
        "CREATE TABLE u (n BIGINT); SELEC",
        "SELECT 'open",
    ] {
        let (code, rows) = left(&mut client, &format!("{ONE}; {wrong}"));
        assert_eq!((code.as_deref(), rows.len()), (Some("42601"), 0), "{wrong}");
    }
    assert_eq!(client.code("SELECT * FROM u"), "42P01");
}

#[test]
fn statements_of_any_kind_are_a_part() {
    let (_server, mut client) = server();
    client.rows("PREPARE p AS SELECT 1");
    for between in [
        "SHOW datestyle",
        "SHOW tierra.threads",
        "EXPLAIN SELECT 1",
        "SET application_name = 'x'",
        "SET tierra.threads = 2",
        "RESET application_name",
        "COPY t TO STDOUT",
        "SELECT version()",
        "PREPARE q AS SELECT 2; EXECUTE q; DEALLOCATE q",
        "EXECUTE p",
        "DECLARE c CURSOR FOR SELECT n FROM t; FETCH c; CLOSE c",
        "UNLISTEN *",
    ] {
        let (code, rows) = left(&mut client, &format!("{ONE}; {between}; {ONE}"));
        assert_eq!(
            (code.as_deref(), rows.len()),
            (Some("23505"), 0),
            "{between}"
        );
        let (code, rows) = left(&mut client, &format!("{ONE}; {between}"));
        assert_eq!((code, rows), (None, vec!["1".to_owned()]), "{between}");
    }
    for (wrong, code) in [
        ("DEALLOCATE nope", "26000"),
        ("SHOW nope", "42704"),
        ("SAVEPOINT a", "25P01"),
        ("RELEASE a", "25P01"),
        ("ROLLBACK TO SAVEPOINT a", "25P01"),
        ("DISCARD ALL", "25001"),
        ("TRUNCATE nope", "42P01"),
        ("VACUUM t", "0A000"),
        ("COPY (DELETE FROM t) TO STDOUT", "42601"),
    ] {
        let (found, rows) = left(&mut client, &format!("{ONE}; {wrong}; {ONE}"));
        let is_apart = wrong.starts_with("TRUNCATE");
        assert_eq!(found.as_deref(), Some(code), "{wrong}");
        assert_eq!(rows.is_empty(), !is_apart, "{wrong}");
    }
}

#[test]
fn begin_takes_over_and_what_follows_an_end_is_new() {
    let (_server, mut client) = server();
    let insert = |n: u32| format!("INSERT INTO t VALUES ({n})");
    let (one, two, three) = (insert(1), insert(2), insert(3));
    for (sql, code, rows) in [
        (
            format!("BEGIN; {one}; COMMIT; {two}; {one}"),
            Some("23505"),
            &["1"][..],
        ),
        (
            format!("{one}; BEGIN; {two}; ROLLBACK; {three}"),
            None,
            &["3"],
        ),
        (
            format!("{one}; BEGIN; {two}; COMMIT; {three}; {one}"),
            Some("23505"),
            &["1", "2"],
        ),
        (
            format!("{one}; COMMIT; {two}; {one}"),
            Some("23505"),
            &["1"],
        ),
        (format!("{one}; ROLLBACK; {two}"), None, &["2"]),
        (format!("{one}; ABORT; {two}"), None, &["2"]),
        (
            format!("{one}; BEGIN; SAVEPOINT a; {two}; ROLLBACK TO a; COMMIT"),
            None,
            &["1"],
        ),
        (format!("{one}; BEGIN; {two}"), None, &[]),
        (format!("BEGIN; {one}; COMMIT; SELEC"), Some("42601"), &[]),
        (
            format!("{one}; BEGIN READ ONLY; {two}; COMMIT"),
            Some("25001"),
            &[],
        ),
    ] {
        let (found, left) = left(&mut client, &sql);
        assert_eq!(
            (found.as_deref(), left.as_slice()),
            (
                code,
                &rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()[..]
            ),
            "{sql}"
        );
    }
    for refused in [
        "COMMIT AND CHAIN",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION READ ONLY",
    ] {
        let (found, left) = left(&mut client, &format!("{one}; {refused}; {two}"));
        assert_eq!(
            (found.as_deref(), left.len()),
            (Some("0A000"), 0),
            "{refused}"
        );
        assert_eq!(state(&client.query("SELECT 1")), 'I', "{refused}");
    }
    client.rows("DELETE FROM t");
    let messages = client.query(&format!("{one}; START TRANSACTION"));
    assert_eq!(
        (state(&messages), tags(&messages)),
        (
            'T',
            vec!["INSERT 0 1".to_owned(), "START TRANSACTION".to_owned()]
        )
    );
    client.rows("ROLLBACK");
    // An end that nobody has begun.
    let messages = client.query(&format!("{one}; COMMIT"));
    let notice = messages.iter().find(|(kind, _)| *kind == b'N').unwrap();
    assert_eq!(field(&notice.1, b'C'), "25P01");
    assert_eq!(tags(&messages), ["INSERT 0 1", "COMMIT"]);
    assert_eq!(client.rows("SELECT n FROM t"), [["1"]]);
}

#[test]
fn cursors_and_local_settings_live_as_long_as_the_text() {
    let (_server, mut client) = server();
    let sql = format!("{ONE}; DECLARE c CURSOR FOR SELECT n FROM t; FETCH c");
    assert_eq!(client.rows(&sql), [["1"]]);
    assert_eq!(client.code("FETCH c"), "34000");
    client.rows("DECLARE h CURSOR WITH HOLD FOR SELECT n FROM t; DELETE FROM t");
    assert_eq!(client.rows("FETCH ALL h"), [["1"]]);
    client.rows("CLOSE h");
    client.query(&format!(
        "DECLARE h CURSOR WITH HOLD FOR SELECT 1; {ONE}; {ONE}"
    ));
    assert_eq!(client.code("FETCH h"), "34000");
    assert_eq!(
        client.rows("SET LOCAL statement_timeout = 1234; SHOW statement_timeout"),
        [["1234"]]
    );
    assert_eq!(client.rows("SHOW statement_timeout"), [["0"]]);
}

#[test]
fn copies_through_the_connection_are_a_part() {
    let (_server, mut client) = server();
    let run = |client: &mut Client, rows: &[u8], behind: &str| -> Vec<Message> {
        client.rows("DELETE FROM t");
        client.send(&query(&format!("{ONE}; COPY t FROM STDIN; {behind}")));
        while client.read().unwrap().0 != b'G' {}
        client.send(&[message(b'd', rows), message(b'c', b"")].concat());
        client.until_ready()
    };
    let messages = run(&mut client, b"2\n", "SELECT 1");
    assert_eq!(tags(&messages), ["COPY 1", "SELECT 1"]);
    assert_eq!(client.rows("SELECT n FROM t ORDER BY n"), [["1"], ["2"]]);
    for (rows, behind) in [(&b"x\n"[..], "SELECT 1"), (b"2\n", ONE)] {
        let messages = run(&mut client, rows, behind);
        assert!(code_of(&messages).is_some());
        assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    }
}
