//! The unit of a probe: one cache line of four entries.
//!
//! ```text
//!  byte 0      8      16     24     32     40     48     56     64
//!       │ key 0│ key 1│ key 2│ key 3│ row 0│ row 1│ row 2│ row 3│
//! ```
//!
//! Invariants: a slot is vacant exactly if its row is [`VACANT`], and occupied slots come first. A
//! bucket that has a vacant slot never was full, because entries are never removed: a probe ends
//! there.

/// The row of a slot without an entry.
pub(super) const VACANT: u64 = u64::MAX;

/// Entries in a bucket.
pub(super) const SLOTS: usize = 4;

#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    keys: [u64; SLOTS],
    rows: [u64; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == tierra_interleave::LINE_BYTES);

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket {
        keys: [0; SLOTS],
        rows: [VACANT; SLOTS],
    };

    /// Whether every slot is occupied: the entries of a key may go on in the next bucket.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.rows[SLOTS - 1] != VACANT
    }

    /// The first row of `key` at or after slot `from`, and the slot after it.
    #[inline(always)]
    pub(super) fn find(&self, key: u64, from: usize) -> Option<(u64, usize)> {
        (from..SLOTS)
            .find(|&slot| self.keys[slot] == key && self.rows[slot] != VACANT)
            .map(|slot| (self.rows[slot], slot + 1))
    }

    /// Adds an entry; `false` if the bucket is full.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, row: u64) -> bool {
        debug_assert_ne!(row, VACANT);
        let Some(slot) = self.rows.iter().position(|&row| row == VACANT) else {
            return false;
        };
        self.keys[slot] = key;
        self.rows[slot] = row;
        true
    }

    /// The entries, in the order in which they were added.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.keys
            .iter()
            .copied()
            .zip(self.rows.iter().copied())
            .filter(|&(_, row)| row != VACANT)
    }
}
