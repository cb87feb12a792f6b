//! The kinds of index that a column can have.

use std::fmt;
use std::str::FromStr;

/// An index on one column, stored beside its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Lists the rows of each value. The column is dictionary-encoded.
    Inverted,
}

impl IndexKind {
    /// Every kind.
    pub const ALL: [IndexKind; 1] = [IndexKind::Inverted];

    /// Its name in DDL and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Inverted => "inverted",
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no [`IndexKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown index {text:?}: expected inverted")]
pub struct ParseIndexKindError {
    text: Box<str>,
}

impl FromStr for IndexKind {
    type Err = ParseIndexKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        IndexKind::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ParseIndexKindError { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in IndexKind::ALL {
            assert_eq!(kind.to_string().to_uppercase().parse(), Ok(kind));
        }
        let error = "btree".parse::<IndexKind>().unwrap_err().to_string();
        assert_eq!(error, "unknown index \"btree\": expected inverted");
    }
}
