//! Delta: `code = ordinal - ordinal before - least difference of the block`.
//!
//! ```text
//! 0          8                    16
//! ┌──────────┬────────────────────┬──────────────────────────┐   start: the first value less the
//! │ start    │ least difference   │ codes, `width` bits each │          least difference, so that
//! └──────────┴────────────────────┴──────────────────────────┘          row 0 is not special
//! ```
//!
//! All arithmetic is modulo 2^64, so no two ordinals are too far apart. In a chunk with a NULL
//! codes are one higher and a NULL (code 0) leaves the running value as it is. Blocks are
//! independent: a row costs the codes of its block up to there, and filters decode.

use crate::bits::{BLOCK_LEN, Kernels, Mask, packed_bytes, width_of};
use crate::block::OrdinalBlock;
use crate::bytes::read_u64;
use crate::encoding::EncodeError;
use crate::encoding::format::{
    BaseOf, BlockKind, BlockPlan, Format, Nulls, Plan, PlannedBlock, Writer,
};
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "delta",
    aliases: &["delta-bp"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Differences),
    nulls: Nulls::Code,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.06,
    read_cost: ReadCost {
        in_order_ns: 0.87,
        alone_ns: 75.0,
        alone_lines: None,
    },
    estimate,
    plan,
    write,
};

/// Bytes before the codes.
pub(crate) const HEADER_BYTES: usize = 16;

/// What a block's codes count from.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    start: u64,
    least: u64,
}

fn estimate(values: &ChunkValues, sample: &Sample) -> Option<f64> {
    sample.bytes(|_, block| {
        let (_, width) = frame(block, values.null_codes)?;
        Some(HEADER_BYTES + packed_bytes(block.rows, width))
    })
}

fn plan(values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    let mut ordinals = OrdinalBlock::new();
    let block = |block| {
        values.source.fill(block, &mut ordinals);
        let (_, width) = frame(&ordinals, values.null_codes)?;
        Some(BlockPlan {
            summary: values.summaries[block],
            width,
            len_bytes: HEADER_BYTES + packed_bytes(ordinals.rows, width),
        })
    };
    let blocks: Option<_> = (0..values.blocks()).map(block).collect();
    Ok(blocks.map(Plan::of_blocks))
}

fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    writer.source.fill(target.block, &mut writer.block);
    let (frame, _) = frame(&writer.block, target.null_codes)
        .expect("planning gave up on delta where a block does not fit it");
    codes(&writer.block, frame, target.null_codes, &mut writer.codes);
    frame.write(out);
    let codes = &writer.codes[..writer.block.rows];
    writer
        .kernels
        .pack(codes, target.width, &mut out[HEADER_BYTES..]);
}

/// The frame of a block and the width of its codes; `None` if the codes leave no room for NULL.
fn frame(block: &OrdinalBlock, null_codes: u64) -> Option<(Frame, u8)> {
    let values = block.values();
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    let mut take = |difference: u64| {
        least = least.min(difference as i64);
        greatest = greatest.max(difference as i64);
    };
    if !block.nulls.any() {
        Kernels::best().compiled(|| {
            for (value, above) in values.iter().skip(1).zip(values) {
                take(value.wrapping_sub(*above));
            }
        });
    } else {
        // Until the first value NULL rows already hold it, and every NULL row repeats the row
        // before it: a value's difference to the row above is the one to the value before.
        for row in first_value(block) + 1..values.len() {
            if !block.nulls.get(row) {
                take(values[row].wrapping_sub(values[row - 1]));
            }
        }
    }
    if least > greatest {
        (least, greatest) = (0, 0);
    }
    let span = (greatest.wrapping_sub(least) as u64).checked_add(null_codes)?;
    let first = values.first().copied().unwrap_or(0);
    let frame = Frame {
        start: first.wrapping_sub(least as u64),
        least: least as u64,
    };
    Some((frame, width_of(span)))
}

/// The first row that is not NULL.
fn first_value(block: &OrdinalBlock) -> usize {
    let mut values = block.nulls.not();
    values.and(&Mask::first(block.rows));
    values.iter().next().unwrap_or(block.rows)
}

/// The codes of a block.
fn codes(block: &OrdinalBlock, frame: Frame, null_codes: u64, out: &mut [u64; BLOCK_LEN]) {
    let offset = frame.least.wrapping_sub(null_codes);
    if !block.nulls.any() {
        let values = block.values();
        let Some(&first) = values.first() else { return };
        out[0] = first.wrapping_sub(frame.start).wrapping_sub(offset);
        Kernels::best().compiled(|| {
            let differences = values.iter().skip(1).zip(values);
            for (code, (value, above)) in out.iter_mut().skip(1).zip(differences) {
                *code = value.wrapping_sub(*above).wrapping_sub(offset);
            }
        });
        return;
    }
    let mut previous = frame.start;
    for (row, &ordinal) in block.values().iter().enumerate() {
        if block.nulls.get(row) {
            out[row] = 0;
        } else {
            out[row] = ordinal.wrapping_sub(previous).wrapping_sub(offset);
            previous = ordinal;
        }
    }
}

impl Frame {
    fn write(self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.start.to_le_bytes());
        out[8..16].copy_from_slice(&self.least.to_le_bytes());
    }

    /// # Panics
    /// If `bytes` is shorter than [`HEADER_BYTES`].
    pub(crate) fn read(bytes: &[u8]) -> Frame {
        Frame {
            start: read_u64(bytes, 0),
            least: read_u64(bytes, 8),
        }
    }

    /// Turns codes into ordinals in place and returns the rows that are NULL.
    pub(crate) fn decode(self, null_codes: u64, codes: &mut [u64]) -> Mask {
        let mut nulls = Mask::none();
        let mut ordinal = self.start;
        if null_codes == 0 {
            for code in codes {
                ordinal = ordinal.wrapping_add(*code).wrapping_add(self.least);
                *code = ordinal;
            }
            return nulls;
        }
        let offset = self.least.wrapping_sub(null_codes);
        for (row, code) in codes.iter_mut().enumerate() {
            if *code == 0 {
                nulls.set(row, true);
            } else {
                ordinal = ordinal.wrapping_add(*code).wrapping_add(offset);
            }
            *code = ordinal;
        }
        nulls
    }

    /// The ordinal of row `row` alone, `None` where it is NULL, from the packed codes.
    pub(crate) fn value(
        self,
        kernels: Kernels,
        packed: &[u8],
        width: u8,
        row: usize,
        null_codes: u64,
    ) -> Option<u64> {
        let rows = row + 1;
        let mut values = rows as u64;
        if null_codes > 0 {
            if Kernels::get(packed, width, row) == 0 {
                return None;
            }
            let mut not_null = Mask::first(rows);
            kernels.select_between(packed, width, rows, 1, u64::MAX, &mut not_null);
            values = not_null.count() as u64;
        }
        // Truncating the sum is reducing it modulo 2^64.
        let sum = kernels.sum(packed, width, rows, None) as u64;
        let offset = self.least.wrapping_sub(null_codes);
        Some(
            self.start
                .wrapping_add(sum)
                .wrapping_add(offset.wrapping_mul(values)),
        )
    }
}
