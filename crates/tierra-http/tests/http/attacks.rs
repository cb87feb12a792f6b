//! Requests that no honest client sends, and those of pages in a user's browser: refused, nothing executed, and the server goes on.

use std::io::Write;
use std::net::TcpStream;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Client};
use crate::server::{MEMORY, PATIENCE, TestServer, open_to_all, resident_bytes};
use tierra_http::Options;
use tierra_sql::SessionOptions;

const DROP: &str = "DROP TABLE t";

/// A POST with these headers, each with the end of its line.
fn post(server: &TestServer, path: &str, headers: &str, body: &str) -> Answer {
    let mut client = server.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    ));
    client.answer().unwrap()
}

fn with_table() -> TestServer {
    let server = TestServer::start();
    server.connect().sql("CREATE TABLE t (n BIGINT)");
    server
}

fn assert_table(server: &TestServer) {
    assert_eq!(
        server.connect().rows("SELECT count(*) AS n FROM t"),
        json!([{"n": 0}])
    );
}

/// DNS rebinding: a page's own name resolves to 127.0.0.1, so that its requests are of the same origin.
#[test]
fn a_foreign_host_is_refused() {
    let server = with_table();
    let port = server.address.port();
    let typed = "Content-Type: application/sql\r\n";
    for host in [
        format!("Host: evil.example:{port}\r\n"),
        "Host: evil.example\r\n".to_owned(),
        format!("Host: localhost.evil.example:{port}\r\n"),
        format!("Host: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n"),
        "Host: \r\n".to_owned(),
        String::new(),
        format!("Host: localhost:{port}\r\nHost: evil.example\r\n"),
    ] {
        let answer = post(&server, "/sql", &format!("{host}{typed}"), DROP);
        assert!(matches!(answer.status, 400 | 421), "{host}: {answer:?}");
        assert_table(&server);
        // Nor is anything read.
        for path in ["/", "/metrics", "/api/state", "/api/samples"] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.1\r\n{host}\r\n"));
            assert!(matches!(client.answer().unwrap().status, 400 | 421));
        }
    }
    // A path with a host of its own counts more than the header.
    let mut client = server.connect();
    client.send(format!(
        "GET http://evil.example/api/state HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"
    ));
    assert_eq!(client.answer().unwrap().status, 400);
    for host in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "[::1]".to_owned(),
    ] {
        let answer = post(
            &server,
            "/sql",
            &format!("Host: {host}\r\n{typed}"),
            "SELECT 1 AS x",
        );
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[test]
fn a_name_that_was_given_is_no_foreign_host() {
    let server = TestServer::with(Options {
        names: vec!["db.example".to_owned()],
        ..open_to_all()
    });
    let mut client = server.connect();
    client.host = "DB.example:443".to_owned();
    assert_eq!(client.get("/api/state").status, 200);
    client.host = "other.example".to_owned();
    let answer = client.get("/api/state");
    assert_eq!(answer.status, 421);
    assert!(answer.message().contains("--http-name"));
}

/// A form, or a script without leave, may send these types of content from any page.
#[test]
fn a_post_that_a_form_can_send_is_refused() {
    let server = with_table();
    let host = format!("Host: localhost:{}\r\n", server.address.port());
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=application/sql\r\n",
        "Content-Type: text/plain; application/sql\r\n",
        "Content-Type: application/sqlx\r\n",
        "Content-Type: text/plain\r\nContent-Type: application/sql\r\n",
    ] {
        let answer = post(&server, "/sql", &format!("{host}{kind}"), DROP);
        assert_eq!(answer.status, 415, "{kind}");
        let answer = post(
            &server,
            "/api/queries/1/cancel",
            &format!("{host}{kind}"),
            "",
        );
        assert_eq!(answer.status, 415, "{kind}");
    }
    assert_table(&server);
}

#[test]
fn a_foreign_origin_is_refused() {
    let server = with_table();
    let port = server.address.port();
    let own = format!("Host: localhost:{port}\r\nContent-Type: application/sql\r\n");
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://localhost:{}", port ^ 1),
        format!("http://localhost:{port}.evil.example"),
        String::new(),
    ] {
        let headers = format!("{own}Origin: {origin}\r\n");
        let answer = post(&server, "/sql", &headers, DROP);
        assert_eq!(answer.status, 403, "{origin}");
        let answer = post(&server, "/api/queries/1/cancel", &headers, "");
        assert_eq!(answer.status, 403, "{origin}");
        let mut client = server.connect();
        let answer = client.get_with("/api/state", &format!("Origin: {origin}\r\n"));
        assert_eq!(answer.status, 403, "{origin}");
    }
    assert_table(&server);
    let headers = format!("{own}Origin: http://localhost:{port}\r\n");
    assert_eq!(post(&server, "/sql", &headers, "SELECT 1 AS x").status, 200);
}

/// A script of another origin asks for leave first, and never gets it.
#[test]
fn no_other_origin_gets_leave() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(format!(
        "OPTIONS /sql HTTP/1.1\r\nHost: {}\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n",
        client.host
    ));
    let answer = client.answer().unwrap();
    assert_eq!(answer.status, 405);
    for path in ["/", "/metrics", "/api/state", "/nothing"] {
        let answer = client.get(path);
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
    }
    // What changes something is no GET.
    assert_eq!(client.get("/sql").status, 405);
    assert_eq!(client.get("/api/queries/1/cancel").status, 405);
}

#[test]
fn bodies_are_limited() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let before = resident_bytes();
    // What is announced is refused before it is sent, and not reserved.
    let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(format!(
            "POST /sql HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\nContent-Length: {}\r\n\r\nSELECT",
            client.host,
            u64::MAX >> 1
        ));
        assert_eq!(client.answer().unwrap().status, 413);
    }
    for client in &mut clients {
        *client = server.connect();
        client.send(format!(
            "POST /sql HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\nContent-Length: 16000000\r\n\r\nSELECT",
            client.host
        ));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(resident_bytes().saturating_sub(before) < 200 << 20);
    // Chunks that do not end.
    let mut client = server.connect();
    client.send(format!(
        "POST /sql HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\nTransfer-Encoding: chunked\r\n\r\n",
        client.host
    ));
    let part = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    let mut writer = client.stream.get_ref().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        // Fails as soon as the server has enough.
        (0..64).all(|_| writer.write_all(&part).is_ok())
    });
    let answer = client.answer();
    assert!(answer.is_none_or(|answer| answer.status == 413));
    drop(client);
    assert!(!sender.join().unwrap(), "all 64 MiB were taken");
    assert_eq!(server.connect().rows("SELECT 1 AS x"), json!([{"x": 1}]));
}

/// The plan of a text is many times as large as the text.
#[test]
fn texts_are_planned_within_the_memory_of_queries() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let session = SessionOptions {
        query_memory_bytes: Some(64 << 20),
        ..SessionOptions::default()
    };
    let server = TestServer::of_sessions(open_to_all(), session);
    let before = resident_bytes();
    let answer = server
        .connect()
        .sql(&format!("VALUES {}", vec!["(1)"; 3_000_000].join(",")));
    assert_eq!((answer.status, answer.code().as_str()), (503, "53200"));
    assert!(answer.message().contains("tierra.query_memory"));
    // The text itself, and what the tests beside this one take: its tokens alone would be more than 1 GiB.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes");
}

#[test]
fn what_is_asked_for_in_a_wrong_way_is_told_as_json() {
    let server = TestServer::start();
    let json = "Content-Type: application/sql\r\nHost: localhost\r\n";
    let answer = post(&server, "/api/queries/abc/cancel", json, "");
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("abc"), "{}", answer.message());
}

#[test]
fn heads_are_limited() {
    let server = TestServer::start();
    for head in [
        format!(
            "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "x".repeat(1 << 20)
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
            "x".repeat(1 << 20)
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
            "X: y\r\n".repeat(1_000)
        ),
    ] {
        let mut client = server.connect();
        let _ = client.stream.get_mut().write_all(head.as_bytes());
        let answer = client.answer();
        assert!(
            answer
                .as_ref()
                .is_none_or(|answer| matches!(answer.status, 400 | 414 | 431)),
            "{answer:?}"
        );
    }
    assert_eq!(server.connect().get("/").status, 200);
}

/// A body whose length is told twice may mean two requests to two readers.
#[test]
fn lengths_that_differ_are_refused() {
    let server = with_table();
    let behind = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\nContent-Length: 12\r\n\r\nDROP TABLE t";
    for lengths in [
        "Content-Length: 8\r\nContent-Length: 9\r\n",
        "Content-Length: +8\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ] {
        let mut client = server.connect();
        client.send(format!(
            "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\n{lengths}\r\nSELECT 1{behind}"
        ));
        let answer = client.answer();
        assert!(
            answer.as_ref().is_none_or(|answer| answer.status == 400),
            "{lengths}: {answer:?}"
        );
        assert!(client.is_closed());
        assert_table(&server);
    }
}

#[test]
fn there_is_room_for_so_many_connections() {
    let server = TestServer::with(Options {
        connections_most: 2,
        ..open_to_all()
    });
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.get("/").status, 200);
    assert_eq!(second.get("/").status, 200);
    let mut third = server.connect();
    assert_eq!(third.head().unwrap().status, 503);
    drop(second);
    let start = Instant::now();
    loop {
        let mut again = server.connect();
        again.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", again.host));
        match again.answer() {
            Some(answer) if answer.status == 200 => break,
            _ => assert!(start.elapsed() < PATIENCE),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Valid requests with a byte changed, cut or repeated: whatever comes of it, the next client is served.
#[test]
fn no_bytes_stop_the_server() {
    let server = with_table();
    let seed = std::env::var("TIERRA_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("TIERRA_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(2) + 1);
    let valid = [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /api/samples?since=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\nContent-Length: 8\r\n\r\nSELECT 1",
        "POST /sql HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv\r\nContent-Type: application/sql\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n0\r\n\r\n",
        "POST /api/queries/1/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\n\r\n",
    ];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(4) {
            bytes.extend(valid[random.below(valid.len())].bytes());
        }
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.below(256) as u8),
            }
        }
        let mut stream = TcpStream::connect(server.address).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
    assert_table(&server);
    // No defect was caught on the way.
    assert_eq!(
        server
            .connect()
            .rows("SELECT count(*) AS n FROM tierra_slow_queries WHERE error LIKE '%defect%'"),
        json!([{"n": 0}])
    );
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}
