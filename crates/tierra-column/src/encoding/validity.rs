//! Which rows of a plain block have a value.
//!
//! Invariant: the bitmap has 128 bytes whatever the block's rows; bit i is 1 where row i has a value.

use crate::bits::{BLOCK_LEN, Mask};
use crate::block::OrdinalBlock;
use crate::encoding::format::{PlannedBlock, Writer};

/// Bytes of a block's validity bitmap, whatever its rows.
pub(crate) const BITMAP_BYTES: usize = BLOCK_LEN / 8;

/// Writes the validity bitmap of a block's rows.
pub(crate) fn write(block: &OrdinalBlock, out: &mut [u8]) {
    let mut valid = block.nulls.not();
    valid.and(&Mask::first(block.rows));
    for (bytes, word) in out.chunks_exact_mut(8).zip(valid.0) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The rows that have a value.
pub(crate) fn read(bitmap: &[u8; BITMAP_BYTES]) -> Mask {
    let mut mask = Mask::none();
    for (word, bytes) in mask.0.iter_mut().zip(bitmap.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    mask
}

/// Whether `row` has a value.
#[inline]
pub(crate) fn is_valid(bitmap: &[u8; BITMAP_BYTES], row: usize) -> bool {
    bitmap[row / 8] >> (row % 8) & 1 == 1
}

/// Writes a block's validity bitmap, if the chunk has them, and returns the bytes behind it.
pub(crate) fn split<'o>(
    writer: &mut Writer<'_>,
    target: &PlannedBlock,
    out: &'o mut [u8],
) -> &'o mut [u8] {
    let (bitmap, rest) = out.split_at_mut(target.bitmap_bytes);
    if !bitmap.is_empty() {
        writer
            .source
            .arrays()
            .nulls(target.block, &mut writer.block);
        write(&writer.block, bitmap);
    }
    rest
}
