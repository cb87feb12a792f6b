//! What can go wrong with buffers. The engine's errors are passed on as they are.

use tierra_engine::{AppendError, LookupError, OpenError, ScanError, TableError, TierError};

/// Why a call failed. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No buffer of that name.
    #[error("there is no buffer {name:?}: allocate it first")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A table that is none.
    #[error(
        "{name:?} is a table, not a buffer, which has the columns position and value, both BIGINT NOT NULL: choose another name"
    )]
    NotABuffer {
        /// The name.
        name: String,
    },
    /// The buffer was deleted.
    #[error("buffer {name:?} was deleted: readers that were made before go on")]
    Deleted {
        /// Its name.
        name: String,
    },
    /// A position at which the reader has no value.
    #[error(
        "buffer {name:?} has {count} values for this reader: there is none at position {position}"
    )]
    Position {
        /// The buffer.
        name: String,
        /// What was asked for.
        position: u64,
        /// Values that the reader has.
        count: u64,
    },
    /// A block that the reader does not have.
    #[error("buffer {name:?} has {blocks} blocks for this reader: there is no block {block}")]
    Block {
        /// The buffer.
        name: String,
        /// What was asked for.
        block: u64,
        /// Blocks that the reader has.
        blocks: u64,
    },
    /// Positions that are not 0, 1, 2, ..
    #[error(
        "buffer {name:?}: its positions do not go from 0 up to its number of values: something else has written into its table"
    )]
    Order {
        /// The buffer.
        name: String,
    },
    /// More values than positions.
    #[error("buffer {name:?} would have more than 2^63 - 1 values")]
    Positions {
        /// The buffer.
        name: String,
    },
    /// The process is a fork.
    #[error(
        "this process is a fork of the one that opened the buffers, whose threads it does not have: open them in a process of its own"
    )]
    Forked,
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A tier could not be added.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// A buffer could not be allocated, packed or deleted.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Values could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Values could not be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Single values could not be read.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}
