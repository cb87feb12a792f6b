//! Load Arrow batches without SQL, choosing how columns are stored, then ask with SQL.
//!
//! Run it with `cargo run --release -p tierra --example bulk_load`.

use tierra::{
    Options,
    column::{Encoding, LogicalType},
    engine::{ColumnSpec, TableSpec},
};
use tierra_data::{Part, wide::Wide};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    // Copies of columns may take 8 MiB of near memory; all else is read from the far tier.
    let db = Options::new()
        .near_memory_bytes(8 << 20)
        .create(scratch.path().join("db"))?;

    let rows = Wide::new(500_000, 2);
    let mut key = ColumnSpec::new("c0", LogicalType::Integer).not_null();
    key.encoding = Some(Encoding::FrameOfReference);
    let table = db.engine().create_table(TableSpec {
        name: "numbers".to_owned(),
        columns: vec![key, ColumnSpec::new("c1", LogicalType::Integer).not_null()],
        primary_key: vec![],
    })?;

    // No row is seen before `finish`; a loader that is dropped leaves nothing behind.
    let mut loader = table.loader();
    for batch in rows.generate(Part::WHOLE, 65_536) {
        loader.push(batch)?;
    }
    let report = loader.finish()?;
    println!("{} rows in {} bytes", report.rows, report.stored_bytes);

    // The generator knows where every value is, so the answer can be checked.
    let value = rows.cell(123_456, 0);
    let answer = db.sql(&format!("SELECT c1 FROM numbers WHERE c0 = {value}"))?;
    println!("{answer}");
    assert_eq!(answer.row_count(), 1);
    let work = answer.work();
    println!(
        "read {} bytes near, {} far",
        work.bytes_near, work.bytes_far
    );
    Ok(())
}
