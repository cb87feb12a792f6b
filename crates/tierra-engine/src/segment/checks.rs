//! Whether what is read of a segment is to be believed.
//!
//! A block is compared with its checksum before it is read first, again once damage was found anywhere ([`crate::storage::verified`]), and behind
//! every reading where that is asked for ([`VerifyReads`]); what is damaged is repaired from another copy, if there is one.
//!
//! Invariant: a block is noted as verified only once it was, and no block of a chunk that is a placeholder ever is.

use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, FormatError};

use super::Segment;
use crate::error::ScanError;
use crate::integrity::repair;
use crate::spec::TableSpec;
use crate::storage::read_checks::VerifyReads;
use crate::storage::revalidation::needs_revalidation;

impl Segment {
    /// Before a block is read: checks it unless that was done before.
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

    /// [`Segment::verify`] of many columns' blocks of the same rows.
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
        // Where every reading is checked that is done behind it, while the bytes are in a cache.
        if self.verified.contains(block, column) {
            return Ok(());
        }
        let began = self.verified.begin();
        self.verify_again(spec, column, block)?;
        self.verified.insert(block, column, began);
        Ok(())
    }

    /// Whether what is read of a column is checked every time.
    #[inline]
    pub(crate) fn checks_every(&self, column: usize) -> bool {
        needs_revalidation()
            && self
                .far(column)
                .is_some_and(|(extent, ..)| extent.all_losses().checks.get() == VerifyReads::Every)
    }

    /// What `read` makes of a block; `None` where that must not be believed, and the block is right now, to be read again.
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

    /// After a verified block was read: what was read; `None` as [`Segment::read`] returns it.
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

    /// After a block was read: whether that is to be believed, where every reading is checked. If not, the block is right now, to be read again.
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

    /// After a block could not be read: the error, unless the block was damaged and is right now, to be read again.
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

    /// Checks a block's checksum whether that was done before or not. A damaged one is repaired from
    /// another copy, if there is one. Whether it was right before.
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
        // What was copied near was right, and nobody writes there.
        if let Some((extent, read, place)) = self.far(column)
            && repair::block(extent, read, place.start, chunk, block)
        {
            return Ok(false);
        }
        Err(self.damaged(spec, column, block * BLOCK_LEN, source))
    }

    /// Has a block there, if it was lost.
    fn restore_lost(&self, spec: &TableSpec, column: usize, block: usize) -> Result<(), ScanError> {
        let Some((extent, read, place)) = self.far(column) else {
            return Ok(());
        };
        let chunk = self.chunk(column);
        let range = chunk.block_range(block);
        let range = place.start + range.start..place.start + range.end;
        if read.is_lost(&range) && !repair::block(extent, read, place.start, chunk, block) {
            let why = "its page was lost, and no other copy has it".to_owned();
            let what = "a block";
            let source = FormatError::Corrupt { what, why };
            return Err(self.damaged(spec, column, block * BLOCK_LEN, source));
        }
        Ok(())
    }

    /// Checks all blocks of a column, whether that was done before or not: what is made of them lasts.
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

    /// Puts right what was lost of a column's chunk. Nothing is read where nothing was.
    pub(crate) fn restore_column(&self, spec: &TableSpec, column: usize) -> Result<(), ScanError> {
        if needs_revalidation() {
            let mut blocks = 0..self.blocks();
            blocks.try_for_each(|block| self.restore_lost(spec, column, block))?;
        }
        Ok(())
    }

    /// Checks all blocks of a column's chunk in a copy of it.
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

    /// The error that names the block of a row.
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
