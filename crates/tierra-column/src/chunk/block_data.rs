//! What a block holds, taken apart but not decoded.

use crate::bits::{BLOCK_LEN, CodeBits, Kernels, Mask};
use crate::chunk::Chunk;
use crate::chunk::layout::BlockEntry;
use crate::encoding::coded_strings::CodedStrings;
use crate::encoding::coding::Coding;
use crate::encoding::compressed::{Codec, Compressed};
use crate::encoding::delta::{self, Frame};
use crate::encoding::fastpfor::Patched;
use crate::encoding::format::BlockKind;
use crate::encoding::mini_blocks::{MiniBlocks, Run};
use crate::encoding::plain_strings::Strings;
use crate::encoding::plain_wide::WIDE_BYTES;
use crate::encoding::rle::Runs;
use crate::encoding::validity::{self, BITMAP_BYTES};
use crate::error::FormatError;

/// A block ready to be read.
#[derive(Clone, Copy)]
pub(crate) struct BlockData<'a> {
    pub(crate) entry: BlockEntry,
    pub(crate) rows: usize,
    /// `code = ordinal - base` for codes of one base.
    pub(crate) base: u64,
    /// 1 where code 0 is NULL.
    pub(crate) null_codes: u64,
    /// Plain chunks with NULLs.
    pub(crate) validity: Option<&'a [u8; BITMAP_BYTES]>,
    pub(crate) payload: Payload<'a>,
}

/// A block's values in their format: one for each [`BlockKind`].
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// Codes of one width.
    Packed(Run<'a>),
    /// Codes with a width per mini-block.
    MiniBlocks(MiniBlocks<'a>),
    /// Runs of equal codes.
    Runs(Runs<'a>),
    /// Codes whose high bits may lie apart.
    Patched(Patched<'a>),
    /// Values compressed as bytes.
    Compressed(Compressed<'a>),
    /// Differences.
    Differences(Frame, Run<'a>),
    /// 16 bytes each.
    Wide(&'a [u8]),
    Strings(Strings<'a>),
    /// Strings that are not stored as they are.
    Coded(CodedStrings<'a>),
}

impl<'a> Chunk<'a> {
    pub(crate) fn block(&self, block: usize) -> Result<BlockData<'a>, FormatError> {
        let entry = self.entry(block);
        let rows = self.block_rows(block);
        let descriptor = &self.descriptor;
        let bytes = self.block_and_beyond(&entry);
        let len = entry.len_bytes as usize;
        let (validity, bytes, len) = match descriptor.bitmap_bytes() {
            0 => (None, bytes, len),
            // The directory was checked: the block is at least as long as its bitmap.
            _ => (
                bytes.first_chunk(),
                &bytes[BITMAP_BYTES..],
                len - BITMAP_BYTES,
            ),
        };
        let run = |packed| Run {
            first_row: 0,
            rows,
            width: entry.width,
            packed,
        };
        let compressed = |codec| {
            let width = descriptor.ty.natural_width();
            let bytes = &bytes[..len];
            Payload::Compressed(Compressed::new(codec, bytes, entry.width, width, rows))
        };
        let coded =
            |coding| CodedStrings::new(coding, bytes, len, rows, entry.width).map(Payload::Coded);
        let payload = match descriptor.kind {
            BlockKind::Packed => Payload::Packed(run(bytes)),
            BlockKind::MiniBlocks(minis) => {
                Payload::MiniBlocks(MiniBlocks::new(minis, bytes, len, rows)?)
            }
            BlockKind::Runs => Payload::Runs(Runs::new(bytes, len, rows, entry.width)?),
            BlockKind::Patched => {
                Payload::Patched(Patched::new(bytes, len, rows, entry.summary())?)
            }
            BlockKind::Lz4 => compressed(Codec::Lz4),
            BlockKind::Snappy => compressed(Codec::Snappy),
            BlockKind::Differences => {
                Payload::Differences(Frame::read(bytes), run(&bytes[delta::HEADER_BYTES..]))
            }
            BlockKind::Wide => Payload::Wide(&bytes[..rows * WIDE_BYTES]),
            BlockKind::Strings => Payload::Strings(Strings::new(bytes, len, rows, entry.width)),
            BlockKind::Front => coded(Coding::Front)?,
            BlockKind::Fsst => coded(Coding::Fsst)?,
            BlockKind::Prefix => coded(Coding::Prefix)?,
        };
        Ok(BlockData {
            base: descriptor.block_base(&entry),
            null_codes: descriptor.null_codes(),
            entry,
            rows,
            validity,
            payload,
        })
    }
}

impl<'a> BlockData<'a> {
    /// The same block with its values in other memory, as codes of base 0.
    pub(crate) fn packed<'b>(&self, width: u8, packed: &'b [u8]) -> BlockData<'b>
    where
        'a: 'b,
    {
        BlockData {
            base: 0,
            payload: Payload::Packed(Run {
                first_row: 0,
                rows: self.rows,
                width,
                packed,
            }),
            ..*self
        }
    }
}

impl BlockData<'_> {
    /// The rows of `among` that are NULL.
    pub(crate) fn nulls(&self, kernels: Kernels, among: &Mask) -> Mask {
        let mut nulls = Mask::none();
        if self.entry.null_count == 0 {
            return nulls;
        }
        nulls = *among;
        match (self.validity, self.payload) {
            (Some(validity), _) => nulls.and_not(&validity::read(validity)),
            (None, Payload::Differences(_, run)) => {
                kernels.select_between(run.packed, run.width, run.rows, 0, 0, &mut nulls);
            }
            (None, Payload::Packed(_) | Payload::MiniBlocks(_) | Payload::Runs(_)) => {
                self.codes_between(kernels, 0, 0, &mut nulls);
            }
            // Only a bitmap has them.
            (
                None,
                Payload::Patched(_)
                | Payload::Compressed(_)
                | Payload::Wide(_)
                | Payload::Strings(_)
                | Payload::Coded(_),
            ) => nulls = Mask::none(),
        }
        nulls
    }

    /// Whether row `row` is NULL.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        if self.entry.null_count == 0 {
            return false;
        }
        match (self.validity, self.payload) {
            (Some(validity), _) => !validity::is_valid(validity, row),
            (None, Payload::Packed(run) | Payload::Differences(_, run)) => {
                Kernels::get(run.packed, run.width, row) == 0
            }
            (None, Payload::MiniBlocks(minis)) => {
                let run = minis.run_of(row);
                Kernels::get(run.packed, run.width, row - run.first_row) == 0
            }
            (None, Payload::Runs(runs)) => runs.code(row) == 0,
            (
                None,
                Payload::Patched(_)
                | Payload::Compressed(_)
                | Payload::Wide(_)
                | Payload::Strings(_)
                | Payload::Coded(_),
            ) => false,
        }
    }

    /// Keeps the rows of `mask` whose code lies between two codes, both included.
    pub(crate) fn codes_between(&self, kernels: Kernels, low: u64, high: u64, mask: &mut Mask) {
        self.on_runs(kernels, mask, |run, mask| {
            kernels.select_between(run.packed, run.width, run.rows, low, high, mask);
        });
    }

    /// Keeps the rows of `mask` whose code's bit is set.
    pub(crate) fn codes_in(&self, kernels: Kernels, bitmap: &[u64], mask: &mut Mask) {
        self.on_runs(kernels, mask, |run, mask| {
            kernels.select_in(run.packed, run.width, run.rows, bitmap, mask);
        });
    }

    /// Keeps the rows of `mask` whose code lies in the stretch, and its bit is set.
    pub(crate) fn codes_in_bits(&self, kernels: Kernels, bits: CodeBits<'_>, mask: &mut Mask) {
        self.on_runs(kernels, mask, |run, mask| {
            kernels.select_in_bits(run.packed, run.width, run.rows, bits, mask);
        });
    }

    /// Narrows `mask` run by run; `narrow` sees each run's rows from 0 on.
    fn on_runs(
        &self,
        kernels: Kernels,
        mask: &mut Mask,
        mut narrow: impl FnMut(&Run<'_>, &mut Mask),
    ) {
        match self.payload {
            Payload::Packed(run) => narrow(&run, mask),
            Payload::MiniBlocks(minis) => {
                for run in minis.runs() {
                    // Runs begin on mini-blocks, which are words of a mask.
                    let (word, words) = (run.first_row / 64, run.rows.div_ceil(64));
                    let mut part = Mask::none();
                    part.0[..words].copy_from_slice(&mask.0[word..word + words]);
                    if part.any() {
                        narrow(&run, &mut part);
                        mask.0[word..word + words].copy_from_slice(&part.0[..words]);
                    }
                }
            }
            Payload::Runs(runs) => {
                // The codes of runs are a block of codes, each of which stands for all rows of its run.
                let (rows, width, packed) = runs.codes();
                let mut selected = Mask::first(rows);
                let codes = Run {
                    first_row: 0,
                    rows,
                    width,
                    packed,
                };
                narrow(&codes, &mut selected);
                mask.and(&runs.expand(kernels, &selected));
            }
            Payload::Patched(_)
            | Payload::Compressed(_)
            | Payload::Differences(..)
            | Payload::Wide(_)
            | Payload::Strings(_)
            | Payload::Coded(_) => {
                debug_assert!(false, "only codes are filtered as codes");
                *mask = Mask::none();
            }
        }
    }

    /// The ordinal of row `row`, which is not NULL, in a block that is read as a whole.
    pub(crate) fn ordinal(&self, row: usize) -> Result<u64, FormatError> {
        match self.payload {
            Payload::Runs(runs) => Ok(runs.code(row).wrapping_add(self.base)),
            Payload::Patched(patched) => Ok(patched.ordinal(row)),
            Payload::Compressed(compressed) => compressed.ordinal(row),
            Payload::Packed(_)
            | Payload::MiniBlocks(_)
            | Payload::Differences(..)
            | Payload::Wide(_)
            | Payload::Strings(_)
            | Payload::Coded(_) => Err(FormatError::corrupt(
                "a block",
                "it is not what its chunk's encoding says",
            )),
        }
    }

    /// The runs of codes of one base, in order; `false`, and none, where a block has no such codes.
    pub(crate) fn for_each_run(&self, mut visit: impl FnMut(Run<'_>)) -> bool {
        match self.payload {
            Payload::Packed(run) => visit(run),
            Payload::MiniBlocks(minis) => minis.runs().for_each(visit),
            Payload::Runs(_)
            | Payload::Patched(_)
            | Payload::Compressed(_)
            | Payload::Differences(..)
            | Payload::Wide(_)
            | Payload::Strings(_)
            | Payload::Coded(_) => return false,
        }
        true
    }

    /// Unpacks every code (every ordinal, where filters are not evaluated on codes) and returns the slice filled. NULL
    /// rows hold code 0; with differences or a bitmap anything.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] where a compressed block cannot be decompressed.
    pub(crate) fn unpack<'o>(
        &self,
        kernels: Kernels,
        out: &'o mut [u64; BLOCK_LEN],
    ) -> Result<&'o mut [u64], FormatError> {
        let out = &mut out[..self.rows];
        match self.payload {
            Payload::Packed(run) => kernels.unpack_u64(run.packed, run.width, out),
            Payload::MiniBlocks(minis) => {
                for run in minis.runs() {
                    let rows = run.first_row..run.first_row + run.rows;
                    kernels.unpack_u64(run.packed, run.width, &mut out[rows]);
                }
            }
            Payload::Differences(frame, run) => {
                kernels.unpack_u64(run.packed, run.width, out);
                frame.decode(self.null_codes, out);
            }
            Payload::Runs(runs) => runs.unpack(kernels, out),
            Payload::Patched(patched) => patched.unpack(kernels, out),
            Payload::Compressed(compressed) => compressed.unpack(kernels, out)?,
            Payload::Wide(_) | Payload::Strings(_) | Payload::Coded(_) => {
                debug_assert!(false, "only codes are unpacked");
                out.fill(0);
            }
        }
        Ok(out)
    }
}
