//! The interface of an encoding, its [`Format`]: its properties and functions.

use crate::bits::{BLOCK_LEN, Kernels};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::EncodeError;
use crate::encoding::mini_len::MiniLen;
use crate::encoding::read_cost::ReadCost;
use crate::encoding::source::Source;
use crate::encoding::values::{ChunkValues, Sample};
use crate::logical_type::Physical;

/// An encoding as the rest of the crate sees it. Its file makes one, with every field.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// Its name in DDL and in messages.
    pub(crate) name: &'static str,
    /// Other names that DDL takes for it.
    pub(crate) aliases: &'static [&'static str],
    /// What the blocks of a chunk are; `None` where the encoding does not exist for the type.
    pub(crate) blocks: fn(Physical) -> Option<BlockKind>,
    /// How NULLs are stored.
    pub(crate) nulls: Nulls,
    /// Whose base and width codes have.
    pub(crate) base_of: BaseOf,
    /// Whether codes are those of the column's dictionary.
    pub(crate) uses_dictionary: bool,
    /// What estimated bytes are multiplied with: slower reading must save this much.
    pub(crate) handicap: f64,
    /// What reading takes besides waiting for memory.
    pub(crate) read_cost: ReadCost,
    /// Estimated bytes of values that have ordinals; `None` where they cannot be stored so, or should not.
    pub(crate) estimate: fn(&ChunkValues, &Sample) -> Option<f64>,
    /// Decides on base, widths and lengths; `None` where the values cannot be stored so.
    pub(crate) plan: fn(&ChunkValues) -> Result<Option<Plan>, EncodeError>,
    /// Writes a planned block, its validity bitmap included.
    pub(crate) write: fn(&mut Writer<'_>, &PlannedBlock, &mut [u8]),
}

/// What a block is: each kind is read in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Codes of one width.
    Packed,
    /// Codes with a width per mini-block.
    MiniBlocks(MiniLen),
    /// Runs of equal codes.
    Runs,
    /// Codes whose high bits may lie apart.
    Patched,
    /// Values compressed as bytes, by LZ4.
    Lz4,
    /// By Snappy.
    Snappy,
    /// Differences.
    Differences,
    /// 16 bytes each.
    Wide,
    /// Strings of any length.
    Strings,
    /// Strings that are not stored as they are, by front coding.
    Front,
    /// By FSST.
    Fsst,
    /// By indirect prefixes.
    Prefix,
}

/// How a chunk stores that rows are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A validity bitmap at the head of each block.
    Bitmap,
    /// Code 0.
    Code,
}

/// Where the base and the width of packed codes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BaseOf {
    /// In the descriptor.
    Chunk,
    /// In the directory: a block's base is its least value.
    Block,
}

/// What planning decides.
pub(crate) struct Plan {
    /// Of all codes; 0 where they are not the chunk's.
    pub(crate) base: u64,
    pub(crate) width: u8,
    pub(crate) blocks: Vec<BlockPlan>,
    /// The blocks one after the other, without validity bitmaps, where planning had to encode them.
    pub(crate) encoded: Vec<u8>,
}

/// A block to come.
pub(crate) struct BlockPlan {
    pub(crate) summary: Summary,
    pub(crate) width: u8,
    /// Without a validity bitmap.
    pub(crate) len_bytes: usize,
}

impl Plan {
    /// Of blocks that have what is needed to read them.
    pub(crate) fn of_blocks(blocks: Vec<BlockPlan>) -> Plan {
        Plan {
            base: 0,
            width: 0,
            blocks,
            encoded: Vec::new(),
        }
    }
}

/// Values to be written, with the buffers that takes.
pub(crate) struct Writer<'s> {
    pub(crate) source: &'s Source,
    pub(crate) kernels: Kernels,
    pub(crate) block: OrdinalBlock,
    pub(crate) codes: Box<[u64; BLOCK_LEN]>,
    /// Blocks that planning has encoded and that are not written yet.
    pub(crate) encoded: &'s [u8],
}

/// A planned block.
pub(crate) struct PlannedBlock {
    /// Its number in the chunk.
    pub(crate) block: usize,
    pub(crate) base: u64,
    pub(crate) width: u8,
    /// 1 where code 0 is NULL.
    pub(crate) null_codes: u64,
    /// Of the validity bitmap before the values.
    pub(crate) bitmap_bytes: usize,
}

impl<'s> Writer<'s> {
    pub(crate) fn new(source: &'s Source, encoded: &'s [u8]) -> Writer<'s> {
        Writer {
            source,
            kernels: Kernels::best(),
            block: OrdinalBlock::new(),
            codes: Box::new([0; BLOCK_LEN]),
            encoded,
        }
    }

    /// `ordinal - base` of a block's rows.
    pub(crate) fn codes(&mut self, target: &PlannedBlock) -> &[u64] {
        self.source.fill(target.block, &mut self.block);
        self.block.codes(target.base, &mut self.codes);
        &self.codes[..self.block.rows]
    }
}
