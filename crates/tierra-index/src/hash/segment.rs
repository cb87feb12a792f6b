//! A piece of the table: an open-addressed array of buckets, probed one after the other.
//!
//! An entry lies in its home bucket, chosen by the low bits of its hash, or in the first later one
//! (wrapping around) that had a vacant slot when it came.
//!
//! Invariant: at most [`MAX_LOAD_PERCENT`] of the slots are occupied, so some bucket has a vacant slot
//! and every probe ends.

use tierra_memory::LARGE_PAGE_BYTES;

use super::bucket::{Bucket, SLOTS};
use super::spread::hash_of;
use crate::node_array::NodeArray;

/// Beyond this a segment grows. At this load a probe for an absent key touches 1.3 lines on average.
pub(super) const MAX_LOAD_PERCENT: usize = 80;

/// Buckets of a segment that splits instead of doubling: one large page.
pub(super) const SPLIT_BUCKETS: usize = LARGE_PAGE_BYTES / size_of::<Bucket>();

pub(super) struct Segment {
    buckets: NodeArray<Bucket>,
    len: usize,
    /// How many of a hash's top bits all entries share: those by which the directory finds it.
    pub(super) depth: u32,
}

impl Segment {
    /// An empty segment of `buckets` buckets, a power of two.
    pub(super) fn new(buckets: usize, depth: u32) -> Self {
        assert!(buckets.is_power_of_two());
        Segment {
            buckets: NodeArray::zeroed(buckets),
            len: 0,
            depth,
        }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The entries that a segment of `buckets` buckets takes before it grows.
    pub(super) const fn capacity(buckets: usize) -> usize {
        // Never every slot, even of a single bucket: 80 % of 4 is 3.
        buckets * SLOTS * MAX_LOAD_PERCENT / 100
    }

    pub(super) fn is_at_capacity(&self) -> bool {
        self.len >= Self::capacity(self.buckets.len())
    }

    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    pub(super) fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    #[inline(always)]
    pub(super) fn bucket(&self, number: usize) -> &Bucket {
        &self.buckets[number]
    }

    /// Adds an entry. The segment is below its capacity.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, key: u64, row: u64) {
        debug_assert!(!self.is_at_capacity());
        let mut number = self.home(hash);
        while !self.buckets[number].push(key, row) {
            number = self.after(number);
        }
        self.len += 1;
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().flat_map(Bucket::entries)
    }

    /// Moves every entry into twice the buckets.
    pub(super) fn double(&mut self) {
        let mut doubled = Segment::new(2 * self.buckets.len(), self.depth);
        for (key, row) in self.entries() {
            doubled.insert(hash_of(key), key, row);
        }
        *self = doubled;
    }

    /// Divides the entries by the next bit of their hashes: zeros stay, ones go to the segment
    /// returned. `None`, and nothing changed, if that would leave one side with nearly all of them:
    /// many rows of one key can only be given more room.
    pub(super) fn split(&mut self) -> Option<Segment> {
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return None;
        }
        let is_one = |key| hash_of(key) >> (u64::BITS - depth) & 1 == 1;
        let ones = self.entries().filter(|&(key, _)| is_one(key)).count();
        if ones.min(self.len - ones) < self.len / 8 {
            return None;
        }
        let mut halves = [(); 2].map(|()| Segment::new(self.buckets.len(), depth));
        for (key, row) in self.entries() {
            halves[usize::from(is_one(key))].insert(hash_of(key), key, row);
        }
        let [zeros, ones] = halves;
        *self = zeros;
        Some(ones)
    }
}

/// Directories stay below 2^24 places; deeper than that, segments double.
const MAX_DEPTH: u32 = 24;
