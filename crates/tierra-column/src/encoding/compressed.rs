//! Blocks compressed as bytes, for cold chunks: what the LZ4 encodings and Snappy share.
//!
//! ```text
//! ┌───────────────────────────────────────────┐   values: ordinals at the type's own width, as a plain block has them
//! │ the values' bytes, compressed; as they    │   what a NULL row holds is of no meaning
//! │ are where that takes no fewer             │   width, in the directory: 0, or that of values as they are
//! └───────────────────────────────────────────┘
//! ```
//!
//! A block is decompressed as a whole, also for one row.
//!
//! Invariant: decompressing fails on bytes that do not become exactly the values' length.

use crate::bits::{BLOCK_LEN, Kernels, PAD_BYTES, packed_bytes};
use crate::block::OrdinalBlock;
use crate::encoding::format::Plan;
use crate::encoding::values::ChunkValues;
use crate::encoding::{encoded, lz4, snappy};
use crate::error::FormatError;

/// By what blocks are decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Lz4,
    Snappy,
}

/// Values of a block, decompressed, and a pad.
pub(crate) type Place = [u8; BLOCK_LEN * 8 + PAD_BYTES];

/// Compresses every block by `compress`, which says how many bytes of its output it wrote; `None` if they do not fit.
pub(crate) fn plan(
    values: &ChunkValues,
    mut compress: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
) -> Plan {
    let (kernels, width) = (Kernels::best(), values.ty.natural_width());
    let mut plain = vec![0; BLOCK_LEN * 8];
    encoded::plan(values, |block: &OrdinalBlock, _, out| {
        let plain = &mut plain[..packed_bytes(block.rows, width)];
        kernels.pack(block.values(), width, plain);
        let start = out.len();
        out.resize(start + plain.len(), 0);
        let place = &mut out[start..];
        match compress(plain, place) {
            Some(len) => {
                out.truncate(start + len);
                0
            }
            None => {
                place.copy_from_slice(plain);
                width
            }
        }
    })
}

/// A block as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Compressed<'a> {
    codec: Codec,
    bytes: &'a [u8],
    is_compressed: bool,
    /// Of the values.
    width: u8,
    rows: usize,
}

impl<'a> Compressed<'a> {
    /// Where a block is decompressed to.
    pub(crate) const PLACE: Place = [0; BLOCK_LEN * 8 + PAD_BYTES];

    /// `bytes` is the block alone. Its entry's width, if it has one, was checked to be the values' and to fit its length.
    pub(crate) fn new(
        codec: Codec,
        bytes: &'a [u8],
        entry_width: u8,
        width: u8,
        rows: usize,
    ) -> Compressed<'a> {
        Compressed {
            codec,
            bytes,
            is_compressed: entry_width == 0,
            width,
            rows,
        }
    }

    /// The width of the values, which are codes of base 0.
    pub(crate) fn width(&self) -> u8 {
        self.width
    }

    /// The values as a packed block, with its pad.
    pub(crate) fn decompress<'o>(&self, out: &'o mut Place) -> Result<&'o [u8], FormatError> {
        let len = packed_bytes(self.rows, self.width);
        let done = match self.codec {
            _ if !self.is_compressed => {
                out[..len].copy_from_slice(&self.bytes[..len]);
                Some(len)
            }
            Codec::Lz4 => lz4::decompress(self.bytes, &mut out[..len]),
            Codec::Snappy => snappy::decompress(self.bytes, &mut out[..len]),
        };
        done.filter(|&written| written == len).ok_or_else(|| {
            FormatError::corrupt("a compressed block", "it does not become its values")
        })?;
        Ok(&out[..len + PAD_BYTES])
    }

    /// The ordinal of every row.
    pub(crate) fn unpack(&self, kernels: Kernels, out: &mut [u64]) -> Result<(), FormatError> {
        let mut plain = Self::PLACE;
        kernels.unpack_u64(self.decompress(&mut plain)?, self.width, out);
        Ok(())
    }

    /// The ordinal of row `row`.
    pub(crate) fn ordinal(&self, row: usize) -> Result<u64, FormatError> {
        let mut plain = Self::PLACE;
        Ok(Kernels::get(self.decompress(&mut plain)?, self.width, row))
    }
}
