//! Which encodings give way to plain for the values of a chunk, as far as its header tells: nothing is encoded to find out.

use super::Chunk;
use crate::block::Summary;
use crate::encoding::format::{BaseOf, BlockKind, Nulls};
use crate::encoding::{Encoding, frame_of_reference};
use crate::logical_type::Physical;

impl Chunk<'_> {
    /// Whether the chunk's values cannot be stored in this encoding, so that [`ChunkPlan::new`](super::ChunkPlan::new) plans a plain
    /// chunk for it. `false` also where only encoding them tells: the header does not have the range of differences.
    ///
    /// It is asked of plain chunks. Of others it may say `false` where it does not know.
    pub fn gives_way(&self, encoding: Encoding) -> bool {
        let (format, ty) = (encoding.format(), self.logical_type());
        let kind = (format.blocks)(ty.physical());
        let has_null_codes = self.null_count() > 0 && format.nulls == Nulls::Code;
        if ty.physical() != Physical::Ordinal
            || !has_null_codes
            || format.uses_dictionary
            || self.encoding().uses_dictionary()
            || matches!(kind, None | Some(BlockKind::Differences))
        {
            return false;
        }
        let has_no_code_left = |summary| frame_of_reference::width(summary, 1).is_none();
        match format.base_of {
            BaseOf::Chunk => has_no_code_left(Summary {
                min: self.descriptor.min,
                max: self.descriptor.max,
                null_count: 0,
            }),
            BaseOf::Block => {
                let mut blocks = 0..self.blocks();
                blocks.any(|block| has_no_code_left(self.entry(block).summary()))
            }
        }
    }
}
