//! The promise about Ctrl-C: it stops a query or a load at once, and leaves no rows of it.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

mod binary;

/// Hours of work for every core, of which no operator gives up a thread for long.
const ENDLESS: &str =
    "SELECT a.value FROM generate_series(1, 9000000) a, generate_series(1, 9000000) b";

fn start(dir: &str, sql: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(["sql", "--db", dir, "-c", sql])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was built for this test")
}

/// Sends SIGINT, as a terminal does on Ctrl-C, and returns the exit status.
fn interrupt(mut child: Child) -> Option<i32> {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill is everywhere").success());
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status.code();
        }
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().expect("it is our child");
            panic!("Ctrl-C was not heeded");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_query_and_an_insert_stop_and_leave_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    let create = "CREATE TABLE t (n BIGINT)";
    binary::tierra(["sql", "--create", "--db", &dir, "-c", create]).well();
    for sql in [
        format!("SELECT count(*) FROM ({ENDLESS} WHERE a.value + b.value = 0)"),
        format!("INSERT INTO t {ENDLESS}"),
    ] {
        let child = start(&dir, &sql);
        thread::sleep(Duration::from_secs(1));
        assert_eq!(interrupt(child), Some(130), "{sql}");
        let count = [
            "sql",
            "--db",
            &dir,
            "--format=csv",
            "-c",
            "SELECT count(*) AS n FROM t",
        ];
        assert_eq!(binary::tierra(count).well().out, "n\n0\n");
    }
}
