//! Dictionary: codes of one generation of the column's dictionary, one width for the chunk.
//!
//! ```text
//! ┌───────────────────────────────┐   stored = code, one higher in a chunk with a NULL
//! │ stored codes, `width` bits    │   width, generation: in the descriptor
//! └───────────────────────────────┘
//! ```
//!
//! This is static packing with the codes as ordinals and the base -`null_codes`: the same kernels,
//! the same random access. A code beyond the dictionary can only be corruption; readers check.

use std::hash::BuildHasher;

use arrow::array::{Array, AsArray};

use crate::bits::{BLOCK_LEN, packed_bytes, width_of};
use crate::block::Summary;
use crate::encoding::distinct::Distinct;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan};
use crate::encoding::packed;
use crate::encoding::read_cost::ReadCost;
use crate::encoding::source::Source;
use crate::encoding::values::{ChunkValues, SAMPLE_BLOCKS, Sample, sampled};
use crate::logical_type::Physical;

/// A dictionary pays for strings while fewer than one row in this many brings a new value.
const ROWS_PER_STRING: usize = 4;
/// For ordinals, which pack well without, only while the sample repeats each value this often.
const SAMPLED_PER_ORDINAL: usize = 16;

pub(crate) const FORMAT: Format = Format {
    name: "dictionary",
    aliases: &[],
    blocks: |physical| match physical {
        Physical::Ordinal | Physical::Bytes => Some(BlockKind::Packed),
        Physical::Wide => None,
    },
    nulls: Nulls::Code,
    base_of: BaseOf::Chunk,
    uses_dictionary: true,
    handicap: 1.03,
    read_cost: ReadCost::of_lines(0.5, 15.0, 1.1),
    estimate,
    plan: |values| Ok(matches!(values.source, Source::Codes(_)).then(|| plan(values))),
    write: packed::write,
};

/// Bytes of codes and dictionary; `None` where new values keep coming, because a dictionary
/// then grows with the rows and every scan pays for its misses.
fn estimate(values: &ChunkValues, sample: &Sample) -> Option<f64> {
    let mut distinct = Distinct::default();
    for (_, block) in &sample.blocks {
        // Past this there will be no dictionary, whatever the other blocks hold.
        if distinct.seen() > SAMPLE_BLOCKS * BLOCK_LEN / SAMPLED_PER_ORDINAL {
            break;
        }
        block.values().iter().for_each(|&value| distinct.add(value));
    }
    if distinct.seen() * SAMPLED_PER_ORDINAL > distinct.values {
        return None;
    }
    let distinct = distinct.estimate(values.rows());
    let codes = Summary {
        min: 0,
        max: distinct.saturating_sub(1) as u64,
        null_count: 0,
    };
    let (_, width) = base_and_width(codes, values.null_codes);
    Some((packed_bytes(values.rows(), width) + 8 * distinct) as f64)
}

/// Whether a dictionary pays for strings: fewer than a quarter of the rows seem to bring a new one.
pub(crate) fn pays_for_strings(values: &ChunkValues) -> bool {
    let hasher = hashbrown::DefaultHashBuilder::default();
    let mut distinct = Distinct::default();
    let arrays = values.source.arrays();
    for block in sampled(values.blocks()) {
        arrays.pieces(block, |array, from, len, _| {
            let strings = array.as_string_view();
            for row in from..from + len {
                if strings.is_valid(row) {
                    distinct.add(hasher.hash_one(strings.value(row)));
                }
            }
        });
    }
    distinct.estimate(values.rows()) * ROWS_PER_STRING <= values.rows()
}

/// Of values that are codes already.
pub(crate) fn plan(codes: &ChunkValues) -> Plan {
    let (base, width) = base_and_width(codes.total, codes.null_codes);
    packed::plan(codes, base, width)
}

/// Base (modulo 2^64) and width of the stored codes.
fn base_and_width(codes: Summary, null_codes: u64) -> (u64, u8) {
    let base = 0_u64.wrapping_sub(null_codes);
    if codes.min > codes.max {
        return (base, 0);
    }
    // Codes are 32 bits: one more cannot overflow.
    (base, width_of(codes.max + null_codes))
}
