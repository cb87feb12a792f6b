//! Frame of reference: `code = ordinal - least ordinal of the block`, a width for each block.
//!
//! ```text
//! ┌───────────────────────────────┐   base  = least, one lower in a chunk with a NULL
//! │ codes, `width` bits each      │   width = what greatest - base needs, in the directory
//! └───────────────────────────────┘
//! ```
//!
//! The directory's least value doubles as base, so a block of equal values takes no bytes at all.

use crate::bits::width_of;
use crate::block::Summary;

/// The width of codes from `summary`'s least value on. `None` if a chunk with a NULL has no code
/// left for it: values that span all 2^64 ordinals can only be stored plain.
pub(crate) fn width(summary: Summary, null_codes: u64) -> Option<u8> {
    if summary.min > summary.max {
        return Some(0);
    }
    Some(width_of(
        (summary.max - summary.min).checked_add(null_codes)?,
    ))
}

/// The base of a block that has its own: its least value, one lower where code 0 is NULL.
#[inline]
pub(crate) fn base(summary: Summary, null_codes: u64) -> u64 {
    if summary.min > summary.max {
        0
    } else {
        summary.min.wrapping_sub(null_codes)
    }
}
