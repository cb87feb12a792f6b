//! Finding: from a key to where its row is, with memory accesses that can be interleaved.
//!
//! Two structures, chosen by what has to be found:
//!
//! | | finds | lines touched | changes |
//! |---|---|---|---|
//! | [`HashIndex`] | the rows of a 64-bit key | one, rarely two | grows with each insert, in bounded steps |
//! | [`lower_bound`] | the rank of a key in a sorted slice | log2(len / line) | the slice's owner's business |
//!
//! Lookups are `async fn`s generic over [`Mode`](tierra_interleave::Mode): the same code runs one at
//! a time or a group in turn, and data structures know nothing about it.
//!
//! ```
//! use tierra_index::HashIndex;
//! use tierra_interleave::{Cx, GroupSize, Interleaved, map_into, run_plain};
//!
//! let mut index = HashIndex::new();
//! for row in 0..1000 {
//!     index.insert(row * 7, row);
//! }
//!
//! // One key...
//! assert_eq!(run_plain(|cx| index.get(cx, 700)), Some(100));
//!
//! // ...or many, hiding each other's cache misses.
//! let mut rows = [None; 3];
//! let lookup = |cx: Cx<Interleaved>, key| index.get(cx, key);
//! map_into(GroupSize::DEFAULT, [7, 8, 6993], lookup, &mut rows);
//! assert_eq!(rows, [Some(1), None, Some(999)]);
//! ```
//!
//! # How it differs
//!
//! The standard `HashMap` and its relatives answer one key at a time: a caller with ten thousand keys
//! waits for ten thousand misses in turn (two each, for control bytes and entry). They move every
//! entry when they grow, so that one unlucky insert takes seconds in a large table; here an insert
//! moves at most the entries of one segment.

mod hash;
mod sorted;

pub use hash::{Candidates, HashIndex};
pub use sorted::lower_bound;
