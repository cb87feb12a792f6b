//! A user who may only read changes nothing, whatever is tried.

use tierra_postgres::{Options, Users, verifier};

use crate::client::{
    Client, Scram, bind, code_of, execute, field, message, parse, query, rows_of, startup, state,
};
use crate::server::{TestServer, open_to_all};

/// The code of a privilege that a user does not have.
const DENIED: &str = "42501";

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
    let mut alice = log_in(&server, "alice");
    alice.rows("CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR)");
    alice.rows("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    server
}

fn log_in(server: &TestServer, user: &str) -> Client {
    let mut client = prove(server, &[("user", user)]);
    client.enter();
    client
}

/// Sends the password, and does not read what is answered.
fn prove(server: &TestServer, settings: &[(&str, &str)]) -> Client {
    let mut client = Client::open(server.address);
    client.send(&startup(settings));
    assert_eq!(client.read().unwrap().0, b'R');
    let scram = Scram::new("secret");
    client.send(&scram.first("SCRAM-SHA-256", "n"));
    let (kind, body) = client.read().unwrap();
    assert_eq!(kind, b'R');
    let first = String::from_utf8(body[4..].to_vec()).unwrap();
    client.send(&scram.proof(&first, b"n,,"));
    client
}

/// Statements that change something, each of which alice can run behind those before it.
fn changes(server: &TestServer) -> Vec<String> {
    let dir = server.scratch.path().display();
    [
        "INSERT INTO t VALUES (7, 'x')",
        "INSERT INTO t SELECT n + 100, s FROM t",
        "INSERT INTO t VALUES (1, 'y') ON CONFLICT (n) DO UPDATE SET s = EXCLUDED.s",
        "INSERT INTO t VALUES (8, 'x') RETURNING n",
        "UPDATE t SET s = 'y' WHERE n > 2",
        "UPDATE t SET s = 'z' WHERE n = 1",
        "DELETE FROM t WHERE n = 2",
        "DELETE FROM t WHERE n > 100 RETURNING n",
        "MERGE INTO t USING (SELECT 9 AS n, 'm' AS s) AS u ON t.n = u.n WHEN NOT MATCHED THEN INSERT (n, s) VALUES (u.n, u.s)",
        "EXPLAIN INSERT INTO t VALUES (11, 'e')",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (11, 'e')",
        "EXPLAIN DELETE FROM t",
        "PREPARE p1 AS INSERT INTO t VALUES (20, 'p')",
        "PREPARE p2 AS UPDATE t SET s = 'p' WHERE n = 1",
        "PREPARE p3 AS DELETE FROM t",
        "CREATE TABLE u (n BIGINT)",
        "CREATE TABLE IF NOT EXISTS t (n BIGINT)",
        "CREATE TABLE v AS SELECT * FROM t",
        "ALTER TABLE u SET ('replicas' = 'far')",
        "TRUNCATE u",
        "DROP TABLE u",
        "DROP TABLE IF EXISTS u",
        "CREATE TIER b AT '{dir}/b.pool'",
        "ALTER TIER b SET (access = 'auto')",
        "DROP TIER b",
        "COPY t TO '{dir}/t.csv'",
        "COPY t TO '{dir}/t.parquet'",
        "COPY (SELECT 1 AS n) TO '{dir}/u.parquet'",
        "EXPLAIN ANALYZE COPY t TO '{dir}/v.parquet'",
        "BACKUP DATABASE TO '{dir}/db.backup'",
        "SET tierra.scrub_pace = '1M'",
        "SET TIERRA.Scrub_Pace TO '2M'",
        "SET tierra.verify_reads = 'every'",
        "SET tierra.frames = '1M'",
        "RESET tierra.frames",
        "RESET tierra.scrub_pace",
        "RESET tierra.verify_reads",
        "SET tierra.emulate = 'off'",
        "SET datafusion.runtime.temp_directory = '{dir}'",
    ]
    .iter()
    .map(|sql| sql.replace("{dir}", &dir.to_string()))
    .collect()
}

/// What a change would change.
fn all(server: &TestServer, alice: &mut Client) -> Vec<Vec<Vec<String>>> {
    let mut seen: Vec<_> = [
        "SELECT * FROM t ORDER BY n",
        "SELECT table_name FROM information_schema.tables ORDER BY table_name",
        "SELECT name FROM tierra_tiers ORDER BY name",
        "SHOW tierra.scrub_pace",
        "SHOW tierra.verify_reads",
        "SHOW tierra.frames",
        "SHOW tierra.emulate",
    ]
    .iter()
    .map(|sql| alice.rows(sql))
    .collect();
    let files = std::fs::read_dir(server.scratch.path()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.collect();
    files.sort();
    seen.push(vec![files]);
    seen
}

#[test]
fn no_statement_of_a_reader_changes_anything() {
    let server = server();
    let (mut alice, mut reader) = (log_in(&server, "alice"), log_in(&server, "reader"));
    let before = all(&server, &mut alice);
    let changes = changes(&server);
    for sql in &changes {
        assert_eq!(reader.code(sql), DENIED, "{sql}");
        let text = format!("SELECT 1; {sql}; SELECT 2");
        assert_eq!(reader.code(&text), DENIED, "{text}");
        let messages = reader.run(&[
            parse("", sql, &[]),
            bind("", "", 0, &[], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages).as_deref(), Some(DENIED), "parsed: {sql}");
        for begin in ["BEGIN", "BEGIN READ WRITE", "START TRANSACTION READ WRITE"] {
            reader.rows(begin);
            let messages = reader.query(sql);
            let told = (code_of(&messages), state(&messages));
            assert_eq!(told, (Some(DENIED.to_owned()), 'E'), "{begin}; {sql}");
            reader.rows("ROLLBACK");
        }
        let declared = format!("DECLARE c CURSOR WITH HOLD FOR {sql}");
        assert!(code_of(&reader.query(&declared)).is_some(), "{declared}");
        assert_eq!(all(&server, &mut alice), before, "{sql}");
    }
    // Each of them is one that could do it.
    for sql in &changes {
        alice.rows(sql);
    }
    assert_ne!(all(&server, &mut alice), before);
}

#[test]
fn statements_with_arguments_are_refused_when_they_are_parsed() {
    let server = server();
    let mut reader = log_in(&server, "reader");
    for sql in [
        "INSERT INTO t VALUES ($1, 'x')",
        "UPDATE t SET s = 'x' WHERE n = $1",
        "DELETE FROM t WHERE n = $1",
        "INSERT INTO t VALUES ($1, 'x') ON CONFLICT DO NOTHING",
    ] {
        for name in ["", "s"] {
            let messages = reader.run(&[
                parse(name, sql, &[20]),
                bind("", name, 0, &[Some(b"1")], &[]),
                execute("", 0),
            ]);
            assert_eq!(code_of(&messages).as_deref(), Some(DENIED), "{sql}");
            // Nothing is left that could be bound.
            let messages = reader.run(&[bind("", name, 0, &[Some(b"1")], &[]), execute("", 0)]);
            assert_eq!(code_of(&messages).as_deref(), Some("26000"), "{sql}");
        }
    }
    let rows = reader.rows("SELECT s FROM t ORDER BY n");
    assert_eq!(rows, [["a"], ["b"], ["c"]]);
}

#[test]
fn no_setting_gives_the_right() {
    let server = server();
    let mut reader = log_in(&server, "reader");
    for sql in [
        "SET transaction_read_only = off",
        "SET LOCAL transaction_read_only = off",
        "SET default_transaction_read_only = off",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET TRANSACTION READ WRITE",
        "SET ROLE alice",
        "SET SESSION AUTHORIZATION alice",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET session_authorization = 'alice'",
        "SET is_superuser = on",
        "SET tierra.reads_only = false",
        "RESET ALL",
        "RESET ROLE",
        "DISCARD ALL",
        "EXECUTE nosuch",
    ] {
        // Some are accepted, as PostgreSQL accepts them.
        reader.query(sql);
        assert_eq!(reader.code("DELETE FROM t"), DENIED, "{sql}");
        let messages = reader.query(&format!("BEGIN; {sql}; DELETE FROM t; COMMIT"));
        assert!(code_of(&messages).is_some(), "{sql}");
        reader.query("ROLLBACK");
    }
    assert_eq!(reader.rows("SHOW is_superuser"), [["off"]]);
    assert_eq!(reader.rows("SHOW session_authorization"), [["reader"]]);
    assert_eq!(reader.rows("SELECT current_user"), [["reader"]]);
    assert_eq!(reader.rows("SELECT count(*) FROM t"), [["3"]]);
    // It is another refusal than that of a transaction that only reads.
    reader.rows("BEGIN READ ONLY");
    assert_eq!(reader.code("DELETE FROM t"), DENIED);
    reader.rows("ROLLBACK");
    let mut alice = log_in(&server, "alice");
    assert_eq!(alice.rows("SHOW is_superuser"), [["on"]]);
    alice.rows("BEGIN READ ONLY");
    assert_eq!(alice.code("DELETE FROM t"), "25006");
    alice.rows("ROLLBACK");
}

#[test]
fn settings_that_all_share_are_not_set_at_login() {
    let server = server();
    let mut alice = log_in(&server, "alice");
    let before = alice.rows("SHOW tierra.scrub_pace");
    for settings in [
        ("options", "-c tierra.scrub_pace=1M"),
        ("tierra.scrub_pace", "1M"),
    ] {
        let mut client = prove(&server, &[("user", "reader"), settings]);
        let messages = client.until_closed();
        assert_eq!(code_of(&messages).as_deref(), Some(DENIED));
        assert_eq!(field(&messages.last().unwrap().1, b'S'), "FATAL");
    }
    assert_eq!(alice.rows("SHOW tierra.scrub_pace"), before);
    let mut client = prove(&server, &[("user", "reader"), ("tierra.threads", "1")]);
    client.enter();
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]]);
}

#[test]
fn copy_of_a_reader_takes_no_row() {
    let server = server();
    let mut reader = log_in(&server, "reader");
    for (begin, state_after) in [("SELECT 1", 'I'), ("BEGIN READ WRITE", 'E')] {
        for sql in [
            "COPY t FROM STDIN",
            "COPY t (s, n) FROM STDIN (FORMAT csv)",
            "COPY t FROM STDIN (FORMAT binary)",
            "COPY nosuch FROM STDIN",
        ] {
            reader.rows(begin);
            let messages = reader.query(sql);
            assert_eq!(code_of(&messages).as_deref(), Some(DENIED), "{sql}");
            assert!(!messages.iter().any(|(kind, _)| *kind == b'G'), "{sql}");
            assert_eq!(state(&messages), state_after);
            reader.rows("ROLLBACK");
            // A client that does not wait sends its rows behind the statement.
            let rows = [message(b'd', b"9\tx\n"), message(b'c', b"")].concat();
            reader.send(&[query("COPY t FROM STDIN"), rows.clone()].concat());
            assert_eq!(code_of(&reader.until_ready()).as_deref(), Some(DENIED));
            let messages = [
                parse("", sql, &[]),
                bind("", "", 0, &[], &[]),
                execute("", 0),
                rows,
            ];
            assert_eq!(code_of(&reader.run(&messages)).as_deref(), Some(DENIED));
            assert_eq!(reader.rows("SELECT count(*) FROM t"), [["3"]]);
        }
    }
    let mut alice = log_in(&server, "alice");
    alice.rows("BEGIN READ ONLY");
    assert_eq!(alice.code("COPY t FROM STDIN"), "25006");
}

#[test]
fn a_reader_reads_as_everybody_does() {
    let server = server();
    let mut reader = log_in(&server, "reader");
    assert_eq!(
        reader.rows("SELECT s FROM t ORDER BY n"),
        [["a"], ["b"], ["c"]]
    );
    let messages = reader.run(&[
        parse("", "SELECT s FROM t WHERE n = $1", &[20]),
        bind("", "", 0, &[Some(b"2")], &[]),
        execute("", 0),
    ]);
    assert_eq!(rows_of(&messages), [["b"]]);
    reader.rows("PREPARE q AS SELECT s FROM t WHERE n = $1");
    assert_eq!(reader.rows("EXECUTE q(3)"), [["c"]]);
    for sql in [
        "BEGIN READ ONLY; SELECT * FROM t; COMMIT",
        "BEGIN; SELECT 1; SAVEPOINT a; SELECT * FROM t; ROLLBACK TO a; RELEASE a; COMMIT",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH ALL FROM c; CLOSE c; COMMIT",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN ANALYZE SELECT count(*) FROM t",
        "COPY t TO STDOUT",
        "SHOW TABLES",
        "SHOW ALL",
        "SHOW tierra.threads",
        "SET tierra.threads = 1",
        "RESET tierra.threads",
        "SET statement_timeout = '1min'",
        "DESCRIBE t",
        "SELECT * FROM tierra_tiers",
        "SELECT * FROM information_schema.columns",
        "VALUES (1)",
        "DEALLOCATE q",
        "DISCARD ALL",
    ] {
        rows_of(&reader.query(sql));
    }
    // The files of the server are not the database.
    let file = server.scratch.path().join("read.csv");
    std::fs::write(&file, "n\n1\n").unwrap();
    let sql = format!("SELECT * FROM '{}'", file.display());
    assert_eq!(reader.code(&sql), "42P01");
    assert_eq!(log_in(&server, "alice").rows(&sql), [["1"]]);
}

#[test]
fn a_reader_cancels_what_is_the_readers_own() {
    const LONG: &str = "SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 10000000000) b(y) WHERE x * y % 7 = 3";
    let server = server();
    let mut reader = log_in(&server, "reader");
    let wait = |reader: &mut Client, count: usize| {
        let sql = format!("SELECT count(*) FROM tierra_queries WHERE text = '{LONG}'");
        let start = std::time::Instant::now();
        while reader.rows(&sql) != [[count.to_string()]] {
            assert!(start.elapsed() < std::time::Duration::from_secs(60));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    for (user, is_cancelled) in [("alice", false), ("other", false), ("reader", true)] {
        let mut client = log_in(&server, user);
        client.send(&query(LONG));
        wait(&mut reader, 1);
        let messages = reader.query(&format!("SELECT pg_cancel_backend({})", client.process));
        match is_cancelled {
            true => assert_eq!(rows_of(&messages), [["t"]]),
            false => assert_eq!(code_of(&messages).as_deref(), Some(DENIED), "{user}"),
        }
        if !is_cancelled {
            wait(&mut reader, 1);
            let mut alice = log_in(&server, "alice");
            alice.rows(&format!("SELECT pg_cancel_backend({})", client.process));
        }
        assert_eq!(code_of(&client.until_ready()).as_deref(), Some("57014"));
        wait(&mut reader, 0);
    }
    assert_eq!(reader.rows("SELECT pg_cancel_backend(999999)"), [["f"]]);
}
