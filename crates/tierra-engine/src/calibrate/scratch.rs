//! A scratch database beside the one that is calibrated, with a structure of each kind in each tier.
//!
//! Its pool lies beside the database's own, so its far memory is the same.
//!
//! Invariant: nothing of it remains, even after an error; the next calibration removes what a killed process left.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use tierra_column::{Encoding, LogicalType};
use tierra_memory::{MediumKind, Speed};

use super::subject::spread;
use super::{CalibrateError, Effort, ScratchError};
use crate::database::Database;
use crate::spec::index_kind::IndexKind;
use crate::spec::{ColumnSpec, TableSpec};
use crate::storage::options::DatabaseOptions;
use crate::table::snapshot::Snapshot;

/// Rows loaded at a time.
const BATCH_ROWS: u64 = 1 << 16;
/// Each with the same number of rows.
const TABLES: [Speed; 2] = [Speed::Near, Speed::Far];
/// Rows per distinct number, and per distinct text.
const ROWS_PER_NUMBER: u64 = 2;
const ROWS_PER_TEXT: u64 = 4;
/// Approximate bytes of a row of both tables in the pool, including its index and dictionaries.
const BYTES_PER_ROW: u64 = 64;

/// The table in a memory.
type SpecOf = fn(Speed) -> TableSpec;
/// The values of some of its rows, of so many.
type ColumnsOf = fn(Speed, Range<u64>, u64) -> Vec<ArrayRef>;

/// Removed when dropped.
pub(super) struct Scratch {
    /// `None` while it is being removed.
    database: Option<Arc<Database>>,
    tables: Vec<Snapshot>,
    dir: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.tables.clear();
        self.database = None;
        // The next one removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Scratch {
    /// Number of steps that making one reports.
    pub(super) fn steps(effort: Effort) -> u64 {
        TABLES.len() as u64 * effort.rows.div_ceil(BATCH_ROWS)
    }

    /// Makes one for `database`, to look up in.
    pub(super) fn make(
        database: &Database,
        effort: Effort,
        step: &mut impl FnMut(),
    ) -> Result<Scratch, CalibrateError> {
        Self::make_of(database, effort, (spec, columns), BYTES_PER_ROW, step)
    }

    /// Makes one of these tables, a row of which takes so many bytes of the pool.
    pub(super) fn make_of(
        database: &Database,
        effort: Effort,
        (spec, columns): (SpecOf, ColumnsOf),
        bytes_per_row: u64,
        step: &mut impl FnMut(),
    ) -> Result<Scratch, CalibrateError> {
        let pool = database.first_pool();
        if pool.medium() == MediumKind::Device {
            let path = pool.path().to_owned();
            return Err(CalibrateError::Device { path });
        }
        let pool = pool.path();
        let mut name = pool.file_name().unwrap_or_default().to_owned();
        name.push(".calibration");
        let mut scratch = Scratch {
            database: None,
            tables: Vec::new(),
            dir: pool.with_file_name(name),
        };
        let made = scratch.fill(effort, spec, columns, step);
        made.map_err(|source| CalibrateError::Scratch {
            path: scratch.dir.clone(),
            mib: (effort.rows * bytes_per_row) >> 20,
            source: Box::new(source),
        })?;
        Ok(scratch)
    }

    /// A near table and a far one.
    pub(super) fn tables(&self) -> &[Snapshot] {
        &self.tables
    }

    /// The same, each with the memory that it lies in.
    pub(super) fn tables_of(&self) -> impl Iterator<Item = (Speed, &Snapshot)> {
        TABLES.into_iter().zip(&self.tables)
    }

    fn fill(
        &mut self,
        effort: Effort,
        spec: SpecOf,
        columns: ColumnsOf,
        step: &mut impl FnMut(),
    ) -> Result<(), ScratchError> {
        if self.dir.try_exists()? {
            fs::remove_dir_all(&self.dir)?;
        }
        let options = DatabaseOptions {
            // The columns request their placement themselves.
            near_memory_bytes: Some(u64::MAX / 2),
            ..DatabaseOptions::default()
        };
        let database = self.database.insert(Database::create(&self.dir, &options)?);
        for speed in TABLES {
            let table = database.create_table(spec(speed))?;
            let mut loader = table.loader();
            for first in (0..effort.rows).step_by(BATCH_ROWS as usize) {
                let rows = first..effort.rows.min(first + BATCH_ROWS);
                let columns = columns(speed, rows, effort.rows);
                let batch = RecordBatch::try_new(table.schema(), columns);
                loader.push(batch.expect("arrays of the schema's types and one length"))?;
                step();
            }
            loader.finish()?;
            table.merge_dictionaries()?;
            database.wait_for_near_copies()?;
            self.tables.push(table.snapshot());
        }
        Ok(())
    }
}

/// The far table has codes only: dictionaries are near, and runs of keys are far in both.
fn spec(speed: Speed) -> TableSpec {
    let column = |name: &str, ty| ColumnSpec {
        near: Some(speed == Speed::Near),
        encoding: (ty != LogicalType::BigInt).then_some(Encoding::Dictionary),
        ..ColumnSpec::new(name, ty).not_null()
    };
    let number = ColumnSpec {
        index: Some(IndexKind::Inverted),
        ..column("number", LogicalType::Integer)
    };
    let (id, text) = (
        column("id", LogicalType::BigInt),
        column("text", LogicalType::Varchar),
    );
    let (columns, primary_key) = match speed {
        Speed::Near => (vec![number, id, text], vec![1]),
        Speed::Far => (vec![number], vec![]),
    };
    TableSpec {
        name: speed.to_string(),
        columns,
        primary_key,
    }
}

/// The values of some of a table's `all` rows.
fn columns(speed: Speed, rows: Range<u64>, all: u64) -> Vec<ArrayRef> {
    let number = |row: u64| spread_32(row % (all / ROWS_PER_NUMBER)) as i32;
    let id = |row: u64| spread(row) as i64;
    let text = |row: u64| format!("{:016x}", spread(row % (all / ROWS_PER_TEXT)));
    let numbers = Int32Array::from_iter_values(rows.clone().map(number));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers)];
    if speed == Speed::Near {
        columns.push(Arc::new(Int64Array::from_iter_values(rows.clone().map(id))));
        columns.push(Arc::new(StringViewArray::from_iter_values(rows.map(text))));
    }
    columns
}

/// A 32-bit number that looks random, distinct for each input.
fn spread_32(number: u64) -> u32 {
    (number as u32).wrapping_mul(0x9e37_79b1)
}
