//! The unit of a probe: one cache line of four entries.
//!
//! ```text
//!  byte 0      8      16     24     32     40     48     56     64
//!       │ key 0│ key 1│ key 2│ key 3│ row 0│ row 1│ row 2│ row 3│   rows plus 1, 0 = vacant
//! ```
//!
//! Invariants: a slot is vacant exactly if its row word is 0, and occupied slots come first. A bucket
//! that has a vacant slot never was full, because entries are never removed: a probe ends there. 64
//! zero bytes are an empty bucket.

use crate::node_array::Node;

/// The only number that is no row.
pub(super) const NO_ROW: u64 = u64::MAX;

/// Entries in a bucket.
pub(super) const SLOTS: usize = 4;

/// The row word of a vacant slot.
const VACANT: u64 = 0;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    keys: [u64; SLOTS],
    rows_plus_1: [u64; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == tierra_interleave::LINE_BYTES);

// SAFETY: eight integers that fill a line, aligned to it.
unsafe impl Node for Bucket {
    const ZERO: Bucket = Bucket {
        keys: [0; SLOTS],
        rows_plus_1: [VACANT; SLOTS],
    };
}

impl Bucket {
    /// Whether every slot is occupied: the entries of a key may go on in the next bucket.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.rows_plus_1[SLOTS - 1] != VACANT
    }

    /// The first row of `key` at or after slot `from`, and the slot after it.
    #[inline(always)]
    pub(super) fn find(&self, key: u64, from: usize) -> Option<(u64, usize)> {
        (from..SLOTS)
            .find(|&slot| self.keys[slot] == key && self.rows_plus_1[slot] != VACANT)
            .map(|slot| (self.rows_plus_1[slot] - 1, slot + 1))
    }

    /// Adds an entry; `false` if the bucket is full.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, row: u64) -> bool {
        debug_assert_ne!(row, NO_ROW);
        let vacant = self.rows_plus_1.iter().position(|&word| word == VACANT);
        let Some(slot) = vacant else { return false };
        self.keys[slot] = key;
        self.rows_plus_1[slot] = row + 1;
        true
    }

    /// The entries, in the order in which they were added.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let words = self.keys.iter().zip(&self.rows_plus_1);
        words
            .take_while(|&(_, &word)| word != VACANT)
            .map(|(&key, &word)| (key, word - 1))
    }
}
