//! One cell of a chunk, as it lies there.

use crate::encoding::CodedText;

/// A cell read from a chunk; strings are borrowed from the chunk or its dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// Of any type that maps to an ordinal.
    Ordinal(u64),
    /// A DECIMAL beyond 18 digits, unscaled.
    Wide(i128),
    /// A string's bytes. From an unverified chunk they may be anything; [`crate::ColumnReader`]
    /// checks them before they become a string.
    Bytes(&'a [u8]),
    /// A string that is to be decoded; what holds of [`Cell::Bytes`] holds of its bytes.
    Coded(CodedText<'a>),
}

const _: () = assert!(size_of::<Cell<'_>>() == 32);
