//! What is kept near of a leaf: one line that says which of its far lines to read, if any.
//!
//! ```text
//!  byte 0                                   48         56     60     64
//!       │ a print of each of 48 keys, 8 bits │ occupied │ next │  0   │
//! ```
//! A lookup compares its key's print with all 48 at once and reads a far line only where one agrees: for
//! a key that is there one line, and 0.1 more on average; for one that is not, mostly none.
//!
//! Invariant: bit `p` of `occupied` says whether place `p` has an entry that counts, and `prints[p]` is
//! then its key's. Entries of a leaf's lines that are not counted here are left over from a split.

use tierra_interleave::LINE_BYTES;

use super::arch;
use crate::hash::hash_of;
use crate::lines::Node;

/// Entries of a leaf.
pub(super) const PLACES: usize = 48;
/// All of them.
pub(super) const FULL: u64 = (1 << PLACES) - 1;
/// No leaf.
pub(super) const NONE: u32 = u32::MAX;

/// A leaf's near line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Summary {
    prints: [u8; PLACES],
    pub(super) occupied: u64,
    /// The leaf with the next greater keys.
    pub(super) next: u32,
    zero: u32,
}

const _: () = assert!(size_of::<Summary>() == LINE_BYTES);

// SAFETY: integers that fill a line, aligned to it.
unsafe impl Node for Summary {
    const ZERO: Summary = Summary {
        prints: [0; PLACES],
        occupied: 0,
        next: 0,
        zero: 0,
    };
}

impl Summary {
    /// Of a leaf with these entries in its first places.
    pub(super) fn of(entries: &[(u64, u64)], next: u32) -> Summary {
        let mut summary = Summary {
            next,
            ..Summary::ZERO
        };
        for (place, (key, _)) in entries.iter().enumerate() {
            summary.add(place, *key);
        }
        summary
    }

    /// The places whose keys have this key's print: it is at one of them or nowhere.
    #[inline(always)]
    pub(super) fn candidates(&self, key: u64) -> u64 {
        arch::equal(&self.prints, print_of(key)) & self.occupied
    }

    pub(super) fn add(&mut self, place: usize, key: u64) {
        self.prints[place] = print_of(key);
        self.occupied |= 1 << place;
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.occupied &= !(1 << place);
    }

    /// The first place without an entry. There is one.
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
fn print_of(key: u64) -> u8 {
    (hash_of(key) >> 56) as u8
}
