//! What can go wrong with a replica set.

use super::composition::MAX_REPLICAS;
use crate::pool::PoolError;

/// Copies that are no replica set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// None, or too many.
    #[error("{copies} copies given; a replica set has a master and up to {MAX_REPLICAS} replicas")]
    Copies {
        /// How many.
        copies: usize,
    },
    /// Copies of different length.
    #[error("copy {copy} has {found} bytes, the master {expected}; make it as long as the master")]
    Length {
        /// Which; the master is 0.
        copy: usize,
        /// Its bytes.
        found: u64,
        /// The master's.
        expected: u64,
    },
    /// One extent given twice.
    #[error("copies {first} and {second} are the same extent; a copy of its own is what protects")]
    Twice {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A write would leave the copies.
    #[error("{len_bytes} bytes at {at} do not fit into copies of {copy_bytes} bytes")]
    Outside {
        /// Where it was to begin.
        at: u64,
        /// How long it was to be.
        len_bytes: u64,
        /// Bytes of a copy.
        copy_bytes: u64,
    },
    /// The log of a replica set's transactions is none, or another set's.
    #[error("the undo log of the replica set cannot be used: {0}")]
    Undo(&'static str),
    /// A transaction is too long for the undo log.
    #[error(
        "the transaction needs {needed_bytes} bytes of an undo log of {len_bytes}; make the log longer"
    )]
    UndoLogFull {
        /// Bytes for what it overwrites.
        needed_bytes: u64,
        /// Bytes of the log.
        len_bytes: u64,
    },
    /// One replica is added at a time.
    #[error("a replica is being added; let it catch up, or cancel it")]
    Joining,
    /// A pool failed, or a copy is no log of it.
    #[error(transparent)]
    Pool(#[from] PoolError),
}
