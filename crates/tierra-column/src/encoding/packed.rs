//! Blocks of codes of one width: what static packing, frame of reference and dictionary share.

use crate::bits::packed_bytes;
use crate::encoding::format::{BlockPlan, Plan, PlannedBlock, Writer};
use crate::encoding::values::ChunkValues;

/// Codes of one base and width for the chunk.
pub(crate) fn plan(values: &ChunkValues, base: u64, width: u8) -> Plan {
    let block = |block| self::block(values, block, width);
    Plan {
        base,
        width,
        blocks: (0..values.blocks()).map(block).collect(),
        encoded: Vec::new(),
    }
}

/// A block of codes of this width.
pub(crate) fn block(values: &ChunkValues, block: usize, width: u8) -> BlockPlan {
    BlockPlan {
        summary: values.summaries[block],
        width,
        len_bytes: packed_bytes(values.block_rows(block), width),
    }
}

pub(crate) fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    let (kernels, width) = (writer.kernels, target.width);
    match writer.source.integers(target.block) {
        Some(integers) if integers.have_codes(width) => {
            integers.pack(kernels, target.base, width, out);
        }
        _ => kernels.pack(writer.codes(target), width, out),
    }
}
