//! Plain: values as they are, any type.
//!
//! ```text
//! chunk with a NULL           chunk without
//! ┌────────────┬────────┐     ┌────────┐     validity: bit i is 1 where row i has a value,
//! │ validity   │ values │     │ values │               always 128 bytes
//! └────────────┴────────┘     └────────┘     values:   ordinals at the type's own width (1, 32 or 64
//!                                                      bits), or 16-byte two's complement
//! ```
//!
//! Ordinals at the type's width are codes of base 0, so every kernel works on them. What a NULL row
//! holds is of no meaning. Strings have a file of their own, `plain_strings`.

use crate::bits::{BLOCK_LEN, Mask};
use crate::block::OrdinalBlock;

/// Bytes of a block's validity bitmap, whatever its rows.
pub(crate) const BITMAP_BYTES: usize = BLOCK_LEN / 8;
/// Bytes of a wide DECIMAL.
pub(crate) const WIDE_BYTES: usize = 16;

/// Writes the validity bitmap of a block's rows.
pub(crate) fn write_validity(block: &OrdinalBlock, out: &mut [u8]) {
    let mut valid = block.nulls.not();
    valid.and(&Mask::first(block.rows));
    for (bytes, word) in out.chunks_exact_mut(8).zip(valid.0) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The rows that have a value.
pub(crate) fn read_validity(bitmap: &[u8; BITMAP_BYTES]) -> Mask {
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

/// The wide DECIMAL in row `row` of a block's values.
///
/// # Panics
/// If the row lies outside `values`.
#[inline]
pub(crate) fn read_wide(values: &[u8], row: usize) -> i128 {
    let bytes = &values[row * WIDE_BYTES..][..WIDE_BYTES];
    i128::from_le_bytes(bytes.try_into().expect("sliced to 16 bytes"))
}
