//! How soon a statement ends that is cancelled, or whose client is killed: during a sort, a hash join, an aggregation of many groups, COPY
//! and INSERT .. SELECT. Each would run for hours, and is stopped at a random moment of its first half second.

use std::time::{Duration, Instant};

use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::postgres::{Client, ClientError};
use crate::progress;
use crate::random::Random;
use crate::row::Row;
use crate::served::Served;

/// The key of the statement in rows.
pub(super) const STOPPED: &str = "stopped";
/// Who stops it.
pub(super) const WAYS: [&str; 2] = ["a cancel", "a killed client"];
/// Times that each is stopped.
pub(super) const TIMES: usize = 20;

/// The table of streams a thousand times.
const SOURCE: &str = "(SELECT a.n * 1000 + g.v AS n, a.x, a.name FROM generate_series(1, 1000) AS g(v), streamed AS a) AS s";
const TAKEN: &str = "CREATE TABLE taken (n BIGINT, x DOUBLE PRECISION, name VARCHAR)";
const COPY: &str = "COPY taken FROM STDIN";
/// The statements that run besides the one that asks.
const RUNNING: &str = "SELECT count(*) FROM tierra_queries WHERE text NOT LIKE '%tierra_queries%'";
/// SQLSTATE of a statement that was cancelled.
const CANCELLED: &str = "57014";
/// It is stopped after so long at most.
const RUNS: Duration = Duration::from_millis(500);
/// Between two looks at what runs.
const LOOKS_APART: Duration = Duration::from_millis(2);
/// A statement that has not begun or ended by then never does.
const PATIENCE: Duration = Duration::from_secs(60);
const WHO: &str = Served::ENGINE;

/// The statements, by what they are busy with.
pub(super) fn statements() -> [(&'static str, String); 5] {
    [
        (
            "a sort",
            format!("SELECT n, name FROM {SOURCE} ORDER BY name, n"),
        ),
        (
            "a hash join",
            format!(
                "SELECT count(*) FROM {SOURCE} JOIN streamed AS t ON s.n % 1000003 = t.n % 1000003"
            ),
        ),
        (
            "an aggregation",
            format!(
                "SELECT count(*) FROM (SELECT n, name, sum(x) FROM {SOURCE} GROUP BY n, name) AS g"
            ),
        ),
        ("COPY FROM STDIN", COPY.to_owned()),
        (
            "INSERT .. SELECT",
            format!("INSERT INTO taken SELECT n, x, name FROM {SOURCE}"),
        ),
    ]
}

/// The rows of each statement and way.
pub(super) fn measure(lab: &Lab, served: &Served) -> Result<Vec<Row>, LabError> {
    let times = lab.size(1, TIMES);
    let mut watcher = connect(served)?;
    watcher.query(TAKEN).by(WHO, TAKEN)?;
    let mut random = Random::new(SEED);
    let statements = statements();
    let bar = progress::bar("statements", statements.len() * WAYS.len() * times);
    let mut rows = Vec::new();
    for (name, sql) in &statements {
        bar.set_message(*name);
        for way in WAYS {
            let mut samples = Vec::with_capacity(times);
            for _ in 0..times {
                let client = connect(served)?;
                let delay = RUNS.mul_f64(random.fraction());
                let time = stop(client, &mut watcher, sql, way, delay)?;
                samples.push(time.as_nanos() as u64);
                bar.inc(1);
            }
            let row = Row::new().text(STOPPED, *name).text("by", way);
            rows.push(row.samples("end", "ns", samples));
        }
    }
    bar.finish_and_clear();
    let left = watcher.query("SELECT count(*) FROM taken");
    let left = left.by(WHO, "counting rows")?.rows;
    match left[0][0].as_deref() {
        Some("0") => Ok(rows),
        found => Err(LabError::WrongAnswer {
            who: WHO.to_owned(),
            what: format!("statements that were stopped have left {found:?} rows"),
        }),
    }
}

fn connect(served: &Served) -> Result<Client, LabError> {
    served.connect().by(WHO, "logging in")
}

/// Begins a statement and stops it; returns the time until it has ended.
fn stop(
    mut client: Client,
    watcher: &mut Client,
    sql: &str,
    way: &str,
    delay: Duration,
) -> Result<Duration, LabError> {
    let doing = || format!("stopping {sql}");
    match sql {
        COPY => client.begin_copy(sql).by(WHO, doing())?,
        _ => client.begin(sql).by(WHO, doing())?,
    }
    wait_for(watcher, "1")?;
    let begun = Instant::now();
    if sql == COPY {
        let rows = "7\t0.5\tseven\n".repeat(1_000);
        while begun.elapsed() < delay {
            client.copy_some(rows.as_bytes()).by(WHO, doing())?;
        }
    }
    std::thread::sleep(delay.saturating_sub(begun.elapsed()));
    let start = Instant::now();
    if way == WAYS[0] {
        client.cancel().by(WHO, doing())?;
        let ended = match client.wait() {
            Err(ClientError::Refused { code, .. }) if code == CANCELLED => Ok(start.elapsed()),
            Err(error) => Err(error.to_string()),
            Ok(rows) => Err(format!("it has ended by itself, with {rows} rows")),
        };
        return ended.by(WHO, doing());
    }
    // The system closes the connection of a process that is killed.
    drop(client);
    wait_for(watcher, "0")?;
    Ok(start.elapsed())
}

/// Waits until so many statements run.
fn wait_for(watcher: &mut Client, count: &str) -> Result<(), LabError> {
    let start = Instant::now();
    loop {
        let running = watcher.query(RUNNING).by(WHO, RUNNING)?.rows;
        if running[0][0].as_deref() == Some(count) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{count} never run")).by(WHO, RUNNING);
        }
        std::thread::sleep(LOOKS_APART);
    }
}
