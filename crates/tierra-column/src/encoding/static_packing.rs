//! Static bit packing: `code = ordinal - least ordinal of the chunk`, one width for the chunk.
//!
//! ```text
//! ┌───────────────────────────────┐   base and width: in the descriptor
//! │ codes, `width` bits each      │
//! └───────────────────────────────┘
//! ```
//!
//! All blocks have the same length, so row `i` is found without reading the directory: the
//! encoding for columns that are looked up at random.

use crate::bits::packed_bytes;
use crate::encoding::EncodeError;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan};
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::encoding::{frame_of_reference, packed};
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "static",
    aliases: &["static-bp"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Packed),
    nulls: Nulls::Code,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 0.97,
    read_cost: ReadCost::of_lines(0.18, 15.0, 1.1),
    estimate,
    plan,
    write: packed::write,
};

fn estimate(values: &ChunkValues, _: &Sample) -> Option<f64> {
    let width = width(values)?;
    values.bytes(|block| Some(packed_bytes(values.block_rows(block), width)))
}

fn plan(values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    let base = frame_of_reference::base(values.total, values.null_codes);
    Ok(width(values).map(|width| packed::plan(values, base, width)))
}

fn width(values: &ChunkValues) -> Option<u8> {
    frame_of_reference::width(values.total, values.null_codes)
}
