//! A copy whose lines the processor flushes and that nobody looks at: written without asking its pool.
//!
//! [`Direct`] and [`Place`] are twins behind one trait, so that what decides about order, flushes and fences
//! is the same code over both, and what is shown of it with a recorder ([`crate::simulation`]) holds for
//! both. What this one leaves out are questions whose answers do not change while a pool is open: is there a
//! recorder, what does its medium ask for, can a flush fail. The one that may change, is the pool well, is
//! asked again only after a trouble ([`trouble`]), and what is written is counted once for all copies.

use std::ptr::NonNull;
use std::sync::Arc;

use super::PoolError;
use super::counters::Tally;
use super::place::{InFlight, Place};
use super::stored::{Flushed, Persisted, Unpersisted, Words, copy, store_words};
use crate::faults::trouble;
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

/// The copies of a replica set, if none of their pools has to be asked. It belongs to the set's one writer.
#[derive(Debug)]
pub(crate) struct DirectCopies {
    copies: Vec<Direct>,
    /// Of each copy.
    written: Arc<Tally>,
    /// [`trouble::count`] when all pools were last found well; nothing else than trouble makes them unwell.
    well_at: u64,
}

impl DirectCopies {
    /// `None` where a pool has to be asked each time.
    pub(crate) fn new(places: &[Place]) -> Option<DirectCopies> {
        let copies: Option<Vec<Direct>> = places.iter().map(Direct::new).collect();
        let copies = DirectCopies {
            copies: copies?,
            written: Arc::default(),
            well_at: 0,
        };
        for copy in &copies.copies {
            copy.place.counts().join(&copies.written);
        }
        Some(copies)
    }

    #[inline(always)]
    pub(crate) fn targets(&self) -> &[Direct] {
        &self.copies
    }

    /// Whether all pools are as they were when they were found well.
    #[inline(always)]
    fn are_well(&self) -> bool {
        trouble::count() == self.well_at
    }

    /// Refuses where a pool's device has, as [`Place::refuse_if_poisoned`].
    #[inline(always)]
    pub(crate) fn refuse_if_poisoned(&mut self) -> Result<(), PoolError> {
        match self.are_well() {
            true => Ok(()),
            false => self.ask_pools(),
        }
    }

    #[cold]
    fn ask_pools(&mut self) -> Result<(), PoolError> {
        // Before they are asked: what happens meanwhile is asked for again.
        let troubles = trouble::count();
        let mut places = self.copies.iter().map(|copy| &copy.place);
        places.clone().try_for_each(Place::refuse_if_poisoned)?;
        if places.all(Place::is_well) {
            self.well_at = troubles;
        }
        Ok(())
    }

    /// Counts what was written to each copy, and refuses if any of it went to a lost page.
    #[inline(always)]
    pub(crate) fn wrote(&self, written: WrittenDirectly) -> Result<(), PoolError> {
        self.written.add(written.bytes, written.lines);
        match self.are_well() {
            true => Ok(()),
            false => self.refuse_if_lost(written),
        }
    }

    #[cold]
    fn refuse_if_lost(
        &self,
        WrittenDirectly { first, end, .. }: WrittenDirectly,
    ) -> Result<(), PoolError> {
        let mut places = self.copies.iter().map(|copy| &copy.place);
        places.try_for_each(|place| place.refuse_if_lost(first.min(end), end.saturating_sub(first)))
    }
}

impl Drop for DirectCopies {
    fn drop(&mut self) {
        for copy in &self.copies {
            copy.place.counts().leave(&self.written);
        }
    }
}

/// What was written to each copy without asking its pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenDirectly {
    /// Where the first place begins, and the last ends.
    first: u64,
    end: u64,
    bytes: u64,
    lines: u64,
}

impl WrittenDirectly {
    pub(crate) const NOTHING: WrittenDirectly = WrittenDirectly {
        first: u64::MAX,
        end: 0,
        bytes: 0,
        lines: 0,
    };

    /// And `len_bytes` at `at`.
    #[inline(always)]
    pub(crate) fn and(self, at: u64, len_bytes: usize) -> WrittenDirectly {
        WrittenDirectly {
            first: self.first.min(at),
            end: self.end.max(at + len_bytes as u64),
            bytes: self.bytes + len_bytes as u64,
            // Payloads begin at a line.
            lines: self.lines + Lines::count(at as usize, len_bytes) as u64,
        }
    }
}

/// A place, its address, and who flushes it.
#[derive(Debug)]
pub(crate) struct Direct {
    start: NonNull<u8>,
    processor: Processor,
    /// Keeps the address mapped.
    place: Place,
}

// SAFETY: the address is that of a place, which may be sent and shared; bytes are written through it only
// by whoever has the replica set to itself.
unsafe impl Send for Direct {}
// SAFETY: as above.
unsafe impl Sync for Direct {}

/// The lines of bytes at an address of a copy. They begin where they do in every copy, so that what is worked out
/// of a place is worked out once for all.
#[derive(Clone, Copy, Debug)]
#[must_use = "what is not flushed does not survive a power cut"]
pub(crate) struct Span(Lines);

impl Direct {
    fn new(place: &Place) -> Option<Direct> {
        let processor = place.processor()?;
        let start = NonNull::new(place.bytes().as_ptr().cast_mut())?;
        debug_assert!(start.addr().get().is_multiple_of(LINE_BYTES));
        Some(Direct {
            start,
            processor,
            place: place.clone(),
        })
    }

    #[inline(always)]
    fn address(&self, at: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at as usize)
    }

    #[inline(always)]
    fn span(&self, at: u64, len_bytes: usize) -> Span {
        let at = at as usize;
        Span(Lines {
            first: self.address((at - at % LINE_BYTES) as u64),
            count: Lines::count(at, len_bytes),
        })
    }

    #[inline(always)]
    fn flush_span(&self, span: Span) {
        // SAFETY: inside a live log, hence mapped; the medium's own processor has its instruction.
        unsafe { self.processor.flush_lines(span.0) }
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
        self.span(at, bytes.len())
    }

    #[inline(always)]
    fn store_line(&self, at: u64, words: &[(usize, u64)]) -> Span {
        let start = self.address(at);
        // SAFETY: as for `store`; payloads begin at a line, so the line is whole.
        unsafe { store_words(start, words.iter().copied(), |_, _| ()) };
        self.span(at, LINE_BYTES)
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
        self.span(at, len_bytes as usize)
    }

    #[inline(always)]
    fn stream(&self, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        let parts = Words::of(at, bytes);
        let words = self.address(at + parts.head.len() as u64);
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
