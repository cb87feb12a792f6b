//! What a statement with a list of 10,000 values costs, written out and bound as one array.
//!
//! ```text
//! cargo run --release -p tierra --example bound_list -- [ROWS] [VALUES]
//! ```
//!
//! Counts the rows of a table (10 million unless told otherwise) whose INTEGER is in the list, fresh values
//! each time, scanned and with an inverted index; every answer is checked, and medians of alternating
//! rounds printed.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::Int64Type;
use tierra::{Answer, Database, Options};

#[global_allocator]
static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;

const ROUNDS: usize = 21;

fn main() -> ExitCode {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let rows = arguments.next().unwrap_or(Ok(10_000_000));
    let values = arguments.next().unwrap_or(Ok(10_000));
    let (Ok(rows @ 10..=1_000_000_000), Ok(values @ 1..=1_000_000)) = (rows, values) else {
        eprintln!("usage: bound_list [ROWS] [VALUES]");
        return ExitCode::FAILURE;
    };
    match measure(rows, values) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Every number comes twice, and they are scattered.
fn number(at: u64, rows: u64) -> i32 {
    let at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    (at % (rows / 2) * 2) as i32
}

fn measure(rows: u64, values: u64) -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let db = Options::new().create(scratch.path().join("db"))?;
    println!("{rows} rows, {values} values, ms (median of {ROUNDS})");
    println!(
        "{:<10} {:>12} {:>12} {:>12} {:>12}",
        "", "IN (..)", "= ANY([..])", "EXECUTE", "bound"
    );
    for (table, index) in [("scanned", ""), ("indexed", "'n.index' = 'inverted', ")] {
        db.sql(&format!(
            "CREATE TABLE {table} (n INTEGER) WITH ({index}'n.encoding' = 'dictionary')"
        ))?;
        db.sql(&format!(
            "INSERT INTO {table} SELECT CAST(value % {} * 2 AS INTEGER) FROM \
             (SELECT (value * 40503) % {rows} AS value FROM generate_series(1, {rows}))",
            rows / 2,
        ))?;
        db.engine().wait_for_near_copies()?;
        db.sql(&format!(
            "PREPARE {table}_any AS SELECT count(*) FROM {table} WHERE n = ANY($1)"
        ))?;
        compare(&db, table, rows, values)?;
    }
    Ok(())
}

fn compare(
    db: &Database,
    table: &str,
    rows: u64,
    values: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..ROUNDS as u64 {
        for (which, samples) in samples.iter_mut().enumerate() {
            let first = (round * 4 + which as u64) * values;
            let list: Vec<i32> = (first..first + values).map(|at| number(at, rows)).collect();
            let mut distinct = list.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
            let text = texts.join(", ");
            let array: ArrayRef = Arc::new(Int32Array::from(list));
            let started = Instant::now();
            let answer = match which {
                0 => db.sql(&format!("SELECT count(*) FROM {table} WHERE n IN ({text})"))?,
                1 => db.sql(&format!(
                    "SELECT count(*) FROM {table} WHERE n = ANY(ARRAY[{text}])"
                ))?,
                2 => db.sql(&format!("EXECUTE {table}_any(ARRAY[{text}])"))?,
                _ => db.run_prepared(&format!("{table}_any"), &[&array])?,
            };
            samples.push(started.elapsed().as_secs_f64() * 1e3);
            let count = count(&answer).ok_or("no count")?;
            if count != 2 * distinct.len() as i64 {
                return Err(format!("{count} rows instead of {}", 2 * distinct.len()).into());
            }
        }
    }
    let medians = samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    });
    println!(
        "{table:<10} {:>12.2} {:>12.2} {:>12.2} {:>12.2}",
        medians[0], medians[1], medians[2], medians[3]
    );
    Ok(())
}

fn count(answer: &Answer) -> Option<i64> {
    let batch = answer.batches().first()?;
    Some(batch.column(0).as_primitive_opt::<Int64Type>()?.value(0))
}
