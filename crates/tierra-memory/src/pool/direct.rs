//! A copy whose lines the processor flushes and that nobody looks at: written without asking its pool.
//!
//! [`Direct`] and [`Place`] are twins behind one trait, so that what decides about order, flushes and fences
//! is the same code over both, and what is shown of it with a recorder ([`crate::simulation`]) holds for
//! both. What this one leaves out are questions whose answers do not change while a pool is open: is there a
//! recorder, what does its medium ask for, can a flush fail.

use std::ptr::NonNull;

use super::PoolError;
use super::place::{InFlight, Place};
use super::stored::{Flushed, Persisted, Unpersisted, Words, copy, store_words};
use crate::persist::{Lines, Processor};
use crate::replication::Scatter;
use crate::{LINE_BYTES, arch};

/// What a template of replication does with a copy. Places and lengths have been checked to lie in it.
pub(crate) trait Target: Sized {
    /// Bytes that were stored.
    type Stored<'t>
    where
        Self: 't;
    /// Bytes on their way.
    type Flushed<'t>
    where
        Self: 't;
    /// Bytes on their way to several copies.
    type InFlight<'t>: Default
    where
        Self: 't;

    /// Fetches the line at `at`, to be written soon.
    fn prefetch(&self, at: u64);

    /// Copies bytes to `at`.
    fn store(&self, at: u64, bytes: &[u8]) -> Self::Stored<'_>;

    /// Stores words of the line at `at` in the order given.
    fn store_line(&self, at: u64, words: &[(usize, u64)]) -> Self::Stored<'_>;

    /// Copies bytes to `at` in all targets, eight bytes to up to eight of them by one instruction, which
    /// `leave` says the processor has.
    fn scatter(leave: Scatter, targets: &[Self], at: u64, bytes: &[u8]);

    /// What [`Target::scatter`] stored.
    fn scattered(&self, at: u64, len_bytes: u64) -> Self::Stored<'_>;

    /// Copies bytes to `at` past the cache.
    fn stream(&self, at: u64, bytes: &[u8]) -> Result<Self::Flushed<'_>, PoolError>;

    /// Sends what was stored on its way.
    fn flush<'t>(&'t self, stored: Self::Stored<'t>) -> Result<Self::Flushed<'t>, PoolError>;

    /// Waits for it.
    fn fence<'t>(&'t self, flushed: Self::Flushed<'t>) -> Result<Persisted, PoolError>;

    /// Leaves it to the one fence of several copies.
    fn join<'t>(
        &'t self,
        in_flight: &mut Self::InFlight<'t>,
        flushed: Self::Flushed<'t>,
    ) -> Result<(), PoolError>;

    /// Waits for all of it.
    fn fence_all<'t>(&'t self, in_flight: Self::InFlight<'t>) -> Result<Persisted, PoolError>;
}

/// A place, its address, and who flushes it.
#[derive(Debug)]
pub(crate) struct Direct {
    start: NonNull<u8>,
    processor: Processor,
    /// Keeps the address mapped.
    _place: Place,
}

// SAFETY: the address is that of a place, which may be sent and shared; bytes are written through it only
// by whoever has the replica set to itself.
unsafe impl Send for Direct {}
// SAFETY: as above.
unsafe impl Sync for Direct {}

/// Bytes at an address of a copy.
#[derive(Clone, Copy, Debug)]
#[must_use = "what is not flushed does not survive a power cut"]
pub(crate) struct Span {
    start: *mut u8,
    len_bytes: usize,
}

impl Direct {
    /// `None` where the pool has to be asked each time.
    pub(crate) fn new(place: &Place) -> Option<Direct> {
        let processor = place.processor()?;
        Some(Direct {
            start: NonNull::new(place.bytes().as_ptr().cast_mut())?,
            processor,
            _place: place.clone(),
        })
    }

    #[inline(always)]
    fn address(&self, at: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at as usize)
    }

    #[inline(always)]
    fn flush_span(&self, span: Span) {
        // SAFETY: inside a live log, hence mapped; the medium's own processor has its instruction.
        unsafe {
            self.processor
                .flush_lines(Lines::of(span.start, span.len_bytes))
        }
    }
}

impl Target for Direct {
    type Stored<'t> = Span;
    type Flushed<'t> = ();
    type InFlight<'t> = ();

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        arch::prefetch(self.address(at));
    }

    #[inline(always)]
    fn store(&self, at: u64, bytes: &[u8]) -> Span {
        let start = self.address(at);
        // SAFETY: inside a live log, hence mapped; a replica set is its log's one writer, and nobody holds
        // a slice of it while it is written.
        unsafe { copy(start, bytes) };
        Span {
            start,
            len_bytes: bytes.len(),
        }
    }

    #[inline(always)]
    fn store_line(&self, at: u64, words: &[(usize, u64)]) -> Span {
        let start = self.address(at);
        // SAFETY: as for `store`; payloads begin at a line, so the line is whole.
        unsafe { store_words(start, words.iter().copied(), |_, _| ()) };
        Span {
            start,
            len_bytes: LINE_BYTES,
        }
    }

    fn scatter(_: Scatter, targets: &[Direct], at: u64, bytes: &[u8]) {
        for group in targets.chunks(8) {
            let mut to = [std::ptr::null_mut(); 8];
            for (slot, target) in to.iter_mut().zip(group) {
                *slot = target.address(at);
            }
            // SAFETY: as for `store`, for each of them; whoever has a `Scatter` has asked the processor.
            unsafe { arch::scatter(&to, group.len(), bytes) };
        }
    }

    #[inline(always)]
    fn scattered(&self, at: u64, len_bytes: u64) -> Span {
        Span {
            start: self.address(at),
            len_bytes: len_bytes as usize,
        }
    }

    #[inline(always)]
    fn stream(&self, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        let start = self.address(at);
        let parts = Words::of(start.addr() as u64, bytes);
        let words = start.wrapping_add(parts.head.len());
        // SAFETY: as for `store`; the words begin and end at a multiple of four.
        unsafe { arch::stream_words(words, parts.words) };
        if !parts.head.is_empty() {
            let head = self.store(at, parts.head);
            if !parts.ends_share_a_line {
                self.flush_span(head);
            }
        }
        if !parts.tail.is_empty() {
            let behind = at + (bytes.len() - parts.tail.len()) as u64;
            self.flush_span(self.store(behind, parts.tail));
        }
        Ok(())
    }

    #[inline(always)]
    fn flush(&self, stored: Span) -> Result<(), PoolError> {
        self.flush_span(stored);
        Ok(())
    }

    #[inline(always)]
    fn fence(&self, (): ()) -> Result<Persisted, PoolError> {
        arch::fence();
        Ok(Persisted::by_fence())
    }

    #[inline(always)]
    fn join(&self, (): &mut (), (): ()) -> Result<(), PoolError> {
        Ok(())
    }

    #[inline(always)]
    fn fence_all(&self, (): ()) -> Result<Persisted, PoolError> {
        arch::fence();
        Ok(Persisted::by_fence())
    }
}

impl Target for Place {
    type Stored<'t> = Unpersisted<'t>;
    type Flushed<'t> = Flushed<'t>;
    type InFlight<'t> = InFlight<'t>;

    fn prefetch(&self, at: u64) {
        Place::prefetch(self, at);
    }

    fn store(&self, at: u64, bytes: &[u8]) -> Unpersisted<'_> {
        Place::store(self, at, bytes)
    }

    fn store_line(&self, at: u64, words: &[(usize, u64)]) -> Unpersisted<'_> {
        Place::store_line(self, at, words)
    }

    fn scatter(leave: Scatter, targets: &[Place], at: u64, bytes: &[u8]) {
        Place::scatter(leave, targets, at, bytes);
    }

    fn scattered(&self, at: u64, len_bytes: u64) -> Unpersisted<'_> {
        Place::scattered(self, at, len_bytes)
    }

    fn stream(&self, at: u64, bytes: &[u8]) -> Result<Flushed<'_>, PoolError> {
        Place::stream(self, at, bytes).map_err(|e| self.failed(e))
    }

    fn flush<'t>(&'t self, stored: Unpersisted<'t>) -> Result<Flushed<'t>, PoolError> {
        stored.flush().map_err(|e| self.failed(e))
    }

    fn fence<'t>(&'t self, flushed: Flushed<'t>) -> Result<Persisted, PoolError> {
        flushed.fence().map_err(|e| self.failed(e))
    }

    fn join<'t>(
        &'t self,
        in_flight: &mut InFlight<'t>,
        flushed: Flushed<'t>,
    ) -> Result<(), PoolError> {
        in_flight.add(self, flushed).map_err(|e| self.failed(e))
    }

    fn fence_all<'t>(&'t self, in_flight: InFlight<'t>) -> Result<Persisted, PoolError> {
        in_flight.fence().map_err(|e| self.failed(e))
    }
}
