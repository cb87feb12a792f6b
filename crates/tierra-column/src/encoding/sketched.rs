//! The sketch of a column's distinct values, made by reading values once more.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Decimal128Type;

use crate::bits::Kernels;
use crate::block::OrdinalBlock;
use crate::encoding::source::{Arrays, Source};
use crate::encoding::values::ChunkValues;
use crate::limits::SKETCHED_ROWS;
use crate::logical_type::{LogicalType, Physical};
use crate::sketch::{DistinctSketch, SketchBuilder};

/// After this many blocks that changed no register, blocks are passed over until one does.
const QUIET_BLOCKS: usize = 8;
/// One block of those is looked at after the next, one after the second next, up to one after so many: at no regular
/// distance, which the values might have too.
const STEP_MAX: usize = 15;

impl DistinctSketch {
    /// The sketch of an array of `ty`'s arrow type, as a chunk of it would have; `None` for few rows or none with a
    /// value.
    pub fn of_column(ty: LogicalType, values: &ArrayRef) -> Option<DistinctSketch> {
        let arrays = Arrays::new(ty, std::slice::from_ref(values)).ok()?;
        let values = ChunkValues::new(ty, Source::Arrays(arrays));
        let only = values.only_value().map(DistinctSketch::of_ordinal);
        only.or_else(|| of_values(&values))
    }
}

/// The sketch of values that are no codes of a dictionary; `None` for few rows, for none with a value, and if they all have
/// the same: a chunk's least and greatest value then tell it.
pub(crate) fn of_values(values: &ChunkValues) -> Option<DistinctSketch> {
    let Source::Arrays(arrays) = &values.source else {
        return None;
    };
    let nulls: usize = arrays.arrays().iter().map(|array| array.null_count()).sum();
    if arrays.rows() < SKETCHED_ROWS || nulls == arrays.rows() || values.only_value().is_some() {
        return None;
    }
    let mut builder = SketchBuilder::new(Kernels::best());
    match values.ty.physical() {
        Physical::Ordinal => add_blocks(values, &mut builder),
        Physical::Wide => arrays.arrays().iter().for_each(|array| {
            let array = array.as_primitive::<Decimal128Type>();
            let values = array.iter().flatten();
            values.for_each(|value| builder.add_bytes(&value.to_le_bytes()));
        }),
        Physical::Bytes => arrays.arrays().iter().for_each(|array| {
            let values = array.as_string_view().iter().flatten();
            values.for_each(|value| builder.add_bytes(value.as_bytes()));
        }),
    }
    Some(builder.finish())
}

impl ChunkValues {
    /// The ordinal of all rows that are not NULL.
    fn only_value(&self) -> Option<u64> {
        let is_only = self.ty.physical() == Physical::Ordinal && self.total.min == self.total.max;
        is_only.then_some(self.total.min)
    }
}

/// Adds the ordinals of each block; a NULL row repeats another one's.
///
/// Where values are few they have all been seen soon, and looking at the rest is most of the work: it is only
/// sampled. Values that then come up are missed for fewer than [`STEP_MAX`] blocks.
fn add_blocks(values: &ChunkValues, builder: &mut SketchBuilder) {
    let mut block = OrdinalBlock::new();
    let (mut number, mut quiet) = (0, 0);
    while number < values.blocks() {
        let nulls = usize::from(values.summaries[number].null_count);
        let has_changed = nulls < values.block_rows(number) && {
            values.source.fill(number, &mut block);
            builder.add_ordinals(block.values())
        };
        quiet = if has_changed { 0 } else { quiet + 1 };
        number += match quiet {
            0..QUIET_BLOCKS => 1,
            _ => 1 + (quiet - QUIET_BLOCKS) % STEP_MAX,
        };
    }
}
