//! A log that was validated once and is written without further checks: one copy of a replica set.
//!
//! Invariant: the extent was found to be a log of its pool, and is not freed as long as this lives.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::counters::Counts;
use super::medium::Medium;
use super::stored::Unpersisted;
use super::{Extent, Pool, PoolError};
use crate::persist::Processor;
use crate::recording::Recorder;

/// A log of a pool. Its methods take offsets within it, which the caller has checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedLog {
    pool: Arc<Pool>,
    extent: Extent,
}

impl CheckedLog {
    /// # Errors
    /// [`PoolError::BadExtent`] if the extent is no log.
    pub(crate) fn new(pool: &Arc<Pool>, extent: Extent) -> Result<CheckedLog, PoolError> {
        pool.check_range(extent, 0, extent.len_bytes)?;
        Ok(CheckedLog {
            pool: Arc::clone(pool),
            extent,
        })
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.pool.bytes(self.extent)
    }

    /// Copies bytes to `at`.
    pub(crate) fn store(&self, at: u64, bytes: &[u8]) -> Unpersisted<'_> {
        let offset = self.offset(at, bytes.len() as u64);
        // SAFETY: inside a live log, hence mapped; a replica set is its log's one writer, and no slice of
        // it is held while it is written.
        unsafe { self.pool.copy(offset, bytes) }
    }

    /// All of the log, which an earlier process may have left unflushed in the caches.
    pub(crate) fn flush_inherited(&self) -> Unpersisted<'_> {
        // SAFETY: a live log is mapped.
        unsafe {
            self.pool
                .stored_before(self.extent.offset, self.extent.len_bytes)
        }
    }

    /// Prefetches the line at `at`, to be written soon.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64) {
        self.pool.prefetch(self.extent.offset + at);
    }

    /// Fails if the pool's device has refused a write.
    pub(crate) fn refuse_if_poisoned(&self) -> Result<(), PoolError> {
        self.pool.refuse_if_poisoned()
    }

    /// The device refused a write: the content of the copy is unknown.
    pub(crate) fn failed(&self, source: io::Error) -> PoolError {
        self.pool.poison("write to a replica", source)
    }

    /// The processor, if it alone flushes the log and nothing is recorded.
    pub(super) fn processor(&self) -> Option<Processor> {
        match self.pool.recorder {
            Some(_) => None,
            None => self.pool.medium.processor(),
        }
    }

    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.pool.recorder.as_ref()
    }

    pub(super) fn medium(&self) -> &dyn Medium {
        &*self.pool.medium
    }

    /// Writes bytes to `at` through the pool's file.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = self.offset(at, bytes.len() as u64);
        self.pool.medium.write(&self.pool.file, offset, bytes)
    }

    /// Where it lies in memory. Reads nothing of it.
    pub(super) fn start(&self) -> NonNull<u8> {
        NonNull::new(self.pool.address(self.extent.offset)).expect("what is mapped has an address")
    }

    /// Fails if any of these bytes, which were stored without the pool, went to a lost page.
    pub(super) fn refuse_if_lost(&self, at: u64, len_bytes: u64) -> Result<(), PoolError> {
        let start = self.pool.address(self.offset(at, len_bytes));
        let lost = self.pool.refuse_if_lost(start, len_bytes);
        lost.map_err(|e| self.failed(e))
    }

    /// Whether the pool has lost nothing and is written to.
    pub(super) fn is_healthy(&self) -> bool {
        !self.pool.may_have_lost() && !self.pool.is_poisoned()
    }

    /// What the pool counts with.
    pub(super) fn counts(&self) -> &Counts {
        &self.pool.counts
    }

    /// Whether one fence of the processor serves this pool and all others of which that is true.
    pub(crate) fn shares_fences(&self) -> bool {
        self.pool.medium.shares_fences()
    }

    fn offset(&self, at: u64, len_bytes: u64) -> u64 {
        debug_assert!(at + len_bytes <= self.extent.len_bytes);
        self.extent.offset + at
    }
}
