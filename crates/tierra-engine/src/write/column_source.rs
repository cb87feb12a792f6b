//! Rows that are read column by column, as from a columnar file or from batches in memory.
//!
//! A load asks for the values of one column in one segment's rows just before it encodes them, on the thread that encodes them.
//! The values stay in that core's cache, nothing passes between threads, and the rows held unpacked are only those of the columns
//! being encoded.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, RecordBatch};

use crate::error::{ColumnsError, LoadError, StorageError};
use crate::slice_bytes::slice_bytes;
use crate::table::input::Input;

/// Rows to load, read column by column, by several threads at a time, in any order.
pub trait ColumnSource: Sync {
    /// The error of a failed read.
    type Error: Send;

    /// Number of rows.
    fn rows(&self) -> u64;

    /// About how many bytes the values of table column `column` in `rows` take unpacked. Columns that are small together share an
    /// extent.
    fn bytes(&self, column: usize, rows: Range<u64>) -> u64;

    /// The values of table column `column` in `rows`: consecutive arrays of the column's type (text in any form) that have
    /// `rows.end - rows.start` values together. The values of key columns are requested twice.
    ///
    /// # Errors The source's own; they undo the load.
    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, Self::Error>;
}

/// A source whose values are checked against the table as they are read.
pub(crate) struct Checked<'a, S> {
    pub(crate) source: &'a S,
    pub(crate) input: &'a Input,
}

impl<S: ColumnSource> ColumnSource for Checked<'_, S> {
    type Error = ColumnsError<S::Error>;

    fn rows(&self) -> u64 {
        self.source.rows()
    }

    fn bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        self.source.bytes(column, rows)
    }

    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, Self::Error> {
        let arrays = self.source.read(column, rows.clone());
        let mut arrays = arrays.map_err(ColumnsError::Source)?;
        let mut row = rows.start;
        for values in &mut arrays {
            *values = self
                .input
                .accept_column(column, values, row as usize)
                .map_err(LoadError::from)?;
            row += values.len() as u64;
        }
        self.input
            .check_rows(column, rows.end - rows.start, row - rows.start)
            .map_err(LoadError::from)?;
        Ok(arrays)
    }
}

impl<S: ColumnSource> Checked<'_, S> {
    /// A column's values in `rows` as one array.
    pub(crate) fn read_joined(
        &self,
        column: usize,
        rows: Range<u64>,
    ) -> Result<ArrayRef, ColumnsError<S::Error>> {
        let arrays = self.read(column, rows)?;
        Ok(self.input.joined(&arrays).map_err(LoadError::from)?)
    }
}

/// Batches in the table's schema, at most a segment of them, which are read as a whole.
pub(crate) struct Batches<'a>(pub(crate) &'a [RecordBatch]);

impl ColumnSource for Batches<'_> {
    type Error = StorageError;

    fn rows(&self) -> u64 {
        self.0.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    fn bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        debug_assert_eq!(rows, 0..self.rows());
        let bytes = |batch: &RecordBatch| slice_bytes(batch.column(column)) as u64;
        self.0.iter().map(bytes).sum()
    }

    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, StorageError> {
        debug_assert_eq!(rows, 0..self.rows());
        Ok(self
            .0
            .iter()
            .map(|batch| batch.column(column).clone())
            .collect())
    }
}
