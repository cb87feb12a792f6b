//! Dynamic bit packing: a width for each mini-block of 64 values.
//!
//! ```text
//! 0                 16
//! ┌─────────────────┬──────────────┬──────────────┬───┐   width i: 0 to 64, 0 beyond the last row
//! │ 16 widths, u8   │ mini-block 0 │ mini-block 1 │...│   base: as frame of reference
//! └─────────────────┴──────────────┴──────────────┴───┘
//! ```
//!
//! An outlier widens 64 values instead of 1,024. Mini-blocks of 128 would save 8 width bytes per
//! block and lose more: with 0.1 % of 31-bit outliers among 8-bit values a chunk takes 10.0 bits a
//! value with 64 and 11.2 with 128, and unpacking costs the same within a tenth. Neighbours of one
//! width are one packed run to the kernels: 64 values of any width end on a whole byte.

use crate::bits::{BLOCK_LEN, Kernels, MAX_WIDTH, Mask, packed_bytes, width_of};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::EncodeError;
use crate::encoding::format::{BaseOf, BlockPlan, Format, Kind, Nulls, Plan, Target, Writer};
use crate::encoding::frame_of_reference;
use crate::encoding::values::{Sample, Values};
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "dynamic",
    blocks: |physical| (physical == Physical::Ordinal).then_some(Kind::MiniBlocks),
    nulls: Nulls::Code,
    base_of: BaseOf::Block,
    uses_dictionary: false,
    handicap: 1.03,
    estimate,
    plan,
    write,
};

/// Values in a mini-block.
pub(crate) const MINI_LEN: usize = 64;
const MINI_BLOCKS: usize = BLOCK_LEN / MINI_LEN;
/// Bytes of the widths.
pub(crate) const HEADER_BYTES: usize = MINI_BLOCKS;

/// A run of packed codes of one width within a block.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
    pub(crate) width: u8,
    /// The packed codes and whatever follows them, at least the pad.
    pub(crate) packed: &'a [u8],
}

/// Whether all blocks have codes. Their widths are the mini-blocks' own.
fn fits(values: &Values) -> bool {
    let mut summaries = values.summaries.iter();
    summaries.all(|&summary| frame_of_reference::width(summary, values.null_codes).is_some())
}

fn estimate(values: &Values, sample: &Sample) -> Option<f64> {
    let mut codes = Box::new([0; BLOCK_LEN]);
    let len = |summary: &Summary, block: &OrdinalBlock| {
        Some(len_bytes(block, *summary, values.null_codes, &mut codes))
    };
    sample.bytes(len).filter(|_| fits(values))
}

fn plan(values: &Values) -> Result<Option<Plan>, EncodeError> {
    if !fits(values) {
        return Ok(None);
    }
    let mut ordinals = OrdinalBlock::new();
    let mut codes = Box::new([0; BLOCK_LEN]);
    let block = |(block, &summary): (usize, &Summary)| {
        values.source.fill(block, &mut ordinals);
        BlockPlan {
            summary,
            width: 0,
            len_bytes: len_bytes(&ordinals, summary, values.null_codes, &mut codes),
        }
    };
    let blocks = values.summaries.iter().enumerate().map(block).collect();
    Ok(Some(Plan::of_blocks(blocks)))
}

/// Bytes of a block.
fn len_bytes(
    block: &OrdinalBlock,
    summary: Summary,
    null_codes: u64,
    codes: &mut [u64; BLOCK_LEN],
) -> usize {
    block.codes(frame_of_reference::base(summary, null_codes), codes);
    block_bytes(&widths(&codes[..block.rows]), block.rows)
}

/// The width of every mini-block of `codes`.
fn widths(codes: &[u64]) -> [u8; MINI_BLOCKS] {
    let mut widths = [0; MINI_BLOCKS];
    for (width, codes) in widths.iter_mut().zip(codes.chunks(MINI_LEN)) {
        *width = width_of(codes.iter().fold(0, |bits, code| bits | code));
    }
    widths
}

/// Bytes of a block of `rows` rows with these widths.
fn block_bytes(widths: &[u8; MINI_BLOCKS], rows: usize) -> usize {
    let packed: usize = widths
        .iter()
        .enumerate()
        .map(|(mini, &width)| packed_bytes(mini_rows(rows, mini), width))
        .sum();
    HEADER_BYTES + packed
}

fn mini_rows(rows: usize, mini: usize) -> usize {
    rows.saturating_sub(mini * MINI_LEN).min(MINI_LEN)
}

fn write(writer: &mut Writer<'_>, target: &Target, out: &mut [u8]) {
    let kernels = writer.kernels;
    let codes = writer.codes(target);
    let widths = widths(codes);
    out[..HEADER_BYTES].copy_from_slice(&widths);
    let mut at = HEADER_BYTES;
    for (codes, width) in codes.chunks(MINI_LEN).zip(widths) {
        let len = packed_bytes(codes.len(), width);
        kernels.pack(codes, width, &mut out[at..at + len]);
        at += len;
    }
}

/// The mini-blocks of a block, checked: every run's codes lie inside the block.
#[derive(Clone, Copy)]
pub(crate) struct MiniBlocks<'a> {
    /// As they were checked, whatever becomes of the block meanwhile.
    widths: [u8; MINI_BLOCKS],
    rows: usize,
    /// From the first mini-block on, with the pad.
    packed: &'a [u8],
}

impl<'a> MiniBlocks<'a> {
    /// `bytes` is the block of `len` bytes and what follows it, at least the pad.
    pub(crate) fn new(
        bytes: &'a [u8],
        len: usize,
        rows: usize,
    ) -> Result<MiniBlocks<'a>, FormatError> {
        let corrupt = |why: &str| FormatError::corrupt("a block of mini-blocks", why);
        let (&widths, packed) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(|| corrupt("its widths are missing"))?;
        if widths.iter().any(|&width| width > MAX_WIDTH) {
            return Err(corrupt("a width passes 64 bits"));
        }
        if block_bytes(&widths, rows) != len {
            return Err(corrupt("its widths do not add up to its length"));
        }
        Ok(MiniBlocks {
            widths,
            rows,
            packed,
        })
    }

    /// Longest runs of one width, in order.
    pub(crate) fn runs(self) -> impl Iterator<Item = Run<'a>> {
        let minis = self.rows.div_ceil(MINI_LEN);
        let (mut mini, mut at) = (0, 0);
        std::iter::from_fn(move || {
            if mini == minis {
                return None;
            }
            let (first, width) = (mini, self.widths[mini]);
            while mini < minis && self.widths[mini] == width {
                mini += 1;
            }
            let first_row = first * MINI_LEN;
            let run = Run {
                first_row,
                rows: self.rows.min(mini * MINI_LEN) - first_row,
                width,
                packed: &self.packed[at..],
            };
            at += packed_bytes(run.rows, width);
            Some(run)
        })
    }

    /// The codes of the rows that `mask` selects, of which there are as many as places: touches the widths and the
    /// lines of those codes.
    #[inline(always)]
    pub(crate) fn get_selected(self, mask: &Mask, out: &mut [u64]) {
        let mut places = out.iter_mut();
        let mut at = 0;
        // A mini-block is a word of a mask.
        for (&selected, &width) in mask.0.iter().zip(&self.widths) {
            let mut rest = selected;
            while rest != 0 {
                let row = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if let Some(place) = places.next() {
                    *place = Kernels::get(&self.packed[at..], width, row);
                }
            }
            at += MINI_LEN / 8 * usize::from(width);
        }
    }

    /// The code in row `row`; touches the widths and the code's own line.
    pub(crate) fn run_of(self, row: usize) -> Run<'a> {
        let mini = row / MINI_LEN;
        // All mini-blocks before the last are full.
        let at = MINI_LEN / 8
            * self.widths[..mini]
                .iter()
                .map(|&width| width as usize)
                .sum::<usize>();
        Run {
            first_row: mini * MINI_LEN,
            rows: mini_rows(self.rows, mini),
            width: self.widths[mini],
            packed: &self.packed[at..],
        }
    }
}
