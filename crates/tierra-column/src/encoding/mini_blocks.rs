//! Blocks whose mini-blocks have widths of their own: what both dynamic encodings share.
//!
//! ```text
//! 0                      1024 / n
//! ┌──────────────────────┬──────────────┬──────────────┬───┐   n: values in a mini-block, 64 or 128
//! │ widths, u8 each      │ mini-block 0 │ mini-block 1 │...│   width i: 0 to 64, 0 beyond the last row
//! └──────────────────────┴──────────────┴──────────────┴───┘   base: as frame of reference
//! ```
//!
//! Neighbours of one width are one packed run to the kernels: 64 values of any width end on a whole byte.

use std::ops::Range;

use crate::bits::{BLOCK_LEN, Kernels, MAX_WIDTH, Mask, packed_bytes, width_of};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::EncodeError;
use crate::encoding::format::{BlockPlan, Plan, PlannedBlock, Writer};
use crate::encoding::frame_of_reference;
use crate::encoding::mini_len::MiniLen;
use crate::encoding::values::{ChunkValues, Sample};
use crate::error::FormatError;

/// The most mini-blocks of a block.
const MINI_BLOCKS_MAX: usize = BLOCK_LEN / 64;

/// The widths of a block's mini-blocks, 0 where there is none.
type Widths = [u8; MINI_BLOCKS_MAX];

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
fn fits(values: &ChunkValues) -> bool {
    let mut summaries = values.summaries.iter();
    summaries.all(|&summary| frame_of_reference::width(summary, values.null_codes).is_some())
}

pub(crate) fn estimate(len: MiniLen, values: &ChunkValues, sample: &Sample) -> Option<f64> {
    let mut codes = Box::new([0; BLOCK_LEN]);
    let block_bytes = |summary: &Summary, block: &OrdinalBlock| {
        Some(len_bytes(
            len,
            block,
            *summary,
            values.null_codes,
            &mut codes,
        ))
    };
    sample.bytes(block_bytes).filter(|_| fits(values))
}

pub(crate) fn plan(len: MiniLen, values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    if !fits(values) {
        return Ok(None);
    }
    let kernels = Kernels::best();
    let mut ordinals = OrdinalBlock::new();
    let mut codes = Box::new([0; BLOCK_LEN]);
    let block = |(block, &summary): (usize, &Summary)| {
        let null_codes = values.null_codes;
        let bytes = match values.source.integers(block) {
            Some(integers) if null_codes == 0 => {
                let mut widths = [0; MINI_BLOCKS_MAX];
                let base = frame_of_reference::base(summary, null_codes);
                integers.mini_widths(kernels, base, len.values(), &mut widths);
                block_bytes(len, &widths, values.block_rows(block))
            }
            _ => {
                values.source.fill(block, &mut ordinals);
                len_bytes(len, &ordinals, summary, null_codes, &mut codes)
            }
        };
        BlockPlan {
            summary,
            width: 0,
            len_bytes: bytes,
        }
    };
    let blocks = values.summaries.iter().enumerate().map(block).collect();
    Ok(Some(Plan::of_blocks(blocks)))
}

/// Bytes of a block.
fn len_bytes(
    len: MiniLen,
    block: &OrdinalBlock,
    summary: Summary,
    null_codes: u64,
    codes: &mut [u64; BLOCK_LEN],
) -> usize {
    block.codes(frame_of_reference::base(summary, null_codes), codes);
    block_bytes(len, &widths(len, &codes[..block.rows]), block.rows)
}

/// The width of every mini-block of `codes`.
fn widths(len: MiniLen, codes: &[u64]) -> Widths {
    let mut widths = [0; MINI_BLOCKS_MAX];
    for (width, codes) in widths.iter_mut().zip(codes.chunks(len.values())) {
        *width = width_of(codes.iter().fold(0, |bits, code| bits | code));
    }
    widths
}

/// Bytes of a block of `rows` rows with these widths.
fn block_bytes(len: MiniLen, widths: &Widths, rows: usize) -> usize {
    let packed: usize = widths
        .iter()
        .enumerate()
        .map(|(mini, &width)| packed_bytes(len.rows(rows, mini), width))
        .sum();
    len.header_bytes() + packed
}

pub(crate) fn write(len: MiniLen, writer: &mut Writer<'_>, target: &PlannedBlock, out: &mut [u8]) {
    let kernels = writer.kernels;
    let (header, mut out) = out.split_at_mut(len.header_bytes());
    match writer.source.integers(target.block) {
        Some(integers) if target.null_codes == 0 => {
            header.fill(0);
            integers.mini_widths(kernels, target.base, len.values(), header);
            let minis = integers.rows().div_ceil(len.values());
            for run in alike(&header[..minis]) {
                let width = header[run.start];
                let integers = integers.part(run.start * len.values()..run.end * len.values());
                let here = packed_bytes(integers.rows(), width);
                integers.pack(kernels, target.base, width, out);
                out = &mut out[here..];
            }
        }
        _ => {
            let codes = writer.codes(target);
            let widths = widths(len, codes);
            header.copy_from_slice(&widths[..header.len()]);
            let minis = codes.len().div_ceil(len.values());
            for run in alike(&widths[..minis]) {
                let width = widths[run.start];
                let codes = &codes[run.start * len.values()..];
                let codes = &codes[..codes.len().min(run.len() * len.values())];
                let here = packed_bytes(codes.len(), width);
                kernels.pack(codes, width, out);
                out = &mut out[here..];
            }
        }
    }
}

/// Longest runs of mini-blocks of one width, in order: they are packed and unpacked together.
fn alike(widths: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut mini = 0;
    std::iter::from_fn(move || {
        let width = *widths.get(mini)?;
        let first = mini;
        while widths.get(mini) == Some(&width) {
            mini += 1;
        }
        Some(first..mini)
    })
}

/// The mini-blocks of a block, checked: every run's codes lie inside the block.
#[derive(Clone, Copy)]
pub(crate) struct MiniBlocks<'a> {
    /// As they were checked, whatever becomes of the block meanwhile.
    widths: Widths,
    len: MiniLen,
    rows: usize,
    /// From the first mini-block on, with the pad.
    packed: &'a [u8],
}

impl<'a> MiniBlocks<'a> {
    /// `bytes` is the block of `len_bytes` bytes and what follows it, at least the pad.
    pub(crate) fn new(
        len: MiniLen,
        bytes: &'a [u8],
        len_bytes: usize,
        rows: usize,
    ) -> Result<MiniBlocks<'a>, FormatError> {
        let corrupt = |why: &str| FormatError::corrupt("a block of mini-blocks", why);
        let (header, packed) = bytes
            .split_at_checked(len.header_bytes())
            .ok_or_else(|| corrupt("its widths are missing"))?;
        let mut widths = [0; MINI_BLOCKS_MAX];
        widths[..header.len()].copy_from_slice(header);
        if widths.iter().any(|&width| width > MAX_WIDTH) {
            return Err(corrupt("a width passes 64 bits"));
        }
        if block_bytes(len, &widths, rows) != len_bytes {
            return Err(corrupt("its widths do not add up to its length"));
        }
        Ok(MiniBlocks {
            widths,
            len,
            rows,
            packed,
        })
    }

    /// Longest runs of one width, in order.
    pub(crate) fn runs(self) -> impl Iterator<Item = Run<'a>> {
        let minis = self.rows.div_ceil(self.len.values());
        let (mut mini, mut at) = (0, 0);
        std::iter::from_fn(move || {
            if mini == minis {
                return None;
            }
            let (first, width) = (mini, self.widths[mini]);
            while mini < minis && self.widths[mini] == width {
                mini += 1;
            }
            let first_row = first * self.len.values();
            let run = Run {
                first_row,
                rows: self.rows.min(mini * self.len.values()) - first_row,
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
        // A mini-block is one or two words of a mask.
        let words_per_mini = self.len.values() / 64;
        for (words, &width) in mask.0.chunks(words_per_mini).zip(&self.widths) {
            for (word, &selected) in words.iter().enumerate() {
                let mut rest = selected;
                while rest != 0 {
                    let row = word * 64 + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if let Some(place) = places.next() {
                        *place = Kernels::get(&self.packed[at..], width, row);
                    }
                }
            }
            at += self.len.full_bytes(width);
        }
    }

    /// The code in row `row`; touches the widths and the code's own line.
    pub(crate) fn run_of(self, row: usize) -> Run<'a> {
        let mini = row / self.len.values();
        // All mini-blocks before the last are full.
        let widths = self.widths[..mini].iter().map(|&width| width as usize);
        let at = self.len.full_bytes(1) * widths.sum::<usize>();
        Run {
            first_row: mini * self.len.values(),
            rows: self.len.rows(self.rows, mini),
            width: self.widths[mini],
            packed: &self.packed[at..],
        }
    }
}
