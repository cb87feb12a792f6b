//! What finding rows by their keys costs, and what it costs to be able to: a table is loaded, opened again and asked.
//!
//! `cargo run --release -p tierra-engine --example key_index -- [MILLIONS OF ROWS] [ORDER] [DIR]`, where ORDER is `dense`, `sparse`
//! (ascending, with gaps at random) or `random`. Each of 11 rounds looks up 10,000 keys at once, and one at a time, in the runs in far
//! memory, in their near copies, and in the near hash table that there is as long as no runs are made, in alternation. Medians and
//! their spread.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, RowId, Snapshot, Table, TableSpec};
use tierra_interleave::{Execution, Lookups};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 11;
const TOGETHER: usize = 10_000;
const ALONE: usize = 2_000;
const BATCH_ROWS: i64 = 1 << 16;

/// A number that looks random, and another one for each: the last steps of SplitMix64.
fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The key of a row.
fn key(order: &str, row: i64) -> i64 {
    match order {
        "dense" => row,
        "sparse" => row * 40 + (spread(row as u64) % 40) as i64,
        _ => spread(row as u64) as i64,
    }
}

fn options(near_memory_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        threads: NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

fn batch(table: &Table, order: &str, rows: std::ops::Range<i64>) -> RecordBatch {
    let keys: Int64Array = rows.clone().map(|row| key(order, row)).collect();
    let values: Int64Array = rows.map(|row| spread(!row as u64) as i64).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
    RecordBatch::try_new(table.schema(), columns).expect("the columns are those of the table")
}

/// Loads a table, and says how long that takes. The last batch may come first: then keys do not ascend.
fn load(
    dir: &Path,
    order: &str,
    rows: i64,
    keyed: bool,
    last_first: bool,
) -> Result<(Arc<Database>, Arc<Table>), Box<dyn Error>> {
    let database = Database::create(dir, &options(0))?;
    let table = database.create_table(TableSpec {
        name: "t".to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            ColumnSpec::new("value", LogicalType::BigInt).not_null(),
        ],
        primary_key: if keyed { vec![0] } else { vec![] },
    })?;
    let mut firsts: Vec<i64> = (0..rows).step_by(BATCH_ROWS as usize).collect();
    if last_first {
        firsts.rotate_right(1);
    }
    let began = Instant::now();
    let mut loader = table.loader();
    for first in firsts {
        loader.push(batch(&table, order, first..rows.min(first + BATCH_ROWS)))?;
    }
    loader.finish()?;
    println!(
        "loaded, key: {keyed}, last rows first: {last_first}: {:.2?}",
        began.elapsed()
    );
    Ok((database, table))
}

fn median(samples: &mut [f64]) -> String {
    samples.sort_unstable_by(f64::total_cmp);
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    format!(
        "{:8.1} ns ({first:.1} to {last:.1})",
        samples[samples.len() / 2]
    )
}

/// Nanoseconds for each key, and the rows found.
type Found = (f64, Vec<Option<RowId>>);

/// Looks `keys` up, `together` at a time.
fn by_key(
    snapshot: &Snapshot,
    keys: &[i64],
    together: usize,
    execution: Execution,
) -> Result<Found, Box<dyn Error>> {
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    let mut lookups = Lookups::new(execution);
    let mut rows = Vec::with_capacity(keys.len());
    let began = Instant::now();
    for first in (0..keys.len()).step_by(together) {
        let keys = keys.slice(first, together);
        rows.extend(snapshot.rows_by_key(&[keys], &mut lookups)?);
    }
    Ok((began.elapsed().as_nanos() as f64 / keys.len() as f64, rows))
}

/// Opens a database, and appends some rows. What is seen then.
fn opened(dir: &Path, order: &str, rows: i64, near_bytes: u64) -> Result<Snapshot, Box<dyn Error>> {
    let began = Instant::now();
    let database = Database::open(dir, &options(near_bytes))?;
    let table = database.table("t").ok_or("the table is gone")?;
    println!("opened: {:.2?}", began.elapsed());
    let began = Instant::now();
    let found = by_key(&table.snapshot(), &[key(order, 77)], 1, Execution::Plain)?.1;
    println!("first key: {:.2?}, {found:?}", began.elapsed());
    let began = Instant::now();
    table.append(&[batch(&table, order, rows..rows + 1)])?;
    println!("first append: {:.2?}", began.elapsed());
    let began = Instant::now();
    for row in rows + 1..rows + 1001 {
        table.append(&[batch(&table, order, row..row + 1)])?;
    }
    println!("an append of one row: {:.2?}", began.elapsed() / 1000);
    database.wait_for_near_copies()?;
    let snapshot = table.snapshot();
    println!("{:?}", snapshot.key_index());
    Ok(snapshot)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions = arguments
        .next()
        .map_or(Ok(10), |text| text.parse::<i64>())?;
    let order = arguments.next().unwrap_or_else(|| "random".to_owned());
    let folder = tempfile::tempdir_in(arguments.next().unwrap_or_else(|| "/dev/shm".to_owned()))?;
    let rows = millions * 1_000_000;
    let dir = |name: &str| folder.path().join(name);
    drop(load(&dir("a"), &order, rows, false, false)?);
    let (database, table) = load(&dir("b"), &order, rows, true, false)?;
    database.wait_for_near_copies()?;
    drop((table, database));
    let (database, table) = load(&dir("c"), &order, rows, true, true)?;
    let near = table.snapshot();
    println!("before runs are made: {:?}", near.key_index());
    let began = Instant::now();
    database.wait_for_near_copies()?;
    println!(
        "made in {:.2?}: {:?}",
        began.elapsed(),
        table.snapshot().key_index()
    );
    drop((table, database));

    let runs = opened(&dir("b"), &order, rows, 0)?;
    drop(load(&dir("d"), &order, rows, true, false)?);
    let copies = opened(&dir("d"), &order, rows, u64::MAX)?;
    for (name, together, count) in [("together", TOGETHER, TOGETHER), ("alone", 1, ALONE)] {
        for execution in Execution::ALL {
            let mut samples = [const { Vec::new() }; 3];
            for round in 0..ROUNDS {
                let row = |at: usize| spread((round * count + at) as u64) % rows as u64;
                let keys: Vec<i64> = (0..count).map(|at| key(&order, row(at) as i64)).collect();
                for (snapshot, samples) in [&runs, &copies, &near].into_iter().zip(&mut samples) {
                    let (took, found) = by_key(snapshot, &keys, together, execution)?;
                    assert!(found.iter().all(Option::is_some));
                    samples.push(took);
                }
            }
            let name = format!("{name}, {execution}");
            let [runs, copies, levels] = samples.map(|mut samples| median(&mut samples));
            println!("{name:24} runs {runs}, copied {copies}, near {levels}");
        }
    }
    Ok(())
}
