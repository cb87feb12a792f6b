//! A chunk's bytes: descriptor, block directory, blocks. All integers are little-endian.
//!
//! ```text
//! 0             128                                                              data_offset
//! ┌─────────────┬──────────────────┬──────────────────┬────────┬───────────────┬─────────┬───┬─────┐
//! │ descriptor  │ entry of block 0 │ entry of block 1 │ sketch │ logical       │ block 0 │...│ pad │
//! │ 128 bytes   │ 32 bytes         │ ...              │ 1,024  │ checksums, u32│         │   │ 64  │
//! └─────────────┴──────────────────┴──────────────────┴────────┴───────────────┴─────────┴───┴─────┘
//!
//! descriptor   0  magic "TCHK"                 entry   0  least ordinal
//!              4  format version                       8  greatest ordinal
//!              5  type, precision, scale              16  CRC32C of the block's bytes
//!              8  encoding                            20  where the block begins, in lines
//!              9  width in bits                           of 64 bytes from data_offset
//!             10  1 if the chunk holds a NULL         24  its length in bytes
//!             11  0                                   28  NULLs
//!             12  rows                                30  width in bits
//!             16  NULLs                               31  0
//!             20  blocks
//!             24  base
//!             32  dictionary generation
//!             40  data_offset
//!             48  length of the chunk in bytes
//!             56  least ordinal of all values
//!             64  greatest ordinal of all values
//!             72  where the logical checksums of the blocks lie in the chunk, or 0
//!             80  where the sketch of its distinct values lies in the chunk, or 0
//!             88  bytes of the sketch: 1,024, or 0 without one
//!             96  0 ...
//!            120  CRC32C of directory, sketch and logical checksums
//!            124  CRC32C of bytes 0 to 124
//! ```
//!
//! A chunk, its blocks and therefore its codes begin on a 64-byte line (what is before is padded to
//! one); entries never straddle a line. 64 bytes of zeros end the chunk, so that a kernel may load
//! a whole register at any code. Least and greatest are crossed (`u64::MAX`, 0) where there is no
//! value. In dictionary chunks an entry's are codes; of strings and wide DECIMALs they are the
//! non-decreasing images of [`crate::ordinal`], good for skipping only. What a block holds is drawn
//! in the file of its encoding.
//!
//! The sketch ([`crate::sketch`]) is that of a chunk of 1,024 rows or more with more than one value, unless these are codes: a
//! dictionary knows how many values it has.
//!
//! A logical checksum is of a block's values, whatever their encoding ([`ValueChecksums`](crate::ValueChecksums)): a replica is
//! compared with one in another encoding by it. What is not 0 where nothing is used yet is refused by name.
//!
//! Invariant: after [`Descriptor::read`] every entry's bytes lie inside the chunk and are as many
//! as its encoding needs for its rows and width. Nothing else about a block's content is trusted.

use std::ops::Range;

use crate::bits::{BLOCK_LEN, MAX_WIDTH, PAD_BYTES, max_code, packed_bytes};
use crate::block::Summary;
use crate::bytes::{LINE_BYTES, array, lines, read_u32, read_u64};
use crate::chunk::annex::Annex;
use crate::encoding::format::{BaseOf, BlockKind, Nulls};
use crate::encoding::{
    Encoding, delta, fastpfor, frame_of_reference, fsst, plain_wide, prefix, rle, validity,
};
use crate::error::FormatError;
use crate::limits::{CHUNK_ROWS, SKETCHED_ROWS};
use crate::logical_type::LogicalType;
use crate::sketch::are_possible;

/// Bytes before the block directory.
pub(crate) const DESCRIPTOR_BYTES: usize = 128;
/// Bytes of a directory entry.
pub(crate) const ENTRY_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"TCHK";
const VERSION: u8 = 1;

/// Reserved bytes of a descriptor, and what a later version may keep there.
const UNUSED: [(Range<usize>, &str); 2] = [
    (11..12, "something in its reserve"),
    (96..120, "something in its reserve"),
];

/// The validated descriptor of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) ty: LogicalType,
    pub(crate) encoding: Encoding,
    /// What its blocks are.
    pub(crate) kind: BlockKind,
    pub(crate) base_of: BaseOf,
    /// How NULLs are stored, if there are any.
    pub(crate) nulls: Option<Nulls>,
    pub(crate) width: u8,
    pub(crate) rows: u32,
    pub(crate) null_count: u32,
    pub(crate) base: u64,
    pub(crate) generation: u64,
    pub(crate) data_offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// One block's entry in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) crc: u32,
    pub(crate) offset_lines: u32,
    pub(crate) len_bytes: u32,
    pub(crate) null_count: u16,
    pub(crate) width: u8,
}

impl BlockEntry {
    pub(crate) fn new(summary: Summary, width: u8) -> BlockEntry {
        BlockEntry {
            min: summary.min,
            max: summary.max,
            crc: 0,
            offset_lines: 0,
            len_bytes: 0,
            null_count: summary.null_count,
            width,
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary {
            min: self.min,
            max: self.max,
            null_count: self.null_count,
        }
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        out[0..8].copy_from_slice(&self.min.to_le_bytes());
        out[8..16].copy_from_slice(&self.max.to_le_bytes());
        out[16..20].copy_from_slice(&self.crc.to_le_bytes());
        out[20..24].copy_from_slice(&self.offset_lines.to_le_bytes());
        out[24..28].copy_from_slice(&self.len_bytes.to_le_bytes());
        out[28..30].copy_from_slice(&self.null_count.to_le_bytes());
        out[30] = self.width;
        out[31] = 0;
    }

    /// # Panics
    /// If fewer than [`ENTRY_BYTES`] are given.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> BlockEntry {
        let bytes: &[u8; ENTRY_BYTES] = bytes[..ENTRY_BYTES].try_into().expect("sliced to size");
        BlockEntry {
            min: read_u64(bytes, 0),
            max: read_u64(bytes, 8),
            crc: read_u32(bytes, 16),
            offset_lines: read_u32(bytes, 20),
            len_bytes: read_u32(bytes, 24),
            null_count: u16::from_le_bytes(array(bytes, 28)),
            width: bytes[30],
        }
    }
}

impl Descriptor {
    pub(crate) fn blocks(&self) -> usize {
        (self.rows as usize).div_ceil(BLOCK_LEN)
    }

    /// Where the directory lies.
    pub(crate) fn directory(&self) -> Range<usize> {
        DESCRIPTOR_BYTES..DESCRIPTOR_BYTES + self.blocks() * ENTRY_BYTES
    }

    /// Rows of block `block`.
    pub(crate) fn block_rows(&self, block: usize) -> usize {
        (self.rows as usize - block * BLOCK_LEN).min(BLOCK_LEN)
    }

    /// 1 where code 0 is NULL.
    pub(crate) fn null_codes(&self) -> u64 {
        u64::from(self.nulls == Some(Nulls::Code))
    }

    /// Bytes of the validity bitmap at the head of each block.
    pub(crate) fn bitmap_bytes(&self) -> usize {
        match self.nulls {
            Some(Nulls::Bitmap) => validity::BITMAP_BYTES,
            Some(Nulls::Code) | None => 0,
        }
    }

    /// Bytes from one block to the next where all are alike, so that a lookup need not read the
    /// directory.
    pub(crate) fn stride_bytes(&self) -> Option<usize> {
        let values = match (self.kind, self.base_of) {
            (BlockKind::Packed, BaseOf::Chunk) => packed_bytes(BLOCK_LEN, self.width),
            (BlockKind::Wide, _) => plain_wide::WIDE_BYTES * BLOCK_LEN,
            (BlockKind::Packed, BaseOf::Block)
            | (
                BlockKind::MiniBlocks(_)
                | BlockKind::Runs
                | BlockKind::Patched
                | BlockKind::Lz4
                | BlockKind::Snappy
                | BlockKind::Differences
                | BlockKind::Strings
                | BlockKind::Front
                | BlockKind::Fsst
                | BlockKind::Prefix,
                _,
            ) => return None,
        };
        Some(self.bitmap_bytes() + values)
    }

    /// Whether all codes of the chunk have one base and one width.
    pub(crate) fn has_one_base(&self) -> bool {
        match self.kind {
            BlockKind::Packed => self.base_of == BaseOf::Chunk,
            BlockKind::MiniBlocks(_)
            | BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Wide
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => false,
        }
    }

    /// The least bytes a block of `rows` rows and this width has, and whether it may have more.
    fn block_bytes(&self, rows: usize, width: u8) -> (usize, bool) {
        let packed = packed_bytes(rows, width);
        let (values, more) = match self.kind {
            BlockKind::Packed => (packed, false),
            BlockKind::MiniBlocks(len) => (len.header_bytes(), true),
            BlockKind::Runs => (rle::HEADER_BYTES, true),
            BlockKind::Patched => (fastpfor::HEADER_BYTES, true),
            BlockKind::Lz4 | BlockKind::Snappy => (packed, width == 0),
            BlockKind::Differences => (delta::HEADER_BYTES + packed, false),
            BlockKind::Wide => (plain_wide::WIDE_BYTES * rows, false),
            BlockKind::Strings => (lines(packed), true),
            BlockKind::Front => (lines(packed), true),
            BlockKind::Fsst => (lines(packed) + fsst::COUNTS_BYTES, true),
            BlockKind::Prefix => (lines(packed) + prefix::HEADER_BYTES, true),
        };
        (self.bitmap_bytes() + values, more)
    }

    /// The base of a block's codes.
    #[inline]
    pub(crate) fn block_base(&self, entry: &BlockEntry) -> u64 {
        match self.base_of {
            BaseOf::Chunk => self.base,
            BaseOf::Block => frame_of_reference::base(entry.summary(), self.null_codes()),
        }
    }

    /// Writes the descriptor of a chunk whose directory and annex are `summary`.
    pub(crate) fn write(&self, annex: Annex, summary: &[u8], out: &mut [u8]) {
        out.fill(0);
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5..8].copy_from_slice(&self.ty.tag());
        out[8] = self.encoding.tag();
        out[9] = self.width;
        out[10] = u8::from(self.nulls.is_some());
        out[12..16].copy_from_slice(&self.rows.to_le_bytes());
        out[16..20].copy_from_slice(&self.null_count.to_le_bytes());
        out[20..24].copy_from_slice(&(self.blocks() as u32).to_le_bytes());
        out[24..32].copy_from_slice(&self.base.to_le_bytes());
        out[32..40].copy_from_slice(&self.generation.to_le_bytes());
        out[40..48].copy_from_slice(&self.data_offset.to_le_bytes());
        out[48..56].copy_from_slice(&self.len_bytes.to_le_bytes());
        out[56..64].copy_from_slice(&self.min.to_le_bytes());
        out[64..72].copy_from_slice(&self.max.to_le_bytes());
        for (field, value) in out[72..96].chunks_exact_mut(8).zip(annex.fields()) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        out[120..124].copy_from_slice(&crc32c::crc32c(summary).to_le_bytes());
        let crc = crc32c::crc32c(&out[..124]);
        out[124..128].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads and checks the descriptor and the directory at the start of `bytes`, of a chunk that has `found_bytes` at most.
    pub(crate) fn read(bytes: &[u8], found_bytes: u64) -> Result<Descriptor, FormatError> {
        let truncated = |needed: u64, found: u64| FormatError::Truncated {
            what: "a chunk",
            needed,
            found,
        };
        let given_bytes = bytes.len() as u64;
        if bytes.len() < DESCRIPTOR_BYTES {
            return Err(truncated(DESCRIPTOR_BYTES as u64, given_bytes));
        }
        if bytes[..4] != MAGIC {
            return Err(FormatError::Magic {
                what: "chunk",
                found: array(bytes, 0),
            });
        }
        if bytes[4] != VERSION {
            return Err(FormatError::Version {
                what: "a chunk",
                found: bytes[4],
                supported: VERSION,
            });
        }
        FormatError::check_crc("a chunk's descriptor", &bytes[..124], read_u32(bytes, 124))?;
        for (place, found) in UNUSED {
            if bytes[place].iter().any(|byte| *byte != 0) {
                let what = "a chunk";
                return Err(FormatError::Unknown { what, found });
            }
        }
        let corrupt = |why: &str| FormatError::corrupt("a chunk's descriptor", why);
        let ty = LogicalType::of_tag(array(bytes, 5)).ok_or_else(|| corrupt("unknown type"))?;
        let encoding = Encoding::of_tag(bytes[8]).ok_or_else(|| corrupt("unknown encoding"))?;
        let format = encoding.format();
        let nulls = match bytes[10] {
            0 => None,
            1 => Some(format.nulls),
            _ => return Err(corrupt("the NULL flag is neither 0 nor 1")),
        };
        let kind = (format.blocks)(ty.physical())
            .ok_or_else(|| corrupt("the encoding does not exist for the type"))?;
        let descriptor = Descriptor {
            ty,
            encoding,
            kind,
            base_of: format.base_of,
            nulls,
            width: bytes[9],
            rows: read_u32(bytes, 12),
            null_count: read_u32(bytes, 16),
            base: read_u64(bytes, 24),
            generation: read_u64(bytes, 32),
            data_offset: read_u64(bytes, 40),
            len_bytes: read_u64(bytes, 48),
            min: read_u64(bytes, 56),
            max: read_u64(bytes, 64),
        };
        let blocks = descriptor.blocks();
        let annex = Annex::of(bytes);
        if descriptor.rows as usize > CHUNK_ROWS || read_u32(bytes, 20) as usize != blocks {
            return Err(corrupt("rows and blocks disagree"));
        }
        if descriptor.width > MAX_WIDTH {
            return Err(corrupt("codes are wider than 64 bits"));
        }
        if encoding.uses_dictionary()
            && (descriptor.width > 32
                || descriptor.base != 0_u64.wrapping_sub(descriptor.null_codes()))
        {
            return Err(corrupt("these are no dictionary codes"));
        }
        let [checksums_at, sketch_at, sketch_bytes] = annex.fields();
        if (sketch_at, sketch_bytes) != (read_u64(bytes, 80), read_u64(bytes, 88))
            || (annex.has_sketch()
                && (encoding.uses_dictionary() || (descriptor.rows as usize) < SKETCHED_ROWS))
        {
            return Err(corrupt("the sketch lies elsewhere, or cannot be"));
        }
        if checksums_at != read_u64(bytes, 72) {
            return Err(corrupt("the logical checksums lie elsewhere"));
        }
        if descriptor.len_bytes > found_bytes {
            return Err(truncated(descriptor.len_bytes, found_bytes));
        }
        if annex.end() > bytes.len() {
            return Err(truncated(annex.end() as u64, given_bytes));
        }
        if descriptor.data_offset != annex.header_bytes() as u64
            || descriptor.len_bytes < descriptor.data_offset + PAD_BYTES as u64
        {
            return Err(corrupt("the data lies outside the chunk"));
        }
        let summary = &bytes[DESCRIPTOR_BYTES..annex.end()];
        FormatError::check_crc("a chunk's directory", summary, read_u32(bytes, 120))?;
        if !are_possible(&bytes[annex.sketch()]) {
            return Err(corrupt("the sketch holds what no values come to"));
        }
        descriptor.check_entries(&bytes[descriptor.directory()])?;
        Ok(descriptor)
    }

    /// Checks every directory entry against the descriptor.
    fn check_entries(&self, directory: &[u8]) -> Result<(), FormatError> {
        let room = (self.len_bytes - self.data_offset) as usize - PAD_BYTES;
        let mut null_count = 0_u64;
        let Summary {
            mut min, mut max, ..
        } = Summary::EMPTY;
        for (block, entry) in directory.chunks_exact(ENTRY_BYTES).enumerate() {
            let entry = BlockEntry::read(entry);
            let corrupt = |why: &str| {
                FormatError::corrupt("a chunk's directory", format!("block {block}: {why}"))
            };
            let rows = self.block_rows(block);
            let offset = entry.offset_lines as usize * LINE_BYTES;
            let len = entry.len_bytes as usize;
            if offset > room || len > room - offset {
                return Err(corrupt("it lies outside the chunk"));
            }
            if self
                .stride_bytes()
                .is_some_and(|stride| offset != stride * block || entry.width != self.width)
            {
                return Err(corrupt(
                    "it is not where, or not as wide as, its encoding says",
                ));
            }
            if entry.width > MAX_WIDTH {
                return Err(corrupt("its codes are wider than 64 bits"));
            }
            let is_compressed = matches!(self.kind, BlockKind::Lz4 | BlockKind::Snappy);
            if is_compressed && ![0, self.ty.natural_width()].contains(&entry.width) {
                return Err(corrupt("its values have another width than their type"));
            }
            let (least, more) = self.block_bytes(rows, entry.width);
            if len < least || (len > least && !more) {
                return Err(corrupt("its length does not fit its rows and width"));
            }
            if usize::from(entry.null_count) > rows
                || (entry.null_count > 0 && self.nulls.is_none())
            {
                return Err(corrupt("it cannot hold that many NULLs"));
            }
            let all_null = usize::from(entry.null_count) == rows;
            if all_null != (entry.min > entry.max) {
                return Err(corrupt("its least value exceeds its greatest"));
            }
            // Filters are clamped to [min, max], so these must be codes of the block.
            if !all_null && self.has_codes() {
                let base = self.block_base(&entry);
                let (low, high) = (entry.min.wrapping_sub(base), entry.max.wrapping_sub(base));
                if low < self.null_codes() || low > high || high > self.code_limit(&entry) {
                    return Err(corrupt("its values lie outside its codes"));
                }
            }
            null_count += u64::from(entry.null_count);
            (min, max) = (min.min(entry.min), max.max(entry.max));
        }
        // Dictionary entries hold codes, the descriptor the values' ordinals.
        if !self.encoding.uses_dictionary() && (min, max) != (self.min, self.max) {
            return Err(FormatError::corrupt(
                "a chunk's descriptor",
                "its least and greatest value are not those of its blocks",
            ));
        }
        if null_count != u64::from(self.null_count) || self.nulls.is_some() != (null_count > 0) {
            return Err(FormatError::corrupt(
                "a chunk's descriptor",
                "its NULLs are not those of its blocks",
            ));
        }
        Ok(())
    }

    /// Whether filters are evaluated on codes of one base per block.
    pub(crate) fn has_codes(&self) -> bool {
        match self.kind {
            BlockKind::Packed | BlockKind::MiniBlocks(_) | BlockKind::Runs => true,
            BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Wide
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => false,
        }
    }

    fn code_limit(&self, entry: &BlockEntry) -> u64 {
        match self.kind {
            // They have widths of their own.
            BlockKind::MiniBlocks(_) => u64::MAX,
            BlockKind::Packed
            | BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Wide
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => max_code(entry.width),
        }
    }
}
