//! Entries in the order of their keys.

use std::ops::{Bound, RangeBounds};

use tierra_interleave::{Interleaved, Mode};
use tierra_memory::emulation::begin_read;

use super::leaf_line::LINE_SLOTS;
use super::summary::{LEAF_SLOTS, NONE};
use super::{LEAF_BYTES, PersistentTree};

impl PersistentTree {
    /// The entries with keys in a range, in ascending order: leaf by leaf, each sorted when it is reached while
    /// the next one is fetched.
    pub fn range(&self, keys: impl RangeBounds<u64>) -> Range<'_> {
        let from = match keys.start_bound() {
            Bound::Included(&key) => Some(key),
            Bound::Excluded(&key) => key.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match keys.end_bound() {
            Bound::Included(&key) => Some(key),
            Bound::Excluded(&key) => key.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let (from, to, leaf) = match (from, to) {
            (Some(from), Some(to)) if from <= to => (from, to, self.inner.path(from).leaf),
            _ => (0, 0, NONE),
        };
        Range {
            tree: self,
            from,
            to,
            leaf,
            entries: [(0, 0); LEAF_SLOTS],
            next: 0,
            end: 0,
        }
    }

    /// The entries of a leaf that count, sorted, and how many there are.
    pub(super) fn sorted(&self, leaf: u32) -> ([(u64, u64); LEAF_SLOTS], usize) {
        let lines = self.leaf(leaf);
        let mut entries = [(0, 0); LEAF_SLOTS];
        let mut len = 0;
        let mut slots = self.summary(leaf).occupied;
        while slots != 0 {
            let leaf_slot = slots.trailing_zeros() as usize;
            let (line, slot) = (&lines[leaf_slot / LINE_SLOTS], leaf_slot % LINE_SLOTS);
            entries[len] = (line.key(slot), line.value(slot));
            len += 1;
            slots &= slots - 1;
        }
        entries[..len].sort_unstable();
        (entries, len)
    }
}

/// Entries of a [`PersistentTree`] in ascending order. Made by [`PersistentTree::range`].
pub struct Range<'t> {
    tree: &'t PersistentTree,
    from: u64,
    to: u64,
    /// The leaf to read next.
    leaf: u32,
    /// Of the leaf read last.
    entries: [(u64, u64); LEAF_SLOTS],
    next: usize,
    end: usize,
}

impl Iterator for Range<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        while self.next == self.end {
            if self.leaf == NONE {
                return None;
            }
            let tree = self.tree;
            let reading = begin_read(tree.leaf_bytes(self.leaf));
            let ahead = tree.summary(self.leaf).next;
            if ahead != NONE {
                Interleaved.issue(tree.leaf(ahead).as_ptr().cast(), LEAF_BYTES as usize);
            }
            (self.entries, self.end) = tree.sorted(self.leaf);
            drop(reading);
            let entries = &self.entries[..self.end];
            self.next = entries.partition_point(|entry| entry.0 < self.from);
            self.leaf = ahead;
            let within = entries.partition_point(|entry| entry.0 <= self.to);
            if within < self.end {
                (self.end, self.leaf) = (within, NONE);
            }
        }
        self.next += 1;
        Some(self.entries[self.next - 1])
    }
}
