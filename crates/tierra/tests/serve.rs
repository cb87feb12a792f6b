//! The promise of `tierra serve`: it listens where it is told to, for nobody who should not be there, until it is told to end.
#![cfg(feature = "cli")]

mod binary;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use binary::tierra;

#[test]
fn both_protocols_are_served_until_the_server_is_told_to_end() {
    let scratch = tempfile::tempdir().unwrap();
    let db = scratch.path().join("db");
    let db = db.to_str().unwrap();
    tierra(["sql", "--create", "--db", db, "-c", "SELECT 1"]).well();
    for signal in ["-TERM", "-INT"] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tierra"))
            .args(["serve", "--db", db, "--postgres", "127.0.0.1:0"])
            .args(["--http", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(server.stderr.take().unwrap());
        let mut lines = String::new();
        let address = loop {
            assert!(told.read_line(&mut lines).unwrap() > 0, "{lines}");
            if let Some((_, rest)) = lines.split_once("listening for HTTP on http://") {
                break rest.split(',').next().unwrap().to_owned();
            }
        };
        assert!(lines.contains("listening for clients of PostgreSQL on 127.0.0.1:"));
        let mut client = TcpStream::connect(&address).unwrap();
        let request = format!(
            "POST /sql HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/sql\r\nAccept: text/csv\r\nContent-Length: 13\r\nConnection: close\r\n\r\nSELECT 7 AS n"
        );
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("n\n7\n"),
            "{answer}"
        );
        let backup = scratch.path().join(format!("backup{signal}"));
        let backup = backup.to_str().unwrap();
        let url = format!("http://{address}");
        let fetch = ["backup", "--server", &url, backup, "--compression", "zstd"];
        let fetched = tierra(fetch).well();
        assert!(fetched.out.contains("0 tables"), "{}", fetched.out);
        tierra(["restore", "--check", backup]).well();
        tierra(fetch).with_error(&["there already"]);
        let sent = Command::new("kill")
            .args([signal, &server.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(server.wait().unwrap().success());
    }
    let nowhere = scratch.path().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    tierra(["backup", "--server", "http://127.0.0.1:1", nowhere]).with_error(&["cannot reach"]);
    let fetch = ["backup", "--server", "ftp://far", nowhere];
    tierra(fetch).with_error(&["http://HOST:PORT"]);
    tierra(["backup", nowhere]).with_status(2, &["--db"]);
    assert!(!std::path::Path::new(nowhere).exists());
}

#[test]
fn who_may_connect_is_said_before_anything_is_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let db = scratch.path().join("db");
    let db = db.to_str().unwrap();
    tierra(["sql", "--create", "--db", db, "-c", "SELECT 1"]).well();
    let serve = |more: &[&str]| {
        let always = ["serve", "--db", db, "--postgres", "127.0.0.1:0"];
        tierra(always.iter().chain(more))
    };
    serve(&["--http", "0.0.0.0:0"]).with_error(&["--users"]);
    let users = scratch.path().join("users.toml");
    let line = binary::tierra_reading("secret\n", ["user", "alice"])
        .well()
        .out;
    std::fs::write(&users, line).unwrap();
    let users = users.to_str().unwrap();
    serve(&["--http", "0.0.0.0:0", "--users", users]).with_error(&["--tls-cert"]);
    serve(&["--http", "localhost"]).with_status(2, &["--http"]);
    serve(&["--http-name", "db.example"]).with_status(2, &["--http"]);
}

/// What a service manager is told.
#[test]
fn a_server_says_when_it_is_ready_and_when_it_stops() {
    let scratch = tempfile::tempdir().unwrap();
    let manager = scratch.path().join("notify");
    let told = UnixDatagram::bind(&manager).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let next = || {
        let mut message = [0; 256];
        let len = told.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).trim().to_owned()
    };
    // The first run makes the database, and the second finds it.
    for _ in 0..2 {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tierra"))
            .args(["serve", "--create", "--postgres", "127.0.0.1:0", "--db"])
            .arg(scratch.path().join("db"))
            .env("NOTIFY_SOCKET", &manager)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(next(), "READY=1");
        let sent = Command::new("kill").arg(server.id().to_string()).status();
        assert!(sent.unwrap().success());
        assert_eq!(next(), "STOPPING=1");
        assert!(server.wait().unwrap().success());
    }
    let missing = scratch.path().join("nosuch");
    tierra(["serve", "--db", missing.to_str().unwrap()]).with_error(&["nosuch"]);
    assert!(!missing.exists());
}

#[test]
fn a_user_who_may_only_read_is_served_so() {
    let scratch = tempfile::tempdir().unwrap();
    let users = scratch.path().join("users.toml");
    let lines = [vec!["user", "alice"], vec!["user", "bob", "--read-only"]];
    let lines = lines.map(|words| binary::tierra_reading("secret\n", words).well().out);
    assert!(lines[1].starts_with("bob = {"), "{}", lines[1]);
    std::fs::write(&users, lines.concat()).unwrap();
    let known = tierra_postgres::Users::read(&users).unwrap();
    assert!(!known.reads_only("alice") && known.reads_only("bob"));
    assert!(known.is_password("bob", "secret"));
}
