//! What lies between a chunk's directory and its first block.
//!
//! ```text
//! directory │ sketch, 1,024 bytes │ logical checksums, u32 each │ zeros to a line │ block 0
//!             if it has one         if it has them
//! ```
//!
//! Invariant: where its parts lie follows from the rows and from which of them there are; a descriptor that says otherwise is
//! refused.

use std::ops::Range;

use crate::bits::BLOCK_LEN;
use crate::bytes::{lines, read_u32, read_u64};
use crate::chunk::layout::{DESCRIPTOR_BYTES, ENTRY_BYTES};
use crate::encoding::value_checksums::CHECKSUM_BYTES;
use crate::sketch::SKETCH_BYTES;

/// Which parts a chunk of so many blocks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Annex {
    blocks: usize,
    has_sketch: bool,
    has_checksums: bool,
}

impl Annex {
    pub(crate) fn new(rows: usize, has_sketch: bool, has_checksums: bool) -> Annex {
        Annex {
            blocks: rows.div_ceil(BLOCK_LEN),
            has_sketch,
            has_checksums,
        }
    }

    /// As a descriptor says, whatever else is wrong with it.
    ///
    /// # Panics
    /// If `descriptor` is shorter than one.
    pub(crate) fn of(descriptor: &[u8]) -> Annex {
        let rows = read_u32(descriptor, 12) as usize;
        Annex::new(
            rows,
            read_u64(descriptor, 80) != 0,
            read_u64(descriptor, 72) != 0,
        )
    }

    pub(crate) fn has_sketch(&self) -> bool {
        self.has_sketch
    }

    pub(crate) fn has_checksums(&self) -> bool {
        self.has_checksums
    }

    fn directory_end(&self) -> usize {
        DESCRIPTOR_BYTES + self.blocks * ENTRY_BYTES
    }

    /// Where the sketch lies; empty without one.
    pub(crate) fn sketch(&self) -> Range<usize> {
        let start = self.directory_end();
        start..start + if self.has_sketch { SKETCH_BYTES } else { 0 }
    }

    /// Where the logical checksums lie; empty without them.
    pub(crate) fn checksums(&self) -> Range<usize> {
        let start = self.sketch().end;
        let bytes = self.blocks * CHECKSUM_BYTES;
        start..start + if self.has_checksums { bytes } else { 0 }
    }

    /// Where it ends, and zeros begin.
    pub(crate) fn end(&self) -> usize {
        self.checksums().end
    }

    /// Bytes before the first block.
    pub(crate) fn header_bytes(&self) -> usize {
        lines(self.end())
    }

    /// The fields of the descriptor: where the checksums lie, where the sketch lies, and its bytes.
    pub(crate) fn fields(&self) -> [u64; 3] {
        let (checksums, sketch) = (self.checksums(), self.sketch());
        let at = |is_there, range: &Range<usize>| if is_there { range.start as u64 } else { 0 };
        [
            at(self.has_checksums, &checksums),
            at(self.has_sketch, &sketch),
            sketch.len() as u64,
        ]
    }
}
