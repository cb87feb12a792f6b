//! A static search tree over a sorted slice: the rank of a key in a few lines.
//!
//! ```text
//!  root      │ s s s … s │                        one node: 16 separators, in one line or, of u64, two
//!              ╱   │   ╲
//!  levels    │ s … s │ │ s … s │ …                 17 children a node, no pointers: child j of node k is
//!              ╱   │   ╲                           node 17 k + j one level down
//!  leaves    │ v v v … v │ v v v … v │ v v …       the sorted slice itself, where it lies
//! ```
//!
//! Only the separators are built, a sixteenth of the slice. Separator `j` of a node is the greatest
//! value below child `j`, so the number of separators less than a key is the child to go to, and the
//! leaf it ends at holds the least value that is not less than the key, unless there is none: a test
//! whether the key itself is there needs no further line. Repeated values are allowed.
//!
//! Nodes of `u64` take two lines because one line of eight measured no faster: over 1 GB in batches 24 ns
//! a key against 23, one by one and interleaved 54 against 46, with twice the separators.
//!
//! A leaf begins where a line begins, not where the slice does: the first one is shorter by `pad`
//! values. Leaves are read as windows of a node's length, moved inwards at either end of the slice, and
//! counting the values less than a key in any window around its rank gives that rank.
//!
//! Invariants:
//! - A child that a node leads to exists, whatever the key: behind the last existing child of a node
//!   every separator is the type's greatest value, which is less than no key.
//! - Nothing is read outside the slice and the separators, whatever the slice holds.

mod arch;
mod batch;
mod compare;
mod key;
mod levels;
mod node;

use tierra_interleave::{Cx, GroupReport, Mode};

use arch::Available;
pub(crate) use compare::Compare16;
pub use key::Key;
use levels::Levels;
pub(crate) use levels::RESIDENT_BYTES;
use node::{FANOUT, LANES};

/// The separators over a sorted slice. See the [crate] for an example.
///
/// The slice stays its owner's; [`over`](Self::over) joins the two for lookups.
pub struct SearchTree<K: Key> {
    levels: Levels<K>,
    /// Values of the slice.
    len: usize,
    /// The instructions to compare with.
    level: Available,
}

impl<K: Key> SearchTree<K> {
    /// Builds the separators over `sorted`, which is in ascending order. If it is not, lookups answer
    /// some number up to its length.
    pub fn new(sorted: &[K]) -> Self {
        debug_assert!(
            sorted.is_sorted(),
            "a search tree is built over sorted values"
        );
        SearchTree {
            levels: Levels::over(sorted),
            len: sorted.len(),
            level: Available::fastest(),
        }
    }

    /// Bytes of memory that the tree takes beside the slice.
    pub fn len_bytes(&self) -> usize {
        size_of::<Self>() + self.levels.len_bytes()
    }

    /// The tree together with the slice it was built over, ready for lookups.
    ///
    /// # Panics
    ///
    /// If `sorted` has another length than the slice the tree was built over. Another slice of the
    /// same length makes lookups answer some number up to its length.
    #[inline]
    pub fn over<'a>(&'a self, sorted: &'a [K]) -> Searcher<'a, K> {
        assert_eq!(self.len, sorted.len(), "a search tree belongs to one slice");
        Searcher { tree: self, sorted }
    }
}

/// A [`SearchTree`] and its slice: finds ranks. Copied freely.
#[derive(Clone, Copy)]
pub struct Searcher<'a, K: Key> {
    tree: &'a SearchTree<K>,
    /// As long as `tree.len`.
    sorted: &'a [K],
}

impl<K: Key> Searcher<'_, K> {
    /// The number of values that are less than `key`: one lookup of a group, which may be made of
    /// lookups of any kinds. Gives way only at levels that are too large to stay in a near cache.
    pub async fn lower_bound<M: Mode>(self, cx: Cx<M>, key: K) -> usize {
        let Searcher { tree, sorted } = self;
        if sorted.len() < LANES {
            return few_less(cx.load(sorted).await, key);
        }
        let levels = &tree.levels;
        let (resident, larger) = levels.firsts.split_at(levels.resident);
        let mut child = 0;
        for first in resident {
            child = child * FANOUT + K::less(tree.level, levels.nodes[first + child].as_ref(), key);
        }
        for first in larger {
            let node = cx.load(&levels.nodes[first + child]).await;
            child = child * FANOUT + K::less(tree.level, node.as_ref(), key);
        }
        let start = levels.leaf_start(child, sorted.len());
        let leaf = cx.load(&sorted[start..start + LANES]).await;
        start + K::less(tree.level, leaf, key)
    }

    /// The number of values that are less than `keys[i]`, for each `i`, written to `ranks[i]`.
    ///
    /// The fastest way for many keys: they go down together, a level at a time, each fetching its
    /// next node while the others are compared. In a mode that is not interleaved nothing is fetched
    /// ahead, though the processor may overlap what it sees coming.
    ///
    /// Every node fetched ahead counts as a suspension: the key gave way to the others meanwhile.
    ///
    /// # Panics
    ///
    /// If there are more or fewer places than keys.
    pub fn lower_bounds<M: Mode>(self, keys: &[K], ranks: &mut [usize]) -> GroupReport {
        self.lower_bounds_with::<M>(self.tree.level, keys, ranks);
        let fetched = match M::INTERLEAVED && self.sorted.len() >= LANES {
            true => self.tree.levels.firsts.len() - self.tree.levels.nearest + 1,
            false => 0,
        };
        GroupReport {
            lookups: keys.len() as u64,
            suspensions: (keys.len() * fetched) as u64,
        }
    }

    fn lower_bounds_with<M: Mode>(self, level: Available, keys: &[K], ranks: &mut [usize]) {
        assert_eq!(keys.len(), ranks.len(), "a place for each rank");
        if self.sorted.len() < LANES {
            for (key, rank) in keys.iter().zip(ranks) {
                *rank = few_less(self.sorted, *key);
            }
            return;
        }
        K::lower_bounds::<M>(level, &self.tree.levels, self.sorted, keys, ranks);
    }
}

/// How many of fewer values than a leaf has are less than `key`.
fn few_less<K: Key>(values: &[K], key: K) -> usize {
    values.iter().filter(|&&value| value < key).count()
}

#[cfg(test)]
mod tests;
