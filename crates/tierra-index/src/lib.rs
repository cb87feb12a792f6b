//! Finding: from a key to where its row is, with memory accesses that can be interleaved.
//!
//! Structures, chosen by what has to be found:
//!
//! | | finds | lines touched | changes |
//! |---|---|---|---|
//! | [`HashIndex`] | the rows of a 64-bit key | one, rarely two | grows with each insert, in bounded steps |
//! | [`RecordTable`] | the record of a key of bytes | one group of two, and the record | grows and shrinks, in bounded steps |
//! | [`JoinTable`] | the rows of a 64-bit key | one, and the first of several rows | built once, by many threads |
//! | [`SearchTree`] | the rank of a key in a sorted slice | log17(len), twice for `u64` | built once over a slice |
//! | [`PrefixTree`] | the rank of a string among sorted ones | a tree's, and the string's | built once over the strings |
//! | [`PersistentTree`] | the value of a 64-bit key, and ranges | one far, near ones before it | survives: leaves durable in any number of copies |
//! | [`lower_bound`] | the same, without anything built | log2(len / line) | the slice's owner's business |
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
//! The rank of a value among sorted ones, which in a dictionary is its code:
//!
//! ```
//! use tierra_index::SearchTree;
//! use tierra_interleave::{Interleaved, run_plain};
//!
//! let sorted: Vec<u32> = (0..100_000).map(|i| 3 * i).collect();
//! let tree = SearchTree::new(&sorted);
//! let searcher = tree.over(&sorted);
//! assert_eq!(run_plain(|cx| searcher.lower_bound(cx, 299_997)), 99_999);
//!
//! let mut ranks = [0; 3];
//! searcher.lower_bounds::<Interleaved>(&[0, 4, u32::MAX], &mut ranks);
//! assert_eq!(ranks, [0, 2, 100_000]);
//! ```
//!
//! # How it differs
//!
//! The standard `HashMap` and its relatives answer one key at a time: a caller with ten thousand keys
//! waits for ten thousand misses in turn (two each, for control bytes and entry). They move every
//! entry when they grow, so that one unlucky insert takes seconds in a large table; here an insert
//! moves at most the entries of one segment.
//!
//! For Linux on 64-bit processors, as `tierra-memory` is.

mod btree;
mod hash;
mod join;
mod node_array;
mod prefix;
mod records;
mod sorted;
mod tree;

pub use btree::{PersistentTree, Range, TreeError};
pub use hash::{Candidates, HashIndex};
pub use join::{JoinMatch, JoinRows, JoinTable};
pub use prefix::{FETCHED_BYTES, PrefixTree, SortedStrings};
pub use records::{EntryHandle, RecordStore, RecordTable, Resolved, SlotMut};
pub use sorted::lower_bound;
pub use tree::{Key, SearchTree, Searcher};
