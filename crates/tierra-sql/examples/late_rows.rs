//! What reading rows late saves: lists of keys, TopK, and joins of few rows, each against the same rows
//! read by a scan, alternating in one process.
//!
//! ```text
//! cargo run --release -p tierra-sql --example late_rows -- [MILLION ROWS]
//! ```

use std::time::Instant;

use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Session, SessionOptions};

/// Rounds of which a median is taken.
const ROUNDS: usize = 11;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }
}

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let millions: f64 = std::env::args()
        .nth(1)
        .map_or(Ok(1.0), |text| text.parse())?;
    let rows = (millions * 1e6) as u64;
    let dir = std::env::temp_dir().join(format!("tierra-late-rows-{}", std::process::id()));
    let result = measure(&dir, rows).await;
    std::fs::remove_dir_all(&dir)?;
    result
}

async fn measure(dir: &std::path::Path, rows: u64) -> Result<(), Failure> {
    let database = Database::create(dir, &DatabaseOptions::default())?;
    let session = Session::new(database.clone(), &SessionOptions::default())?;
    let columns: Vec<String> = (1..=9).map(|c| format!("c{c} INTEGER")).collect();
    let values: Vec<String> = (1..=9)
        .map(|c| format!("value * {} % 1000003 AS c{c}", 7 * c + 12))
        .collect();
    for (table, key) in [("keyed", " PRIMARY KEY"), ("scanned", "")] {
        let create = format!(
            "CREATE TABLE {table} (id BIGINT{key}, a BIGINT, {}, s VARCHAR); \
             INSERT INTO {table} SELECT value AS id, value * 7919 % 15485863 AS a, {}, concat('the text of row ', value) AS s \
             FROM generate_series(0, {}) AS t(value)",
            columns.join(", "),
            values.join(", "),
            rows - 1
        );
        session.execute(&create).await?;
        database.table(table).ok_or("no table")?.seal()?;
    }
    database.wait_for_near_copies()?;
    let random = &mut Random(42);

    println!("a list of keys, {rows} rows: lookups and a scan, ms");
    // Beyond these shares all of them are scans.
    for part in [4096, 1024, 256, 128] {
        for columns in ["id, c1", "*"] {
            let list = |random: &mut Random| {
                let keys = (0..rows / part).map(|_| random.below(rows).to_string());
                keys.collect::<Vec<_>>().join(",")
            };
            let (mut late, mut early) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let list = list(random);
                for (table, times) in [("keyed", &mut late), ("scanned", &mut early)] {
                    let sql = format!("SELECT {columns} FROM {table} WHERE id IN ({list})");
                    times.push(time(&session, &sql).await?);
                }
            }
            report(&format!("1/{part} of the keys, {columns}"), late, early);
        }
    }

    println!("ORDER BY .. LIMIT k: rows fetched late and read at once, ms");
    for order in ["a", "id DESC", "id"] {
        for k in [10, rows / 1024, rows / 256] {
            for columns in ["id, a, c1, c2, c3", "*"] {
                let sql = format!("SELECT {columns} FROM scanned ORDER BY {order} LIMIT {k}");
                let (late, early) = both(&session, &sql).await?;
                report(&format!("{order}, k = {k}, {columns}"), late, early);
            }
        }
    }
    for sql in [
        "SELECT * FROM scanned LIMIT 10",
        "SELECT * FROM scanned WHERE c1 = 77 LIMIT 10",
    ] {
        let (late, early) = both(&session, sql).await?;
        report(sql, late, early);
    }

    println!("a join with a table's key: lookups and a hash join, ms");
    for part in [4096, 1024, 256, 64] {
        let create = format!(
            "CREATE TABLE few (k BIGINT, n BIGINT); \
             INSERT INTO few SELECT value * 104729 % {rows} AS k, value AS n FROM generate_series(1, {}) AS t(value)",
            rows / part
        );
        session.execute(&create).await?;
        for columns in ["sum(c1)", "sum(c1), sum(c2), sum(c3), sum(c4), min(s)"] {
            let sql = format!("SELECT count(*), {columns} FROM few JOIN keyed ON k = id");
            let (late, early) = both(&session, &sql).await?;
            report(&format!("1/{part} of the keys, {columns}"), late, early);
        }
        let sql = "SELECT count(*) FROM few WHERE k IN (SELECT id FROM keyed)";
        let (late, early) = both(&session, sql).await?;
        report(&format!("1/{part} of the keys, semi"), late, early);
        session.execute("DROP TABLE few").await?;
    }
    Ok(())
}

/// The times of a query with rows read late, and without.
async fn both(session: &Session, sql: &str) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let (mut late, mut early) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (setting, times) in [("true", &mut late), ("false", &mut early)] {
            session
                .sql(&format!("SET tierra.late_rows = {setting}"))
                .await?;
            times.push(time(session, sql).await?);
        }
    }
    session.sql("SET tierra.late_rows = true").await?;
    Ok((late, early))
}

/// Milliseconds.
async fn time(session: &Session, sql: &str) -> Result<f64, Failure> {
    let start = Instant::now();
    session.query(sql).await?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn report(what: &str, late: Vec<f64>, early: Vec<f64>) {
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (late, early) = (median(late), median(early));
    println!("{late:9.3} {early:9.3} {:6.2}x  {what}", early / late);
}
