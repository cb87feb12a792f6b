//! Verification of a segment's blocks.
//!
//! A block is compared with its checksum before its first read, again after damage was found anywhere
//! ([`crate::storage::verified`]), and after every read on request ([`VerifyReads`]). A damaged block is repaired from another
//! copy, or made again of a replica in another encoding, if there is one.
//!
//! Invariant: a block is marked as verified only after it was, and no block of a placeholder ever is.

use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, FormatError};

use super::Segment;
use crate::error::ScanError;
use crate::spec::TableSpec;
use crate::storage::read_checks::VerifyReads;
use crate::storage::revalidation::needs_revalidation;

impl Segment {
    /// Called before a block is read: checks it unless that was done before.
    #[inline]
    pub(crate) fn verify(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<(), ScanError> {
        if self.verified.contains(block, column) && !needs_revalidation() {
            return Ok(());
        }
        self.verify_slow(spec, column, block)
    }

    /// [`Segment::verify`] for the blocks of many columns in the same rows.
    pub(crate) fn verify_columns(
        &self,
        spec: &TableSpec,
        columns: &[usize],
        block: usize,
    ) -> Result<(), ScanError> {
        if self.verified.contains_all(block) && !needs_revalidation() {
            return Ok(());
        }
        let mut columns = columns.iter();
        columns.try_for_each(|column| self.verify(spec, *column, block))
    }

    #[cold]
    fn verify_slow(&self, spec: &TableSpec, column: usize, block: usize) -> Result<(), ScanError> {
        if needs_revalidation() {
            self.restore_lost(spec, column, block)?;
        }
        // If every read is checked, the check follows the read, while the bytes are in a cache.
        if self.verified.contains(block, column) {
            return Ok(());
        }
        let began = self.verified.begin();
        self.verify_again(spec, column, block)?;
        self.verified.insert(block, column, began);
        Ok(())
    }

    /// Whether every read of a column is checked.
    #[inline]
    pub(crate) fn checks_every(&self, column: usize) -> bool {
        needs_revalidation()
            && self
                .far(column)
                .is_some_and(|(extent, ..)| extent.all_losses().checks.get() == VerifyReads::Every)
    }

    /// The result of `read` on a block; `None` if it is not valid: the block was repaired and must be read again.
    #[inline]
    pub(crate) fn read<T>(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
        read: impl FnOnce(&Chunk<'_>) -> Result<T, FormatError>,
    ) -> Result<Option<T>, ScanError> {
        self.verify(spec, column, block)?;
        self.validated(spec, column, block, read(self.chunk(column)))
    }

    /// Called after a verified block was read: the result, or `None` as in [`Segment::read`].
    #[inline]
    pub(crate) fn validated<T>(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
        read: Result<T, FormatError>,
    ) -> Result<Option<T>, ScanError> {
        match read {
            Ok(value) => Ok(self.revalidate(spec, column, block)?.then_some(value)),
            Err(source) => self.retry_after(spec, column, block, source).map(|()| None),
        }
    }

    /// Called after a block was read: whether the result is valid, if every read is checked. If not, the block was repaired and
    /// must be read again.
    #[inline]
    pub(crate) fn revalidate(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<bool, ScanError> {
        match self.checks_every(column) {
            false => Ok(true),
            true => self.verify_again(spec, column, block),
        }
    }

    /// Called after a read failed: the error, unless the block was damaged and repaired and can be read again.
    #[cold]
    pub(crate) fn retry_after(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
        source: FormatError,
    ) -> Result<(), ScanError> {
        match self.verify_again(spec, column, block)? {
            true => Err(self.damaged(spec, column, block * BLOCK_LEN, source)),
            false => Ok(()),
        }
    }

    /// Checks a block even if that was done before. A damaged one is repaired from another copy or replica, if there is one.
    /// Returns whether it was right before.
    pub(crate) fn verify_again(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<bool, ScanError> {
        self.check_there(spec, column, block)?;
        let chunk = self.chunk(column);
        let Err(source) = chunk.verify_block(block) else {
            return Ok(true);
        };
        // Near copies were right when made, and nothing writes there.
        if self.repair_block(column, block) {
            return Ok(false);
        }
        Err(self.damaged(spec, column, block * BLOCK_LEN, source))
    }

    /// Restores a block if it was lost.
    fn restore_lost(&self, spec: &TableSpec, column: usize, block: usize) -> Result<(), ScanError> {
        let Some((_, read, place)) = self.far(column) else {
            return Ok(());
        };
        let range = self.chunk(column).block_range(block);
        let range = place.start + range.start..place.start + range.end;
        if read.is_lost(&range) && !self.repair_block(column, block) {
            let why = "its page was lost, and no other copy or replica has it".to_owned();
            let what = "a block";
            let source = FormatError::Corrupt { what, why };
            return Err(self.damaged(spec, column, block * BLOCK_LEN, source));
        }
        Ok(())
    }

    /// Checks all blocks of a column even if that was done before, because the result is stored.
    pub(crate) fn verify_column(&self, spec: &TableSpec, column: usize) -> Result<(), ScanError> {
        for block in 0..self.blocks() {
            if needs_revalidation() {
                self.restore_lost(spec, column, block)?;
            }
            let began = self.verified.begin();
            self.verify_again(spec, column, block)?;
            self.verified.insert(block, column, began);
        }
        Ok(())
    }

    /// Restores what was lost of a column's chunk. Reads nothing if nothing was lost.
    pub(crate) fn restore_column(&self, spec: &TableSpec, column: usize) -> Result<(), ScanError> {
        if needs_revalidation() {
            let mut blocks = 0..self.blocks();
            blocks.try_for_each(|block| self.restore_lost(spec, column, block))?;
        }
        Ok(())
    }

    /// Checks all blocks of a column's chunk in the given copy.
    pub(crate) fn check_copy(
        &self,
        spec: &TableSpec,
        column: usize,
        copy: &[u8],
    ) -> Result<(), ScanError> {
        let damaged = |block, source| self.damaged(spec, column, block * BLOCK_LEN, source);
        let chunk = Chunk::with_header(
            self.chunk_headers().of(column),
            copy,
            spec.columns[column].ty,
        );
        let chunk = chunk.map_err(|source| damaged(0, source))?;
        for block in 0..self.blocks() {
            let began = self.verified.begin();
            let checked = chunk.verify_block(block);
            checked.map_err(|source| damaged(block, source))?;
            self.verified.insert(block, column, began);
        }
        Ok(())
    }

    /// The error that names a row's block.
    pub(crate) fn damaged(
        &self,
        spec: &TableSpec,
        column: usize,
        row: usize,
        source: FormatError,
    ) -> ScanError {
        let (table, column) = (spec.name.clone(), spec.columns[column].name.clone());
        ScanError::Damaged {
            table,
            column,
            segment: self.id(),
            block: row / BLOCK_LEN,
            source,
        }
    }
}
