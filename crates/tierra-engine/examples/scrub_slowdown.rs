//! How much slower queries are while a scrub checks everything beside them, at the scrubber's default pace and at others.
//!
//! One thread scans all rows of a table again and again, another scrubs the database's copies, paced, or not at all: the
//! paces alternate, every round in another order, and each round's answers are compared. Run it as
//! `cargo run --release -p tierra-engine --example scrub_slowdown [DIRECTORY [MILLION ROWS]]`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use tierra_column::LogicalType;
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, Replicas, SCRUB_BYTES_PER_S, ScanSpec, ScrubOptions,
    Table, TableSpec,
};
use tierra_interleave::Scheduling;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const COLUMNS: usize = 4;
const ROUNDS: usize = 9;
/// Of one pace in a round.
const STRETCH: Duration = Duration::from_millis(400);
const SEED: u64 = 42;

/// Bytes a second; `Some(u64::MAX)`: as fast as memory goes.
const PACES: [Option<u64>; 4] = [
    None,
    Some(SCRUB_BYTES_PER_S),
    Some(16 * SCRUB_BYTES_PER_S),
    Some(u64::MAX),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let place = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let millions = match arguments.next() {
        Some(text) => text.to_string_lossy().parse::<usize>()?,
        None => 4,
    };
    let dir = tempfile::tempdir_in(place)?;
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        scrub_bytes_per_s: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    database.add_tier("b", &dir.path().join("b"))?;
    let table = fill(&database, millions * 1_000_000)?;
    let right = sum(&table)?;
    println!(
        "{millions} M rows of {COLUMNS} columns, seed {SEED}, two copies of {} MiB each in {}",
        (database.scrub_bytes()? / 2) >> 20,
        dir.path().display()
    );
    let mut times: [Vec<f64>; PACES.len()] = Default::default();
    let mut scrubbed = [0_u64; PACES.len()];
    for round in 0..ROUNDS {
        for turn in 0..PACES.len() {
            let at = (turn + round) % PACES.len();
            scrubbed[at] += stretch(&database, &table, PACES[at], right, &mut times[at])?;
        }
    }
    let base = median(&mut times[0]);
    println!("pace of the scrub | read, MiB/s | a scan: median, quartiles, ms | slower by");
    for (at, pace) in PACES.iter().enumerate() {
        let pace = match pace {
            None => "none".to_owned(),
            Some(u64::MAX) => "unlimited".to_owned(),
            Some(pace) => format!("{} MiB/s", pace >> 20),
        };
        let times = &mut times[at];
        let middle = median(times);
        let (low, high) = (times[times.len() / 4], times[times.len() * 3 / 4]);
        let read =
            scrubbed[at] as f64 / (ROUNDS as f64 * STRETCH.as_secs_f64()) / f64::from(1 << 20);
        let slower = (middle / base - 1.0) * 100.0;
        println!(
            "{pace:>16} | {read:11.0} | {middle:9.2} ({low:.2} to {high:.2}) | {slower:5.1} %"
        );
    }
    Ok(())
}

/// Scans for a while beside a scrub, which is begun again when it ends. How many bytes the scrub read.
fn stretch(
    database: &Arc<Database>,
    table: &Arc<Table>,
    pace: Option<u64>,
    right: i64,
    times: &mut Vec<f64>,
) -> Result<u64, Box<dyn Error>> {
    let options = ScrubOptions {
        bytes_per_s: pace.filter(|pace| *pace < u64::MAX),
        ..ScrubOptions::default()
    };
    std::thread::scope(|scope| {
        let scrub = pace.map(|_| {
            scope.spawn(|| {
                let mut bytes = 0;
                loop {
                    let report = database.scrub(&options, |_| {})?;
                    assert_eq!(report.damaged_copies, 0);
                    bytes += report.bytes;
                    if report.stopped {
                        return Ok::<u64, tierra_engine::TableError>(bytes);
                    }
                }
            })
        });
        let begun = Instant::now();
        let mut scanned = Ok(());
        while begun.elapsed() < STRETCH && scanned.is_ok() {
            let start = Instant::now();
            scanned = sum(table).map(|sum| assert_eq!(sum, right));
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        options.stop.stop();
        let bytes = scrub.map_or(Ok(0), |scrub| {
            scrub.join().expect("the scrub does not panic")
        });
        scanned?;
        Ok(bytes?)
    })
}

fn fill(database: &Arc<Database>, rows: usize) -> Result<Arc<Table>, Box<dyn Error>> {
    let columns = (0..COLUMNS).map(|at| ColumnSpec::new(format!("c{at}"), LogicalType::BigInt));
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: columns.map(ColumnSpec::not_null).collect(),
        primary_key: vec![],
    };
    let table = database.create_table_in(spec, Replicas::of_table(["far", "b"]))?;
    let mut state = SEED;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as i64
    };
    let mut loader = table.loader();
    for start in (0..rows).step_by(1 << 16) {
        let len = (rows - start).min(1 << 16);
        let values = (0..COLUMNS).map(|_| {
            let values = Int64Array::from_iter_values((0..len).map(|_| random()));
            Arc::new(values) as _
        });
        loader.push(RecordBatch::try_new(table.schema(), values.collect())?)?;
    }
    loader.finish()?;
    database.wait_for_near_copies()?;
    Ok(table)
}

/// Of all values of the table.
fn sum(table: &Arc<Table>) -> Result<i64, Box<dyn Error>> {
    let scan = table.snapshot().scan(ScanSpec {
        projection: (0..COLUMNS).collect(),
        filters: vec![],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let mut sum = 0_i64;
    while let Some(batch) = cursor.next(&[], 0)? {
        for values in batch.columns() {
            let values = values.as_primitive::<Int64Type>().values();
            sum = values
                .iter()
                .fold(sum, |sum, value| sum.wrapping_add(*value));
        }
    }
    Ok(sum)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
