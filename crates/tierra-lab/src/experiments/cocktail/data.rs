//! The columns of the thesis: four of 64-bit integers, uniform in 1 to a million, once near and once far; and what their sums are.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_column::bits::BLOCK_LEN;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, Snapshot, TableSpec};
use tierra_memory::emulation::FarMemory;
use tierra_memory::{Speed, machine};

use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, SEED};
use crate::memory::optane;

/// Values are 1 to this.
pub(super) const VALUES: u64 = 1_000_000;
/// Columns of each table.
pub(super) const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];
/// Rows loaded at a time.
const BATCH_ROWS: u64 = 1 << 16;
/// Rows of the thesis.
const THESIS_ROWS: u64 = 100_000_000;
/// Bits of a packed value, and bytes of a row in memory: in the pool, which is there too, of both tables, and of the near copies.
const BITS_PER_VALUE: u64 = 20;
const BYTES_PER_ROW: u64 = 3 * COLUMNS.len() as u64 * BITS_PER_VALUE / 8;

/// A table and what is emulated while it is read: Optane, with as much of its bandwidth as so many of its 28 cores have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    pub(super) name: &'static str,
    pub(super) table: &'static str,
    speed: Speed,
}

impl Memory {
    /// What is emulated while so many threads read.
    pub(super) fn far(self, threads: usize) -> Option<FarMemory> {
        (self.speed == Speed::Far).then(|| optane(threads))
    }
}

pub(super) const NEAR: Memory = Memory {
    name: "near",
    table: "near",
    speed: Speed::Near,
};
pub(super) const FAR: Memory = Memory {
    name: "emulated optane",
    table: "far",
    speed: Speed::Far,
};
pub(super) const MEMORIES: [Memory; 2] = [NEAR, FAR];

/// Rows of each table: those of the thesis, and more where the last-level caches would hold a column, as long as both tables take a
/// quarter of the memory.
pub(super) fn rows(lab: &Lab) -> u64 {
    // A column is an eighth larger.
    let beyond_caches = machine::last_level_cache_bytes() * 9 / BITS_PER_VALUE;
    let most = machine::memory_bytes() / 4 / BYTES_PER_ROW;
    let rows = lab.size(1 << 19, THESIS_ROWS.max(beyond_caches.min(most)));
    // Blocks are full.
    rows.next_multiple_of(BLOCK_LEN as u64)
}

/// Bytes of a packed column of so many rows, and of all that is in memory.
pub(super) fn sizes(rows: u64) -> (u64, u64) {
    (rows * BITS_PER_VALUE / 8, rows * BYTES_PER_ROW)
}

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
            let column = |number: usize| -> ArrayRef {
                let value = |row: u64| value_of(number, row, rows);
                Arc::new(Int64Array::from_iter_values(of_batch.clone().map(value)))
            };
            let columns = (0..COLUMNS.len()).map(column).collect();
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

/// The value of a column in one of `rows` rows.
pub(super) fn value_of(column: usize, row: u64, rows: u64) -> i64 {
    value(row + column as u64 * rows)
}

/// Sums of a column's values.
pub(super) struct Sums {
    rows: u64,
    /// Of the first blocks: of none, of one .. of all.
    of_blocks: Vec<i64>,
}

impl Sums {
    /// Of the values up to `most`, of so many rows of full blocks.
    pub(super) fn of(column: usize, rows: u64, most: i64) -> Self {
        let mut of_blocks = vec![0];
        let mut sum = 0;
        for first in (0..rows).step_by(BLOCK_LEN) {
            let values = (first..first + BLOCK_LEN as u64).map(|row| value_of(column, row, rows));
            sum += values.filter(|value| *value <= most).sum::<i64>();
            of_blocks.push(sum);
        }
        Self { rows, of_blocks }
    }

    /// Of the first so many rows, in full blocks, of the column again and again.
    pub(super) fn of_first(&self, rows: u64) -> i64 {
        let (whole, rest) = (rows / self.rows, rows % self.rows);
        let all = self.of_blocks.last().copied().unwrap_or(0);
        all * whole as i64 + self.of_blocks[rest as usize / BLOCK_LEN]
    }
}

/// A value that looks random (SplitMix64).
fn value(number: u64) -> i64 {
    let mut mixed = (SEED ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) % VALUES) as i64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_on_where_a_column_begins_again() {
        let (rows, most) = (3 * BLOCK_LEN as u64, 10_000);
        let sums = Sums::of(2, rows, most);
        let expected = |rows_read: u64| {
            let values = (0..rows_read).map(|row| value_of(2, row % rows, rows));
            values.filter(|value| *value <= most).sum::<i64>()
        };
        for blocks in 0..8 {
            let rows_read = blocks * BLOCK_LEN as u64;
            assert_eq!(sums.of_first(rows_read), expected(rows_read));
        }
    }
}
