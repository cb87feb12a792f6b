//! The physical formats a chunk can have.
//!
//! All of them store a value's *ordinal* ([`crate::ordinal`]), so they know no SQL type. The packed
//! ones store codes, `code = ordinal - base`, of some width in bits; they differ in how often base
//! and width change:
//!
//! | encoding            | base      | width          | one value costs                        |
//! |---------------------|-----------|----------------|----------------------------------------|
//! | [`plain`]           | 0         | the type's own | a line (with NULLs two)                |
//! | [`static_packing`]  | per chunk | per chunk      | a line                                 |
//! | [`frame_of_reference`] | per block | per block   | a line and the block's directory entry |
//! | [`dynamic`]         | per block | per mini-block | the same and the block's width bytes   |
//! | [`delta`]           | per block | per block      | its block up to there                  |
//! | [`dictionary`]      | 0         | per chunk      | a line and the dictionary's            |
//!
//! In a packed chunk that holds a NULL anywhere code 0 *is* NULL, and its bases are one lower to
//! make room. Plain chunks keep a validity bitmap at the head of each block instead.

pub(crate) mod delta;
pub(crate) mod dictionary;
pub(crate) mod dynamic;
pub(crate) mod frame_of_reference;
pub(crate) mod plain;
pub(crate) mod plain_strings;
pub(crate) mod static_packing;

use std::fmt;
use std::str::FromStr;

use crate::logical_type::{LogicalType, Physical};

/// A chunk's physical format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Values as they are, at the type's own width; any type.
    Plain,
    /// One base and one width for the chunk: the fastest random access.
    Static,
    /// A width for each mini-block of 64 values: outliers cost only their neighbours.
    Dynamic,
    /// A base and a width for each block of 1,024 values.
    FrameOfReference,
    /// Differences of neighbours: for sorted values. Filters decode it.
    Delta,
    /// Codes of the column's dictionary.
    Dictionary,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Encoding; 6] = [
        Encoding::Plain,
        Encoding::Static,
        Encoding::Dynamic,
        Encoding::FrameOfReference,
        Encoding::Delta,
        Encoding::Dictionary,
    ];

    /// Its name in DDL and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Plain => "plain",
            Encoding::Static => "static",
            Encoding::Dynamic => "dynamic",
            Encoding::FrameOfReference => "for",
            Encoding::Delta => "delta",
            Encoding::Dictionary => "dictionary",
        }
    }

    /// Whether chunks of `ty` can have this encoding.
    pub fn supports(self, ty: LogicalType) -> bool {
        match ty.physical() {
            Physical::Ordinal => true,
            Physical::Wide => self == Encoding::Plain,
            Physical::Bytes => matches!(self, Encoding::Plain | Encoding::Dictionary),
        }
    }

    /// The number that it is stored as.
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// The encoding stored as `tag`, if there is one.
    pub fn of_tag(tag: u8) -> Option<Encoding> {
        Encoding::ALL
            .into_iter()
            .find(|encoding| encoding.tag() == tag)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no [`Encoding`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown encoding {text:?}: expected plain, static, dynamic, for, delta or dictionary")]
pub struct ParseEncodingError {
    text: Box<str>,
}

impl FromStr for Encoding {
    type Err = ParseEncodingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Encoding::ALL
            .into_iter()
            .find(|encoding| encoding.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ParseEncodingError { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_tags_are_read_back() {
        for encoding in Encoding::ALL {
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
            assert_eq!(Encoding::of_tag(encoding.tag()), Some(encoding));
        }
        assert_eq!(Encoding::of_tag(6), None);
        let error = "zip".parse::<Encoding>().unwrap_err().to_string();
        assert!(
            error.contains("\"zip\"") && error.contains("dictionary"),
            "{error}"
        );
    }
}
