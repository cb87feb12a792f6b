//! What a join costs whose build side does not fit the caches: DataFusion's own hash join against lookups
//! that take turns.
//!
//! ```text
//! cargo run --release -p tierra --example joins -- [ROWS] [THREADS]
//! ```
//!
//! Joins a table of that many rows (10 million unless told otherwise) with one of twice as many, half of
//! which match, on keys of several kinds; every answer is checked, and medians of alternating rounds printed.

use std::process::ExitCode;
use std::time::Instant;

use tierra::{Database, Options};

#[global_allocator]
static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;

const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let rows = arguments.next().unwrap_or(Ok(10_000_000));
    let threads = arguments.next().unwrap_or(Ok(0));
    let (Ok(rows @ 1..=1_000_000_000), Ok(threads)) = (rows, threads) else {
        eprintln!("usage: joins [ROWS] [THREADS]");
        return ExitCode::FAILURE;
    };
    match measure(rows, threads) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(rows: u64, threads: u64) -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let db = Options::new().create(scratch.path().join("db"))?;
    // Keys are spread over 32 bits by a multiplication modulo a prime, and come in another order on the
    // probe side, where every second is beyond those of the build side.
    let key = |number: &str| format!("(({number}) * 2654435761) % 4294967291");
    let (build, probe) = (
        key("value"),
        key(&format!("(value * 40503) % {} + 1", 2 * rows + 3)),
    );
    for (table, key, count) in [("b", build, rows), ("p", probe, 2 * rows)] {
        db.sql(&format!(
            "CREATE TABLE {table} (k BIGINT, g INTEGER, v BIGINT)"
        ))?;
        db.sql(&format!(
            "INSERT INTO {table} SELECT k, CAST(k % 1000 AS INTEGER), v FROM \
             (SELECT {key} AS k, value AS v FROM generate_series(1, {count}))"
        ))?;
    }
    db.engine().wait_for_near_copies()?;
    if threads > 0 {
        db.sql(&format!("SET tierra.threads = {threads}"))?;
    }
    println!(
        "{:<28} {:>12} {:>12} {:>7}",
        format!("{rows} rows, ms"),
        "HashJoinExec",
        "in turns",
        "ratio"
    );
    for (what, sql) in [
        (
            "BIGINT",
            "SELECT count(*), sum(b.v), sum(p.v) FROM b JOIN p ON b.k = p.k",
        ),
        (
            "BIGINT and INTEGER",
            "SELECT count(*), sum(b.v) FROM b JOIN p ON b.k = p.k AND b.g = p.g",
        ),
        (
            "BIGINT, rows that match",
            "SELECT count(*), sum(v) FROM p WHERE EXISTS (SELECT 1 FROM b WHERE b.k = p.k)",
        ),
        (
            "BIGINT, three rows a key",
            "SELECT count(*), sum(b.v) FROM (SELECT k % 1431655763 AS k, v FROM b) b JOIN (SELECT k % 1431655763 AS k FROM p) p ON b.k = p.k",
        ),
    ] {
        compare(&db, what, sql)?;
    }
    Ok(())
}

/// Asks `sql` of both, in turn.
fn compare(db: &Database, what: &str, sql: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = [Vec::new(), Vec::new()];
    let mut answer: Option<String> = None;
    for _ in 0..ROUNDS {
        for (least, times) in ["1000000000000", "1"].into_iter().zip(&mut times) {
            db.sql(&format!("SET tierra.join_build_rows = {least}"))?;
            let start = Instant::now();
            let found = db.sql(sql)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let found = found.to_string();
            assert_eq!(*answer.get_or_insert(found.clone()), found, "{sql}");
        }
    }
    let [theirs, ours] = times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "{what:<28} {theirs:>12.0} {ours:>12.0} {:>6.2}x",
        theirs / ours
    );
    Ok(())
}
