//! The hot columns move: how long until near copies are of those, and queries as fast as if all were near?
//!
//! `cargo run --release -p tierra-engine --example chunk_shift -- [SECONDS] [DIR]`. Rows are looked up one after another in four of twenty
//! columns of a table of a million rows, far memory being emulated Optane; from half of the time on in four others. The same query is put
//! in turn to the table with all of it near, with room for a quarter, which goes to what is read most, and with none. For each part of the
//! time: nanoseconds a row, medians, and how much of the four columns is near in the second, and when all of it was. Every cell is checked.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, RowId, ScanSpec, Table, TableSpec};
use tierra_interleave::{Execution, Lookups, Scheduling};
use tierra_memory::emulation::{self, FarMemory};

const COLUMNS: usize = 20;
const TABLE_ROWS: usize = 1 << 20;
const HOT: [[usize; 4]; 2] = [[2, 7, 11, 19], [0, 5, 12, 16]];
/// Rows of a query.
const ROWS: usize = 1000;
const BATCH_ROWS: usize = 1 << 16;
/// Parts of the time of one hot set.
const PARTS: u32 = 8;
/// How much is near: percent of the chunks.
const NEAR: [(&str, usize); 3] = [("all", 105), ("quarter", 25), ("none", 0)];

/// Looks random, and takes all of its bits.
fn cell(column: usize, row: usize) -> i64 {
    let number = (row * COLUMNS + column + 1) as u64;
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) as i64
}

/// A table, and its rows' ids in the order in which they were loaded.
struct Asked {
    database: Arc<Database>,
    table: Arc<Table>,
    ids: Vec<RowId>,
}

impl Asked {
    fn load(dir: &Path, near_percent: usize) -> Result<Asked, Box<dyn Error>> {
        let options = DatabaseOptions {
            near_memory_bytes: Some((TABLE_ROWS * COLUMNS * 8 * near_percent / 100) as u64),
            ..DatabaseOptions::default()
        };
        let database = Database::create(dir, &options)?;
        let column = |column| ColumnSpec::new(format!("c{column}"), LogicalType::BigInt).not_null();
        let table = database.create_table(TableSpec {
            name: "t".to_owned(),
            columns: (0..COLUMNS).map(column).collect(),
            primary_key: Vec::new(),
        })?;
        let mut loader = table.loader();
        for first in (0..TABLE_ROWS).step_by(BATCH_ROWS) {
            let column = |column| -> ArrayRef {
                let cells = (first..first + BATCH_ROWS).map(|row| cell(column, row));
                Arc::new(Int64Array::from_iter_values(cells))
            };
            let columns = (0..COLUMNS).map(column).collect();
            loader.push(RecordBatch::try_new(table.schema(), columns)?)?;
        }
        loader.finish()?;
        database.wait_for_near_copies()?;
        let scan = table.snapshot().scan_with_row_ids(ScanSpec {
            projection: Vec::new(),
            filters: Vec::new(),
            batch_rows: BATCH_ROWS,
            execution: Scheduling::Auto,
        });
        let (mut cursor, mut ids) = (scan.cursor(), Vec::with_capacity(TABLE_ROWS));
        while let Some(batch) = cursor.next(&[], 0)? {
            let found = batch.column(0).as_primitive::<UInt64Type>().values();
            ids.extend(found.iter().map(|id| RowId::from_number(*id)));
        }
        Ok(Asked {
            database,
            table,
            ids,
        })
    }

    /// Looks rows up, in nanoseconds, and checks them.
    fn query(&self, columns: &[usize], wanted: &[usize]) -> Result<u64, Box<dyn Error>> {
        let snapshot = self.table.snapshot();
        let ids: Vec<RowId> = wanted.iter().map(|row| self.ids[*row]).collect();
        let projection = self.table.projection(columns);
        let mut lookups = Lookups::new(Execution::Plain);
        let began = Instant::now();
        let read = snapshot.reconstruct(&ids, &projection, &mut lookups)?;
        let time_ns = began.elapsed().as_nanos() as u64;
        for (values, column) in read.columns().iter().zip(columns) {
            let values = values.as_primitive::<Int64Type>().values().iter();
            let is_right = |(value, row): (&i64, &usize)| *value == cell(*column, *row);
            assert!(values.zip(wanted).all(is_right));
        }
        Ok(time_ns)
    }

    /// The part of these columns' bytes that is near, in percent.
    fn near_percent(&self, columns: &[usize]) -> u64 {
        let placements = self.database.placements();
        let sum = |of: fn(&tierra_engine::ColumnPlacement) -> u64| {
            let columns = columns.iter().map(|column| of(&placements[*column]));
            columns.sum::<u64>()
        };
        100 * sum(|one| one.near_bytes) / sum(|one| one.stored_bytes)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments
        .next()
        .map_or(Ok(80), |text| text.parse::<u64>())?;
    let folder = tempfile::tempdir_in(arguments.next().unwrap_or_else(|| "/dev/shm".to_owned()))?;
    let load = |(name, percent): (&str, usize)| Asked::load(&folder.path().join(name), percent);
    let tables = NEAR.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
    emulation::set(Some(FarMemory::OPTANE))?;
    let part = Duration::from_secs(seconds) / 2 / PARTS;
    let mut state = 1u64;
    for hot in HOT {
        println!("columns {hot:?}");
        let (began, mut near_after) = (Instant::now(), None);
        for number in 1..=PARTS {
            let mut samples = [const { Vec::new() }; NEAR.len()];
            while began.elapsed() < part * number {
                let wanted = (0..ROWS).map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (state >> 33) as usize % TABLE_ROWS
                });
                let wanted: Vec<usize> = wanted.collect();
                for (table, samples) in tables.iter().zip(&mut samples) {
                    samples.push(table.query(&hot, &wanted)?);
                }
                if near_after.is_none() && tables[1].near_percent(&hot) == 100 {
                    near_after = Some(began.elapsed());
                }
            }
            print!("until {:5.1} s:", (part * number).as_secs_f64());
            for ((name, _), samples) in NEAR.iter().zip(&mut samples) {
                samples.sort_unstable();
                let row_ns = samples
                    .get(samples.len() / 2)
                    .map_or(0, |ns| ns / ROWS as u64);
                print!(" {name} {row_ns:5} ns,");
            }
            println!(
                " {:3} % of them near in the quarter",
                tables[1].near_percent(&hot)
            );
        }
        match near_after {
            Some(time) => println!("all of them near after {:.1} s", time.as_secs_f64()),
            None => println!("never all of them near"),
        }
    }
    Ok(())
}
