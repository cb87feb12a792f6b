//! How long `COUNT(*) WHERE column IN (10,000 values)` takes, of integers and of strings by dictionary.
//!
//! `cargo run --release -p tierra-engine --example in_list [million rows]`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use tierra_column::{Encoding, Filter, LogicalType, ValueSet, ordinal};
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, ScanSpec, Snapshot, TableSpec};
use tierra_interleave::{Execution, Lookups, Scheduling};

/// Different values of each column.
const DISTINCT: u64 = 1_000_000;
const VALUES: u64 = 10_000;
const ROUNDS: usize = 11;
const SCHEDULINGS: [Scheduling; 3] = [
    Scheduling::Fixed(Execution::Plain),
    Scheduling::Fixed(Execution::Interleaved),
    Scheduling::Auto,
];

/// Spreads numbers so that neighbours in one order are far apart in another.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
}

fn number(row: u64) -> i32 {
    (spread(row) % DISTINCT) as i32 * 2
}

fn text(number: i32) -> String {
    format!("item {number:010}")
}

fn main() -> Result<(), Box<dyn Error>> {
    let million = std::env::args()
        .nth(1)
        .map_or(Ok(20), |text| text.parse())?;
    let rows: u64 = million * 1_000_000;
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default())?;
    let column = |name, ty| ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        ..ColumnSpec::new(name, ty).not_null()
    };
    let table = database.create_table(TableSpec {
        name: "tbl".to_owned(),
        columns: vec![
            column("integer", LogicalType::Integer),
            column("varchar", LogicalType::Varchar),
        ],
        primary_key: vec![],
    })?;
    let started = Instant::now();
    let mut loader = table.loader();
    for first in (0..rows).step_by(100_000) {
        let numbers: Vec<i32> = (first..first + 100_000).map(number).collect();
        let texts = StringViewArray::from_iter_values(numbers.iter().map(|n| text(*n)));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(numbers)), Arc::new(texts)];
        loader.push(RecordBatch::try_new(table.schema(), columns)?)?;
    }
    loader.finish()?;
    table.merge_dictionaries()?;
    let snapshot = table.snapshot();
    println!(
        "{rows} rows in {} segments, loaded in {:.1?}",
        snapshot.segments().len(),
        started.elapsed()
    );
    for column in 0..2 {
        measure(&snapshot, column, rows)?;
    }
    Ok(())
}

/// Values of which half are in the table; others for each `number`.
fn list(column: usize, number: u64) -> Filter {
    let wanted = (0..VALUES).map(|i| (spread(i + number * VALUES) % (2 * DISTINCT)) as i32);
    Filter::in_set(Arc::new(match column {
        0 => ValueSet::ordinals(wanted.map(ordinal::of_i32).collect()),
        _ => ValueSet::bytes(wanted.map(|n| text(n).into_bytes().into()).collect()),
    }))
}

fn measure(snapshot: &Snapshot, column: usize, rows: u64) -> Result<(), Box<dyn Error>> {
    let name = &snapshot.table().spec().columns[column].name;
    let dictionary = snapshot.coded_dictionary(column).ok_or("no dictionary")?;
    let mut samples: Vec<[(Duration, Duration); 3]> = Vec::new();
    for round in 0..ROUNDS as u64 {
        let filter = list(column, round);
        let mut times = [(Duration::ZERO, Duration::ZERO); 3];
        let mut counts = Vec::new();
        for turn in 0..3 {
            let which = (turn + round as usize) % 3;
            let execution = SCHEDULINGS[which];
            let started = Instant::now();
            let spec = ScanSpec {
                projection: vec![],
                filters: vec![(column, filter.clone())],
                batch_rows: 8192,
                execution,
            };
            let mut cursor = snapshot.scan(spec).cursor();
            let mut count = 0;
            while let Some(batch) = cursor.next(&[], 0)? {
                count += batch.num_rows();
            }
            times[which].0 = started.elapsed();
            counts.push(count);
        }
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        assert!(counts[0] > 0 && (counts[0] as u64) < rows);
        for turn in 0..3 {
            let which = (turn + round as usize) % 3;
            // The scans have brought their own values near: others.
            let filter = list(column, ROUNDS as u64 + round * 3 + turn as u64);
            let mut lookups = Lookups::new(SCHEDULINGS[which]);
            let started = Instant::now();
            dictionary.code_filter(&filter, &mut lookups)?;
            times[which].1 = started.elapsed();
        }
        samples.push(times);
    }
    for (which, scheduling) in SCHEDULINGS.iter().enumerate() {
        let median = |take: fn(&(Duration, Duration)) -> Duration| {
            let mut all: Vec<Duration> = samples.iter().map(|times| take(&times[which])).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        println!(
            "{name:8} {scheduling:12} scan {:>9.2?}, of it looking values up {:>9.2?} (medians of {ROUNDS})",
            median(|times| times.0),
            median(|times| times.1),
        );
    }
    Ok(())
}
