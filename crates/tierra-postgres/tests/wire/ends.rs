//! How statements, connections and the server end.

use std::time::{Duration, Instant};

use crate::client::{Client, code_of, field, message, query, rows_of, startup, state};
use crate::server::{TestServer, memory, open_to_all, resident_bytes};
use tierra_postgres::Options;

/// Longer than anything takes on a busy machine, and shorter than what would go on by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is stopped ends within a second, and within so long while other tests keep all processors busy.
const STOPPED: Duration = Duration::from_secs(5);

/// Runs for hours unless it is stopped. Its batches are short, so that it stops soon.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 10000000000) b(y) WHERE x * y % 7 = 3";

/// Waits until the rows of a query are these.
#[track_caller]
fn wait_for(client: &mut Client, sql: &str, expected: usize) {
    let start = Instant::now();
    while client.rows(sql) != [[expected.to_string()]] {
        assert!(start.elapsed() < PATIENCE, "{sql} never is {expected}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until so many statements run besides this one.
#[track_caller]
fn wait_for_running(client: &mut Client, count: usize) {
    let running = "SELECT count(*) FROM tierra_queries WHERE text LIKE 'SELECT count(*) FROM generate%' OR text LIKE 'COPY%'";
    wait_for(client, running, count);
}

fn cancel(server: &TestServer, process: i32, secret: i32) {
    let mut client = Client::open(server.address);
    let mut packet = vec![0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e];
    packet.extend(process.to_be_bytes());
    packet.extend(secret.to_be_bytes());
    client.send(&packet);
    assert!(client.is_closed());
}

#[test]
fn a_statement_is_cancelled_by_who_knows_the_secret() {
    let server = TestServer::start();
    let (mut client, mut watcher) = (server.connect(), server.connect());
    for is_prepared in [false, true] {
        if is_prepared {
            let messages = [
                crate::client::parse("", LONG, &[]),
                crate::client::bind("", "", 0, &[], &[]),
                crate::client::execute("", 0),
                crate::client::sync(),
            ];
            client.send(&messages.concat());
        } else {
            client.send(&query(LONG));
        }
        wait_for_running(&mut watcher, 1);
        cancel(&server, client.process, client.secret.wrapping_add(1));
        cancel(&server, client.process + 1_000, client.secret);
        std::thread::sleep(Duration::from_millis(100));
        wait_for_running(&mut watcher, 1);
        let start = Instant::now();
        cancel(&server, client.process, client.secret);
        let messages = client.until_ready();
        assert_eq!(
            (code_of(&messages).as_deref(), state(&messages)),
            (Some("57014"), 'I')
        );
        assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
        assert_eq!(client.rows("SELECT 1"), [["1"]]);
    }
    // A COPY is a statement, too.
    client.rows("CREATE TABLE t (n BIGINT)");
    client.send(&query("COPY t FROM STDIN"));
    client.read().unwrap();
    client.send(&message(b'd', b"1\n"));
    wait_for_running(&mut watcher, 1);
    let start = Instant::now();
    cancel(&server, client.process, client.secret);
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("57014"));
    assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
    // What comes late is passed over.
    client.send(&[message(b'd', b"2\n"), message(b'c', b"")].concat());
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
}

#[test]
fn a_statement_ends_when_its_time_is_over() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("SET statement_timeout = 100");
    let start = Instant::now();
    let messages = client.query(LONG);
    assert_eq!(code_of(&messages).as_deref(), Some("57014"));
    assert!(
        field(&messages.iter().find(|m| m.0 == b'E').unwrap().1, b'M')
            .contains("statement timeout")
    );
    assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
    client.rows("BEGIN");
    assert_eq!(state(&client.query(LONG)), 'E');
    client.rows("ROLLBACK");
    client.rows("SET idle_in_transaction_session_timeout = '100ms'");
    client.rows("BEGIN");
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("25P03"));
}

#[test]
fn the_query_of_a_client_that_is_gone_ends() {
    let server = TestServer::start();
    let mut watcher = server.connect();
    let mut client = server.connect();
    client.send(&query(LONG));
    wait_for_running(&mut watcher, 1);
    let start = Instant::now();
    drop(client);
    wait_for_running(&mut watcher, 0);
    assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
    // One that does not read is not gone. Its query waits, and nobody else does.
    let mut client = server.connect();
    client.send(&query("SELECT value, 'a long text to fill the buffers of the sockets' AS s FROM generate_series(1, 2000000)"));
    for _ in 0..20 {
        watcher.rows("SELECT 1");
    }
    drop(client);
    wait_for(&mut watcher, "SELECT count(*) FROM tierra_sessions", 1);
}

#[test]
fn there_is_room_for_so_many_connections() {
    let server = TestServer::with(Options {
        connections_most: 2,
        ..open_to_all()
    });
    let (mut first, second) = (server.connect(), server.connect());
    let mut third = Client::open(server.address);
    third.send(&startup(&[("user", "u")]));
    assert_eq!(code_of(&third.until_closed()).as_deref(), Some("53300"));
    // Cancelling needs no room.
    cancel(&server, second.process, second.secret);
    drop(second);
    wait_for(&mut first, "SELECT count(*) FROM tierra_sessions", 1);
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
}

#[test]
fn stopping_lets_statements_finish() {
    let mut server = TestServer::start();
    let (mut busy, mut idle, mut open) = (server.connect(), server.connect(), server.connect());
    idle.rows("CREATE TABLE t (n BIGINT)");
    open.rows("BEGIN; INSERT INTO t VALUES (1)");
    busy.send(&query("SELECT count(*) FROM generate_series(1, 100) a(x), generate_series(1, 1000000) b(y) WHERE x * y % 7 = 3"));
    let mut watcher = server.connect();
    wait_for_running(&mut watcher, 1);
    server.handle.stop();
    for client in [&mut idle, &mut open, &mut watcher] {
        assert_eq!(code_of(&client.until_closed()).as_deref(), Some("57P01"));
    }
    let messages = busy.until_ready();
    assert_eq!(rows_of(&messages).len(), 1);
    assert_eq!(code_of(&busy.until_closed()).as_deref(), Some("57P01"));
    server.join();
    let database = server.open_again();
    assert_eq!(
        database.table("t").unwrap().snapshot().rows(),
        0,
        "an open transaction is rolled back"
    );
}

#[test]
fn a_long_result_is_never_held_as_a_whole() {
    let _memory = memory();
    let server = TestServer::start();
    let mut client = server.connect();
    let sql = "SELECT value, 'some text that makes the rows longer' AS s FROM generate_series(1, 3000000)";
    let messages = [
        crate::client::parse("", sql, &[]),
        crate::client::bind("", "", 0, &[], &[1]),
        crate::client::execute("", 0),
        crate::client::sync(),
    ];
    client.send(&messages.concat());
    let (mut rows, mut most) = (0, 0);
    let before = resident_bytes();
    loop {
        let (kind, _) = client.read().unwrap();
        rows += u64::from(kind == b'D');
        if kind == b'D' && rows % 100_000 == 0 {
            most = most.max(resident_bytes().saturating_sub(before));
        }
        if kind == b'Z' {
            break;
        }
    }
    assert_eq!(rows, 3_000_000);
    // Its rows take 300 MiB. Other tests run in this process meanwhile.
    assert!(most < 150 << 20, "{most} bytes more");
}

/// An error means that nothing was changed: whoever tries again must not do it twice.
#[test]
fn a_commit_is_not_reported_as_cancelled() {
    let server = TestServer::start();
    let (mut client, mut watcher) = (server.connect(), server.connect());
    client.rows("CREATE TABLE t (n BIGINT)");
    let mut expected = 0_u64;
    let rows = 200_000;
    let insert = format!("INSERT INTO t SELECT value FROM generate_series(1, {rows})");
    for is_alone in [true, false] {
        for timeout_ms in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            if !is_alone {
                client.rows("BEGIN");
                client.rows(&insert);
            }
            client.rows(&format!("SET statement_timeout = {timeout_ms}"));
            let ended = client.query(if is_alone { &insert } else { "COMMIT" });
            assert_eq!(state(&ended), 'I');
            client.query("SET statement_timeout = 0");
            match code_of(&ended).as_deref() {
                None => expected += rows,
                Some(code) => assert_eq!(code, "57014"),
            }
            // What goes on behind the client's back would be seen now.
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(
                watcher.rows("SELECT count(*) FROM t"),
                [[expected.to_string()]],
                "{timeout_ms} ms, alone: {is_alone}"
            );
        }
    }
}

/// Rows that wait for the client are not what a request to cancel is about, nor another statement's time.
#[test]
fn a_late_cancel_ends_nothing() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("BEGIN");
    client.rows("DECLARE c CURSOR FOR SELECT value FROM generate_series(1, 1000000)");
    assert_eq!(client.rows("FETCH 1 c"), [["1"]]);
    cancel(&server, client.process, client.secret);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.rows("FETCH 1 c"), [["2"]]);
    client.rows("SAVEPOINT a");
    client.rows("SET statement_timeout = 50");
    assert_eq!(code_of(&client.query(LONG)).as_deref(), Some("57014"));
    client.rows("ROLLBACK TO SAVEPOINT a");
    client.rows("SET statement_timeout = 0");
    // More than the batches that were ahead.
    assert_eq!(client.rows("FETCH 100000 c").len(), 100_000);
}

#[test]
fn the_end_of_a_copy_can_be_cancelled_and_is_not_reported_so_if_it_is_there() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT, s VARCHAR)");
    let line = b"1\tsome text that makes the rows longer\n".repeat(20_000);
    let mut expected = 0_u64;
    for timeout_ms in [5, 20, 50, 100, 200, 400, 0] {
        client.rows(&format!("SET statement_timeout = {timeout_ms}"));
        client.send(&query("COPY t FROM STDIN"));
        for _ in 0..10 {
            client.send(&message(b'd', &line));
        }
        client.send(&message(b'c', b""));
        let ended = client.until_ready();
        client.query("SET statement_timeout = 0");
        match code_of(&ended).as_deref() {
            None => expected += 200_000,
            Some(code) => assert_eq!(code, "57014"),
        }
        assert_eq!(
            client.rows("SELECT count(*) FROM t"),
            [[expected.to_string()]],
            "{timeout_ms} ms"
        );
    }
    assert!(expected > 0);
}

/// A client in the middle of a pipeline is told, too.
#[test]
fn stopping_does_not_wait_for_a_sync() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    client.send(
        &[
            crate::client::parse("", "SELECT 1", &[]),
            message(b'H', b""),
        ]
        .concat(),
    );
    assert_eq!(client.read().unwrap().0, b'1');
    let start = Instant::now();
    server.handle.stop();
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("57P01"));
    server.join();
    // It would be given up after a minute.
    assert!(start.elapsed() < Duration::from_secs(50));
}
