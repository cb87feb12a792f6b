//! Plain: values as they are, any type.
//!
//! ```text
//! chunk with a NULL           chunk without
//! ┌────────────┬────────┐     ┌────────┐     validity: bit i is 1 where row i has a value,
//! │ validity   │ values │     │ values │               always 128 bytes
//! └────────────┴────────┘     └────────┘     values:   ordinals at the type's own width (1, 32 or 64
//!                                                      bits), or 16-byte two's complement
//! ```
//!
//! Ordinals at the type's width are codes of base 0, so every kernel works on them. What a NULL row
//! holds is of no meaning. Wide DECIMALs and strings have files of their own, `plain_wide` and `plain_strings`.

use crate::bits::packed_bytes;
use crate::encoding::EncodeError;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan, PlannedBlock, Writer};
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::encoding::{packed, plain_strings, plain_wide, validity};
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "plain",
    aliases: &[],
    blocks: |physical| Some(blocks(physical)),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(0.22, 15.0, 1.1),
    estimate,
    plan: |values| plan(values).map(Some),
    write,
};

fn blocks(physical: Physical) -> BlockKind {
    match physical {
        Physical::Ordinal => BlockKind::Packed,
        Physical::Wide => BlockKind::Wide,
        Physical::Bytes => BlockKind::Strings,
    }
}

fn estimate(values: &ChunkValues, _: &Sample) -> Option<f64> {
    let bitmap = match values.null_codes {
        0 => 0,
        _ => validity::BITMAP_BYTES,
    };
    let width = values.ty.natural_width();
    values.bytes(|block| Some(bitmap + packed_bytes(values.block_rows(block), width)))
}

/// Any values can be stored plain.
pub(crate) fn plan(values: &ChunkValues) -> Result<Plan, EncodeError> {
    match values.ty.physical() {
        Physical::Ordinal => Ok(packed::plan(values, 0, values.ty.natural_width())),
        Physical::Wide => Ok(plain_wide::plan(values)),
        Physical::Bytes => plain_strings::plan(values),
    }
}

fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    match writer.source.arrays().ty.physical() {
        Physical::Ordinal => {
            if target.bitmap_bytes == 0
                && let Some(integers) = writer.source.integers(target.block)
            {
                integers.pack(writer.kernels, target.base, target.width, out);
                return;
            }
            let (bitmap, rest) = out.split_at_mut(target.bitmap_bytes);
            writer.source.fill(target.block, &mut writer.block);
            validity::write(&writer.block, bitmap);
            writer
                .kernels
                .pack(writer.block.values(), target.width, rest);
        }
        Physical::Wide => plain_wide::write(writer, target, out),
        Physical::Bytes => plain_strings::write(writer, target, out),
    }
}
