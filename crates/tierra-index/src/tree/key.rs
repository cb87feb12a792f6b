//! The types a search tree can be built over, and what a node of each looks like.

use tierra_interleave::{LINE_BYTES, Mode};

use super::Searcher;
use super::arch::{self, Available};
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
        /// Values in a node.
        const LANES: usize;
        /// Children of a node.
        const FANOUT: usize = Self::LANES + 1;
        /// The greatest value.
        const GREATEST: Self;

        /// A node's separators.
        type Node: Node + AsRef<[Self]> + AsMut<[Self]>;

        /// [`Searcher::lower_bounds`] over at least [`Key::LANES`] values, with the instructions of
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
    ($key:ident, $node:ident, $lanes:expr) => {
        /// The separators of a node.
        #[derive(Clone, Copy)]
        #[repr(C, align(64))]
        pub struct $node([$key; $lanes]);

        const _: () = assert!(size_of::<$node>() == $lanes * size_of::<$key>());
        const _: () = assert!(size_of::<$node>().is_multiple_of(LINE_BYTES));

        // SAFETY: integers that fill their lines, aligned to them.
        unsafe impl Node for $node {
            const ZERO: Self = $node([0; $lanes]);
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
            const LANES: usize = $lanes;
            const GREATEST: Self = $key::MAX;
            type Node = $node;

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

key!(u32, Separators32, 16);
key!(u64, Separators64, 8);
