//! What handing a short build side to the scan as a list of keys saves, against the join's table tried on every
//! value of the column: both alternating in one process, answers compared.
//!
//! ```text
//! cargo run --release -p tierra-sql --example join_lists -- [MILLION ROWS] [COLUMN..]
//! ```
//!
//! A fact table with keys of 20 and of 2 rows each, in no order: packed by frame of reference (`f20`, `f2`),
//! by dictionary (`d20`, `d2`), and with an inverted index (`i20`, `i2`); a dimension of each, whose filter
//! leaves so many keys.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, IndexKind, TableSpec};
use tierra_sql::{Session, SessionOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 11;
const BATCH: u64 = 100_000;
/// Rows of a key.
const REPEATED: [u64; 2] = [20, 2];
const KEYS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];

type Failure = Box<dyn std::error::Error>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let millions: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let columns: Vec<String> = arguments.collect();
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default())?;
    load(&database, millions * 1_000_000)?;
    let session = Session::new(database, &SessionOptions::default())?;
    println!("{millions} M rows, ms (medians of {ROUNDS})");
    println!(
        "{:<6} {:>8} {:>10} {:>10} {:>7}",
        "column", "keys", "table", "list", "times"
    );
    for repeated in REPEATED {
        for kind in ["f", "d", "i"] {
            let column = format!("{kind}{repeated}");
            if columns.is_empty() || columns.contains(&column) {
                for keys in KEYS {
                    compare(&session, &column, repeated, keys).await?;
                }
            }
        }
    }
    Ok(())
}

/// A permutation of the numbers below 2^32 that scatters neighbours.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b1) & 0xffff_ffff
}

/// A key of a table in which there are `distinct`.
fn key(number: u64, distinct: u64) -> i32 {
    (spread(number % distinct) >> 2) as i32
}

fn load(database: &Arc<Database>, rows: u64) -> Result<(), Failure> {
    let column = |name: String, encoding, index| ColumnSpec {
        encoding,
        index,
        ..ColumnSpec::new(&name, LogicalType::Integer).not_null()
    };
    let mut columns = vec![ColumnSpec {
        encoding: Some(Encoding::FrameOfReference),
        ..ColumnSpec::new("v", LogicalType::BigInt).not_null()
    }];
    for repeated in REPEATED {
        let dictionary = Some(Encoding::Dictionary);
        let frame = Some(Encoding::FrameOfReference);
        columns.push(column(format!("f{repeated}"), frame, None));
        columns.push(column(format!("d{repeated}"), dictionary, None));
        let index = Some(IndexKind::Inverted);
        columns.push(column(format!("i{repeated}"), dictionary, index));
    }
    let fact = database.create_table(TableSpec {
        name: "fact".to_owned(),
        columns,
        primary_key: vec![],
    })?;
    let mut loader = fact.loader();
    for first in (0..rows).step_by(BATCH as usize) {
        let all = first..first + BATCH;
        let values = Int64Array::from_iter_values(all.clone().map(|row| spread(row) as i64));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(values)];
        for repeated in REPEATED {
            let scattered = all.clone().map(|row| spread(row) ^ row);
            let keys = scattered.map(|number| key(number, rows / repeated));
            let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(keys));
            columns.extend([keys.clone(), keys.clone(), keys]);
        }
        loader.push(RecordBatch::try_new(fact.schema(), columns)?)?;
    }
    loader.finish()?;
    for repeated in REPEATED {
        let dimension = database.create_table(TableSpec {
            name: format!("dimension{repeated}"),
            columns: vec![
                ColumnSpec::new("id", LogicalType::Integer).not_null(),
                ColumnSpec::new("rank", LogicalType::Integer).not_null(),
            ],
            primary_key: vec![],
        })?;
        let mut loader = dimension.loader();
        let distinct = rows / repeated;
        for first in (0..distinct).step_by(BATCH as usize) {
            let all = first..(first + BATCH).min(distinct);
            let ids = all.clone().map(|number| key(number, distinct));
            let ranks = all.map(|number| (number * 7_919 % distinct) as i32);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int32Array::from_iter_values(ids)),
                Arc::new(Int32Array::from_iter_values(ranks)),
            ];
            loader.push(RecordBatch::try_new(dimension.schema(), columns)?)?;
        }
        loader.finish()?;
    }
    let unmerged = || {
        let columns = 0..fact.schema().fields().len();
        let mut dictionaries =
            columns.filter_map(|column| fact.snapshot().coded_dictionary(column));
        dictionaries.any(|dictionary| dictionary.wants_merge())
    };
    while unmerged() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    database.wait_for_near_copies()?;
    Ok(())
}

async fn compare(session: &Session, column: &str, repeated: u64, keys: u64) -> Result<(), Failure> {
    let mut times = [const { Vec::new() }; 2];
    for round in 0..ROUNDS as u64 {
        // Other keys each time.
        let first = round * keys;
        let sql = format!(
            "SELECT count(*), sum(v) FROM fact JOIN dimension{repeated} ON {column} = id \
             WHERE rank >= {first} AND rank < {}",
            first + keys
        );
        let mut answers = Vec::new();
        for turn in 0..2 {
            let which = (turn + round as usize) % 2;
            let most = [0, usize::MAX >> 1][which];
            for limit in ["size", "distinct_values"] {
                let name = format!("datafusion.optimizer.hash_join_inlist_pushdown_max_{limit}");
                session.sql(&format!("SET {name} = {most}")).await?;
            }
            let start = Instant::now();
            let answer = session.query(&sql).await?;
            times[which].push(start.elapsed().as_secs_f64() * 1e3);
            answers.push(answer);
        }
        assert_eq!(answers[0], answers[1], "{sql}");
    }
    let [table, list] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{column:<6} {keys:>8} {table:>10.2} {list:>10.2} {:>7.2}",
        table / list
    );
    Ok(())
}
