//! The key-value workload of the replication thesis (section 3.1.1, figure 3.1): a persistent B+-tree, leaves
//! far, inner nodes near.

pub(super) mod lookups;

use tierra_index::PersistentTree;
use tierra_memory::replication::ReplicaSet;

use crate::error::{Context, LabError};

/// The contender's name in messages.
const WHO: &str = "Tierra";
/// The trees' number.
pub(super) const TREE: u64 = 1;
/// Keys are so far apart that others fit between them.
const STEP: u64 = 1 << 32;
/// Bytes of a leaf.
const LEAF_BYTES: usize = 1024;
/// Entries of a full leaf.
const LEAF_ENTRIES: usize = 48;

/// The key of an entry.
pub(super) fn key(number: u64) -> u64 {
    number * STEP
}

/// An empty tree in a new log and its copies.
pub(super) fn create(set: ReplicaSet) -> Result<PersistentTree, LabError> {
    PersistentTree::create(TREE, vec![set]).by(WHO, "making a tree")
}
