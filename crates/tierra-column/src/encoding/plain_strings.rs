//! Plain strings: where each one ends, then all bytes of the block.
//!
//! ```text
//! ┌──────────────┬──────────────────────────┬────────────────────────────────┐
//! │ validity     │ ends, `width` bits each, │ bytes of string 0, of string 1 │
//! │ if any NULL  │ padded to a line         │ ...                            │
//! └──────────────┴──────────────────────────┴────────────────────────────────┘
//! ```
//!
//! String `i` lies between ends `i - 1` and `i` of the bytes; a NULL is empty. Ends are packed in
//! what their last one needs (typically 14 to 16 bits instead of 32).
//!
//! Invariant for readers: an end is trusted only after it is found to be inside the bytes and not
//! before the end before it; bytes become text only after they are found to be UTF-8.

use arrow::array::{Array, AsArray};

use crate::bits::{BLOCK_LEN, Kernels, packed_bytes, width_of};
use crate::block::Summary;
use crate::bytes::lines;
use crate::encoding::EncodeError;
use crate::encoding::format::{BlockPlan, Plan, PlannedBlock, Writer};
use crate::encoding::source::Arrays;
use crate::encoding::validity;
use crate::encoding::values::ChunkValues;
use crate::error::FormatError;
use crate::ordinal;

/// Sizes and statistics of every block.
pub(crate) fn plan(values: &ChunkValues) -> Result<Plan, EncodeError> {
    let arrays = values.source.arrays();
    let blocks: Result<_, _> = (0..values.blocks())
        .map(|block| plan_block(arrays, block))
        .collect();
    Ok(Plan::of_blocks(blocks?))
}

fn plan_block(arrays: &Arrays, block: usize) -> Result<BlockPlan, EncodeError> {
    let mut summary = Summary::EMPTY;
    let mut bytes = 0_u64;
    let rows = arrays.pieces(block, |array, from, len, _| {
        let strings = array.as_string_view();
        for row in from..from + len {
            if strings.is_valid(row) {
                let string = strings.value(row).as_bytes();
                let prefix = ordinal::of_prefix(string);
                summary.min = summary.min.min(prefix);
                summary.max = summary.max.max(prefix);
                bytes += string.len() as u64;
            } else {
                summary.null_count += 1;
            }
        }
    });
    let width = width_of(bytes);
    let len_bytes = lines(packed_bytes(rows, width)) as u64 + bytes;
    // With room for a bitmap and the last line.
    if len_bytes > u64::from(u32::MAX) - 256 {
        return Err(EncodeError::StringsTooLong {
            first_row: block * BLOCK_LEN,
            bytes,
        });
    }
    Ok(BlockPlan {
        summary,
        width,
        len_bytes: len_bytes as usize,
    })
}

/// Writes ends and strings of a block.
pub(crate) fn write(writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    let out = validity::split(writer, target, out);
    let (arrays, kernels) = (writer.source.arrays(), writer.kernels);
    let (block, width) = (target.block, target.width);
    let mut ends = [0_u64; BLOCK_LEN];
    let rows = arrays.rows().min((block + 1) * BLOCK_LEN) - block * BLOCK_LEN;
    let (packed, bytes) = out.split_at_mut(lines(packed_bytes(rows, width)));
    let mut end = 0;
    arrays.pieces(block, |array, from, len, at| {
        let strings = array.as_string_view();
        for row in 0..len {
            if strings.is_valid(from + row) {
                let string = strings.value(from + row).as_bytes();
                bytes[end..end + string.len()].copy_from_slice(string);
                end += string.len();
            }
            ends[at + row] = end as u64;
        }
    });
    packed.fill(0);
    kernels.pack(&ends[..rows], width, packed);
}

/// Ends and strings of a stored block.
#[derive(Clone, Copy)]
pub(crate) struct Strings<'a> {
    /// The packed ends and everything behind them: more than the pad.
    pub(crate) ends: &'a [u8],
    pub(crate) width: u8,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Strings<'a> {
    /// `bytes` is the block of `len` bytes behind its bitmap, and what follows it, at least the
    /// pad; `len` has been checked to hold the ends.
    pub(crate) fn new(bytes: &'a [u8], len: usize, rows: usize, width: u8) -> Strings<'a> {
        Strings {
            ends: bytes,
            width,
            bytes: &bytes[lines(packed_bytes(rows, width))..len],
        }
    }

    /// Where string `row` begins and ends within the bytes.
    #[inline]
    pub(crate) fn bounds(&self, row: usize) -> (u64, u64) {
        let start = match row {
            0 => 0,
            _ => Kernels::get(self.ends, self.width, row - 1),
        };
        (start, Kernels::get(self.ends, self.width, row))
    }

    /// The bytes between two ends.
    #[inline]
    pub(crate) fn slice(&self, (start, end): (u64, u64)) -> Result<&'a [u8], FormatError> {
        usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or_else(|| FormatError::corrupt("a block of strings", "a string lies outside it"))
    }

    /// String `row`'s bytes.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<&'a [u8], FormatError> {
        self.slice(self.bounds(row))
    }
}
