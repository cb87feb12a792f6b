//! The stored form of a segment's chunks: their ranges in extents, the copies that have them, and their repair.
//!
//! Invariant: nothing is written to a placeholder's chunk, because its right content is unknown.

use std::ops::Range;

use tierra_column::bits::BLOCK_LEN;

use super::{Segment, range_of};
use crate::integrity::repair;
use crate::manifest::ExtentId;
use crate::storage::extent::OwnedExtent;

impl Segment {
    /// The columns whose chunks lie in a range of one of its extents, and the rows of the affected blocks.
    pub(crate) fn rows_at(
        &self,
        extent: ExtentId,
        range: &Range<usize>,
    ) -> Option<(Vec<usize>, Range<usize>)> {
        let number = self.entry.extents.iter().position(|id| *id == extent)?;
        let (mut columns, mut rows) = (Vec::new(), self.rows()..0);
        for (column, place) in self.entry.chunks.iter().enumerate() {
            let chunk = range_of(place);
            let is_met = chunk.start < range.end && range.start < chunk.end;
            if place.extent as usize != number || !is_met {
                continue;
            }
            columns.push(column);
            let met = range.start.max(chunk.start) - chunk.start..range.end - chunk.start;
            let met = self.rows_of(column, &met);
            rows = rows.start.min(met.start)..rows.end.max(met.end);
        }
        (!columns.is_empty() && !rows.is_empty()).then_some((columns, rows))
    }

    /// Rows of the blocks with a byte in a range of a chunk; all rows if the header is affected.
    fn rows_of(&self, column: usize, range: &Range<usize>) -> Range<usize> {
        let chunk = self.chunk(column);
        if range.start < chunk.header_bytes() || self.is_placeholder(column) {
            return 0..self.rows();
        }
        let is_met = |block: &usize| {
            let block = chunk.block_range(*block);
            block.start < range.end && range.start < block.end
        };
        let mut met = (0..self.blocks()).filter(is_met);
        let Some(first) = met.next() else { return 0..0 };
        let last = met.next_back().unwrap_or(first);
        first * BLOCK_LEN..last * BLOCK_LEN + self.block_rows(last)
    }

    /// Whether everything in one of its extents matches its checksums, and padding is zero.
    pub(crate) fn matches_in(&self, extent: &OwnedExtent) -> bool {
        let number = self.entry.extents.iter().position(|id| *id == extent.id());
        let lies_there =
            |column: &usize| Some(self.entry.chunks[*column].extent as usize) == number;
        let columns = Vec::from_iter((0..self.entry.chunks.len()).filter(lies_there));
        let mut blocks =
            (0..self.blocks()).flat_map(|block| columns.iter().map(move |column| (block, *column)));
        let is_valid = |(block, column): (usize, usize)| {
            !self.is_placeholder(column) && self.chunk(column).verify_block(block).is_ok()
        };
        let bytes = extent.first();
        let is_zero = |range: &Range<usize>| bytes[range.clone()].iter().all(|byte| *byte == 0);
        blocks.all(is_valid) && self.padding(&columns, extent).iter().all(is_zero)
    }

    /// The ranges of the extent that no chunk of `columns`, which are all columns in it, reads.
    pub(crate) fn padding(&self, columns: &[usize], extent: &OwnedExtent) -> Vec<Range<usize>> {
        let used = columns.iter().flat_map(|column| {
            let place = &self.entry.chunks[*column];
            let start = place.offset as usize;
            // It is unknown which of its bytes are used.
            let all = self
                .is_placeholder(*column)
                .then_some(0..place.len_bytes as usize);
            let used = (!self.is_placeholder(*column)).then(|| self.chunk(*column).used());
            let used = all.into_iter().chain(used.into_iter().flatten());
            used.map(move |range| start + range.start..start + range.end)
        });
        let mut used: Vec<_> = used.collect();
        used.sort_unstable_by_key(|range| range.start);
        let mut at = 0;
        let end = extent.len_bytes() as usize;
        let mut padding = Vec::new();
        for range in used.into_iter().chain(std::iter::once(end..end)) {
            if at < range.start {
                padding.push(at..range.start);
            }
            at = at.max(range.end);
        }
        padding
    }

    /// Whether any copy of the chunk's extent has the block.
    pub(crate) fn is_stored(&self, column: usize, block: usize, extent: &OwnedExtent) -> bool {
        let range = self.stored_range(column, block);
        let mut copies = extent
            .copies()
            .iter()
            .filter(|_| !self.is_placeholder(column));
        copies.any(|copy| {
            self.chunk(column)
                .block_matches(block, &copy[range.clone()])
        })
    }

    /// Repairs the block in the extent's first copy, from any copy that has it. Returns whether it is right then.
    pub(crate) fn repair_stored(&self, column: usize, block: usize, extent: &OwnedExtent) -> bool {
        if self.is_placeholder(column) {
            return false;
        }
        let range = self.stored_range(column, block);
        repair::stored(extent, range, |bytes| {
            self.chunk(column).block_matches(block, bytes)
        })
    }

    /// Repairs the header of a chunk in the extent's first copy, from the one in near memory.
    pub(crate) fn repair_header(&self, column: usize, extent: &OwnedExtent) {
        if self.is_placeholder(column) {
            return;
        }
        let start = self.entry.chunks[column].offset as usize;
        repair::near(extent, start, self.chunk_headers().of(column));
    }

    /// The block's range in the extent of its chunk.
    fn stored_range(&self, column: usize, block: usize) -> Range<usize> {
        let start = self.entry.chunks[column].offset as usize;
        let range = self.chunk(column).block_range(block);
        start + range.start..start + range.end
    }
}
