//! How long `COUNT(*) WHERE column IN (10,000 values)` takes with an inverted index, near and far, of
//! unique integers and of integers that come ten times each; and what building the index takes.
//!
//! `cargo run --release -p tierra-engine --example inverted_index [million rows]`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int32Array, RecordBatch};
use tierra_column::{Filter, LogicalType, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, ScanCounters, ScanSpec, Snapshot, TableSpec,
};
use tierra_interleave::{Execution, Lookups, Scheduling};

const VALUES: u64 = 10_000;
const ROUNDS: usize = 11;
const SCHEDULINGS: [Scheduling; 3] = [
    Scheduling::Fixed(Execution::Plain),
    Scheduling::Fixed(Execution::Interleaved),
    Scheduling::Auto,
];
/// Rows of a batch that is loaded.
const BATCH: u64 = 100_000;

/// A permutation of the numbers below 2^32 that scatters neighbours.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b1) & 0xffff_ffff
}

fn main() -> Result<(), Box<dyn Error>> {
    let million = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse::<u64>())?;
    let rows = million * 1_000_000;
    for repeated in [1, 10] {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        measure(&dir.path().join("db"), rows, repeated)?;
    }
    Ok(())
}

/// Loads the table, then opens it with and without near memory.
fn measure(dir: &std::path::Path, rows: u64, repeated: u64) -> Result<(), Box<dyn Error>> {
    let with_near = |near_memory_bytes| DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        ..DatabaseOptions::default()
    };
    let distinct = rows / repeated;
    let database = Database::create(dir, &with_near(0))?;
    let table = database.create_table(TableSpec {
        name: "tbl".to_owned(),
        columns: vec![ColumnSpec {
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("number", LogicalType::Integer).not_null()
        }],
        primary_key: vec![],
    })?;
    let started = Instant::now();
    let mut loader = table.loader();
    for first in (0..rows).step_by(BATCH as usize) {
        let numbers = (first..first + BATCH).map(|row| spread(row % distinct) as i32);
        let numbers = Int32Array::from_iter_values(numbers);
        loader.push(RecordBatch::try_new(
            table.schema(),
            vec![Arc::new(numbers)],
        )?)?;
    }
    loader.finish()?;
    let loaded = started.elapsed();
    let started = Instant::now();
    // A dictionary that grew while segments were loaded is sorted first.
    let is_merged = || {
        let dictionary = table.snapshot().coded_dictionary(0);
        dictionary.is_some_and(|dictionary| !dictionary.wants_merge())
    };
    while !is_merged() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (merged, started) = (started.elapsed(), Instant::now());
    let appends = appends_meanwhile(&database)?;
    let indexed = started.elapsed();
    let snapshot = table.snapshot();
    let (bytes, parts) = (snapshot.index_bytes(0), snapshot.index_parts(0));
    println!(
        "\n{rows} rows, {distinct} values: loaded in {loaded:.1?}, dictionary merged in \
         {merged:.1?}, indexed in {indexed:.1?}: {parts} part(s), {:.1} bytes a row; {} rows \
         appended to another table meanwhile: median {:.1?}, longest {:.1?}",
        bytes as f64 / rows as f64,
        appends.len(),
        appends[appends.len() / 2],
        appends[appends.len() - 1],
    );
    drop((snapshot, table, database));
    for (tier, near) in [("near", u64::MAX / 2), ("far", 0)] {
        let database = Database::open(dir, &with_near(near))?;
        database.wait_for_near_copies()?;
        let table = database.table("tbl").ok_or("no table")?;
        statements(tier, &table.snapshot(), distinct)?;
    }
    Ok(())
}

/// How long appends of one row took, in order, until everything was indexed.
fn appends_meanwhile(database: &Database) -> Result<Vec<Duration>, Box<dyn Error>> {
    let other = database.create_table(TableSpec {
        name: "other".to_owned(),
        columns: vec![ColumnSpec::new("number", LogicalType::Integer)],
        primary_key: vec![],
    })?;
    let number = Arc::new(Int32Array::from(vec![7]));
    let row = RecordBatch::try_new(other.schema(), vec![number])?;
    let (mut times, mut failed) = (Vec::new(), Ok(()));
    std::thread::scope(|scope| {
        let indexed = scope.spawn(|| database.wait_for_near_copies());
        while failed.is_ok() && (times.is_empty() || !indexed.is_finished()) {
            let started = Instant::now();
            failed = other.append(std::slice::from_ref(&row)).map(|_| ());
            times.push(started.elapsed());
        }
    });
    failed?;
    times.sort_unstable();
    Ok(times)
}

/// Fresh values, all of which are in the table.
fn list(round: u64, distinct: u64) -> Filter {
    let number = |at: u64| spread(spread(at + round * VALUES) % distinct) as i32;
    let values = (0..VALUES).map(|at| ordinal::of_i32(number(at)));
    Filter::in_set(Arc::new(ValueSet::ordinals(values.collect())))
}

fn count(
    snapshot: &Snapshot,
    filter: Filter,
    execution: Scheduling,
) -> Result<(usize, ScanCounters), Box<dyn Error>> {
    let spec = ScanSpec {
        projection: vec![],
        filters: vec![(0, filter)],
        batch_rows: 8192,
        execution,
    };
    let mut cursor = snapshot.scan(spec).cursor();
    let mut count = 0;
    while let Some(batch) = cursor.next(&[], 0)? {
        count += batch.num_rows();
    }
    Ok((count, cursor.counters()))
}

fn statements(tier: &str, snapshot: &Snapshot, distinct: u64) -> Result<(), Box<dyn Error>> {
    let dictionary = snapshot.coded_dictionary(0).ok_or("no dictionary")?;
    // By way of execution: with the index, scanned, and the values' lookup alone.
    let mut samples = [const { Vec::<[Duration; 3]>::new() }; 3];
    let mut round = 0;
    for _ in 0..ROUNDS {
        for (which, execution) in SCHEDULINGS.into_iter().enumerate() {
            let filter = list(round, distinct);
            let started = Instant::now();
            let (found, counters) = count(snapshot, filter.clone(), execution)?;
            let indexed = started.elapsed();
            assert!(counters.index_lookups > 0 && counters.blocks_read == 0);
            // The column has no NULL, but no index answers for one: this one is scanned.
            let scanned = Filter {
                matches_null: true,
                ..filter
            };
            let started = Instant::now();
            let (expected, counters) = count(snapshot, scanned, execution)?;
            let scanned = started.elapsed();
            assert!(counters.index_lookups == 0 && found == expected);
            let others = list(round + 1, distinct);
            let started = Instant::now();
            dictionary.code_filter(&others, &mut Lookups::new(execution))?;
            samples[which].push([indexed, scanned, started.elapsed()]);
            round += 2;
        }
    }
    for (execution, samples) in SCHEDULINGS.iter().zip(&mut samples) {
        let mut median = |of: usize| {
            samples.sort_unstable_by_key(|times| times[of]);
            samples[samples.len() / 2][of]
        };
        let [indexed, scanned, values] = [0, 1, 2].map(&mut median);
        println!(
            "{tier:4} {execution:11} with the index {indexed:>9.2?}, scanned {scanned:>9.2?}; of it \
             looking values up {values:>9.2?}, rows {:>9.2?} (medians of {ROUNDS})",
            indexed.saturating_sub(values)
        );
    }
    Ok(())
}
