//! Why a log cannot be trusted.

/// Records that cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An acknowledged record is missing.
    #[error("record {sequence} of its log, at byte {at} of extent {extent}: {what}")]
    Damaged {
        /// The number of the extent.
        extent: u64,
        /// Offset at which the record should start.
        at: usize,
        /// The record that should be there.
        sequence: u64,
        /// Which check failed.
        what: &'static str,
    },
    /// Commits of the database that are in no log.
    #[error("commit {commit} is in no log; it changed {tables}")]
    Gap {
        /// The first missing one.
        commit: u64,
        /// The tables that may have had it.
        tables: String,
    },
    /// The record follows a newer manifest than the one that was read.
    #[error(
        "record {sequence} of its log follows version {follows} of the database, the newest that was found is {newest}"
    )]
    Ahead {
        /// The record.
        sequence: u64,
        /// The version that it follows.
        follows: u64,
        /// The version of the manifest.
        newest: u64,
    },
    /// Written by another version of Tierra.
    #[error(
        "its log has format version {found}, but this Tierra reads only version {supported}: use the Tierra that wrote it"
    )]
    Version {
        /// The version found.
        found: u8,
        /// The version that this code writes.
        supported: u8,
    },
    /// The format has room for this, but this build does not use it.
    #[error(
        "a record of its log has {what}, which this Tierra does not know: use the Tierra that wrote it"
    )]
    Unknown {
        /// What was found.
        what: &'static str,
    },
    /// Checksums match, but the record does not fit this table.
    #[error("record {sequence} of its log: {what}")]
    Content {
        /// The record.
        sequence: u64,
        /// What is wrong.
        what: String,
    },
    /// A commit of several tables of which a log lacks its part, or cannot be read.
    #[error(
        "commit {commit} changed it together with {others}, and not all of their logs can be read up to it"
    )]
    Torn {
        /// The commit.
        commit: u64,
        /// The other tables.
        others: String,
    },
    /// Checksums match, but the rows do not fit this table.
    #[error("record {sequence} of its log: {source}")]
    Rows {
        /// The record.
        sequence: u64,
        /// What is wrong.
        source: arrow::error::ArrowError,
    },
}
