//! Dictionary: codes of one generation of the column's dictionary, one width for the chunk.
//!
//! ```text
//! ┌───────────────────────────────┐   stored = code, one higher in a chunk with a NULL
//! │ stored codes, `width` bits    │   width, generation: in the descriptor
//! └───────────────────────────────┘
//! ```
//!
//! This is static packing with the codes as ordinals and the base -`null_codes`: the same kernels,
//! the same random access. A code beyond the dictionary can only be corruption; readers check.

use crate::bits::width_of;
use crate::block::Summary;

/// Base (modulo 2^64) and width of the stored codes.
pub(crate) fn base_and_width(codes: Summary, null_codes: u64) -> (u64, u8) {
    let base = 0_u64.wrapping_sub(null_codes);
    if codes.min > codes.max {
        return (base, 0);
    }
    // Codes are 32 bits: one more cannot overflow.
    (base, width_of(codes.max + null_codes))
}
