//! FastPFOR: a width for most values of each mini-block of 128, and the high bits of the exceptions apart.
//!
//! ```text
//! 0            8             16                24
//! ┌────────────┬─────────────┬─────────────────┬──────────────┬───┬───────────────────┬────────────┐
//! │ 8 widths,  │ exceptions, │ widths of high  │ low bits of  │...│ rows of exceptions│ high bits  │
//! │ u8         │ u8          │ bits, u8        │ mini-block 0 │   │ in mini-blocks, u8│ of these   │
//! └────────────┴─────────────┴─────────────────┴──────────────┴───┴───────────────────┴────────────┘
//! ```
//!
//! Codes are `ordinal - least ordinal of the block`. The width of a mini-block is the one with the fewest bits, where an
//! exception costs 8 for its row and as many as the greatest exception for its high part, as in the paper (Lemire and Boytsov,
//! 2015). The high bits of each mini-block begin on a byte. NULLs are in a validity bitmap. Filters decode; a row costs the
//! header, its code, and its mini-block's exceptions.

use crate::bits::{BLOCK_LEN, Kernels, MAX_WIDTH, packed_bytes, width_of};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::EncodeError;
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan};
use crate::encoding::frame_of_reference;
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "fastpfor",
    aliases: &["pfor"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Patched),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.15,
    read_cost: ReadCost::of_lines(0.51, 87.0, 3.1),
    estimate,
    plan,
    write: encoded::write,
};

/// Values in a mini-block.
const MINI_LEN: usize = 128;
const MINI_BLOCKS: usize = BLOCK_LEN / MINI_LEN;
/// Bytes before the low bits.
pub(crate) const HEADER_BYTES: usize = 3 * MINI_BLOCKS;
/// Bits of an exception's row.
const ROW_BITS: usize = 8;

/// How the mini-blocks of a block are packed.
#[derive(Clone, Copy)]
struct Shape {
    widths: [u8; MINI_BLOCKS],
    exceptions: [u8; MINI_BLOCKS],
    high_widths: [u8; MINI_BLOCKS],
}

fn mini_rows(rows: usize, mini: usize) -> usize {
    rows.saturating_sub(mini * MINI_LEN).min(MINI_LEN)
}

impl Shape {
    const EMPTY: Shape = Shape {
        widths: [0; MINI_BLOCKS],
        exceptions: [0; MINI_BLOCKS],
        high_widths: [0; MINI_BLOCKS],
    };

    /// The one with the fewest bits.
    fn of(codes: &[u64]) -> Shape {
        let mut shape = Shape::EMPTY;
        for (mini, codes) in codes.chunks(MINI_LEN).enumerate() {
            // How many codes have each width.
            let mut have = [0_u8; MAX_WIDTH as usize + 1];
            for &code in codes {
                have[usize::from(width_of(code))] += 1;
            }
            let greatest = width_of(codes.iter().fold(0, |bits, code| bits | code));
            let (mut best, mut least_bits) = ((greatest, 0), codes.len() * usize::from(greatest));
            let mut exceptions = 0;
            for width in (0..greatest).rev() {
                exceptions += usize::from(have[usize::from(width) + 1]);
                let high = usize::from(greatest - width);
                let bits = codes.len() * usize::from(width) + exceptions * (ROW_BITS + high);
                if bits < least_bits {
                    (best, least_bits) = ((width, exceptions), bits);
                }
            }
            shape.widths[mini] = best.0;
            shape.exceptions[mini] = best.1 as u8;
            shape.high_widths[mini] = if best.1 > 0 { greatest - best.0 } else { 0 };
        }
        shape
    }

    /// Bytes of the low bits of the mini-blocks before `mini`.
    fn low_bytes(&self, rows: usize, mini: usize) -> usize {
        let minis = self.widths[..mini].iter().enumerate();
        minis
            .map(|(mini, &width)| packed_bytes(mini_rows(rows, mini), width))
            .sum()
    }

    /// Exceptions of the mini-blocks before `mini`.
    fn exceptions(&self, mini: usize) -> usize {
        self.exceptions[..mini].iter().map(|&it| it as usize).sum()
    }

    /// Bytes of the high bits of the mini-blocks before `mini`.
    fn high_bytes(&self, mini: usize) -> usize {
        let minis = self.exceptions[..mini].iter().zip(&self.high_widths);
        minis
            .map(|(&exceptions, &width)| packed_bytes(exceptions.into(), width))
            .sum()
    }

    fn len_bytes(&self, rows: usize) -> usize {
        HEADER_BYTES
            + self.low_bytes(rows, MINI_BLOCKS)
            + self.exceptions(MINI_BLOCKS)
            + self.high_bytes(MINI_BLOCKS)
    }
}

/// `ordinal - base` of a block; a NULL row has the ordinal of another.
fn codes<'c>(block: &OrdinalBlock, summary: Summary, codes: &'c mut [u64; BLOCK_LEN]) -> &'c [u64] {
    block.codes(base(summary), codes);
    &codes[..block.rows]
}

fn base(summary: Summary) -> u64 {
    frame_of_reference::base(summary, 0)
}

fn estimate(values: &ChunkValues, sample: &Sample) -> Option<f64> {
    let mut buffer = Box::new([0; BLOCK_LEN]);
    let bitmap = match values.null_codes {
        0 => 0,
        _ => crate::encoding::validity::BITMAP_BYTES,
    };
    sample.bytes(|&summary, block| {
        let shape = Shape::of(codes(block, summary, &mut buffer));
        Some(bitmap + shape.len_bytes(block.rows))
    })
}

fn plan(values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    let kernels = Kernels::best();
    let mut buffer = Box::new([0; BLOCK_LEN]);
    let encode = |block: &OrdinalBlock, summary: Summary, out: &mut Vec<u8>| {
        let codes = codes(block, summary, &mut buffer);
        let shape = Shape::of(codes);
        for header in [shape.widths, shape.exceptions, shape.high_widths] {
            out.extend_from_slice(&header);
        }
        for (codes, &width) in codes.chunks(MINI_LEN).zip(&shape.widths) {
            encoded::append_packed(kernels, codes, width, out);
        }
        let mut high = Vec::with_capacity(shape.exceptions(MINI_BLOCKS));
        for (codes, &width) in codes.chunks(MINI_LEN).zip(&shape.widths) {
            for (row, &code) in codes.iter().enumerate() {
                if width_of(code) > width {
                    out.push(row as u8);
                    high.push(code >> width);
                }
            }
        }
        let mut high = &high[..];
        for (&exceptions, &width) in shape.exceptions.iter().zip(&shape.high_widths) {
            let (here, rest) = high.split_at(exceptions.into());
            encoded::append_packed(kernels, here, width, out);
            high = rest;
        }
        0
    };
    Ok(Some(encoded::plan(values, encode)))
}

/// The parts of a block, checked: all of them lie inside the block, and high bits have places above the low ones.
#[derive(Clone, Copy)]
pub(crate) struct Patched<'a> {
    /// As it was checked, whatever becomes of the block meanwhile.
    shape: Shape,
    rows: usize,
    base: u64,
    /// From the low bits on, with the pad.
    bytes: &'a [u8],
}

impl<'a> Patched<'a> {
    /// `bytes` is the block of `len` bytes and what follows it, at least the pad.
    pub(crate) fn new(
        bytes: &'a [u8],
        len: usize,
        rows: usize,
        summary: Summary,
    ) -> Result<Patched<'a>, FormatError> {
        let corrupt = |why: &str| FormatError::corrupt("a block with exceptions", why);
        let (header, bytes) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(|| corrupt("its header is missing"))?;
        let mut shape = Shape::EMPTY;
        for mini in 0..MINI_BLOCKS {
            let (width, exceptions, high_width) = (
                header[mini],
                header[MINI_BLOCKS + mini],
                header[2 * MINI_BLOCKS + mini],
            );
            if width > MAX_WIDTH || high_width > MAX_WIDTH - width {
                return Err(corrupt("a width passes 64 bits"));
            }
            if usize::from(exceptions) > mini_rows(rows, mini) {
                return Err(corrupt("a mini-block has more exceptions than rows"));
            }
            shape.widths[mini] = width;
            shape.exceptions[mini] = exceptions;
            shape.high_widths[mini] = high_width;
        }
        if shape.len_bytes(rows) != len {
            return Err(corrupt("its parts do not add up to its length"));
        }
        Ok(Patched {
            shape,
            rows,
            base: base(summary),
            bytes,
        })
    }

    /// Where the rows of exceptions begin, and where the high bits do.
    fn exceptions_at(&self) -> (usize, usize) {
        let rows = self.shape.low_bytes(self.rows, MINI_BLOCKS);
        (rows, rows + self.shape.exceptions(MINI_BLOCKS))
    }

    /// The ordinal of every row.
    pub(crate) fn unpack(&self, kernels: Kernels, out: &mut [u64]) {
        let shape = &self.shape;
        let mut low = self.bytes;
        // Neighbours of one width are one run of codes.
        let (mut mini, minis) = (0, self.rows.div_ceil(MINI_LEN));
        while mini < minis {
            let (first, width) = (mini, shape.widths[mini]);
            while mini < minis && shape.widths[mini] == width {
                mini += 1;
            }
            let rows = first * MINI_LEN..self.rows.min(mini * MINI_LEN);
            let len_bytes = packed_bytes(rows.len(), width);
            kernels.unpack_u64(low, width, &mut out[rows]);
            low = &low[len_bytes..];
        }
        let (rows_at, high_at) = self.exceptions_at();
        let (mut rows, mut high) = (&self.bytes[rows_at..high_at], &self.bytes[high_at..]);
        let mut parts = [0; MINI_LEN];
        for (mini, out) in out.chunks_mut(MINI_LEN).enumerate() {
            let (count, width) = (usize::from(shape.exceptions[mini]), shape.high_widths[mini]);
            if count == 0 {
                continue;
            }
            let parts = &mut parts[..count];
            kernels.unpack_u64(high, width, parts);
            high = &high[packed_bytes(count, width)..];
            let (here, rest) = rows.split_at(count);
            rows = rest;
            for (&row, &part) in here.iter().zip(parts.iter()) {
                // Whatever row is stored; a width of 64 leaves no high bits.
                if let Some(code) = out.get_mut(usize::from(row)) {
                    *code |= part.checked_shl(shape.widths[mini].into()).unwrap_or(0);
                }
            }
        }
        kernels.compiled(|| {
            for code in out.iter_mut() {
                *code = code.wrapping_add(self.base);
            }
        });
    }

    /// The ordinal of row `row`.
    pub(crate) fn ordinal(&self, row: usize) -> u64 {
        let (mini, row) = (row / MINI_LEN, row % MINI_LEN);
        let shape = &self.shape;
        let width = shape.widths[mini];
        let low = &self.bytes[shape.low_bytes(self.rows, mini)..];
        let mut code = Kernels::get(low, width, row);
        let (rows_at, high_at) = self.exceptions_at();
        let rows = &self.bytes[rows_at + shape.exceptions(mini)..];
        let rows = &rows[..usize::from(shape.exceptions[mini])];
        if let Some(exception) = rows.iter().position(|&it| usize::from(it) == row) {
            let high = &self.bytes[high_at + shape.high_bytes(mini)..];
            let part = Kernels::get(high, shape.high_widths[mini], exception);
            code |= part.checked_shl(width.into()).unwrap_or(0);
        }
        code.wrapping_add(self.base)
    }
}
