//! How statements, answers and the server end.

use std::sync::PoisonError;
use std::time::Instant;

use serde_json::json;

use crate::server::{LONG, MEMORY, STOPPED, TestServer, resident_bytes};

#[test]
fn a_statement_is_cancelled_by_its_number() {
    let server = TestServer::start();
    let (mut client, mut watcher) = (server.connect(), server.connect());
    client.begin(LONG, "User-Agent: a test\r\n");
    server.wait_for_running(1);
    let state = watcher.get("/api/state").json();
    let running = &state["running"][0];
    assert_eq!(
        (&running["text"], &running["application"]),
        (&json!(LONG), &json!("a test"))
    );
    let cancel = |id: u64| {
        let mut client = server.connect();
        client.send(format!(
            "POST /api/queries/{id}/cancel HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\n\r\n",
            client.host
        ));
        client.answer().unwrap().status
    };
    let id = running["id"].as_u64().unwrap();
    assert_eq!(cancel(id + 1_000), 404);
    server.wait_for_running(1);
    let start = Instant::now();
    assert_eq!(cancel(id), 200);
    let answer = client.answer().unwrap();
    assert_eq!((answer.status, &*answer.code()), (409, "57014"));
    assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
    assert_eq!(client.rows("SELECT 1 AS x"), json!([{"x": 1}]));
    assert_eq!(cancel(id), 404);
}

#[test]
fn the_statement_of_a_client_that_is_gone_ends() {
    let server = TestServer::start();
    // Before its answer.
    let mut client = server.connect();
    client.begin(LONG, "");
    server.wait_for_running(1);
    let start = Instant::now();
    drop(client);
    server.wait_for_running(0);
    assert!(start.elapsed() < STOPPED, "{:?}", start.elapsed());
    // While it waits for more rows, and while it does not read.
    let (pausing, endless) = (
        "SELECT y FROM generate_series(1, 100000000000) b(y) WHERE y < 100000 OR y % 90000000000 = 3",
        "SELECT value, 'a long text to fill the buffers of the sockets' AS s FROM generate_series(1, 1000000000)",
    );
    for sql in [pausing, endless] {
        for accept in ["text/csv", "application/vnd.apache.arrow.stream"] {
            let mut client = server.connect();
            client.begin(sql, &format!("Accept: {accept}\r\n"));
            assert_eq!(client.head().unwrap().status, 200);
            client.chunk().unwrap();
            server.wait_for_running(1);
            drop(client);
            server.wait_for_running(0);
        }
    }
}

#[test]
fn an_answer_that_is_broken_off_does_not_look_whole() {
    let server = TestServer::start();
    let mut client = server.connect();
    let sql = "SELECT 100 / (value - 200000) AS x FROM generate_series(1, 300000)";
    for accept in ["text/csv", "application/vnd.apache.arrow.stream"] {
        let answer = client.sql_as(sql, accept);
        assert_eq!(answer.status, 200);
        assert!(!answer.is_whole && !answer.body.is_empty());
        assert!(client.is_closed());
        client = server.connect();
    }
    // What is made as a whole has the status of its error.
    let answer = client.sql("SELECT 100 / (value - 9000) AS x FROM generate_series(1, 9500)");
    assert_eq!((answer.status, &*answer.code()), (400, "22012"));
}

#[test]
fn a_long_answer_is_never_held_as_a_whole() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let mut client = server.connect();
    let sql = "SELECT value, 'some text that makes the rows longer' AS s FROM generate_series(1, 3000000)";
    for accept in ["text/csv", "application/vnd.apache.arrow.stream"] {
        client.begin(sql, &format!("Accept: {accept}\r\n"));
        assert_eq!(client.head().unwrap().status, 200);
        let before = resident_bytes();
        let (mut bytes, mut parts, mut most) = (0, 0, 0);
        loop {
            let chunk = client.chunk().unwrap();
            if chunk.is_empty() {
                break;
            }
            bytes += chunk.len();
            parts += 1;
            if parts % 16 == 0 {
                most = most.max(resident_bytes().saturating_sub(before));
            }
        }
        assert!(bytes > 120 << 20, "{bytes}");
        // Other tests run in this process meanwhile.
        assert!(most < 100 << 20, "{most} bytes more");
    }
}

#[test]
fn stopping_lets_statements_finish() {
    let mut server = TestServer::start();
    let (mut busy, mut idle) = (server.connect(), server.connect());
    assert_eq!(idle.get("/").status, 200);
    busy.begin("SELECT count(*) AS n FROM generate_series(1, 100) a(x), generate_series(1, 1000000) b(y) WHERE x * y % 7 = 3", "");
    server.wait_for_running(1);
    server.handle.stop();
    assert!(idle.is_closed());
    let answer = busy.answer().unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(busy.is_closed());
    server.join();
    server.open_again();
}
