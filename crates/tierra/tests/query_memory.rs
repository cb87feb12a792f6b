//! The promise about `query_memory`: every query is answered or refused, and the process
//! stays within the limit and a margin.
#![cfg(feature = "cli")]

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

mod binary;

/// What the queries may fill.
const LIMIT: &str = "200M";
/// The limit, the margin of docs/sql.md, and what the process takes when it does nothing.
const MOST_BYTES: u64 = (200 + 128 + 172) << 20;
/// Longer than any of them takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// `t` has 20,000 rows of 100 characters, `w` 500 of 20,000.
const QUERIES: &[&str] = &[
    "SELECT sum(length(repeat(s, 1000000))) FROM t",
    "SELECT sum(length(lpad(s, 1000000))) FROM t WHERE id < 300",
    "SELECT sum(length(rpad(s, id * 1000))) FROM t",
    "SELECT count(*) FROM (SELECT repeat(s, id) AS r FROM t) WHERE length(r) > 5",
    "SELECT length(repeat('x', 2000000000))",
    "SELECT length(lpad('x', 2000000000, 'yz'))",
    "SELECT length(string_agg(s, ',')) FROM t, generate_series(1, 1000)",
    "SELECT id % 10, length(string_agg(s, ',')) FROM t, generate_series(1, 1000) GROUP BY 1",
    "SELECT sum(u) FROM (SELECT unnest(range(0, 100000000)) AS u)",
    "SELECT sum(u) FROM (SELECT unnest(range(0, id)) AS u FROM t)",
    "SELECT sum(cardinality(range(0, 1000000))) FROM t WHERE id < 100",
    "SELECT sum(cardinality(array_repeat(s, 1000000))) FROM t WHERE id < 100",
    "SELECT sum(length(replace(body, 'x', repeat('y', 1000)))) FROM w",
    "SELECT sum(length(concat(body, body, body, body, body, body, body, body, body, body, body, body))) FROM w",
    "SELECT count(*) FROM (SELECT a.s || b.s AS s FROM t a, t b WHERE a.id < 1000 AND b.id < 1000 ORDER BY 1)",
    "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY a.s || b.s) AS n FROM t a, t b WHERE a.id < 1000 AND b.id < 1000)",
    "SELECT count(l) FROM (SELECT lead(a.s || b.s, 2) OVER (PARTITION BY 1) AS l FROM t a, t b WHERE a.id < 2000 AND b.id < 2000)",
    "SELECT count(l) FROM (SELECT max(a.s || b.s) OVER () AS l FROM t a, t b)",
    "SELECT count(*) FROM (SELECT DISTINCT a.s || b.s FROM t a, t b WHERE a.id < 1200 AND b.id < 1200)",
    "SELECT count(*) FROM (SELECT a.s || b.s, count(*) FROM t a, t b WHERE a.id < 1200 AND b.id < 1200 GROUP BY 1)",
    "SELECT a.id, b.s FROM t a, t b WHERE a.id < 300",
    "SELECT value FROM generate_series(1, 1000000000)",
    "SELECT max(body) FROM w a, generate_series(1, 100)",
    "WITH RECURSIVE r AS (SELECT s FROM t UNION ALL SELECT s || s FROM r WHERE length(s) < 1000000000) SELECT count(*) FROM r",
];

/// The most memory that the process had, and whether it answered.
fn run(dir: &str, sql: &str) -> (u64, bool, String) {
    let sql = format!("SET tierra.query_memory = '{LIMIT}'; {sql}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(["sql", "--db", dir, "--threads", "2", "-c", &sql])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let (start, mut most) = (Instant::now(), 0);
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        if start.elapsed() > PATIENCE || most > 4 * MOST_BYTES {
            child.kill().expect("it is our child");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let said = child.wait_with_output().expect("it has ended").stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(
        status.code().is_some(),
        "{sql}: killed after {:?} with {most} bytes",
        start.elapsed()
    );
    println!(
        "{} MiB, {:?}, {status}: {sql}: {said}",
        most >> 20,
        start.elapsed()
    );
    (most, status.success(), said)
}

#[test]
fn no_query_takes_much_more_than_it_may() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    let create = "CREATE TABLE t AS SELECT value AS id, md5(CAST(value AS VARCHAR)) || repeat('x', 68) AS s
             FROM generate_series(1, 20000);
         CREATE TABLE w AS SELECT repeat(md5(CAST(value AS VARCHAR)), 625) AS body FROM generate_series(1, 500)";
    let create = create.replace(
        "md5(CAST(value AS VARCHAR))",
        "lpad(CAST(value * 7919 AS VARCHAR), 32, 'x')",
    );
    binary::tierra(["sql", "--create", "--db", &dir, "-c", &create]).well();
    let mut faults = Vec::new();
    for sql in QUERIES {
        let mut attempt = run(&dir, sql);
        // Where other processes hold up the thread that watches the memory a query takes more than it would, but not each time.
        for _ in 0..2 {
            if attempt.0 > MOST_BYTES {
                attempt = run(&dir, sql);
            }
        }
        let (most, is_answered, said) = attempt;
        if most > MOST_BYTES {
            faults.push(format!("{} MiB: {sql}: {said}", most >> 20));
        }
        if !is_answered && !said.contains("tierra.query_memory") {
            faults.push(format!("{sql}: {said}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
