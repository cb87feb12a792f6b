//! Comparisons in plain Rust: the oracle of the others, and what a CPU without them runs.

use crate::tree::batch::Compare;
use crate::tree::{Key, LANES};

pub(in crate::tree) struct Scalar;

impl<K: Key> Compare<K> for Scalar {
    type Splat = K;

    #[inline(always)]
    unsafe fn splat(key: K) -> K {
        key
    }

    #[inline(always)]
    unsafe fn less(values: *const K, key: K) -> usize {
        // SAFETY: the caller vouches for `LANES` readable values.
        let values = unsafe { std::slice::from_raw_parts(values, LANES) };
        values.iter().filter(|&&value| value < key).count()
    }
}
