//! Runs of cache lines.

use crate::LINE_BYTES;

/// Lines that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// The number of the first: its address in lines.
    pub(super) first: u64,
    /// How many, at least one.
    pub(super) count: u64,
}

impl Lines {
    /// Those that a range of bytes touches.
    pub(super) fn of(address: usize, len_bytes: usize) -> Lines {
        let first = (address / LINE_BYTES) as u64;
        let last = ((address + len_bytes.max(1) - 1) / LINE_BYTES) as u64;
        Lines {
            first,
            count: last - first + 1,
        }
    }

    pub(super) fn last(self) -> u64 {
        self.first + self.count - 1
    }
}
