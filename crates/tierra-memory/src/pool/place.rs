//! A log that was checked once and is written without asking again: one copy of a replica set.
//!
//! Invariant: the extent was found to be a log of its pool, and is not freed as long as this lives.

use std::io;
use std::sync::Arc;

use super::counters::Counts;
use super::stored::{Flushed, Persisted, Unpersisted};
use super::{Extent, Pool, PoolError};
use crate::persist::Processor;
use crate::replication::Scatter;

/// A log of a pool. Its methods take places that lie in it, which the caller has checked.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pool: Arc<Pool>,
    extent: Extent,
}

impl Place {
    /// # Errors
    /// [`PoolError::BadExtent`] if the extent is no log.
    pub(crate) fn new(pool: &Arc<Pool>, extent: Extent) -> Result<Place, PoolError> {
        pool.check_place(extent, 0, extent.len_bytes)?;
        Ok(Place {
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
        // SAFETY: inside a live log, hence mapped; a replica set is its log's one writer, and nobody
        // holds a slice of it while it is written.
        unsafe { self.pool.copy(offset, bytes) }
    }

    /// Stores words of the line at `at`, a multiple of 64, in the order given.
    pub(crate) fn store_line(&self, at: u64, words: &[(usize, u64)]) -> Unpersisted<'_> {
        let offset = self.offset(at, crate::LINE_BYTES as u64);
        // SAFETY: as for `store`; payloads begin at a line, so the line is whole.
        unsafe { self.pool.store_line(offset, words.iter().copied()) }
    }

    /// Copies bytes to `at` past the cache.
    pub(crate) fn stream(&self, at: u64, bytes: &[u8]) -> io::Result<Flushed<'_>> {
        let offset = self.offset(at, bytes.len() as u64);
        // SAFETY: as for `store`.
        unsafe { self.pool.stream(offset, bytes) }
    }

    /// Copies bytes to `at` in all places, eight bytes into up to eight places by one instruction, which
    /// `_leave` says the processor has. Each is to be flushed ([`Place::scattered`]).
    pub(super) fn scatter(_leave: Scatter, places: &[Place], at: u64, bytes: &[u8]) {
        let len_bytes = bytes.len() as u64;
        let targets = places
            .iter()
            .map(|place| (&*place.pool, place.offset(at, len_bytes)));
        // SAFETY: as for `store`, for each of them; whoever has a `Scatter` has asked the processor.
        unsafe { Pool::scatter(targets, bytes) };
    }

    /// What was stored by [`Place::scatter`].
    pub(super) fn scattered(&self, at: u64, len_bytes: u64) -> Unpersisted<'_> {
        let offset = self.offset(at, len_bytes);
        // SAFETY: mapped, and stored just before.
        unsafe { self.pool.scattered(offset, len_bytes) }
    }

    /// What an earlier process may have left in the caches: all of it.
    pub(crate) fn believed(&self) -> Unpersisted<'_> {
        // SAFETY: a live log is mapped.
        unsafe {
            self.pool
                .stored_before(self.extent.offset, self.extent.len_bytes)
        }
    }

    /// Fetches the line at `at`, to be written soon.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64) {
        self.pool.prefetch(self.extent.offset + at);
    }

    /// Refuses where the pool's device has.
    pub(crate) fn refuse_if_poisoned(&self) -> Result<(), PoolError> {
        self.pool.refuse_if_poisoned()
    }

    /// The device refused: what the copy holds is unknown.
    pub(crate) fn failed(&self, source: io::Error) -> PoolError {
        self.pool.poison("write to a replica", source)
    }

    /// Who flushes it, where that is the processor alone and nobody looks on.
    pub(super) fn processor(&self) -> Option<Processor> {
        match self.pool.recorder {
            Some(_) => None,
            None => self.pool.medium.processor(),
        }
    }

    /// Refuses if any of these bytes, which were stored without asking the pool, went to a lost page.
    pub(super) fn refuse_if_lost(&self, at: u64, len_bytes: u64) -> Result<(), PoolError> {
        let start = self.pool.address(self.offset(at, len_bytes));
        let lost = self.pool.refuse_if_lost(start, len_bytes);
        lost.map_err(|e| self.failed(e))
    }

    /// Whether the pool has lost nothing and is written to.
    pub(super) fn is_well(&self) -> bool {
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

/// What was flushed to several places, to be fenced at once.
#[derive(Debug, Default)]
#[must_use = "what is not fenced does not survive a power cut"]
pub(crate) struct InFlight<'p> {
    /// Stands for all whose fences are shared.
    shared: Option<Flushed<'p>>,
    last: Option<Persisted>,
}

impl<'p> InFlight<'p> {
    /// Adds what was flushed to a place. Where the fence cannot be shared, it is waited for now.
    pub(crate) fn add(&mut self, place: &Place, flushed: Flushed<'p>) -> io::Result<()> {
        if place.shares_fences() {
            // Any one of them will do: a fence waits for all flushes of its thread.
            self.shared = Some(flushed);
        } else {
            self.last = Some(flushed.fence()?);
        }
        Ok(())
    }

    /// Waits for all of it.
    pub(crate) fn fence(self) -> io::Result<Persisted> {
        match (self.shared, self.last) {
            (Some(flushed), _) => flushed.fence(),
            (None, Some(persisted)) => Ok(persisted),
            (None, None) => Ok(Persisted::nothing()),
        }
    }
}
