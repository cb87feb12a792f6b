//! What checking every reading costs, against checking the first of each block: scans, lookups of single rows, and a condition
//! answered by an inverted index, all of it read where it lies in the pool.
//!
//! Both sides alternate in one process, on one thread, and their answers are compared. Run it as
//! `cargo run --release -p tierra-engine --example verify_reads [DIRECTORY [MILLION ROWS]]`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use tierra_column::{Encoding, Filter, LogicalType, Value, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, RowId, ScanSpec, Snapshot, TableSpec,
    VerifyReads,
};
use tierra_interleave::{Lookups, Scheduling};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Numbers, and a word behind them.
const NUMBERS: usize = 20;
const WORDS: usize = 100_000;
const ROUNDS: usize = 15;
const SEED: u64 = 42;

/// What is asked: a name, and something that the answer is told by.
type Query = (
    &'static str,
    Box<dyn Fn(&Snapshot) -> Result<i64, Box<dyn Error>>>,
);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let place = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let millions = match arguments.next() {
        Some(text) => text.to_string_lossy().parse::<usize>()?,
        None => 2,
    };
    let dir = tempfile::tempdir_in(place)?;
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        scrub_bytes_per_s: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    let rows = millions * 1_000_000;
    let snapshot = fill(&database, rows)?;
    println!("{millions} M rows of {NUMBERS} numbers and a word, seed {SEED}, one thread");
    println!(
        "{:34} | {:>10} | {:>10} | times",
        "query", "first, us", "every, us"
    );
    for (name, query) in queries(rows) {
        let mut times = [Vec::new(), Vec::new()];
        let right = query(&snapshot)?;
        for _ in 0..ROUNDS {
            for (reads, times) in [VerifyReads::First, VerifyReads::Every]
                .iter()
                .zip(&mut times)
            {
                database.read_checks().set(*reads);
                let began = Instant::now();
                let found = query(&snapshot)?;
                times.push(began.elapsed().as_secs_f64() * 1e6);
                assert_eq!(found, right, "{name}, {reads} reading checked");
            }
        }
        let [first, every] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "{name:34} | {first:10.1} | {every:10.1} | {:.2}",
            every / first
        );
    }
    Ok(())
}

fn queries(rows: usize) -> Vec<Query> {
    let scanned = |projection: Vec<usize>, filters: Vec<(usize, Filter)>| {
        move |snapshot: &Snapshot| scan(snapshot, projection.clone(), filters.clone())
    };
    let below = |least| Filter::less(Value::Ordinal(ordinal::of_i64(least)));
    let word = Filter::eq(Value::Bytes(word(7).into_bytes().into()));
    let mut random = Random(SEED);
    let ids = Vec::from_iter((0..1000).map(|_| random.below(rows as u64)));
    let gathered = move |count: usize| {
        let ids = ids.clone();
        move |snapshot: &Snapshot| {
            let ids = ids.iter().take(count).copied().map(row_id);
            gather(snapshot, &ids.collect::<Vec<_>>())
        }
    };
    vec![
        (
            "all rows, 3 numbers",
            Box::new(scanned(vec![0, 1, 2], vec![])),
        ),
        ("all rows, a word", Box::new(scanned(vec![NUMBERS], vec![]))),
        (
            "1 % of rows, counted",
            Box::new(scanned(vec![], vec![(3, below(10))])),
        ),
        (
            "1 % of rows, 3 numbers",
            Box::new(scanned(vec![0, 1, 2], vec![(3, below(10))])),
        ),
        (
            "a word by the index, 3 numbers",
            Box::new(scanned(vec![0, 1, 2], vec![(NUMBERS, word)])),
        ),
        ("1 row, all columns", Box::new(gathered(1))),
        ("1,000 rows, all columns", Box::new(gathered(1000))),
    ]
}

fn scan(
    snapshot: &Snapshot,
    projection: Vec<usize>,
    filters: Vec<(usize, Filter)>,
) -> Result<i64, Box<dyn Error>> {
    let scan = snapshot.scan(ScanSpec {
        projection,
        filters,
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let (mut cursor, mut told) = (scan.cursor(), 0);
    while let Some(batch) = cursor.next(&[], 0)? {
        told += tell(&batch);
    }
    Ok(told)
}

fn gather(snapshot: &Snapshot, rows: &[RowId]) -> Result<i64, Box<dyn Error>> {
    let columns = Vec::from_iter(0..=NUMBERS);
    let mut lookups = Lookups::new(Scheduling::Auto);
    let projection = snapshot.table().projection(&columns);
    let batch = snapshot.reconstruct(rows, &projection, &mut lookups)?;
    Ok(tell(&batch))
}

/// Stands for a batch.
fn tell(batch: &RecordBatch) -> i64 {
    let sum = |values: &ArrayRef| match values.as_primitive_opt::<Int64Type>() {
        Some(values) => values.values().iter().sum::<i64>(),
        None => values
            .as_string_view()
            .iter()
            .flatten()
            .map(|it| it.len() as i64)
            .sum(),
    };
    batch.columns().iter().map(sum).sum::<i64>() + batch.num_rows() as i64
}

/// Segments are numbered from 1, with a million rows and some each.
fn row_id(row: u64) -> RowId {
    RowId::from_number((1 << 20) + row)
}

fn word(number: u64) -> String {
    format!("word {number}")
}

fn fill(database: &Database, rows: usize) -> Result<Snapshot, Box<dyn Error>> {
    let numbers = (0..NUMBERS).map(|at| ColumnSpec::new(format!("n{at}"), LogicalType::BigInt));
    let word_column = ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        index: Some(IndexKind::Inverted),
        ..ColumnSpec::new("word", LogicalType::Varchar)
    };
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: numbers.chain([word_column]).collect(),
        primary_key: vec![],
    };
    let table = database.create_table(spec)?;
    let (mut loader, mut random) = (table.loader(), Random(SEED));
    for first in (0..rows).step_by(8192) {
        let len = 8192.min(rows - first);
        // 10 to 29 bits each, but for the one that conditions are on.
        let numbers = (0..NUMBERS).map(|at| {
            let below = if at == 3 { 1000 } else { 1 << (10 + at) };
            let values = (0..len).map(|_| random.below(below) as i64);
            Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
        });
        let mut columns: Vec<ArrayRef> = numbers.collect();
        let words = (0..len).map(|_| word(random.below(WORDS as u64)));
        columns.push(Arc::new(StringViewArray::from_iter_values(words)));
        loader.push(RecordBatch::try_new(table.schema(), columns)?)?;
    }
    loader.finish()?;
    database.wait_for_near_copies()?;
    Ok(table.snapshot())
}

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
