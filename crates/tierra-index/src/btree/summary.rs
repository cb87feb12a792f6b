//! The near summary of a leaf: one line that says which of its far lines to read, if any.
//!
//! ```text
//!  byte 0                           48         56     60     64
//!       │ fingerprints of 48 keys, 8 │ occupied │ next │  0   │
//!       │ bits each                  │          │      │      │
//! ```
//! A lookup compares its key's fingerprint with all 48 at once and reads a far line only where one agrees: for
//! a key that is there one line, and 0.1 more on average; for one that is not, mostly none.
//!
//! Invariant: bit `p` of `occupied` says whether slot `p` of the leaf has a live entry, and `fingerprints[p]` is
//! then its key's. Entries of a leaf's lines that are not counted here are left over from a split.

use tierra_interleave::LINE_BYTES;

use super::arch;
use crate::hash::hash_of;
use crate::node_array::Node;

/// Entries of a leaf.
pub(super) const LEAF_SLOTS: usize = 48;
/// All of them occupied.
pub(super) const FULL: u64 = (1 << LEAF_SLOTS) - 1;
/// No leaf.
pub(super) const NONE: u32 = u32::MAX;

/// The near line of a leaf.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct LeafSummary {
    fingerprints: [u8; LEAF_SLOTS],
    pub(super) occupied: u64,
    /// The leaf with the next greater keys.
    pub(super) next: u32,
    zero: u32,
}

const _: () = assert!(size_of::<LeafSummary>() == LINE_BYTES);

// SAFETY: integers that fill a line, aligned to it.
unsafe impl Node for LeafSummary {
    const ZERO: LeafSummary = LeafSummary {
        fingerprints: [0; LEAF_SLOTS],
        occupied: 0,
        next: 0,
        zero: 0,
    };
}

impl LeafSummary {
    /// The summary of a leaf with these entries in its first slots.
    pub(super) fn of(entries: &[(u64, u64)], next: u32) -> LeafSummary {
        let mut summary = LeafSummary {
            next,
            ..LeafSummary::ZERO
        };
        for (leaf_slot, (key, _)) in entries.iter().enumerate() {
            summary.add(leaf_slot, *key);
        }
        summary
    }

    /// The slots whose keys have this key's fingerprint: the key is in one of them or nowhere.
    #[inline(always)]
    pub(super) fn candidates(&self, key: u64) -> u64 {
        arch::equal(&self.fingerprints, fingerprint_of(key)) & self.occupied
    }

    pub(super) fn add(&mut self, leaf_slot: usize, key: u64) {
        self.fingerprints[leaf_slot] = fingerprint_of(key);
        self.occupied |= 1 << leaf_slot;
    }

    pub(super) fn remove(&mut self, leaf_slot: usize) {
        self.occupied &= !(1 << leaf_slot);
    }

    /// The first vacant slot. The leaf is not full.
    pub(super) fn vacant(&self) -> usize {
        debug_assert_ne!(self.occupied, FULL);
        self.occupied.trailing_ones() as usize
    }

    /// The slots of a line that count.
    pub(super) fn live(&self, line: usize) -> u8 {
        (self.occupied >> (3 * line)) as u8 & 0b111
    }
}

#[inline(always)]
fn fingerprint_of(key: u64) -> u8 {
    (hash_of(key) >> 56) as u8
}
