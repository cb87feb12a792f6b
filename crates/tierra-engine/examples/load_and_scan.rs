//! How fast a fact table loads, and what scanning it costs, on memory-backed storage.
//!
//! `cargo run --release -p tierra-engine --example load_and_scan [SCALE]`

use std::error::Error;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use tierra_column::{Filter, LogicalType, Value, ordinal};
use tierra_data::{Part, Scale, Source, ssb};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, ScanCounters, ScanSpec, Snapshot, TableSpec,
};

/// A name, a projection, and conditions.
type Query = (&'static str, Vec<usize>, Vec<(usize, Filter)>);

fn main() -> Result<(), Box<dyn Error>> {
    let scale: f64 = std::env::args()
        .nth(1)
        .map_or(Ok(0.5), |scale| scale.parse())?;
    let batches: Vec<RecordBatch> = ssb::Table::Lineorder
        .generate(Scale::new(scale)?, Part::WHOLE, 8192)
        .collect();
    let schema = batches[0].schema();
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let column = |field: &std::sync::Arc<arrow::datatypes::Field>| {
        let ty = LogicalType::of_arrow(field.data_type()).unwrap_or(LogicalType::Varchar);
        ColumnSpec {
            nullable: field.is_nullable(),
            ..ColumnSpec::new(field.name(), ty)
        }
    };
    let spec = TableSpec {
        name: "lineorder".to_owned(),
        columns: schema.fields().iter().map(column).collect(),
        primary_key: vec![],
    };
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let near = std::env::args()
        .nth(2)
        .map_or(Ok(0), |bytes| bytes.parse())?;
    let options = DatabaseOptions {
        near_memory_bytes: Some(near),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    let table = database.create_table(spec)?;

    let started = Instant::now();
    let mut loader = table.loader();
    for batch in batches {
        loader.push(batch)?;
    }
    let report = loader.finish()?;
    let took = started.elapsed();
    println!(
        "load: {} rows, {} MiB of arrow in {took:?}: {:.2} M rows/s, {} MiB stored",
        report.rows,
        bytes >> 20,
        report.rows as f64 / took.as_secs_f64() / 1e6,
        report.stored_bytes >> 20
    );
    for (name, encoding) in &report.encodings {
        print!("{name} {encoding}, ");
    }
    println!();
    let snapshot = table.snapshot();
    let position = |name: &str| schema.index_of(name);
    let discount = (position("lo_discount")?, Filter::between(of(1), of(3)));
    let quantity = (position("lo_quantity")?, Filter::less(of(25)));
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let price = position("lo_extendedprice")?;
    let queries: [Query; 5] = [
        ("count", vec![], vec![]),
        ("one column", vec![price], vec![]),
        ("all columns", all, vec![]),
        (
            "discount and quantity",
            vec![price],
            vec![discount.clone(), quantity.clone()],
        ),
        (
            "discount and quantity, counted",
            vec![],
            vec![discount, quantity],
        ),
    ];
    for (name, projection, filters) in queries {
        let mut best = Duration::MAX;
        let mut last = ScanCounters::default();
        for _ in 0..7 {
            let started = Instant::now();
            last = scan(&snapshot, &projection, &filters)?;
            best = best.min(started.elapsed());
        }
        println!("{name}: {best:?} on two threads, {last:?}");
    }
    Ok(())
}

fn of(value: i32) -> Value {
    Value::Ordinal(ordinal::of_i32(value))
}

fn scan(
    snapshot: &Snapshot,
    projection: &[usize],
    filters: &[(usize, Filter)],
) -> Result<ScanCounters, Box<dyn Error>> {
    let spec = ScanSpec {
        projection: projection.to_vec(),
        filters: filters.to_vec(),
        batch_rows: 8192,
        execution: tierra_interleave::Scheduling::Auto,
    };
    let scan = snapshot.scan(spec);
    let mut counters = ScanCounters::default();
    std::thread::scope(|scope| {
        let run = || {
            let mut cursor = scan.cursor();
            while cursor.next(&[], 0)?.is_some() {}
            Ok::<_, tierra_engine::ScanError>(cursor.counters())
        };
        let other = scope.spawn(run);
        counters += run()?;
        counters += other.join().map_err(|_| "a scan thread panicked")??;
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(counters)
}
