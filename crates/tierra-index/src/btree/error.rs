//! What can go wrong with a persistent tree.

use tierra_memory::replication::ReplicationError;

use super::{LEAF_BYTES, MAX_EXTENT_BYTES, MAX_EXTENTS};

/// Why a tree could not be made, opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// No extent, or too many.
    #[error("{extents} extents given; a tree lies in 1 to {MAX_EXTENTS}")]
    Extents {
        /// How many.
        extents: usize,
    },
    /// An extent that no leaf fits into, or that is too long.
    #[error(
        "extent {extent} has {len_bytes} bytes; it must have from {LEAF_BYTES} to {MAX_EXTENT_BYTES}"
    )]
    Length {
        /// Its place in the order of extents.
        extent: usize,
        /// Its bytes.
        len_bytes: u64,
    },
    /// A new extent that has something in it.
    #[error(
        "extent {extent} is not empty: leaf {leaf} is in use; open the tree that is there, or give a new log"
    )]
    NotEmpty {
        /// Its place in the order of extents.
        extent: usize,
        /// Which leaf.
        leaf: u32,
    },
    /// A leaf had to be split and there is no other to take half of it. Nothing has changed.
    #[error("all {leaves} leaves are in use; add an extent")]
    Full {
        /// How many there are.
        leaves: u64,
    },
    /// A leaf is not what was stored.
    #[error(
        "leaf {leaf} of extent {extent}: {what}; open the tree with a copy as master in which it is whole"
    )]
    Damaged {
        /// The extent's place in their order.
        extent: usize,
        /// Which leaf.
        leaf: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no leaf where one must be.
    #[error(
        "no leaf holds the keys from {key}: an extent is missing, in another place of the order, or another tree's"
    )]
    Missing {
        /// The first key that has no place.
        key: u64,
    },
    /// A copy could not be written; what the tree holds shows when it is opened again.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
}
