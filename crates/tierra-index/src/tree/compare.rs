//! A node's comparison for nodes of other structures.

use super::arch::Available;
use super::key::Key;
use super::node::LANES;

/// Counts which of sixteen values are less than a key, with the fastest instructions of this CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compare16(Available);

impl Compare16 {
    pub(crate) fn fastest() -> Compare16 {
        Compare16(Available::fastest())
    }

    /// How many of `values` are less than `key`.
    #[inline(always)]
    pub(crate) fn less<K: Key>(self, values: &[K; LANES], key: K) -> usize {
        K::less(self.0, values, key)
    }
}
