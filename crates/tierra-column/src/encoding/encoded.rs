//! Blocks that planning has encoded already, because nothing less tells their length.

use crate::bits::{BLOCK_LEN, Kernels};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::format::{BlockPlan, Plan, PlannedBlock, Writer};
use crate::encoding::validity;
use crate::encoding::values::ChunkValues;

/// Encodes every block: `encode` appends the bytes of one, without a validity bitmap, and returns the width that its entry names.
pub(crate) fn plan(
    values: &ChunkValues,
    mut encode: impl FnMut(&OrdinalBlock, Summary, &mut Vec<u8>) -> u8,
) -> Plan {
    let mut encoded = Vec::new();
    let mut ordinals = OrdinalBlock::new();
    let block = |(block, &summary): (usize, &Summary)| {
        values.source.fill(block, &mut ordinals);
        let start = encoded.len();
        let width = encode(&ordinals, summary, &mut encoded);
        BlockPlan {
            summary,
            width,
            len_bytes: encoded.len() - start,
        }
    };
    let blocks = values.summaries.iter().enumerate().map(block).collect();
    Plan {
        encoded,
        ..Plan::of_blocks(blocks)
    }
}

/// Copies the next block.
pub(crate) fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    let out = validity::split(writer, target, out);
    let (block, rest) = writer.encoded.split_at(out.len());
    out.copy_from_slice(block);
    writer.encoded = rest;
}

/// Appends packed codes.
pub(crate) fn append_packed(kernels: Kernels, codes: &[u64], width: u8, out: &mut Vec<u8>) {
    debug_assert!(codes.len() <= BLOCK_LEN);
    let start = out.len();
    out.resize(start + crate::bits::packed_bytes(codes.len(), width), 0);
    kernels.pack(codes, width, &mut out[start..]);
}
