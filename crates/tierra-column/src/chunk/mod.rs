//! Chunks: up to 2^20 rows of one column, sealed and immutable, read in place.
//!
//! A [`Chunk`] is a view of borrowed bytes, near or far. Opening it validates its header, which is descriptor
//! and directory ([`layout`]). Blocks are checked only as far as memory safety and honest errors need;
//! [`Chunk::verify_block`] compares their checksum. The header may lie elsewhere than the blocks
//! ([`Chunk::with_header`]): a near header saves each block a miss, and its checksums reveal any later
//! damage of the far bytes. Filters are bound once per chunk ([`Chunk::bind`]), decided block by block from the
//! directory alone where possible ([`Chunk::verdict`]), and evaluated on packed codes ([`Chunk::select`]).

mod annex;
mod batch;
mod bind;
pub(crate) mod block_data;
mod bound;
mod code_filter;
mod flat;
mod gives_way;
mod layout;
mod lookup;
mod packing;
mod plan;
mod prune;
mod rebuild;
mod remap;
mod scratch;
mod select;

pub use batch::{CellAt, CellSink, read_cells};
pub use bound::BoundFilter;
pub use code_filter::CodeFilter;
pub use lookup::CellWalk;
pub use packing::Packing;
pub use plan::ChunkPlan;
pub use prune::Verdict;
pub use scratch::Scratch;
pub use select::SelectStats;

use std::ops::Range;

use crate::bytes::LINE_BYTES;
use crate::encoding::Encoding;
use crate::encoding::value_checksums::ValueChecksums;
use crate::error::FormatError;
use crate::limits::SKETCHED_ROWS;
use crate::logical_type::{LogicalType, Physical};
use crate::sketch::DistinctSketch;
use crate::value::Value;
use annex::Annex;
use flat::FlatCodes;
use layout::{BlockEntry, DESCRIPTOR_BYTES, Descriptor, ENTRY_BYTES};

/// A sealed chunk, read where it lies.
///
/// It lies on lines of its own, and a lookup of one cell reads the first.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Chunk<'a> {
    flat: FlatCodes<'a>,
    /// Descriptor and directory, as they were checked.
    head: &'a [u8],
    /// Exactly the chunk, pad included.
    bytes: &'a [u8],
    descriptor: Descriptor,
}

const _: () = assert!(size_of::<Chunk<'_>>() == 2 * LINE_BYTES);

impl<'a> Chunk<'a> {
    /// The most bytes that the header of a chunk of so many rows has: everything before its first block.
    pub fn header_bytes_max(rows: usize) -> usize {
        Annex::new(rows, rows >= SKETCHED_ROWS, true).header_bytes()
    }

    /// The most bytes that the header of the chunk at the start of `bytes` has if it is intact, which is not checked, and the
    /// chunk has so many rows.
    pub fn header_bytes_at(bytes: &[u8], rows: usize) -> usize {
        let has_checksums = bytes.len() >= DESCRIPTOR_BYTES && Annex::of(bytes).has_checksums();
        Annex::new(rows, rows >= SKETCHED_ROWS, has_checksums).header_bytes()
    }

    /// Opens the chunk at the start of `bytes`, which may go on behind it. Checks the descriptor
    /// and the directory, checksums included: a few microseconds for a full chunk.
    ///
    /// The header is trusted from then on: bytes that others may change need [`Chunk::with_header`].
    ///
    /// # Errors
    /// [`FormatError`] where these are damaged, or the chunk is not of type `ty`.
    pub fn open(bytes: &'a [u8], ty: LogicalType) -> Result<Chunk<'a>, FormatError> {
        Chunk::with_header(bytes, bytes, ty)
    }

    /// [`Chunk::open`] with an immutable copy of the chunk's header, [`Chunk::header_bytes_at`] its rows or more. The
    /// header in `bytes` is not read. Damage of `bytes` leads to wrong answers or errors, and
    /// [`Chunk::verify_block`] detects it.
    ///
    /// # Errors
    /// As [`Chunk::open`].
    pub fn with_header(
        head: &'a [u8],
        bytes: &'a [u8],
        ty: LogicalType,
    ) -> Result<Chunk<'a>, FormatError> {
        let descriptor = Descriptor::read(head, bytes.len() as u64)?;
        if descriptor.ty != ty {
            return Err(FormatError::Type {
                expected: ty,
                found: descriptor.ty,
            });
        }
        let bytes = &bytes[..descriptor.len_bytes as usize];
        Ok(Chunk {
            flat: FlatCodes::of(&descriptor, bytes),
            head,
            bytes,
            descriptor,
        })
    }

    /// The column's type.
    pub fn logical_type(&self) -> LogicalType {
        self.descriptor.ty
    }

    /// Rows in the chunk.
    pub fn rows(&self) -> usize {
        self.descriptor.rows as usize
    }

    /// Blocks in the chunk.
    pub fn blocks(&self) -> usize {
        self.descriptor.blocks()
    }

    /// Rows of block `block`: 1,024 in all but the last.
    ///
    /// # Panics
    /// If there is no such block (as every method that takes a block).
    pub fn block_rows(&self, block: usize) -> usize {
        assert!(block < self.blocks(), "block {block} of {}", self.blocks());
        self.descriptor.block_rows(block)
    }

    /// The chunk's encoding.
    pub fn encoding(&self) -> Encoding {
        self.descriptor.encoding
    }

    /// NULLs in the chunk.
    pub fn null_count(&self) -> usize {
        self.descriptor.null_count as usize
    }

    /// Whether every row is NULL: such a chunk needs no dictionary, even if its encoding is one.
    pub(crate) fn is_all_null(&self) -> bool {
        self.null_count() == self.rows()
    }

    /// The sketch of its distinct values; `None` in a chunk of NULLs, of dictionary codes, or of few rows with more than
    /// one value.
    pub fn distinct_sketch(&self) -> Option<DistinctSketch> {
        match self.min_max() {
            Some((Value::Ordinal(min), Value::Ordinal(max)))
                if min == max && !self.encoding().uses_dictionary() =>
            {
                return Some(DistinctSketch::of_ordinal(min));
            }
            _ => {}
        }
        DistinctSketch::of_stored(&self.head[self.annex().sketch()])
    }

    /// The logical checksums of its blocks; `None` if it was written without.
    pub fn value_checksums(&self) -> Option<ValueChecksums> {
        let stored = &self.head[self.annex().checksums()];
        (!stored.is_empty()).then(|| ValueChecksums::of_stored(stored))
    }

    fn annex(&self) -> Annex {
        Annex::of(self.head)
    }

    /// Bytes of the whole chunk.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Least and greatest value. `None` if there is none, and for strings and wide DECIMALs, of which
    /// only ordinals are stored.
    pub fn min_max(&self) -> Option<(Value, Value)> {
        let Descriptor { ty, min, max, .. } = self.descriptor;
        (ty.physical() == Physical::Ordinal && min <= max)
            .then_some((Value::Ordinal(min), Value::Ordinal(max)))
    }

    /// The dictionary generation that the chunk's codes belong to.
    pub fn dictionary_generation(&self) -> Option<u64> {
        (self.encoding().uses_dictionary()).then_some(self.descriptor.generation)
    }

    /// Bytes of block `block`, without the padding to whole lines.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_bytes(&self, block: usize) -> usize {
        self.entry(block).len_bytes as usize
    }

    /// The bytes of a block, as they are stored.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn stored_block(&self, block: usize) -> &'a [u8] {
        &self.bytes[self.block_range(block)]
    }

    /// The byte range of [`Chunk::stored_block`] in the chunk, the same in every copy.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_range(&self, block: usize) -> Range<usize> {
        let entry = self.entry(block);
        let offset_bytes = entry.offset_lines as usize * LINE_BYTES;
        let start = (self.descriptor.data_offset as usize).wrapping_add(offset_bytes);
        start..start + entry.len_bytes as usize
    }

    /// Whether `bytes`, for instance from another copy, match the checksum of the block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_matches(&self, block: usize, bytes: &[u8]) -> bool {
        crc32c::crc32c(bytes) == self.entry(block).crc
    }

    /// Bytes before the first block: descriptor, directory, sketch and logical checksums.
    pub fn header_bytes(&self) -> usize {
        self.descriptor.data_offset as usize
    }

    /// The ranges of the chunk in use: its header, and each block. All else is zero padding.
    pub fn used(&self) -> impl Iterator<Item = Range<usize>> {
        let head = 0..self.annex().end();
        let blocks = (0..self.blocks()).map(|block| self.block_range(block));
        std::iter::once(head).chain(blocks)
    }

    /// Least and greatest code of block `block`, as the chunk's directory tells: nothing of the block is
    /// read. `None` where all rows are NULL, or the chunk holds no codes.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_codes(&self, block: usize) -> Option<(u64, u64)> {
        let entry = self.entry(block);
        (self.encoding().uses_dictionary() && entry.min <= entry.max)
            .then_some((entry.min, entry.max))
    }

    /// Checks the block's checksum.
    ///
    /// # Errors
    /// [`FormatError::BlockChecksum`] where it does not match.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn verify_block(&self, block: usize) -> Result<(), FormatError> {
        let (entry, stored) = (self.entry(block), self.stored_block(block));
        let computed = crc32c::crc32c(stored);
        if computed == entry.crc {
            return Ok(());
        }
        Err(FormatError::BlockChecksum {
            block,
            stored: entry.crc,
            computed,
        })
    }

    #[inline]
    fn entry_bytes(&self, block: usize) -> &'a [u8] {
        assert!(block < self.blocks(), "block {block} of {}", self.blocks());
        &self.head[DESCRIPTOR_BYTES + block * ENTRY_BYTES..][..ENTRY_BYTES]
    }

    #[inline]
    pub(crate) fn entry(&self, block: usize) -> BlockEntry {
        BlockEntry::read(self.entry_bytes(block))
    }

    /// The same chunk with some of its blocks in other memory: `bytes` are those of the chunk from `start` on, and at least
    /// [`PAD_BYTES`](crate::bits::PAD_BYTES) more behind the last block. Only these blocks may be read by it, and nothing that
    /// concerns the chunk's own bytes may be asked for.
    ///
    /// Reading any other block panics.
    pub fn with_blocks<'b>(&self, start: usize, bytes: &'b [u8]) -> Chunk<'b>
    where
        'a: 'b,
    {
        let mut descriptor = self.descriptor;
        // May be less than nothing: the sum with the offset of a block within `bytes` is not.
        descriptor.data_offset = descriptor.data_offset.wrapping_sub(start as u64);
        Chunk {
            flat: FlatCodes::none(descriptor.rows),
            head: self.head,
            bytes,
            descriptor,
        }
    }

    /// The bytes from `offset_bytes` after the start of the first block to the end.
    #[inline]
    fn blocks_from(&self, offset_bytes: usize) -> &'a [u8] {
        // Wraps for `with_blocks` alone.
        &self.bytes[(self.descriptor.data_offset as usize).wrapping_add(offset_bytes)..]
    }

    /// The block's bytes and everything after them: at least the pad.
    #[inline]
    fn block_and_beyond(&self, entry: &BlockEntry) -> &'a [u8] {
        self.blocks_from(entry.offset_lines as usize * LINE_BYTES)
    }
}
