//! What an instruction set does for a search.

use crate::tree::node::Value;

/// Comparing a key with a node's values, with the instructions of one level.
pub(crate) trait Compare<K: Value> {
    /// A key as the comparison wants it.
    type Splat: Copy;

    /// Prepares a key.
    ///
    /// # Safety
    /// The CPU has the level's instructions.
    unsafe fn splat(key: K) -> Self::Splat;

    /// How many of the `LANES` values at `values` are less than the key.
    ///
    /// # Safety
    /// The CPU has the level's instructions, and the values can be read. Their alignment is that of
    /// `K`.
    unsafe fn less(values: *const K, key: Self::Splat) -> usize;
}
