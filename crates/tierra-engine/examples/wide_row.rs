//! How long one row of 1,000 columns takes: found by key, put together again.
//!
//! `cargo run --release -p tierra-engine --example wide_row`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, TableSpec};
use tierra_interleave::{Execution, Lookups};

const COLUMNS: usize = 1_000;
const ROWS: usize = 100_000;
const LOOKUPS: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    // No near copies: every cell is read where the pool lies.
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    let column = |at: usize| ColumnSpec::new(format!("c{at}"), LogicalType::Integer).not_null();
    let table = database.create_table(TableSpec {
        name: "wide".to_owned(),
        columns: (0..COLUMNS).map(column).collect(),
        primary_key: vec![0],
    })?;

    let started = Instant::now();
    let mut loader = table.loader();
    for start in (0..ROWS).step_by(10_000) {
        let column = |at: usize| -> ArrayRef {
            let value = |row: usize| ((row * 7_919 + at * 104_729) % ROWS) as i32;
            Arc::new(
                (start..start + 10_000)
                    .map(|row| Some(value(row)))
                    .collect::<Int32Array>(),
            )
        };
        loader.push(RecordBatch::try_new(
            table.schema(),
            (0..COLUMNS).map(column).collect(),
        )?)?;
    }
    let report = loader.finish()?;
    println!(
        "loaded {} rows, {} MiB, in {:?}",
        report.rows,
        report.stored_bytes >> 20,
        started.elapsed()
    );

    let snapshot = table.snapshot();
    let projection: Vec<usize> = (0..COLUMNS).collect();
    let schema = table.schema();
    let mut random = 42_u64;
    for execution in [
        Execution::Plain,
        Execution::Interleaved,
        Execution::Plain,
        Execution::Interleaved,
    ] {
        let (mut find, mut read) = (Vec::new(), Vec::new());
        for _ in 0..LOOKUPS {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key: ArrayRef =
                Arc::new(Int32Array::from(vec![(random >> 33) as i32 % ROWS as i32]));
            let started = Instant::now();
            let row = snapshot.rows_by_key(&[key], &mut Lookups::new(execution))?[0]
                .ok_or("every key is there")?;
            find.push(started.elapsed());
            let started = Instant::now();
            let batch =
                snapshot.reconstruct(&[row], &projection, &schema, &mut Lookups::new(execution))?;
            read.push(started.elapsed());
            assert_eq!(batch.num_columns(), COLUMNS);
        }
        println!(
            "{execution:12} find {:>9?}  reconstruct {:>9?} (medians)",
            median(&mut find),
            median(&mut read)
        );
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
