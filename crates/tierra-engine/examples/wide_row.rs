//! How long rows of many columns take to be put together again: found by key, read plain and
//! interleaved, against the replay of the very lines they ask for.
//!
//! ```text
//! cargo run --release -p tierra-engine --example wide_row -- [SHAPE] [ROWS] [COLUMNS] [EMULATED]
//! SHAPE     packed       INTEGERs packed by frame of reference
//!           dictionary   INTEGERs by dictionary, all values of a column different: two misses a cell
//!           mixed        thirds of INTEGER, DECIMAL(10,2) and VARCHAR(50), 100,000 strings a column
//! EMULATED  what near memory is slowed down to, such as `optane,far=everything`
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Decimal128Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Decimal128Type, Int32Type};
use tierra_column::{Encoding, LogicalType};
use tierra_data::{Part, wide::Wide};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, Projection, RowId, Snapshot, Table, TableSpec,
};
use tierra_interleave::{Execution, Lookups, Scheduling};
use tierra_memory::emulation;
use tierra_memory::measure::{LoadTrace, record};

// What the binaries use: making arrays is mostly allocating.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows put together at a time.
const TOGETHER: [usize; 4] = [1, 10, 100, 1_000];
/// Strings that a column of them has.
const STRINGS: i32 = 100_000;
/// Cells of a round at most, and of all rounds of a measurement at least: what is replayed must have
/// left every cache since it was recorded.
const CELLS_PER_ROUND: usize = 1_000_000;
const CELLS: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Packed,
    Dictionary,
    Mixed,
}

impl Shape {
    fn column(self, at: usize) -> ColumnSpec {
        let ty = match (self, at % 3) {
            (Shape::Mixed, 1) => LogicalType::Decimal {
                precision: 10,
                scale: 2,
            },
            (Shape::Mixed, 2) => LogicalType::Varchar,
            _ => LogicalType::Integer,
        };
        ColumnSpec {
            encoding: (self != Shape::Packed).then_some(Encoding::Dictionary),
            ..ColumnSpec::new(format!("c{at}"), ty).not_null()
        }
    }

    /// What a cell holds whose column has a number of its own for each row.
    fn values(self, at: usize, numbers: &ArrayRef) -> ArrayRef {
        let numbers = numbers.as_primitive::<Int32Type>().values().iter();
        match self.column(at).ty {
            LogicalType::Varchar => Arc::new(StringViewArray::from_iter_values(
                numbers.map(|number| text(*number)),
            )),
            LogicalType::Decimal { .. } => Arc::new(
                Decimal128Array::from_iter_values(numbers.map(|number| i128::from(*number)))
                    .with_data_type(self.column(at).ty.arrow()),
            ),
            _ => Arc::new(arrow::array::Int32Array::from_iter_values(numbers.copied())),
        }
    }

    fn check(self, batch: &RecordBatch, wide: Wide, row: usize, from: u32) {
        for (at, values) in batch.columns().iter().enumerate() {
            let number = wide.cell(from, at as u32);
            let same = match self.column(at).ty {
                LogicalType::Varchar => values.as_string_view().value(row) == text(number),
                LogicalType::Decimal { .. } => {
                    values.as_primitive::<Decimal128Type>().value(row) == i128::from(number)
                }
                _ => values.as_primitive::<Int32Type>().value(row) == number,
            };
            assert!(same, "row {from}, column {at}: {values:?}");
        }
    }
}

/// 50 characters that differ in the middle.
fn text(number: i32) -> String {
    format!(
        "a string of a column, {:08}, fifty characters.",
        number % STRINGS
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let shape = match arguments.next().as_deref() {
        None | Some("dictionary") => Shape::Dictionary,
        Some("packed") => Shape::Packed,
        Some("mixed") => Shape::Mixed,
        Some(other) => return Err(format!("no shape {other}: packed, dictionary or mixed").into()),
    };
    let rows: u32 = arguments.next().map_or(Ok(300_000), |rows| rows.parse())?;
    let columns: u32 = arguments
        .next()
        .map_or(Ok(1_000), |columns| columns.parse())?;
    let wide = Wide::new(rows, columns);

    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let options = DatabaseOptions::default();
    let database = Database::create(&dir.path().join("db"), &options)?;
    let table = load(&database, shape, wide)?;
    if let Some(far) = arguments.next() {
        emulation::set(emulation::parse(&far)?)?;
    }

    let snapshot = table.snapshot();
    let mut bench = Bench {
        snapshot: &snapshot,
        wide,
        shape,
        projection: table.projection(&Vec::from_iter(0..columns as usize)),
        random: 42,
    };
    for together in TOGETHER {
        if together * columns as usize <= CELLS_PER_ROUND {
            bench.measure(together)?;
        }
    }
    Ok(())
}

fn load(database: &Arc<Database>, shape: Shape, wide: Wide) -> Result<Arc<Table>, Box<dyn Error>> {
    let columns = wide.columns() as usize;
    let table = database.create_table(TableSpec {
        name: "wide".to_owned(),
        columns: (0..columns).map(|at| shape.column(at)).collect(),
        primary_key: vec![0],
    })?;
    let started = Instant::now();
    let mut loader = table.loader();
    for numbers in wide.generate(Part::WHOLE, 8_192) {
        let arrays = numbers.columns().iter().enumerate();
        let arrays = arrays
            .map(|(at, numbers)| shape.values(at, numbers))
            .collect();
        loader.push(RecordBatch::try_new(table.schema(), arrays)?)?;
    }
    let report = loader.finish()?;
    // Few rows would stay in the tail, unpacked.
    table.seal()?;
    database.wait_for_near_copies()?;
    println!(
        "loaded {} rows of {columns} columns, {} MiB, in {:.1?}",
        report.rows,
        report.stored_bytes >> 20,
        started.elapsed()
    );
    Ok(table)
}

struct Bench<'a> {
    snapshot: &'a Snapshot,
    wide: Wide,
    shape: Shape,
    projection: Projection,
    random: u64,
}

impl Bench<'_> {
    /// Numbers of rows that were not read lately.
    fn fresh(&mut self, count: usize) -> Vec<u32> {
        let mut next = || {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 33) as u32 % self.wide.rows()
        };
        (0..count).map(|_| next()).collect()
    }

    fn find(&self, numbers: &[u32]) -> Result<Vec<RowId>, Box<dyn Error>> {
        let keys = numbers.iter().map(|row| self.wide.cell(*row, 0));
        let keys: ArrayRef = Arc::new(arrow::array::Int32Array::from_iter_values(keys));
        let rows = self
            .snapshot
            .rows_by_key(&[keys], &mut Lookups::new(Scheduling::Auto))?;
        Ok(rows
            .into_iter()
            .collect::<Option<_>>()
            .ok_or("every key is there")?)
    }

    fn measure(&mut self, together: usize) -> Result<(), Box<dyn Error>> {
        const WAYS: [Scheduling; 3] = [
            Scheduling::Fixed(Execution::Plain),
            Scheduling::Fixed(Execution::Interleaved),
            Scheduling::Auto,
        ];
        let rounds = (CELLS / (together * self.projection.columns().len())).max(21);
        let mut traces = Vec::new();
        for _ in 0..rounds {
            let numbers = self.fresh(together);
            let rows = self.find(&numbers)?;
            let lookups = &mut Lookups::new(Execution::Interleaved);
            let (gathered, trace) =
                record(|| self.snapshot.gather(&rows, &self.projection, lookups));
            let batch = gathered?.into_batch()?;
            for (row, number) in numbers.iter().enumerate() {
                self.shape.check(&batch, self.wide, row, *number);
            }
            traces.push(trace);
        }
        let mut replays = Vec::new();
        // To gather the values, to make arrays of them, and both in one.
        let mut took = vec![[const { Vec::new() }; 3]; WAYS.len()];
        for trace in &traces {
            for (way, took) in WAYS.iter().zip(&mut took) {
                let numbers = self.fresh(together);
                let rows = self.find(&numbers)?;
                let lookups = &mut Lookups::new(*way);
                let started = Instant::now();
                let gathered = self.snapshot.gather(&rows, &self.projection, lookups)?;
                took[0].push(started.elapsed());
                let started = Instant::now();
                let batch = gathered.into_batch()?;
                took[1].push(started.elapsed());
                self.shape.check(&batch, self.wide, 0, numbers[0]);

                let numbers = self.fresh(together);
                let rows = self.find(&numbers)?;
                let lookups = &mut Lookups::new(*way);
                let started = Instant::now();
                let batch = self
                    .snapshot
                    .reconstruct(&rows, &self.projection, lookups)?;
                took[2].push(started.elapsed());
                self.shape.check(&batch, self.wide, 0, numbers[0]);
            }
            replays.push(trace.replay(10));
        }
        let lines = traces.iter().map(LoadTrace::lines).sum::<usize>() / rounds;
        let replay = median(&mut replays);
        println!("{together:>5} rows: {lines} lines, replayed in {replay:.1?}");
        for (way, took) in WAYS.iter().zip(&mut took) {
            let [gather, arrays, both] = took.each_mut().map(|times| median(times));
            let over = |time: Duration| time.as_secs_f64() / replay.as_secs_f64();
            println!(
                "{way:>20}: gathered in {gather:.1?} ({:.2}), arrays made in {arrays:.1?}, both in {both:.1?} ({:.2})",
                over(gather),
                over(both)
            );
        }
        Ok(())
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
