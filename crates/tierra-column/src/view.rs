//! Arrow's string views: 16 bytes that hold a short string, or the length, prefix and place of a long one.

use arrow::array::MAX_INLINE_VIEW_LEN;

/// Strings of up to this many bytes live in their view.
pub(crate) const INLINE_BYTES: usize = MAX_INLINE_VIEW_LEN as usize;
