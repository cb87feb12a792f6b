//! Static bit packing: `code = ordinal - least ordinal of the chunk`, one width for the chunk.
//!
//! ```text
//! ┌───────────────────────────────┐   base and width: in the descriptor
//! │ codes, `width` bits each      │
//! └───────────────────────────────┘
//! ```
//!
//! All blocks have the same length, so row `i` is found without reading the directory: the
//! encoding for columns that are looked up at random.

use crate::block::Summary;
use crate::encoding::frame_of_reference;

/// Base and width for values of `total`; `None` as [`frame_of_reference::width`].
pub(crate) fn base_and_width(total: Summary, null_codes: u64) -> Option<(u64, u8)> {
    let width = frame_of_reference::width(total, null_codes)?;
    Some((frame_of_reference::base(total, null_codes), width))
}
