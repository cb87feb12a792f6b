//! The promise of `tierra kv`: it serves clients of Redis until it is told to end, and says what is wrong with its settings.
#![cfg(feature = "cli")]

mod binary;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
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
        let mut client = loop {
            match UnixStream::connect(&socket) {
                Ok(client) => break client,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        };
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
        let mut client = loop {
            match UnixStream::connect(&socket) {
                Ok(client) => break client,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        };
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
