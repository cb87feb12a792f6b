//! Frame of reference: `code = ordinal - least ordinal of the block`, a width for each block.
//!
//! ```text
//! ┌───────────────────────────────┐   base  = least, one lower in a chunk with a NULL
//! │ codes, `width` bits each      │   width = what greatest - base needs, in the directory
//! └───────────────────────────────┘
//! ```
//!
//! The directory's least value doubles as base, so a block of equal values takes no bytes at all.

use crate::block::Summary;
use crate::encoding::width_of;

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
