//! A condition on several columns, which the owner of a scan evaluates.
//!
//! The columns that it needs are unpacked first, and the others only for the rows that meet it. Rows that the scan's own conditions
//! rule out, or that are deleted, are not shown to it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::error::ArrowError;
use tierra_column::ColumnReader;
use tierra_column::bits::{BLOCK_LEN, Mask};

use crate::spec::TableSpec;

/// After so many blocks a cursor gives way: a test may take long.
pub(super) const TESTED_BLOCKS_MOST: usize = 64;

/// Which rows a scan returns, beside its conditions on single columns.
pub trait RowTest: fmt::Debug + Send + Sync {
    /// The columns of the table that it needs, each once, at least one.
    fn columns(&self) -> &[usize];

    /// Whether each row meets it. `values` has an array for each column.
    ///
    /// # Errors
    /// Any; the scan ends with it.
    fn test(&self, values: Vec<ArrayRef>) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>>;
}

/// A cursor's part of a test.
pub(super) struct Tested {
    test: Arc<dyn RowTest>,
    pub(super) readers: Vec<ColumnReader>,
    /// Blocks that were tested since the cursor gave way.
    pub(super) blocks: usize,
}

impl Tested {
    pub(super) fn new(test: &Arc<dyn RowTest>, spec: &TableSpec) -> Self {
        let reader = |column: &usize| ColumnReader::new(spec.columns[*column].ty, BLOCK_LEN);
        Self {
            readers: test.columns().iter().map(reader).collect(),
            test: test.clone(),
            blocks: 0,
        }
    }

    pub(super) fn columns(&self) -> &[usize] {
        self.test.columns()
    }

    /// Leaves those rows of a block in the mask that pass. The readers hold the values of all rows in it.
    pub(super) fn narrow(&mut self, mask: &mut Mask) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.blocks += 1;
        let values = self.readers.iter_mut().map(ColumnReader::finish);
        let passing = self.test.test(values.collect())?;
        let mut left = Mask::none();
        for (row, passes) in mask.iter().zip(&passing) {
            left.set(row, passes);
        }
        *mask = left;
        Ok(())
    }

    /// The rows of the tail that pass; `selected` are those to be tested, all if it is `None`. `values` are of all rows.
    pub(super) fn narrow_tail(
        &self,
        values: impl Iterator<Item = ArrayRef>,
        rows: usize,
        selected: Option<BooleanBuffer>,
    ) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>> {
        let Some(selected) = selected else {
            return self.test.test(values.collect());
        };
        let mask = BooleanArray::new(selected.clone(), None);
        let values = values.map(|values| filter(&values, &mask));
        let values = values.collect::<Result<Vec<_>, ArrowError>>()?;
        let passing = self.test.test(values)?;
        let mut passing = passing.iter();
        let passes = |row| selected.value(row) && passing.next() == Some(true);
        Ok(BooleanBuffer::collect_bool(rows, passes))
    }
}
