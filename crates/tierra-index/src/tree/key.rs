//! The types a search tree can be built over, and how a node's separators are compared with a key of each.

use tierra_interleave::Mode;

use super::arch::{self, Available};
use super::levels::Levels;
use super::node::Value;

/// A type whose sorted slices can have a [`SearchTree`](super::SearchTree): `u32` and `u64`.
///
/// Other values are mapped to these in order, a signed integer by flipping its sign bit.
pub trait Key: Search {}

impl Key for u32 {}
impl Key for u64 {}

/// How a key is searched for. Sealed: not named outside of the crate.
pub trait Search: Value {
    /// How many of the first `LANES` of `values` are less than `key`, with the
    /// instructions of `level`.
    fn less(level: Available, values: &[Self], key: Self) -> usize;

    /// The ranks of `keys` among at least `LANES` values, with the instructions of
    /// `level`. There are as many ranks as keys.
    fn lower_bounds<M: Mode>(
        level: Available,
        levels: &Levels<Self>,
        sorted: &[Self],
        keys: &[Self],
        ranks: &mut [usize],
    );
}

macro_rules! key {
    ($key:ident) => {
        impl Search for $key {
            #[inline(always)]
            fn less(level: Available, values: &[Self], key: Self) -> usize {
                arch::less(level, values, key)
            }

            #[inline]
            fn lower_bounds<M: Mode>(
                level: Available,
                levels: &Levels<Self>,
                sorted: &[Self],
                keys: &[Self],
                ranks: &mut [usize],
            ) {
                arch::lower_bounds::<$key, M>(level, levels, sorted, keys, ranks);
            }
        }
    };
}

key!(u32);
key!(u64);
