//! A segment's chunks as they are stored: what lies where in its extents, which copy has it, and what of it can be put right.
//!
//! Invariant: of a chunk that is absent nothing is written, for nobody knows what belongs there.

use std::ops::Range;

use tierra_column::bits::BLOCK_LEN;

use super::{Segment, range_of};
use crate::manifest::ExtentId;
use crate::mend;
use crate::space::OwnedExtent;

impl Segment {
    /// What lies in a range of one of its extents: which columns' chunks, and rows of which blocks.
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

    /// Rows of the blocks that have a byte in a range of a chunk; all rows where the head is concerned.
    fn rows_of(&self, column: usize, range: &Range<usize>) -> Range<usize> {
        let chunk = self.chunk(column);
        if range.start < chunk.header_bytes() || self.is_absent(column) {
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

    /// Whether all that lies in one of its extents has its checksums, and padding is zero.
    pub(crate) fn is_whole_in(&self, extent: &OwnedExtent) -> bool {
        let number = self.entry.extents.iter().position(|id| *id == extent.id());
        let lies_there =
            |column: &usize| Some(self.entry.chunks[*column].extent as usize) == number;
        let columns = Vec::from_iter((0..self.entry.chunks.len()).filter(lies_there));
        let mut blocks =
            (0..self.blocks()).flat_map(|block| columns.iter().map(move |column| (block, *column)));
        let is_right = |(block, column): (usize, usize)| {
            !self.is_absent(column) && self.chunk(column).verify_block(block).is_ok()
        };
        let bytes = extent.first();
        let is_zero = |range: &Range<usize>| bytes[range.clone()].iter().all(|byte| *byte == 0);
        blocks.all(is_right) && self.padding(&columns, extent).iter().all(is_zero)
    }

    /// What of the extent is padding: what no chunk of `columns`, which are all that lie there, reads.
    pub(crate) fn padding(&self, columns: &[usize], extent: &OwnedExtent) -> Vec<Range<usize>> {
        let used = columns.iter().flat_map(|column| {
            let place = &self.entry.chunks[*column];
            let start = place.offset as usize;
            // Nobody knows what of it means something.
            let all = self
                .is_absent(*column)
                .then_some(0..place.len_bytes as usize);
            let used = (!self.is_absent(*column)).then(|| self.chunk(*column).used());
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
        let mut copies = extent.copies().iter().filter(|_| !self.is_absent(column));
        copies.any(|copy| {
            self.chunk(column)
                .block_matches(block, &copy[range.clone()])
        })
    }

    /// Puts the block right in the extent's first copy, from whichever copy has it. Whether it is right then.
    pub(crate) fn mend_stored(&self, column: usize, block: usize, extent: &OwnedExtent) -> bool {
        if self.is_absent(column) {
            return false;
        }
        let range = self.stored_range(column, block);
        mend::stored(extent, range, |bytes| {
            self.chunk(column).block_matches(block, bytes)
        })
    }

    /// Puts the head of a chunk right in the extent's first copy, from the one in near memory.
    pub(crate) fn mend_head(&self, column: usize, extent: &OwnedExtent) {
        if self.is_absent(column) {
            return;
        }
        let start = self.entry.chunks[column].offset as usize;
        mend::near(extent, start, self.heads().of(column));
    }

    /// Where the block lies in the extent of its chunk.
    fn stored_range(&self, column: usize, block: usize) -> Range<usize> {
        let start = self.entry.chunks[column].offset as usize;
        let range = self.chunk(column).block_range(block);
        start + range.start..start + range.end
    }
}
