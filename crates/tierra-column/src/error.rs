//! What can go wrong with columns: one error per operation family, each saying what, where, and
//! what to do about it.

use crate::logical_type::LogicalType;

/// Stored bytes are not what this version of Tierra writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes do not begin as the thing they should be.
    #[error("this is no {what}: it begins with {found:02x?}")]
    Magic {
        /// What was expected here: a chunk, a dictionary.
        what: &'static str,
        /// The four bytes found instead of the magic.
        found: [u8; 4],
    },
    /// Written by another version of the format.
    #[error(
        "{what} has format version {found}, this build reads {supported}: use the build that wrote it"
    )]
    Version {
        /// What has that version.
        what: &'static str,
        /// The version found.
        found: u8,
        /// The version this build reads.
        supported: u8,
    },
    /// The format has room for it, and this build makes no use of that.
    #[error("{what} has {found}, which this build does not know: use the build that wrote it")]
    Unknown {
        /// What has it.
        what: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// Bytes are missing.
    #[error("{what} needs {needed} bytes but only {found} are there: restore it from another copy")]
    Truncated {
        /// What is too short.
        what: &'static str,
        /// Bytes that should be there.
        needed: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// A checksum does not match its bytes.
    #[error(
        "{what} fails its checksum (stored {stored:08x}, computed {computed:08x}): restore it from another copy"
    )]
    Checksum {
        /// What was checked.
        what: &'static str,
        /// The checksum stored with the bytes.
        stored: u32,
        /// The checksum of the bytes as they are.
        computed: u32,
    },
    /// A block's checksum does not match its bytes.
    #[error(
        "block {block} fails its checksum (stored {stored:08x}, computed {computed:08x}): restore it from another copy"
    )]
    BlockChecksum {
        /// The block's number in its chunk.
        block: usize,
        /// The checksum in the chunk's directory.
        stored: u32,
        /// The checksum of the bytes as they are.
        computed: u32,
    },
    /// A field holds what no writer of this version writes.
    #[error("{what} is corrupt: {why}")]
    Corrupt {
        /// Where: a chunk's descriptor, a block, a dictionary.
        what: &'static str,
        /// Which rule is broken.
        why: String,
    },
    /// The chunk holds another type than its column.
    #[error("the chunk holds {found} but its column is {expected}")]
    Type {
        /// The column's type.
        expected: LogicalType,
        /// The type the chunk says it has.
        found: LogicalType,
    },
    /// A dictionary chunk was read without its dictionary, or with another generation of it.
    #[error(
        "the chunk's codes belong to dictionary generation {needed}, but it was opened with {given:?}"
    )]
    Generation {
        /// The generation the chunk's codes belong to.
        needed: u64,
        /// The generation at hand, if any.
        given: Option<u64>,
    },
}

impl FormatError {
    /// Compares a checksum with its bytes.
    ///
    /// # Errors
    /// [`FormatError::Checksum`] where it is not theirs.
    pub fn check_crc(what: &'static str, bytes: &[u8], stored: u32) -> Result<(), Self> {
        let computed = crc32c::crc32c(bytes);
        if computed == stored {
            return Ok(());
        }
        Err(FormatError::Checksum {
            what,
            stored,
            computed,
        })
    }

    pub(crate) fn corrupt(what: &'static str, why: impl Into<String>) -> Self {
        FormatError::Corrupt {
            what,
            why: why.into(),
        }
    }
}

/// A filter cannot be evaluated where it was asked to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The filter's values are of another kind than the column's.
    #[error("a filter on {filter} values cannot be evaluated on {column}")]
    Type {
        /// What the filter compares with.
        filter: &'static str,
        /// What the column holds.
        column: String,
    },
    /// A filter on dictionary codes met values, or codes of another generation.
    #[error(
        "a filter on codes of dictionary generation {filter} cannot be evaluated on {column}: evaluate the predicate itself"
    )]
    Codes {
        /// The generation the filter's codes belong to.
        filter: u64,
        /// What was given instead.
        column: String,
    },
    /// The chunk's dictionary is not at hand.
    #[error(transparent)]
    Format(#[from] FormatError),
}
