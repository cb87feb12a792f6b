//! Statements as texts: tags, transactions, settings, cursors.

use crate::client::{Client, code_of, field, kinds, rows_of, state, tags};
use crate::server::TestServer;

#[test]
fn every_statement_has_its_tag() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (sql, expected) in [
        (
            "CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR)",
            "CREATE TABLE",
        ),
        ("INSERT INTO t VALUES (1, 'a'), (2, NULL)", "INSERT 0 2"),
        ("SELECT * FROM t", "SELECT 2"),
        ("UPDATE t SET s = 'b' WHERE id = 1 RETURNING s", "UPDATE 1"),
        ("UPDATE t SET s = 'c'", "UPDATE 2"),
        ("DELETE FROM t WHERE id = 1", "DELETE 1"),
        ("VALUES (1), (2)", "SELECT 2"),
        ("SET application_name = 'x'", "SET"),
        ("SET tierra.threads = 1", "SET"),
        ("SHOW server_version", "SHOW"),
        ("TRUNCATE t", "TRUNCATE TABLE"),
        ("DISCARD ALL", "DISCARD ALL"),
        ("DROP TABLE t", "DROP TABLE"),
    ] {
        let messages = client.query(sql);
        assert_eq!(code_of(&messages), None, "{sql}: {messages:?}");
        assert_eq!(tags(&messages), [expected], "{sql}");
    }
    assert_eq!(kinds(&client.query("")), "IZ");
    assert_eq!(kinds(&client.query(" ; -- nothing\n")), "IZ");
    assert_eq!(kinds(&client.query("SELECT 1; SELECT 2, 3")), "TDCTDCZ");
}

#[test]
fn several_statements_about_rows_are_one_transaction() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT PRIMARY KEY)");
    let messages = client
        .query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    assert_eq!(
        (tags(&messages), code_of(&messages).as_deref()),
        (vec!["INSERT 0 1".to_owned()], Some("23505"))
    );
    assert_eq!(state(&messages), 'I');
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    let messages = client.query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    assert_eq!(tags(&messages).len(), 2);
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["2"]]);
    // With CREATE among them each is on its own.
    assert_eq!(
        client.code("CREATE TABLE u (n BIGINT); INSERT INTO u VALUES (1); SELECT nosuch"),
        "42703"
    );
    assert_eq!(client.rows("SELECT n FROM u"), [["1"]]);
}

#[test]
fn the_state_of_the_transaction_is_told() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.rows("CREATE TABLE t (n BIGINT)");
    assert_eq!(state(&client.query("BEGIN")), 'T');
    let again = client.query("BEGIN");
    assert_eq!(
        (kinds(&again).as_str(), field(&again[0].1, b'C').as_str()),
        ("NCZ", "25001")
    );
    assert_eq!(state(&client.query("INSERT INTO t VALUES (1)")), 'T');
    assert_eq!(other.rows("SELECT count(*) FROM t"), [["0"]]);
    assert_eq!(state(&client.query("SAVEPOINT a")), 'T');
    assert_eq!(state(&client.query("SELECT nosuch FROM t")), 'E');
    assert_eq!(client.code("SELECT 1"), "25P02");
    assert_eq!(client.code("SHOW server_version"), "25P02");
    assert_eq!(state(&client.query("ROLLBACK TO SAVEPOINT a")), 'T');
    assert_eq!(state(&client.query("COMMIT")), 'I');
    assert_eq!(other.rows("SELECT count(*) FROM t"), [["1"]]);
    client.query("BEGIN; DELETE FROM t; SELECT 1/0");
    let messages = client.query("COMMIT");
    assert_eq!(
        (tags(&messages), state(&messages)),
        (vec!["ROLLBACK".to_owned()], 'I')
    );
    assert_eq!(other.rows("SELECT count(*) FROM t"), [["1"]]);
    for command in ["COMMIT", "ROLLBACK", "END", "ABORT"] {
        let messages = client.query(command);
        assert_eq!(
            (
                kinds(&messages).as_str(),
                field(&messages[0].1, b'C').as_str()
            ),
            ("NCZ", "25P01")
        );
    }
}

#[test]
fn modes_of_a_transaction_are_true_or_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT)");
    for (begin, set, code) in [
        ("BEGIN", "ISOLATION LEVEL READ COMMITTED, READ WRITE", None),
        ("BEGIN READ ONLY", "READ ONLY NOT DEFERRABLE", None),
        ("BEGIN", "READ ONLY", Some("0A000")),
        ("BEGIN READ ONLY", "READ WRITE", Some("25001")),
        ("BEGIN", "SNAPSHOT '00000003-1'", Some("0A000")),
        ("BEGIN", "ISOLATION LEVEL SERIALIZABLE", Some("0A000")),
        ("BEGIN", "FOO", Some("42601")),
        ("BEGIN", "READ ONLY FOO", Some("42601")),
    ] {
        client.rows(begin);
        let messages = client.query(&format!("SET TRANSACTION {set}"));
        assert_eq!(code_of(&messages).as_deref(), code, "{begin} {set}");
        client.rows("ROLLBACK");
    }
    let outside = client.query("SET TRANSACTION READ ONLY");
    assert_eq!(
        (
            kinds(&outside).as_str(),
            field(&outside[0].1, b'C').as_str()
        ),
        ("NCZ", "25P01")
    );
    client.rows("INSERT INTO t VALUES (1)");
}

#[test]
fn errors_have_codes() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE items (id BIGINT PRIMARY KEY, n INTEGER NOT NULL)");
    client.rows("INSERT INTO items VALUES (1, 1)");
    for (sql, code) in [
        ("SELEC 1", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT * FROM itms", "42P01"),
        ("SELECT nosuch FROM items", "42703"),
        ("SELECT nosuch(n) FROM items", "42883"),
        ("SELECT upper(id, n) FROM items", "42883"),
        ("CREATE TABLE items (n BIGINT)", "42P07"),
        ("INSERT INTO items VALUES (1, 2)", "23505"),
        ("INSERT INTO items VALUES (2, NULL)", "23502"),
        ("INSERT INTO items VALUES (2, 3000000000)", "22003"),
        ("SELECT 1 / (n - 1) FROM items", "22012"),
        ("SELECT CAST('x' AS INTEGER)", "22P02"),
        ("CREATE VIEW v AS SELECT 1", "0A000"),
        ("SET nosuch = 1", "42704"),
        ("SHOW nosuch", "42704"),
        ("RELEASE a", "25P01"),
        ("EXECUTE nosuch", "26000"),
        ("FETCH 1 FROM nosuch", "34000"),
        ("COPY nosuch.items TO STDOUT", "42P01"),
        ("COPY nosuch.items FROM STDIN", "42P01"),
    ] {
        assert_eq!(client.code(sql), code, "{sql}");
    }
    let error = client.query("SELECT * FROM itms");
    assert!(
        field(&error[0].1, b'H').contains("items"),
        "the suggestion is a hint"
    );
}

#[test]
fn settings_are_told_and_end_with_their_transaction() {
    let server = TestServer::start();
    let settings = [
        ("user", "u"),
        ("application_name", "test"),
        ("options", "-c statement_timeout=5s -c tierra.threads=1"),
    ];
    let mut client = Client::connect_with(server.address, &settings);
    assert_eq!(client.rows("SHOW application_name"), [["test"]]);
    assert_eq!(client.rows("SHOW statement_timeout"), [["5000"]]);
    assert_eq!(client.rows("SHOW tierra.threads")[0].last().unwrap(), "1");
    assert_eq!(
        client.rows("SELECT application FROM tierra_sessions"),
        [["test"]]
    );
    let messages = client.query("SET application_name TO 'other'");
    assert_eq!(
        (kinds(&messages).as_str(), messages[0].1.as_slice()),
        ("SCZ", &b"application_name\0other\0"[..])
    );
    assert_eq!(
        client.rows("SELECT application FROM tierra_sessions"),
        [["other"]]
    );
    client.rows("BEGIN");
    client.rows("SET LOCAL statement_timeout = 1000");
    assert_eq!(client.rows("SHOW statement_timeout"), [["1000"]]);
    client.rows("ROLLBACK");
    assert_eq!(client.rows("SHOW statement_timeout"), [["5000"]]);
    client.rows("SET statement_timeout = 7");
    client.rows("RESET ALL");
    assert_eq!(client.rows("SHOW statement_timeout"), [["5000"]]);
    assert!(client.rows("SHOW server_version")[0][0].starts_with("16.6 (Tierra "));
    assert_eq!(client.code("SET TIME ZONE 'Europe/Berlin'"), "22023");
    // What no server has is refused at the door.
    let mut client = Client::open(server.address);
    client.send(&crate::client::startup(&[("user", "u"), ("nosuch", "1")]));
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("42704"));
}

#[test]
fn cursors_give_rows_a_part_at_a_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.code("DECLARE c CURSOR FOR SELECT 1"), "25P01");
    client.rows("BEGIN");
    client.rows("DECLARE c NO SCROLL CURSOR FOR SELECT value FROM generate_series(1, 5)");
    assert_eq!(client.rows("FETCH 2 FROM c"), [["1"], ["2"]]);
    assert_eq!(tags(&client.query("MOVE 1 IN c")), ["MOVE 1"]);
    let rest = client.query("FETCH ALL FROM c");
    assert_eq!(
        (rows_of(&rest), tags(&rest)),
        (
            vec![vec!["4".to_owned()], vec!["5".to_owned()]],
            vec!["FETCH 2".to_owned()]
        )
    );
    assert_eq!(tags(&client.query("FETCH c")), ["FETCH 0"]);
    assert_eq!(client.code("DECLARE c CURSOR FOR SELECT 1"), "42P03");
    client.rows("ROLLBACK");
    assert_eq!(client.code("FETCH c"), "34000");
    client.rows("DECLARE held CURSOR WITH HOLD FOR SELECT value FROM generate_series(1, 3)");
    assert_eq!(client.rows("FETCH 2 FROM held").len(), 2);
    client.rows("BEGIN; COMMIT");
    assert_eq!(client.rows("FETCH 2 FROM held"), [["3"]]);
    client.rows("CLOSE held");
    assert_eq!(client.code("FETCH held"), "34000");
}

/// The tag of the last statement says that all of them are committed.
#[test]
fn the_last_tag_comes_behind_the_commit() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)");
    client.rows("INSERT INTO t VALUES (1, 0)");
    let slow = "SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 300000) b(y) WHERE x * y % 7 = 3";
    client.send(&crate::client::query(&format!(
        "UPDATE t SET n = 1 WHERE id = 1; {slow}"
    )));
    let running =
        "SELECT count(*) FROM tierra_queries WHERE text LIKE 'SELECT count(*) FROM generate%'";
    while other.rows(running) != [["1"]] {}
    other.rows("UPDATE t SET n = 2 WHERE id = 1");
    let messages = client.until_ready();
    assert_eq!(
        (code_of(&messages).as_deref(), state(&messages)),
        (Some("40001"), 'I')
    );
    assert_eq!(tags(&messages), ["UPDATE 1"]);
    assert_eq!(client.rows("SELECT n FROM t"), [["2"]]);
}

/// What a client does not understand it must not be told was understood.
#[test]
fn names_of_settings_are_not_corrected() {
    let server = TestServer::start();
    let mut client = Client::open(server.address);
    let settings = [("user", "u"), ("options", "-c tierra.thr-eads=1")];
    client.send(&crate::client::startup(&settings));
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("42704"));
    // As psql sends it in the locale C.
    let settings = [("user", "u"), ("client_encoding", "SQL_ASCII")];
    let mut client = Client::connect_with(server.address, &settings);
    assert_eq!(client.rows("SHOW client_encoding"), [["SQL_ASCII"]]);
    assert_eq!(client.rows("SELECT 'é'"), [["é"]]);
}
