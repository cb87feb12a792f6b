//! Plain DECIMALs of more than 18 digits: 16 bytes each, little-endian two's complement.
//!
//! ```text
//! ┌──────────────┬─────────────────────┐
//! │ validity     │ values, 16 bytes    │   what a NULL row holds is of no meaning
//! │ if any NULL  │ each                │
//! └──────────────┴─────────────────────┘
//! ```

use arrow::array::{Array, AsArray};
use arrow::datatypes::Decimal128Type;

use crate::block::Summary;
use crate::encoding::format::{BlockPlan, Plan, PlannedBlock, Writer};
use crate::encoding::validity;
use crate::encoding::values::ChunkValues;
use crate::ordinal;

/// Bytes of a wide DECIMAL.
pub(crate) const WIDE_BYTES: usize = 16;

/// Statistics of every block, on the values' ordinals.
pub(crate) fn plan(values: &ChunkValues) -> Plan {
    let arrays = values.source.arrays();
    let block = |block| {
        let mut summary = Summary::EMPTY;
        let rows = arrays.pieces(block, |array, from, len, _| {
            let array = array.as_primitive::<Decimal128Type>();
            for row in from..from + len {
                if array.is_valid(row) {
                    let ordinal = ordinal::of_i128_saturating(array.value(row));
                    summary.min = summary.min.min(ordinal);
                    summary.max = summary.max.max(ordinal);
                } else {
                    summary.null_count += 1;
                }
            }
        });
        BlockPlan {
            summary,
            width: 0,
            len_bytes: WIDE_BYTES * rows,
        }
    };
    Plan::of_blocks((0..values.blocks()).map(block).collect())
}

pub(crate) fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    let values = validity::split(writer, target, out);
    let arrays = writer.source.arrays();
    arrays.pieces(target.block, |array, from, len, at| {
        let source = &array.as_primitive::<Decimal128Type>().values()[from..from + len];
        let out = &mut values[at * WIDE_BYTES..];
        for (bytes, value) in out.chunks_exact_mut(WIDE_BYTES).zip(source) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    });
}

/// The wide DECIMAL in row `row` of a block's values.
///
/// # Panics
/// If the row lies outside `values`.
#[inline]
pub(crate) fn read_wide(values: &[u8], row: usize) -> i128 {
    let bytes = &values[row * WIDE_BYTES..][..WIDE_BYTES];
    i128::from_le_bytes(bytes.try_into().expect("sliced to 16 bytes"))
}
