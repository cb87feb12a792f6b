//! How scans reach blocks in far memory.
//!
//! ```text
//! in-place   operators read the mapping
//! mapped     a block is copied from the mapping into a frame, and read there
//! buffered   a block is read from the tier's file through the page cache into a frame
//! direct     the same past the page cache
//! auto       the fastest of these on this tier, measured from time to time
//! ```
//! The answer is the same. In place is the fastest on memory; the others are what engines do that keep their data in files, and
//! are there to compare with, and for tiers on disks that are slower than a copy.
//!
//! Source: Mustafa et al., SAMOS 2016: its storage engines SE1 (mapped) and SE2 (in place), and PostgreSQL's (buffered).

use std::fmt;
use std::str::FromStr;

use tierra_column::bits::Level;
use tierra_memory::{CopyMethod, CopyMethodError, Pool};

/// How a scan reaches blocks in far memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Operators read the mapping.
    #[default]
    InPlace,
    /// Blocks are copied into frames first.
    Framed(CopyMethod),
    /// In place or framed, whichever takes the least time on the tier.
    Auto,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 5] = [
        Access::InPlace,
        Access::Framed(CopyMethod::Mapped),
        Access::Framed(CopyMethod::Buffered),
        Access::Framed(CopyMethod::Direct),
        Access::Auto,
    ];

    /// Whether a pool can be read so.
    pub(crate) fn check(self, pool: &Pool) -> Result<(), CopyMethodError> {
        match self {
            Self::Framed(method) => pool.check_copy_method(method),
            Self::InPlace | Self::Auto => Ok(()),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPlace => f.write_str("in-place"),
            Self::Framed(method) => method.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// A word that names no access mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of 'in-place', 'mapped', 'buffered', 'direct' and 'auto'")]
pub struct ParseAccessError(String);

impl FromStr for Access {
    type Err = ParseAccessError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|access| access.to_string() == text)
            .ok_or_else(|| ParseAccessError(text.to_owned()))
    }
}

/// How a cursor reads blocks. No row depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How it reaches them; `None`: as each tier says.
    pub access: Option<Access>,
    /// In place, how many lines of a column's next block are asked for before a block is read.
    pub prefetch_lines: usize,
    /// In place, how many blocks a helper thread is ahead, where a core is spare; 0: there is no helper.
    pub helper_blocks: usize,
    /// The instructions that test and unpack blocks; `None`: those that the machine's profile says, or the fastest.
    pub level: Option<Level>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for access in Access::ALL {
            assert_eq!(access.to_string().parse(), Ok(access));
        }
        assert!("anywhere".parse::<Access>().is_err());
    }
}
