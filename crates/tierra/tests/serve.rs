//! The promise of `tierra serve`: it listens where it is told to, for nobody who should not be there, until it is told to end.
#![cfg(feature = "cli")]

mod binary;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

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
        let sent = Command::new("kill")
            .args([signal, &server.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(server.wait().unwrap().success());
    }
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
