//! The members of a large sorted set in order: by score, then by bytes.
//!
//! Leaves of up to [`LEAF_MAX`] entries, in order, under one array of their first entries and one of their
//! lengths. Finding is two binary searches, a rank the sum of the lengths before, which are added up many at a time; a
//! leaf that is split moves the arrays, 44 bytes a leaf, once in a hundred insertions. A tree of more levels would win from
//! tens of millions of members on.
//!
//! An entry is a score and the record that holds the member's bytes, which are read only where scores are
//! equal.
//!
//! Invariants: no leaf is empty, unless it is the only one; `firsts` and `lengths` are those of `leaves`.

use std::cmp::Ordering;
use std::ops::Range;

/// A score, and the record of a member.
pub(super) type Ranked = (f64, u64);

/// The position of an entry: its leaf, and its index in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderPosition {
    leaf: usize,
    at: usize,
}

const LEAF_MAX: usize = 256;
/// Lengths that are added up before one looks where a rank is.
const ADDED: usize = 64;

#[derive(Debug)]
pub(super) struct Order {
    leaves: Vec<Vec<Ranked>>,
    firsts: Vec<Ranked>,
    lengths: Vec<u32>,
    len: usize,
}

impl Order {
    /// The order of entries that are in order already.
    pub(super) fn new(sorted: impl Iterator<Item = Ranked>) -> Order {
        let mut order = Order {
            leaves: vec![Vec::with_capacity(LEAF_MAX)],
            firsts: vec![(0.0, 0)],
            lengths: vec![0],
            len: 0,
        };
        for entry in sorted {
            order.insert_at(
                order.leaves.len() - 1,
                order.leaves.last().map_or(0, Vec::len),
                entry,
            );
        }
        order
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.len() * LEAF_MAX * size_of::<Ranked>()
            + self.leaves.capacity() * (size_of::<Vec<Ranked>>() + size_of::<Ranked>() + 4)
    }

    /// The leaf, and the position in it, of the first entry that is not `before`: true for a beginning of the
    /// order, false for the rest.
    fn seek(&self, mut before: impl FnMut(Ranked) -> bool) -> (usize, usize) {
        if self.len == 0 {
            return (0, 0);
        }
        // The last leaf whose first entry is before; what is sought may be in it, or begin the next.
        let leaf = self
            .firsts
            .partition_point(|&first| before(first))
            .saturating_sub(1);
        let at = self.leaves[leaf].partition_point(|&entry| before(entry));
        (leaf, at)
    }

    /// How many entries are `before`.
    pub(super) fn count(&self, before: impl FnMut(Ranked) -> bool) -> usize {
        let (leaf, at) = self.seek(before);
        self.lengths[..leaf]
            .iter()
            .map(|&length| length as usize)
            .sum::<usize>()
            + at
    }

    /// Inserts an entry; `compare` orders others against it.
    pub(super) fn insert(&mut self, entry: Ranked, mut compare: impl FnMut(Ranked) -> Ordering) {
        let (leaf, at) = self.seek(|other| compare(other) == Ordering::Less);
        self.insert_at(leaf, at, entry);
    }

    fn insert_at(&mut self, mut leaf: usize, mut at: usize, entry: Ranked) {
        if self.leaves[leaf].len() == LEAF_MAX {
            // Entries that come in order leave full leaves behind.
            let is_last = at == LEAF_MAX && leaf + 1 == self.leaves.len();
            let split = if is_last { LEAF_MAX } else { LEAF_MAX / 2 };
            let mut upper = Vec::with_capacity(LEAF_MAX);
            upper.extend(self.leaves[leaf].drain(split..));
            self.leaves.insert(leaf + 1, upper);
            self.firsts.insert(leaf + 1, entry);
            self.lengths.insert(leaf + 1, 0);
            self.note(leaf);
            self.note(leaf + 1);
            if at > split || is_last {
                (leaf, at) = (leaf + 1, at - split);
            }
        }
        self.leaves[leaf].insert(at, entry);
        self.len += 1;
        self.note(leaf);
    }

    /// The position of the entry that `compare` finds equal; valid until the order changes.
    pub(super) fn find(
        &self,
        mut compare: impl FnMut(Ranked) -> Ordering,
    ) -> Option<OrderPosition> {
        let (mut leaf, mut at) = self.seek(|other| compare(other) == Ordering::Less);
        if at == self.leaves[leaf].len() && leaf + 1 < self.leaves.len() {
            (leaf, at) = (leaf + 1, 0);
        }
        let found = self.leaves[leaf].get(at);
        let is_it = found.is_some_and(|&other| compare(other) == Ordering::Equal);
        is_it.then_some(OrderPosition { leaf, at })
    }

    /// Replaces the record of a member's entry.
    pub(super) fn set_record(&mut self, position: OrderPosition, record: u64) {
        self.leaves[position.leaf][position.at].1 = record;
        self.note(position.leaf);
    }

    /// Removes the entry that `compare` finds equal. `false` if there is none.
    pub(super) fn remove(&mut self, compare: impl FnMut(Ranked) -> Ordering) -> bool {
        let found = self.find(compare);
        if let Some(OrderPosition { leaf, at }) = found {
            self.leaves[leaf].remove(at);
            self.len -= 1;
            self.tidy(leaf);
        }
        found.is_some()
    }

    /// Entries of some ranks, in order, from either end.
    pub(super) fn range(&self, ranks: Range<usize>) -> RankedRange<'_> {
        let start = self.position(ranks.start);
        RankedRange {
            order: self,
            front: start,
            back: self.position(ranks.end),
            left: ranks.len(),
        }
    }

    /// The leaf and the position in it of a rank; that of one past the end is past the last.
    fn position(&self, rank: usize) -> (usize, usize) {
        let (mut left, mut leaf) = (rank, 0);
        for lengths in self.lengths.chunks(ADDED) {
            let sum = lengths.iter().sum::<u32>() as usize;
            if left < sum {
                break;
            }
            left -= sum;
            leaf += lengths.len();
        }
        while let Some(&length) = self.lengths.get(leaf)
            && left >= length as usize
        {
            left -= length as usize;
            leaf += 1;
        }
        (leaf, left)
    }

    fn note(&mut self, leaf: usize) {
        if let Some(&first) = self.leaves[leaf].first() {
            self.firsts[leaf] = first;
        }
        self.lengths[leaf] = self.leaves[leaf].len() as u32;
    }

    /// A leaf has lost an entry: if it and a neighbour fit one half, they become one.
    fn tidy(&mut self, leaf: usize) {
        self.note(leaf);
        if self.leaves[leaf].len() > LEAF_MAX / 8 || self.leaves.len() == 1 {
            return;
        }
        let lower = leaf.min(self.leaves.len() - 2);
        if self.leaves[lower].len() + self.leaves[lower + 1].len() <= LEAF_MAX / 2 {
            let upper = self.leaves.remove(lower + 1);
            self.firsts.remove(lower + 1);
            self.lengths.remove(lower + 1);
            self.leaves[lower].extend(upper);
            self.note(lower);
        } else if self.leaves[leaf].is_empty() {
            self.leaves.remove(leaf);
            self.firsts.remove(leaf);
            self.lengths.remove(leaf);
        }
    }
}

/// Entries in order. Made by [`Order::range`].
#[derive(Clone, Debug)]
pub(super) struct RankedRange<'a> {
    order: &'a Order,
    front: (usize, usize),
    back: (usize, usize),
    left: usize,
}

impl Iterator for RankedRange<'_> {
    type Item = Ranked;

    fn next(&mut self) -> Option<Ranked> {
        self.left = self.left.checked_sub(1)?;
        let (leaf, at) = self.front;
        let entries = &self.order.leaves[leaf];
        self.front = if at + 1 < entries.len() {
            (leaf, at + 1)
        } else {
            (leaf + 1, 0)
        };
        Some(entries[at])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for RankedRange<'_> {
    fn next_back(&mut self) -> Option<Ranked> {
        self.left = self.left.checked_sub(1)?;
        let (leaf, at) = self.back;
        self.back = if at > 0 {
            (leaf, at - 1)
        } else {
            (leaf - 1, self.order.leaves[leaf - 1].len() - 1)
        };
        Some(self.order.leaves[self.back.0][self.back.1])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compare(one: Ranked, other: Ranked) -> Ordering {
        one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn it_is_a_sorted_list(steps in prop::collection::vec((0u8..3, 0u32..40, 0u64..4000), 1..3000), built in 0usize..2000) {
            let mut oracle: Vec<Ranked> = (0..built).map(|at| ((at / 3) as f64, at as u64)).collect();
            let mut order = Order::new(oracle.iter().copied());
            for (kind, score, member) in steps {
                let entry = (f64::from(score), member);
                let found = oracle.binary_search_by(|&other| compare(other, entry));
                if kind < 2 {
                    if let Err(at) = found {
                        oracle.insert(at, entry);
                        order.insert(entry, |other| compare(other, entry));
                    }
                } else {
                    // Something that is there, more often than not.
                    let entry = oracle.get(member as usize % (oracle.len() + 1)).copied().unwrap_or(entry);
                    let found = oracle.binary_search_by(|&other| compare(other, entry));
                    if let Ok(at) = found {
                        oracle.remove(at);
                    }
                    prop_assert_eq!(order.remove(|other| compare(other, entry)), found.is_ok());
                }
                prop_assert_eq!(order.len(), oracle.len());
            }
            for (rank, &entry) in oracle.iter().enumerate().step_by(7) {
                prop_assert_eq!(order.count(|other| compare(other, entry) == Ordering::Less), rank);
            }
            for (start, end) in [(0, oracle.len()), (oracle.len() / 3, oracle.len() / 2), (oracle.len(), oracle.len())] {
                let range = order.range(start..end);
                prop_assert!(range.clone().eq(oracle[start..end].iter().copied()));
                prop_assert!(range.rev().eq(oracle[start..end].iter().rev().copied()));
            }
        }
    }
}
