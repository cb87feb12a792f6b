//! What a node of separators looks like, for each type of values.

use tierra_interleave::LINE_BYTES;

use crate::node_array::Node;

/// Values in a leaf, and separators in a node.
pub(super) const LANES: usize = 16;

/// Children of a node.
pub(super) const FANOUT: usize = LANES + 1;

/// A type of values that nodes can separate.
pub trait Value: Copy + Ord + 'static {
    /// The greatest value.
    const GREATEST: Self;

    /// A node's separators.
    type Node: Node + AsRef<[Self]> + AsMut<[Self]>;
}

macro_rules! value {
    ($value:ident, $node:ident) => {
        /// The separators of a node.
        #[derive(Clone, Copy)]
        #[repr(C, align(64))]
        pub struct $node([$value; LANES]);

        const _: () = assert!(size_of::<$node>() == LANES * size_of::<$value>());
        const _: () = assert!(size_of::<$node>().is_multiple_of(LINE_BYTES));

        // SAFETY: integers that fill their lines, aligned to them.
        unsafe impl Node for $node {
            const ZERO: Self = $node([0; LANES]);
        }

        impl AsRef<[$value]> for $node {
            #[inline(always)]
            fn as_ref(&self) -> &[$value] {
                &self.0
            }
        }

        impl AsMut<[$value]> for $node {
            #[inline(always)]
            fn as_mut(&mut self) -> &mut [$value] {
                &mut self.0
            }
        }

        impl Value for $value {
            const GREATEST: Self = $value::MAX;
            type Node = $node;
        }
    };
}

value!(u32, Separators32);
value!(u64, Separators64);
