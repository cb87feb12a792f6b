//! The promise of `tierra kv`: it serves clients of Redis until it is told to end, and says what is wrong with its settings.
#![cfg(feature = "cli")]

mod binary;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use binary::tierra;

#[test]
fn records_are_served_until_the_server_is_told_to_end() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("kv.sock");
    let config = scratch.path().join("kv.conf");
    fn text(path: &std::path::Path) -> &str {
        path.to_str().unwrap()
    }
    std::fs::write(&config, format!("port 0\nunixsocket {}\n", text(&socket))).unwrap();
    for signal in ["-TERM", "-INT"] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tierra"))
            .args(["kv", "--near-memory", "1gb", "--config", text(&config)])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = binary::connect(&mut server, &socket);
        client
            .write_all(b"SET k v\r\nGET k\r\nCONFIG GET near-memory\r\n")
            .unwrap();
        let expected = b"+OK\r\n$1\r\nv\r\n*2\r\n$11\r\nnear-memory\r\n$10\r\n1073741824\r\n";
        let mut replies = vec![0; expected.len()];
        client.read_exact(&mut replies).unwrap();
        assert_eq!(replies, expected);
        let sent = Command::new("kill")
            .args([signal, &server.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(server.wait().unwrap().success());
        assert!(!socket.exists());
    }
}

#[test]
fn what_is_wrong_with_settings_is_said() {
    tierra(["kv", "--prot", "7000"]).with_error(&["there is no setting prot"]);
    tierra(["kv", "--port", "0"]).with_error(&["nothing to listen on"]);
    tierra(["kv", "--config", "/nowhere"]).with_error(&["/nowhere"]);
    tierra(["kv", "port", "7103"]).with_error(&["write --port 7103"]);
    tierra(["kv", "r.conf"]).with_error(&["write --config r.conf"]);
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("redis.conf");
    std::fs::write(&config, "daemonize yes\nlogfile /var/log/redis.log\n").unwrap();
    let flags = ["--port", "0", "--logfile", ""].map(String::from);
    let words = ["kv".into(), "--config".into(), config.display().to_string()];
    tierra(words.into_iter().chain(flags)).with_error(&["redis.conf line 1: daemonize"]);
}

#[test]
fn help_lists_settings_and_defaults() {
    let help = tierra(["kv", "--help"]).well().out;
    for line in ["--config FILE", "\n  --port                         6379\n"] {
        assert!(help.contains(line), "{line} is not in\n{help}");
    }
}

/// The words of a process are readable by every user: no password stays among them.
#[test]
fn the_password_is_not_among_the_words_of_the_process() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("kv.sock");
    for given in [&["--requirepass", "s3cr3t"][..], &["--requirepass=s3cr3t"]] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tierra"))
            .args(["kv", "--port", "0"])
            .args(given)
            .arg("--unixsocket")
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = binary::connect(&mut server, &socket);
        client
            .write_all(b"PING\r\nAUTH s3cr3t\r\nPING\r\n")
            .unwrap();
        let expected = b"-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n";
        let mut replies = vec![0; expected.len()];
        client.read_exact(&mut replies).unwrap();
        assert_eq!(replies, expected);
        let words = std::fs::read(format!("/proc/{}/cmdline", server.id())).unwrap();
        let words = String::from_utf8_lossy(&words);
        assert!(
            words.contains("--requirepass") && words.contains("--unixsocket"),
            "{words}"
        );
        assert!(!words.contains("s3cr3t"), "{words}");
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

/// The answer to a request without a body.
fn get(address: SocketAddr, host: &str) -> Option<String> {
    let mut client = TcpStream::connect(address).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn metrics_are_told_over_http() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("kv.sock");
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(["kv", "--port", "0", "--near-memory", "1gb"])
        .args(["--http", &address.to_string(), "--unixsocket"])
        .arg(&socket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = binary::connect(&mut server, &socket);
    client.write_all(b"SET k v\r\nGET k\r\nGET x\r\n").unwrap();
    let expected = [
        "\ntierra_kv_clients 1\n",
        "\ntierra_kv_keys 1\n",
        "\ntierra_kv_commands_total 3\n",
        "\ntierra_kv_hits_total 1\n",
        "\ntierra_kv_misses_total 1\n",
        "\ntierra_kv_records{speed=\"near\"} 1\n",
        "\ntierra_kv_limit_bytes{speed=\"near\"} 1073741824\n",
    ];
    let has_all = |answer: &String| expected.iter().all(|line| answer.contains(line));
    let told = (0..6_000).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        get(address, "localhost").filter(has_all)
    });
    assert!(told.is_some(), "{:?}", get(address, "localhost"));
    // A page of another name learns nothing.
    let answer = get(address, "evil.example").unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("tierra_kv"));
    let sent = Command::new("kill")
        .args(["-TERM", &server.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert!(server.wait().unwrap().success());
    tierra([
        "kv",
        "--port",
        "0",
        "--unixsocket",
        socket.to_str().unwrap(),
        "--http",
        "0.0.0.0:0",
    ])
    .with_error(&["can be reached from other machines"]);
    tierra(["kv", "--http", "7434"]).with_error(&["an address with a port"]);
}
