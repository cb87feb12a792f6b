//! Which grains of a pool are free, live, or not yet known to be either.

use std::collections::BTreeMap;

use super::layout::FIRST_EXTENT;
use crate::free_space::FreeSpace;

/// The state of a pool's grains.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) free: FreeSpace,
    /// Runs in use, offset to length: finished extents and open writers.
    pub(super) live: BTreeMap<u64, u64>,
    pub(super) live_bytes: u64,
    /// Bytes that are neither live nor free before the live extents are given.
    pub(super) unknown_bytes: u64,
    /// Whether an allocation has been made since the pool was opened.
    pub(super) allocated: bool,
    /// Whether live and unknown space is known to have no holes.
    pub(super) backed: bool,
    /// The free runs that may have no space in the file system.
    pub(super) holes: FreeSpace,
}

impl Space {
    /// Of a new pool: all free.
    pub(super) fn new(len_bytes: u64) -> Space {
        Space {
            free: FreeSpace::around(FIRST_EXTENT, len_bytes, std::iter::empty()),
            live: BTreeMap::new(),
            live_bytes: 0,
            unknown_bytes: 0,
            allocated: false,
            backed: true,
            holes: FreeSpace::none(u64::MAX),
        }
    }

    /// Of a pool just opened: nothing is known to be free.
    pub(super) fn unknown(len_bytes: u64) -> Space {
        Space {
            free: FreeSpace::none(len_bytes),
            unknown_bytes: len_bytes - FIRST_EXTENT,
            backed: false,
            ..Space::new(FIRST_EXTENT)
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.live_bytes + self.unknown_bytes
    }

    /// Bytes of the live run that begins at `start`.
    pub(super) fn live_bytes_at(&self, start: u64) -> Option<u64> {
        self.live.get(&start).copied()
    }

    /// Whether the live extents are not known yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.unknown_bytes > 0
    }

    pub(super) fn take(&mut self, span: u64) -> Option<u64> {
        let start = self.free.take(span)?;
        self.live.insert(start, span);
        self.live_bytes += span;
        self.allocated = true;
        Some(start)
    }
}
