//! The types a search tree can be built over, and what a node of each looks like.

use tierra_interleave::{LINE_BYTES, Mode};

use super::arch::{self, Available};
use super::{LANES, Searcher};
use crate::lines::Node;

/// A type whose sorted slices can have a [`SearchTree`](super::SearchTree): `u32` and `u64`.
///
/// Other values are mapped to these in order, a signed integer by flipping its sign bit.
pub trait Key: sealed::Key {}

impl Key for u32 {}
impl Key for u64 {}

pub(super) mod sealed {
    use super::*;

    pub trait Key: Copy + Ord + 'static {
        /// The greatest value.
        const GREATEST: Self;

        /// A node's separators.
        type Node: Node + AsRef<[Self]> + AsMut<[Self]>;

        /// How many of the first [`LANES`] of `values` are less than `key`, with the
        /// instructions of `level`.
        fn less(level: Available, values: &[Self], key: Self) -> usize;

        /// [`Searcher::lower_bounds`] over at least [`LANES`] values, with the instructions of
        /// `level`. There are as many ranks as keys.
        fn lower_bounds<M: Mode>(
            level: Available,
            searcher: Searcher<'_, Self>,
            keys: &[Self],
            ranks: &mut [usize],
        ) where
            Self: super::Key;
    }
}

macro_rules! key {
    ($key:ident, $node:ident) => {
        /// The separators of a node.
        #[derive(Clone, Copy)]
        #[repr(C, align(64))]
        pub struct $node([$key; LANES]);

        const _: () = assert!(size_of::<$node>() == LANES * size_of::<$key>());
        const _: () = assert!(size_of::<$node>().is_multiple_of(LINE_BYTES));

        // SAFETY: integers that fill their lines, aligned to them.
        unsafe impl Node for $node {
            const ZERO: Self = $node([0; LANES]);
        }

        impl AsRef<[$key]> for $node {
            #[inline(always)]
            fn as_ref(&self) -> &[$key] {
                &self.0
            }
        }

        impl AsMut<[$key]> for $node {
            #[inline(always)]
            fn as_mut(&mut self) -> &mut [$key] {
                &mut self.0
            }
        }

        impl sealed::Key for $key {
            const GREATEST: Self = $key::MAX;
            type Node = $node;

            #[inline(always)]
            fn less(level: Available, values: &[Self], key: Self) -> usize {
                arch::less(level, values, key)
            }

            #[inline]
            fn lower_bounds<M: Mode>(
                level: Available,
                searcher: Searcher<'_, Self>,
                keys: &[Self],
                ranks: &mut [usize],
            ) {
                arch::lower_bounds::<$key, M>(level, searcher, keys, ranks);
            }
        }
    };
}

key!(u32, Separators32);
key!(u64, Separators64);
