//! The unit of a probe: one cache line of five keys.
//!
//! ```text
//!  byte 0                     40                  60      64
//!       │ key 0 │ ... │ key 4 │ pos. 0  │ ... │ 4 │ marks │
//!  marks, from bit 0: 5 occupied │ 8: 5 runs │ 16: overflowed
//! ```
//!
//! A key's position is its row or, if its mark says run, the start of its rows in the part's runs.
//!
//! Invariants: a slot counts only if it is marked as occupied. A key whose home was full went on to the
//! next bucket and left the mark `overflowed` behind: without that mark a probe ends here. 64 zero bytes
//! are an empty bucket.

use std::hint::select_unpredictable;

use crate::node_array::Node;

/// Keys in a bucket.
pub(super) const SLOTS: usize = 5;

const RUNS: u32 = 8;
const OVERFLOWED: u32 = 1 << 16;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    keys: [u64; SLOTS],
    positions: [u32; SLOTS],
    marks: u32,
}

const _: () = assert!(size_of::<Bucket>() == tierra_interleave::LINE_BYTES);

// SAFETY: integers that fill a line without padding, aligned to it.
unsafe impl Node for Bucket {
    const ZERO: Bucket = Bucket {
        keys: [0; SLOTS],
        positions: [0; SLOTS],
        marks: 0,
    };
}

/// What a bucket says about a key.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) found: bool,
    pub(super) is_run: bool,
    pub(super) position: u32,
}

impl Bucket {
    /// The slot of `key`. Takes no branch: whether a probe hits is unpredictable.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Slot {
        let (found, slot) = self.slot_of(key);
        Slot {
            found,
            is_run: self.marks >> (RUNS as usize + slot) & 1 != 0,
            position: self.positions[slot],
        }
    }

    /// Whether `key` is here, and in which slot: any slot if it is not.
    #[inline(always)]
    pub(super) fn slot_of(&self, key: u64) -> (bool, usize) {
        let mut equal = 0;
        for slot in 0..SLOTS {
            equal |= u32::from(self.keys[slot] == key) << slot;
        }
        let hit = equal & self.marks;
        let slot = hit.trailing_zeros() as usize;
        (hit != 0, select_unpredictable(hit != 0, slot, 0))
    }

    /// Whether keys that belong here may be in the next bucket.
    #[inline(always)]
    pub(super) fn is_overflowed(&self) -> bool {
        self.marks & OVERFLOWED != 0
    }

    /// Adds a key that is not here. A full bucket says `false` and is marked as overflowed.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, row: u32) -> bool {
        let slot = (self.marks & ((1 << SLOTS) - 1)).count_ones() as usize;
        if slot == SLOTS {
            self.marks |= OVERFLOWED;
            return false;
        }
        self.keys[slot] = key;
        self.positions[slot] = row;
        self.marks |= 1 << slot;
        true
    }

    /// The row of a slot that is no run.
    pub(super) fn row(&self, slot: usize) -> u32 {
        debug_assert_eq!(self.marks >> (RUNS as usize + slot) & 1, 0);
        self.positions[slot]
    }

    /// Makes the slot a run that begins at `start`.
    pub(super) fn set_run(&mut self, slot: usize, start: u32) {
        self.positions[slot] = start;
        self.marks |= 1 << (RUNS as usize + slot);
    }
}
