//! Where an inverted index costs less than a scan, and whether a scan chooses right: `COUNT(*)` of lists that
//! leave from one value to all, in tables in random and in sorted order, of values that come once to 1,000
//! times; the list's values scattered over all values, or neighbours.
//!
//! ```text
//! cargo run --release -p tierra-engine --example index_costs -- [MILLION ROWS] [near|far] [THREADS]
//! ```
//!
//! Each line is one list: milliseconds by index, by scan, and as the scan chooses, and how many times the
//! better of the first two the last takes.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use tierra_column::{Filter, LogicalType, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, IndexUse, ScanSpec, Snapshot, TableSpec,
};
use tierra_interleave::Scheduling;

const ROUNDS: usize = 5;
/// Rows of each value.
const REPEATED: [u64; 4] = [1, 10, 100, 1_000];
/// Rows of a batch that is loaded.
const BATCH: u64 = 100_000;
const USES: [IndexUse; 3] = [IndexUse::Always, IndexUse::Never, IndexUse::WhereCheaper];
/// Chosen wrong: more than this many times the better way.
const TOLERATED: f64 = 1.1;

/// A permutation of the numbers below `count` that scatters neighbours: the factor is a prime.
fn spread(number: u64, count: u64) -> u64 {
    (u128::from(number) * 2_654_435_761 % u128::from(count)) as u64
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let million = arguments.next().map_or(Ok(4), |text| text.parse::<u64>())?;
    let near = arguments.next().is_none_or(|tier| tier == "near");
    let threads = arguments
        .next()
        .map_or(Ok(1), |text| text.parse::<usize>())?;
    let rows = million * 1_000_000;
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let options = DatabaseOptions {
        near_memory_bytes: (!near).then_some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    let snapshot = load(&database, rows)?;
    println!(
        "{rows} rows, {}, {threads} thread(s), ms (medians of {ROUNDS})",
        if near { "near" } else { "far" }
    );
    println!("table  values    each   listed   share     index      scan    chosen  times");
    let (mut points, mut wrong) = (0, Vec::new());
    for (column, (is_sorted, repeated)) in columns().enumerate() {
        let distinct = rows / repeated;
        for are_neighbours in [false, true] {
            let mut listed = 1.0;
            while listed < 3.2 * distinct as f64 {
                let count = (listed as u64).min(distinct);
                listed *= 10_f64.sqrt();
                let times = measure(&snapshot, column, distinct, count, are_neighbours, threads)?;
                let [index, scan, chosen] = times;
                let ratio = chosen / index.min(scan);
                let line = format!(
                    "{:<6} {:<9} {repeated:>4} {count:>8} {:>7.5}% {index:>9.3} {scan:>9.3} {chosen:>9.3} {ratio:>6.2}",
                    if is_sorted { "sorted" } else { "random" },
                    if are_neighbours {
                        "together"
                    } else {
                        "scattered"
                    },
                    (count * repeated) as f64 / rows as f64 * 100.0,
                );
                println!("{line}");
                points += 1;
                // What takes microseconds is not told apart.
                if ratio > TOLERATED && chosen - index.min(scan) > 0.02 {
                    wrong.push(line);
                }
            }
        }
    }
    println!(
        "\nmore than {TOLERATED} times the better way: {} of {points}",
        wrong.len()
    );
    for line in wrong {
        println!("{line}");
    }
    Ok(())
}

/// Whether the rows are in the order of the column's values, and how often each comes.
fn columns() -> impl Iterator<Item = (bool, u64)> {
    [false, true]
        .into_iter()
        .flat_map(|is_sorted| REPEATED.map(|repeated| (is_sorted, repeated)))
}

fn load(database: &Arc<Database>, rows: u64) -> Result<Snapshot, Box<dyn Error>> {
    let specs = columns().map(|(is_sorted, repeated)| {
        let name = format!("{}_{repeated}", if is_sorted { "sorted" } else { "random" });
        ColumnSpec {
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new(&name, LogicalType::Integer).not_null()
        }
    });
    let table = database.create_table(TableSpec {
        name: "tbl".to_owned(),
        columns: specs.collect(),
        primary_key: vec![],
    })?;
    let mut loader = table.loader();
    for first in (0..rows).step_by(BATCH as usize) {
        let arrays = columns().map(|(is_sorted, repeated)| -> ArrayRef {
            let number = |row| if is_sorted { row } else { spread(row, rows) };
            let values = (first..first + BATCH).map(|row| (number(row) / repeated) as i32);
            Arc::new(Int32Array::from_iter_values(values))
        });
        loader.push(RecordBatch::try_new(table.schema(), arrays.collect())?)?;
    }
    loader.finish()?;
    table.merge_dictionaries()?;
    database.wait_for_near_copies()?;
    Ok(table.snapshot())
}

/// Milliseconds in each way.
fn measure(
    snapshot: &Snapshot,
    column: usize,
    distinct: u64,
    count: u64,
    are_neighbours: bool,
    threads: usize,
) -> Result<[f64; 3], Box<dyn Error>> {
    let mut times = [const { Vec::new() }; 3];
    for round in 0..ROUNDS as u64 {
        // Others each time.
        let first = spread(round * 7_919 + count, distinct).min(distinct - count);
        let value = |at: u64| match are_neighbours {
            true => first + at,
            false => spread(first + at, distinct),
        };
        let values = (0..count).map(|at| ordinal::of_i32(value(at) as i32));
        let filter = Filter::in_set(Arc::new(ValueSet::ordinals(values.collect())));
        let mut found = Vec::new();
        for (index_use, times) in USES.into_iter().zip(&mut times) {
            let started = Instant::now();
            found.push(rows_of(snapshot, column, &filter, index_use, threads));
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        assert!(found.iter().all(|rows| *rows == found[0]), "{found:?}");
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

fn rows_of(
    snapshot: &Snapshot,
    column: usize,
    filter: &Filter,
    index_use: IndexUse,
    threads: usize,
) -> usize {
    let spec = ScanSpec {
        projection: vec![],
        filters: vec![(column, filter.clone())],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    };
    let scan = snapshot.scan_with_indexes(spec, index_use);
    let mut cursors: Vec<_> = (0..threads).map(|_| scan.cursor()).collect();
    let count = |cursor: &mut tierra_engine::ScanCursor| {
        let mut rows = 0;
        while let Some(batch) = cursor.next(&[], 0).expect("an intact table") {
            rows += batch.num_rows();
        }
        rows
    };
    let Some(mut own) = cursors.pop() else {
        return 0;
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = cursors
            .iter_mut()
            .map(|cursor| scope.spawn(move || count(cursor)))
            .collect();
        let own = count(&mut own);
        let others = others
            .into_iter()
            .map(|other| other.join().expect("a count"));
        own + others.sum::<usize>()
    })
}
