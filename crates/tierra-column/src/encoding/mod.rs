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
//! | [`dynamic`], [`dynamic128`] | per block | per mini-block | the same and the block's width bytes |
//! | [`fastpfor`]        | per block | per mini-block | that and its exceptions                |
//! | [`rle`]             | per block | per block      | a search among the ends of runs        |
//! | [`lz4`], [`snappy`] | 0         | the type's own | its block                              |
//! | [`delta`]           | per block | per block      | its block up to there                  |
//! | [`dictionary`]      | 0         | per chunk      | a line and the dictionary's            |
//! | [`front`]           |           |                | the bytes of its group up to there     |
//! | [`fsst`], [`prefix`] |          |                | its bytes and the block's symbols      |
//!
//! In a packed chunk that holds a NULL anywhere code 0 *is* NULL, and its bases are one lower to
//! make room. Plain chunks keep a validity bitmap at the head of each block instead.
//!
//! A new encoding is a file here that holds a [`Format`], and a line of the list of [`Encoding`]. Its blocks are of a
//! [`BlockKind`](format::BlockKind) that there is, or of a new one: then the compiler names every place that reads blocks.

mod coded;
pub(crate) mod coded_strings;
pub(crate) mod coding;
pub(crate) mod compressed;
pub(crate) mod delta;
pub(crate) mod dictionary;
mod distinct;
mod dynamic;
mod dynamic128;
mod encoded;
mod error;
pub(crate) mod estimate;
pub(crate) mod fastpfor;
pub(crate) mod format;
pub(crate) mod frame_of_reference;
mod front;
pub(crate) mod fsst;
mod integers;
mod list;
mod lz4;
pub(crate) mod mini_blocks;
pub(crate) mod mini_len;
mod packed;
pub(crate) mod plain;
pub(crate) mod plain_strings;
pub(crate) mod plain_wide;
pub(crate) mod prefix;
pub(crate) mod rle;
pub(crate) mod sketched;
mod snappy;
pub(crate) mod source;
mod static_packing;
pub(crate) mod validity;
pub(crate) mod value_checksums;
pub(crate) mod values;

use std::fmt;
use std::str::FromStr;

use crate::logical_type::LogicalType;
pub use coded_strings::CodedText;
pub use error::EncodeError;
use format::{BlockKind, Format};
pub use list::Encoding;
use list::encodings;
pub use value_checksums::ValueChecksums;

/// Makes the way from an encoding to what it is.
macro_rules! formats {
    ($($(#[$meta:meta])* $encoding:ident => $format:path,)*) => {
        impl Encoding {
            /// What it is and does.
            #[inline(always)]
            pub(crate) const fn format(self) -> Format {
                match self {
                    $(Encoding::$encoding => $format,)*
                }
            }
        }
    };
}
encodings!(formats);

/// What is read of a block for one of its values, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellAccess {
    /// The value, and of a string where it ends.
    Value,
    /// Also what it is packed or coded by.
    Neighbours,
    /// All values, or all before it.
    Block,
}

impl Encoding {
    /// Its name in DDL and in messages.
    pub const fn name(self) -> &'static str {
        self.format().name
    }

    /// Whether chunks of `ty` can have this encoding.
    pub fn supports(self, ty: LogicalType) -> bool {
        (self.format().blocks)(ty.physical()).is_some()
    }

    /// What is read of a block of a chunk of `ty` for one value; `None` where such chunks cannot have this encoding.
    pub fn cell_access(self, ty: LogicalType) -> Option<CellAccess> {
        let access = match (self.format().blocks)(ty.physical())? {
            BlockKind::Packed | BlockKind::Wide | BlockKind::Strings => CellAccess::Value,
            BlockKind::MiniBlocks(_) | BlockKind::Front | BlockKind::Fsst | BlockKind::Prefix => {
                CellAccess::Neighbours
            }
            BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences => CellAccess::Block,
        };
        Some(access)
    }

    /// Whether its codes are those of the column's dictionary, without which a chunk cannot be read.
    #[inline]
    pub const fn uses_dictionary(self) -> bool {
        self.format().uses_dictionary
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no [`Encoding`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown encoding {text:?}: expected {}", names())]
pub struct ParseEncodingError {
    text: Box<str>,
}

/// The names of all encodings, as a sentence lists them.
fn names() -> String {
    let [others @ .., last] = Encoding::ALL.map(Encoding::name);
    format!("{} or {last}", others.join(", "))
}

impl FromStr for Encoding {
    type Err = ParseEncodingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Encoding::ALL
            .into_iter()
            .find(|encoding| {
                let Format { name, aliases, .. } = encoding.format();
                let mut names = std::iter::once(&name).chain(aliases);
                names.any(|name| name.eq_ignore_ascii_case(text))
            })
            .ok_or_else(|| ParseEncodingError { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_of_one_encoding() {
        let all = Encoding::ALL.map(|it| (it, it.format()));
        for (encoding, Format { name, aliases, .. }) in all {
            for name in std::iter::once(&name).chain(aliases) {
                assert_eq!(name.parse(), Ok(encoding));
            }
        }
        assert_eq!("BP128".parse(), Ok(Encoding::Dynamic128));
    }

    #[test]
    fn names_and_tags_are_read_back() {
        for (tag, encoding) in Encoding::ALL.into_iter().enumerate() {
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
            assert_eq!(encoding.tag(), tag as u8);
            assert_eq!(Encoding::of_tag(encoding.tag()), Some(encoding));
        }
        assert_eq!(Encoding::of_tag(Encoding::ALL.len() as u8), None);
        let error = "zip".parse::<Encoding>().unwrap_err().to_string();
        let expected = "plain, static, dynamic, for, delta, dictionary, dynamic128, fastpfor, rle, lz4, \
                        lz4-fast, lz4-hc, snappy, front, fsst or prefix";
        assert_eq!(
            error,
            format!("unknown encoding \"zip\": expected {expected}")
        );
    }
}
