//! Promise: what an append has acknowledged survives a kill, and what is there then is what was appended, up to the end of one append.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tierra_buffers::Near;

use crate::fixture::{PATTERNS, allocate, check, check_patterns, open, values};

/// What the child appends, over and over: single values, some, and as many as are encoded at once.
const APPENDS: [u64; 6] = [1, 1, 500, 1, 70_000, 3];

#[test]
fn acknowledged_values_survive_a_kill() {
    for run in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "crash::append", "--ignored", "--nocapture"])
            .env("TIERRA_TEST_DIR", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        let reading = thread::spawn(move || {
            let lines = told.lines().map_while(Result::ok);
            let counts = lines.filter_map(|line| line.strip_prefix("has ")?.parse::<u64>().ok());
            counts.last().unwrap_or(0)
        });
        thread::sleep(Duration::from_millis(250 + run * 97));
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reading.join().unwrap();
        let buffers = open(dir.path());
        let Ok(buffer) = buffers.buffer("n") else {
            assert_eq!(acknowledged, 0);
            continue;
        };
        let count = buffer.info().unwrap().count;
        println!("run {run}: {acknowledged} acknowledged, {count} there");
        let ends = APPENDS.iter().cycle().scan(0, |end, many| {
            *end += many;
            Some(*end)
        });
        let mut ends = std::iter::once(0).chain(ends);
        let end = ends.find(|end| *end >= acknowledged).unwrap();
        assert_eq!(end, acknowledged);
        assert!(
            count == end || Some(count) == ends.next(),
            "{count} of {end}"
        );
        check_patterns(&buffer, &values(0..count));
        // It goes on.
        buffer.append(&values(count..count + 10)).unwrap();
        check(&buffer.reader(PATTERNS[0]).unwrap(), &values(0..count + 10));
    }
}

#[test]
#[ignore = "the child of the other"]
fn append() {
    let dir = env::var_os("TIERRA_TEST_DIR").unwrap();
    let buffers = open(std::path::Path::new(&dir));
    let buffer = allocate(&buffers, Near::IfRoom);
    let mut count = 0;
    for many in APPENDS.iter().cycle() {
        buffer.append(&values(count..count + many)).unwrap();
        count += many;
        println!("has {count}");
    }
}
