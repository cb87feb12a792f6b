//! The promise about Ctrl-C: it stops a query or a load at once, leaves nothing of it, and does not
//! end the shell.
#![cfg(feature = "cli")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use nix::pty::openpty;

mod binary;

use binary::{PATIENCE, busy, wait_for};

/// Hours of work for every core, of which no operator gives up a thread for long.
const ENDLESS: &str = "SELECT a.value FROM generate_series(1, 9000000) a(value), generate_series(1, 9000000) b(value)";

/// What the line editor writes when a line is done: pasted text needs no brackets any more.
const EDITOR_LEAVES: &str = "\x1b[?2004l";

/// More than a process needs on a processor before it is at its work.
const BEGINNING: Duration = Duration::from_secs(1);

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test")
}

/// Waits until a child is at its work: it has been on a processor for so long.
#[track_caller]
fn wait_for_work(child: &mut Child, long: Duration) {
    let process = child.id();
    wait_for(child, "work", || (busy(process) >= long).then_some(()));
}

/// Sends SIGINT, as a terminal does on Ctrl-C, and returns the exit status and what was said.
fn interrupt(mut child: Child) -> (Option<i32>, String) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill is everywhere").success());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status.code();
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("it is our child");
            panic!("Ctrl-C was not heeded");
        }
        thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).expect("it is UTF-8");
    }
    (status, said)
}

#[test]
fn a_query_and_an_insert_stop_and_leave_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    let create = "CREATE TABLE t (n BIGINT)";
    binary::tierra(["sql", "--create", "--db", &dir, "-c", create]).well();
    let query = format!("SELECT count(*) FROM ({ENDLESS} WHERE a.value + b.value = 0)");
    let insert = format!("INSERT INTO t {ENDLESS}");
    // One thread is enough to keep the thread that waits for the rows from hearing of it.
    for (sql, threads) in [(&query, "2"), (&query, "1"), (&insert, "2")] {
        let mut child = start(&["sql", "--db", &dir, "--threads", threads, "-c", sql]);
        wait_for_work(&mut child, BEGINNING);
        let (status, said) = interrupt(child);
        assert_eq!(status, Some(130), "{sql}: {said}");
        let count = "SELECT count(*) AS n FROM t";
        let count = ["sql", "--db", &dir, "--format=csv", "-c", count];
        assert_eq!(binary::tierra(count).well().out, "n\n0\n");
    }
}

/// Planning does not yield, and joins of so many columns take the planner minutes.
#[test]
fn a_statement_that_is_being_planned_stops() {
    let columns: Vec<_> = (0..400).map(|n| format!("value + {n} AS c{n}")).collect();
    let joins: Vec<_> = (1..150)
        .map(|n| format!("JOIN t a{n} ON a{n}.c0 = a{}.c{n}", n - 1))
        .collect();
    let sql = format!(
        "EXPLAIN WITH t AS (SELECT {} FROM generate_series(1, 3)) SELECT count(*) FROM t a0 {}",
        columns.join(", "),
        joins.join(" "),
    );
    let mut child = start(&["sql", "-c", &sql]);
    wait_for_work(&mut child, BEGINNING);
    let sent = Instant::now();
    let (status, said) = interrupt(child);
    assert_eq!(status, Some(130), "{said}");
    assert!(
        sent.elapsed() < Duration::from_secs(20),
        "{:?}",
        sent.elapsed()
    );
}

#[test]
fn a_load_stops_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    // As many rows as a disk would hold, in the space of a few.
    let file = scratch.path().join("n.csv").display().to_string();
    fs::write(&file, format!("n\n{}", "12345\n".repeat(1 << 20))).unwrap();
    let mut arguments = vec!["load", "t", "--db", &dir];
    arguments.resize(1_000, &file);
    let mut child = start(&arguments);
    wait_for_work(&mut child, BEGINNING);
    let (status, said) = interrupt(child);
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("nothing was left half done"), "{said}");
    let tables = binary::tierra(["sql", "--db", &dir, "-c", ".tables"]).well();
    assert_eq!(tables.out.lines().count(), 2, "{}", tables.out);
}

#[test]
fn a_generator_stops_and_takes_its_tables_and_files_away() {
    let scratch = tempfile::tempdir().unwrap();
    let place = |name: &str| scratch.path().join(name).display().to_string();
    let (db, files) = (place("db"), place("files"));
    for target in [["--db", &db], ["--parquet", &files]] {
        let generate = ["generate", "ssb", "--scale"];
        let arguments = [&generate[..], &["50"], &target].concat();
        let mut child = start(&arguments);
        // Some tables are done by then.
        let mut lines = BufReader::new(child.stderr.as_mut().expect("it is piped")).lines();
        let date = lines.next().expect("a table is done").unwrap();
        assert!(date.starts_with("date "), "{date}");
        let (status, said) = interrupt(child);
        assert_eq!(status, Some(130), "{said}");
        // Nothing is in the way of the next attempt.
        let arguments = [&generate[..], &["0.001"], &target].concat();
        binary::tierra(arguments).well();
    }
    assert_eq!(fs::read_dir(files).unwrap().count(), 5);
}

/// The shell on a terminal of its own.
struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Receiver<u8>,
    seen: String,
}

impl Terminal {
    fn start(scratch: &std::path::Path) -> Self {
        let ends = openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        // Gives the shell a session whose terminal this is: the keys' signals go there.
        let shell = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_tierra"), "sql"])
            .env("TERM", "xterm")
            .env("TIERRA_HISTORY", scratch.join("history"))
            .stdin(end(&ends.slave))
            .stdout(end(&ends.slave))
            .stderr(end(&ends.slave))
            .spawn()
            .expect("util-linux has setsid");
        drop(ends.slave);
        let keyboard = File::from(ends.master);
        let output = BufReader::new(keyboard.try_clone().unwrap());
        let (send, screen) = channel();
        thread::spawn(move || {
            // An error is what the end of the shell looks like.
            let mut bytes = output.bytes().map_while(Result::ok);
            bytes.all(|byte| send.send(byte).is_ok())
        });
        Self {
            shell,
            keyboard,
            screen,
            seen: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` appears behind what was awaited before.
    #[track_caller]
    fn awaits(&mut self, text: &str) {
        let start = Instant::now();
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(Duration::from_millis(100)) {
                Ok(byte) => self.seen.push(char::from(byte)),
                Err(_) if start.elapsed() < PATIENCE => {
                    let ended = self.shell.try_wait().unwrap();
                    assert!(
                        ended.is_none(),
                        "no {text:?} but {ended:?}: {:?}",
                        self.seen
                    );
                }
                Err(_) => panic!("no {text:?}: {:?}", self.seen),
            }
        }
        self.seen.clear();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended by now if all went well.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Whether the shell's line editor or Ctrl-C came first was once left to chance, so several times.
#[test]
fn the_shell_goes_on_after_ctrl_c() {
    let scratch = tempfile::tempdir().unwrap();
    for _ in 0..8 {
        let mut terminal = Terminal::start(scratch.path());
        terminal.awaits("tierra> ");
        let before = busy(terminal.shell.id());
        terminal.press(&format!("{ENDLESS} WHERE a.value + b.value = 0;\r"));
        // Its last word before the terminal turns Ctrl-C into a signal again.
        terminal.awaits(EDITOR_LEAVES);
        wait_for_work(&mut terminal.shell, before + BEGINNING / 2);
        terminal.press("\x03");
        terminal.awaits("interrupted");
        terminal.awaits("tierra> ");
        // At the prompt it drops what was typed.
        terminal.press("SELECT nonsense\x03");
        terminal.awaits("tierra> ");
        terminal.press("SELECT 40 + 2 AS answer;\r");
        terminal.awaits("| 42     |");
        terminal.awaits("tierra> ");
        terminal.press("\x04");
        let status = terminal.shell.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}
