//! Frame of reference: `code = ordinal - least ordinal of the block`, a width for each block.
//!
//! ```text
//! ┌───────────────────────────────┐   base  = least, one lower in a chunk with a NULL
//! │ codes, `width` bits each      │   width = what greatest - base needs, in the directory
//! └───────────────────────────────┘
//! ```
//!
//! The directory's least value doubles as base, so a block of equal values takes no bytes at all.

use crate::bits::{packed_bytes, width_of};
use crate::block::Summary;
use crate::encoding::EncodeError;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan};
use crate::encoding::packed;
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "for",
    aliases: &["frame-of-reference", "for-bp"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Packed),
    nulls: Nulls::Code,
    base_of: BaseOf::Block,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(0.18, 21.0, 1.1),
    estimate,
    plan,
    write: packed::write,
};

fn estimate(values: &ChunkValues, _: &Sample) -> Option<f64> {
    values.bytes(|block| {
        let width = width(values.summaries[block], values.null_codes)?;
        Some(packed_bytes(values.block_rows(block), width))
    })
}

fn plan(values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    let block = |block| {
        let width = width(values.summaries[block], values.null_codes)?;
        Some(packed::block(values, block, width))
    };
    let blocks: Option<_> = (0..values.blocks()).map(block).collect();
    Ok(blocks.map(Plan::of_blocks))
}

/// The width of codes from `summary`'s least value on. `None` if a chunk with a NULL has no code
/// left for it: values that span all 2^64 ordinals can only be stored plain.
pub(crate) fn width(summary: Summary, null_codes: u64) -> Option<u8> {
    if summary.min > summary.max {
        return Some(0);
    }
    Some(width_of(
        (summary.max - summary.min).checked_add(null_codes)?,
    ))
}

/// The base of a block that has its own: its least value, one lower where code 0 is NULL.
#[inline]
pub(crate) fn base(summary: Summary, null_codes: u64) -> u64 {
    if summary.min > summary.max {
        0
    } else {
        summary.min.wrapping_sub(null_codes)
    }
}
