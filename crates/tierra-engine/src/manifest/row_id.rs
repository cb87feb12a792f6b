//! Row ids, used in lookups and indexes.

use crate::manifest::SEGMENT_ROWS;

/// A row's identity in its table: the segment that holds it, or will, and its place there. Sealing the tail does not change it,
/// and it is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u64);

impl RowId {
    pub(crate) fn new(segment: u32, row: u32) -> Self {
        debug_assert!((row as usize) < SEGMENT_ROWS);
        Self(u64::from(segment) * SEGMENT_ROWS as u64 + u64::from(row))
    }

    /// From a number that [`RowId::get`] returned.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// A number that other systems may store.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The id of the segment that holds the row, or will.
    pub fn segment(self) -> u64 {
        self.0 / SEGMENT_ROWS as u64
    }

    /// The row's place in that segment.
    pub fn row(self) -> usize {
        (self.0 % SEGMENT_ROWS as u64) as usize
    }
}
