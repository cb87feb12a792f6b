//! Why a manifest cannot be trusted.

use crate::spec::SpecError;

/// Why the bytes of a manifest cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The magic is wrong.
    #[error(
        "the manifest does not start with its magic: this is not a Tierra database, or its beginning is damaged"
    )]
    Magic,
    /// Written by another version of Tierra.
    #[error(
        "the manifest has format version {found}, but this Tierra reads only version {supported}: open the database with the Tierra that wrote it"
    )]
    Version {
        /// The version byte found.
        found: u8,
        /// The version that this build reads.
        supported: u8,
    },
    /// The format has room for this, but this build does not use it.
    #[error(
        "the manifest has {what}, which this Tierra does not know: open the database with the Tierra that wrote it"
    )]
    Unknown {
        /// What was found.
        what: String,
    },
    /// Shorter than its header says.
    #[error("the manifest is truncated: {found} bytes where its header says {expected}")]
    Truncated {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Bits have changed since it was written.
    #[error(
        "the manifest's checksum is {found:08x}, its header says {expected:08x}: it is damaged, restore the database from a copy"
    )]
    Checksum {
        /// CRC32C in the header.
        expected: u32,
        /// CRC32C of the body.
        found: u32,
    },
    /// The checksum matches but the content is invalid.
    #[error("the manifest is malformed at byte {at} of its body: {what}")]
    Malformed {
        /// Offset in the body.
        at: usize,
        /// What was expected.
        what: String,
    },
    /// A table's specification breaks a rule of the catalogue.
    #[error("the manifest describes an impossible table: {0}")]
    Spec(#[from] SpecError),
}
