//! Comparisons in plain Rust: the oracle of the others, and what a CPU without them runs.

use super::compare::Compare;
use crate::tree::node::{LANES, Value};

pub(crate) struct Scalar;

impl<K: Value> Compare<K> for Scalar {
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
