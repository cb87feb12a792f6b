//! Lines, and the instructions that move them to memory.

use std::fmt;

use crate::LINE_BYTES;

/// The instruction that moves a line from the caches to memory, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flush {
    /// Writes the line back and may keep it cached.
    Clwb,
    /// Writes the line back and evicts it; flushes of different lines overlap.
    ClflushOpt,
    /// Writes the line back and evicts it, one after the other.
    Clflush,
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flush::Clwb => "clwb",
            Flush::ClflushOpt => "clflushopt",
            Flush::Clflush => "clflush",
        })
    }
}

/// The lines that a range of bytes touches, the ragged ones at both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: *const u8,
    pub(crate) count: usize,
}

impl Lines {
    #[inline(always)]
    pub(crate) fn of(start: *const u8, len_bytes: usize) -> Lines {
        let lead = start.addr() % LINE_BYTES;
        Lines {
            first: start.wrapping_sub(lead),
            count: Lines::count(lead, len_bytes),
        }
    }

    /// How many lines have a byte of `len_bytes` bytes that begin `at` bytes behind the beginning of a line.
    #[inline(always)]
    pub(crate) fn count(at: usize, len_bytes: usize) -> usize {
        match len_bytes {
            0 => 0,
            _ => (at + len_bytes).div_ceil(LINE_BYTES) - at / LINE_BYTES,
        }
    }
}
