//! The columns of the thesis: four of 64-bit integers, uniform in 1 to a million, once near and once far.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, Snapshot, TableSpec};
use tierra_memory::Speed;
use tierra_memory::emulation::FarMemory;

use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, SEED};

/// Values are 1 to this.
pub(super) const VALUES: u64 = 1_000_000;
/// Columns of each table.
pub(super) const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];
/// Rows loaded at a time.
const BATCH_ROWS: u64 = 1 << 16;

/// A table and what is emulated while it is read: Optane, with as much of its bandwidth as two of its 28 cores have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    pub(super) name: &'static str,
    pub(super) table: &'static str,
    pub(super) speed: Speed,
    pub(super) far: Option<FarMemory>,
}

pub(super) const NEAR: Memory = Memory {
    name: "near",
    table: "near",
    speed: Speed::Near,
    far: None,
};
pub(super) const FAR: Memory = Memory {
    name: "emulated optane",
    table: "far",
    speed: Speed::Far,
    far: Some(FarMemory::OPTANE),
};
pub(super) const MEMORIES: [Memory; 2] = [NEAR, FAR];

/// What a database of both tables is opened with.
pub(super) fn options() -> DatabaseOptions {
    DatabaseOptions {
        threads: NonZeroUsize::new(lab::threads()),
        // The columns say where they lie.
        near_memory_bytes: Some(u64::MAX / 2),
        ..DatabaseOptions::default()
    }
}

/// Makes both tables.
pub(super) fn create(dir: &Path, rows: u64) -> Result<Arc<Database>, LabError> {
    let database = Database::create(dir, &options()).by(Tierra::ENGINE, "creating a database")?;
    for memory in MEMORIES {
        let column = |name: &&str| ColumnSpec {
            near: Some(memory.speed == Speed::Near),
            ..ColumnSpec::new(*name, LogicalType::BigInt).not_null()
        };
        let spec = TableSpec {
            name: memory.table.to_owned(),
            columns: COLUMNS.iter().map(column).collect(),
            primary_key: vec![],
        };
        let table = database.create_table(spec);
        let table = table.by(Tierra::ENGINE, "creating a table")?;
        let mut loader = table.loader();
        for first in (0..rows).step_by(BATCH_ROWS as usize) {
            let of_batch = first..rows.min(first + BATCH_ROWS);
            let column = |number: u64| -> ArrayRef {
                let value = |row: u64| value(row + number * rows);
                Arc::new(Int64Array::from_iter_values(of_batch.clone().map(value)))
            };
            let columns = (0..COLUMNS.len() as u64).map(column).collect();
            let batch = RecordBatch::try_new(table.schema(), columns);
            let batch = batch.by("Arrow", "making rows")?;
            loader.push(batch).by(Tierra::ENGINE, "loading")?;
        }
        loader.finish().by(Tierra::ENGINE, "loading")?;
    }
    let settled = database.wait_for_near_copies();
    settled.by(Tierra::ENGINE, "copying rows near")?;
    Ok(database)
}

/// The rows of a memory's table.
pub(super) fn snapshot(database: &Database, memory: Memory) -> Result<Snapshot, LabError> {
    let table = database.table(memory.table);
    let table = table
        .ok_or("it was created")
        .by("the lab", "finding a table")?;
    Ok(table.snapshot())
}

/// A value that looks random (SplitMix64).
fn value(number: u64) -> i64 {
    let mut mixed = (SEED ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) % VALUES) as i64 + 1
}
