//! The copies of a replica set, and the one way of storing to them.
//!
//! A [`Replica`] is generic over the layer [`PersistLayer`] it, and over nothing else: the processor, which flushes and fences
//! directly, or the pool ([`ViaPool`]), if the kernel has to be called, if far memory is emulated, and if stores are
//! recorded ([`crate::recording`]). What is stored, in which order, what of it is flushed and what is fenced is
//! decided here, by the same code over both, so a recording shows the production code.
//!
//! Checks whose results change only with a fault ([`trouble`]) are repeated only after one: is the pool
//! healthy, has a store gone to a lost page. What is written is counted once for all copies.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::PoolError;
use super::checked_log::CheckedLog;
use super::counters::{Cause, Tally};
use super::stored::{Persisted, Words, copy, store_words};
use crate::arch::Scatter;
use crate::persist::{Lines, Processor};
use crate::recording::Order;
use crate::{LINE_BYTES, arch, emulation, trouble};

/// The layer that stores, flushes and fences for a copy. Lines are mapped and lie in the copy.
pub(crate) trait PersistLayer: Sized + 'static {
    /// Proof that lines are on their way.
    type Flushed;
    /// Lines on their way to several copies.
    type InFlight<'t>: Default
    where
        Self: 't;

    /// Announces bytes that are stored next.
    fn stores(copy: &Replica<Self>, to: *const u8, bytes: &[u8], order: Order);

    /// Whether the processor stores. Otherwise [`PersistLayer::write`] writes, and there is no cache to store past.
    fn is_stored_to(copy: &Replica<Self>) -> bool;

    /// Writes bytes to `at`.
    fn write(copy: &Replica<Self>, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// The proof for bytes stored past the cache, which need no flush.
    fn streamed(lines: Lines) -> Self::Flushed;

    /// Sends lines on their way.
    fn flush(copy: &Replica<Self>, lines: Lines) -> io::Result<Self::Flushed>;

    /// Both, of one copy.
    fn both(one: Self::Flushed, other: Self::Flushed) -> Self::Flushed;

    /// Waits for them.
    fn fence(copy: &Replica<Self>, flushed: Self::Flushed) -> io::Result<()>;

    /// Leaves them to the one fence of several copies, or of one pool, if they cannot share more.
    fn join<'t>(
        copy: &'t Replica<Self>,
        in_flight: &mut Self::InFlight<'t>,
        flushed: Self::Flushed,
    );

    /// That fence.
    fn fence_all(in_flight: Self::InFlight<'_>) -> Result<(), PoolError>;
}

impl PersistLayer for Processor {
    type Flushed = ();
    type InFlight<'t> = ();

    #[inline(always)]
    fn stores(_: &Replica<Self>, _: *const u8, _: &[u8], _: Order) {}

    #[inline(always)]
    fn is_stored_to(_: &Replica<Self>) -> bool {
        true
    }

    fn write(copy: &Replica<Self>, at: u64, bytes: &[u8]) -> io::Result<()> {
        copy.log.write(at, bytes)
    }

    #[inline(always)]
    fn streamed(_: Lines) {}

    #[inline(always)]
    fn flush(copy: &Replica<Self>, lines: Lines) -> io::Result<()> {
        // SAFETY: inside a live log, hence mapped; the medium's own processor has its instruction.
        unsafe { copy.layer.flush_lines(lines) };
        Ok(())
    }

    #[inline(always)]
    fn both((): (), (): ()) {}

    #[inline(always)]
    fn fence(_: &Replica<Self>, (): ()) -> io::Result<()> {
        arch::fence();
        Ok(())
    }

    #[inline(always)]
    fn join(_: &Replica<Self>, (): &mut (), (): ()) {}

    #[inline(always)]
    fn fence_all((): ()) -> Result<(), PoolError> {
        arch::fence();
        Ok(())
    }
}

/// The copy's pool, by its medium; and its recorder, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViaPool;

/// Bytes from the first line on its way to the last. A fence waits for the flushes of its own thread only, so
/// this stays on it.
#[must_use = "what is not fenced does not survive a power cut"]
pub(crate) struct Unfenced {
    start: *const u8,
    end: *const u8,
    _not_send: PhantomData<*const ()>,
}

/// What has been flushed and not fenced yet.
#[derive(Default)]
pub(crate) struct InPools<'t> {
    /// Any copy of those whose fences are one.
    shared: Option<&'t Replica<ViaPool>>,
    /// Ranges of pools that are each waited for, with a copy there.
    ranges: Vec<(&'t Replica<ViaPool>, Unfenced)>,
}

/// Ranges of one pool are waited for together if they lie this close: the kernel looks at all pages between.
const JOINED_BYTES_MOST: usize = 64 << 20;

impl Unfenced {
    /// Whether both are in a range that is not too long. They are of one pool.
    fn is_near(&self, other: &Unfenced) -> bool {
        let (start, end) = (self.start.min(other.start), self.end.max(other.end));
        end.addr() - start.addr() <= JOINED_BYTES_MOST
    }

    /// The range of both.
    fn extend(&mut self, other: &Unfenced) {
        (self.start, self.end) = (self.start.min(other.start), self.end.max(other.end));
    }
}

impl PersistLayer for ViaPool {
    type Flushed = Unfenced;
    type InFlight<'t> = InPools<'t>;

    fn stores(copy: &Replica<Self>, to: *const u8, bytes: &[u8], order: Order) {
        if let Some(recorder) = copy.log.recorder() {
            recorder.stored(to, bytes, order);
        }
        if order == Order::Stream {
            emulation::streamed(to, bytes.len());
        }
    }

    fn is_stored_to(copy: &Replica<Self>) -> bool {
        copy.log.medium().is_stored_to()
    }

    fn write(copy: &Replica<Self>, at: u64, bytes: &[u8]) -> io::Result<()> {
        copy.log.write(at, bytes)
    }

    fn streamed(lines: Lines) -> Unfenced {
        Unfenced {
            start: lines.first,
            end: lines.first.wrapping_add(lines.count * LINE_BYTES),
            _not_send: PhantomData,
        }
    }

    fn flush(copy: &Replica<Self>, lines: Lines) -> io::Result<Unfenced> {
        let len_bytes = (lines.count * LINE_BYTES) as u64;
        // SAFETY: inside a live log of this medium's file, hence mapped.
        unsafe { copy.log.medium().flush(lines.first, len_bytes)? };
        Ok(ViaPool::streamed(lines))
    }

    fn both(mut one: Unfenced, other: Unfenced) -> Unfenced {
        one.extend(&other);
        one
    }

    fn fence(copy: &Replica<Self>, Unfenced { start, end, .. }: Unfenced) -> io::Result<()> {
        let len_bytes = (end.addr() - start.addr()) as u64;
        // SAFETY: both ends lie in the copy's log or at its end, whose last line is mapped to its end.
        unsafe { copy.log.medium().fence(start, len_bytes) }
    }

    fn join<'t>(copy: &'t Replica<Self>, in_flight: &mut InPools<'t>, flushed: Unfenced) {
        if copy.log.shares_fences() {
            in_flight.shared = Some(copy);
            return;
        }
        let mut others = in_flight.ranges.iter_mut();
        let near = others.find_map(|(other, range)| {
            let is_same = Arc::ptr_eq(other.log.pool(), copy.log.pool());
            (is_same && range.is_near(&flushed)).then_some(range)
        });
        match near {
            Some(range) => range.extend(&flushed),
            None => in_flight.ranges.push((copy, flushed)),
        }
    }

    fn fence_all(InPools { shared, ranges }: InPools<'_>) -> Result<(), PoolError> {
        for (copy, range) in ranges {
            ViaPool::fence(copy, range).map_err(|e| copy.failed(e))?;
        }
        match shared {
            // A processor's fence, which ignores the range.
            Some(copy) => {
                let any = ViaPool::streamed(Lines::of(copy.start.as_ptr(), LINE_BYTES));
                ViaPool::fence(copy, any).map_err(|e| copy.failed(e))
            }
            None => Ok(()),
        }
    }
}

/// One copy: its memory, and the layer below it. Offsets and lengths given to it have been checked to lie in it.
#[derive(Clone, Debug)]
pub(crate) struct Replica<B> {
    start: NonNull<u8>,
    layer: B,
    /// Keeps the address mapped.
    log: CheckedLog,
}

// SAFETY: the address is that of a log, which may be sent and shared; bytes are written through it only
// by the exclusive owner of the replica set, or its worker meanwhile.
unsafe impl<B: Send> Send for Replica<B> {}
// SAFETY: as above.
unsafe impl<B: Sync> Sync for Replica<B> {}

/// The lines of bytes that were stored. They have the same offsets in every copy, so they are computed once for
/// all.
#[derive(Clone, Copy, Debug)]
#[must_use = "what is not flushed does not survive a power cut"]
pub(crate) struct UnflushedSpan(Lines);

impl<B: PersistLayer> Replica<B> {
    fn new(log: &CheckedLog, layer: B) -> Replica<B> {
        let start = log.start();
        debug_assert!(start.addr().get().is_multiple_of(LINE_BYTES));
        Replica {
            start,
            layer,
            log: log.clone(),
        }
    }

    #[inline(always)]
    fn address(&self, at: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at as usize)
    }

    #[inline(always)]
    fn span(&self, at: u64, len_bytes: usize) -> UnflushedSpan {
        let at = at as usize;
        UnflushedSpan(Lines {
            first: self.address((at - at % LINE_BYTES) as u64),
            count: Lines::count(at, len_bytes),
        })
    }

    /// The device refused: what the copy holds is unknown.
    pub(crate) fn failed(&self, source: io::Error) -> PoolError {
        self.log.failed(source)
    }

    /// Fetches the line at `at`, to be written soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        arch::prefetch(self.address(at));
    }

    /// Copies bytes to `at`.
    #[inline(always)]
    pub(crate) fn store(&self, at: u64, bytes: &[u8]) -> Result<UnflushedSpan, PoolError> {
        let start = self.address(at);
        B::stores(self, start, bytes, Order::None);
        if B::is_stored_to(self) {
            // SAFETY: inside a live log, hence mapped; a replica set is its log's one writer, and no slice of it is
            // held while it is written.
            unsafe { copy(start, bytes) };
        } else {
            B::write(self, at, bytes).map_err(|e| self.failed(e))?;
        }
        Ok(self.span(at, bytes.len()))
    }

    /// Stores words of the line at `at` in the order given.
    #[inline(always)]
    pub(crate) fn store_line(&self, at: u64, words: &[(usize, u64)]) -> UnflushedSpan {
        let start = self.address(at);
        let stores = |to: *mut u8, word: u64| {
            B::stores(self, to, &word.to_ne_bytes(), Order::Program);
        };
        // SAFETY: as for `store`; payloads begin at a line, so the line is whole.
        unsafe { store_words(start, words.iter().copied(), stores) };
        self.span(at, LINE_BYTES)
    }

    /// Copies bytes to `at` in all copies, eight bytes to up to eight of them by one instruction, which
    /// the `Scatter` says the processor has.
    pub(crate) fn scatter(
        _: Scatter,
        copies: &[Replica<B>],
        at: u64,
        bytes: &[u8],
    ) -> Result<(), PoolError> {
        if !copies.iter().all(B::is_stored_to) {
            let mut each = copies.iter();
            return each.try_for_each(|copy| copy.store(at, bytes).map(drop));
        }
        for group in copies.chunks(8) {
            let mut to = [std::ptr::null_mut(); 8];
            for (slot, copy) in to.iter_mut().zip(group) {
                *slot = copy.address(at);
                B::stores(copy, *slot, bytes, Order::None);
            }
            // SAFETY: as for `store`, for each of them; a `Scatter` proves that the processor has the instruction.
            unsafe { arch::scatter(&to, group.len(), bytes) };
        }
        Ok(())
    }

    /// What [`Replica::scatter`] stored.
    #[inline(always)]
    pub(crate) fn scattered(&self, at: u64, len_bytes: u64) -> UnflushedSpan {
        self.span(at, len_bytes as usize)
    }

    /// Copies bytes to `at` past the cache: whole words of four by streaming stores, which need no flush, what is
    /// left at both ends through the cache.
    #[inline(always)]
    pub(crate) fn stream(&self, at: u64, bytes: &[u8]) -> Result<B::Flushed, PoolError> {
        if !B::is_stored_to(self) {
            return self.flush(self.store(at, bytes)?);
        }
        let parts = Words::of(at, bytes);
        let from = at + parts.head.len() as u64;
        let words = self.address(from);
        B::stores(self, words, parts.words, Order::Stream);
        // SAFETY: as for `store`; the words begin and end at a multiple of four.
        unsafe { arch::stream_words(words, parts.words) };
        let mut flushed = B::streamed(self.span(from, parts.words.len()).0);
        if !parts.head.is_empty() {
            let head = self.store(at, parts.head)?;
            if !parts.ends_share_a_line && !planted::is(planted::Bug::HeadNotFlushed) {
                flushed = B::both(flushed, self.flush(head)?);
            }
        }
        if !parts.tail.is_empty() {
            let behind = at + (bytes.len() - parts.tail.len()) as u64;
            let tail = self.store(behind, parts.tail)?;
            if !planted::is(planted::Bug::TailNotFlushed) {
                flushed = B::both(flushed, self.flush(tail)?);
            }
        }
        Ok(flushed)
    }

    /// Sends what was stored on its way.
    #[inline(always)]
    pub(crate) fn flush(
        &self,
        UnflushedSpan(mut lines): UnflushedSpan,
    ) -> Result<B::Flushed, PoolError> {
        if planted::is(planted::Bug::LastLineNotFlushed) {
            lines.count = lines.count.max(2) - 1;
        }
        B::flush(self, lines).map_err(|e| self.failed(e))
    }

    /// Waits for it.
    #[inline(always)]
    pub(crate) fn fence(&self, flushed: B::Flushed) -> Result<Persisted, PoolError> {
        B::fence(self, flushed).map_err(|e| self.failed(e))?;
        Ok(Persisted::by_fence())
    }

    /// Leaves it to the one fence of several copies.
    #[inline(always)]
    pub(crate) fn join<'t>(&'t self, in_flight: &mut B::InFlight<'t>, flushed: B::Flushed) {
        B::join(self, in_flight, flushed);
    }

    /// Waits for all of it.
    #[inline(always)]
    pub(crate) fn fence_all(in_flight: B::InFlight<'_>) -> Result<Persisted, PoolError> {
        if !planted::is(planted::Bug::NoFence) {
            B::fence_all(in_flight)?;
        }
        Ok(Persisted::by_fence())
    }
}

impl Replica<ViaPool> {
    /// Writes this copy alone past the cache, durably on return.
    pub(crate) fn catch_up(&self, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        self.fence(self.stream(at, bytes)?)?;
        let written = WrittenRange::NOTHING.and(at, bytes.len());
        let counts = self.log.counts();
        counts.written(Cause::Log, written.bytes, written.lines);
        self.log.refuse_if_lost(at, bytes.len() as u64)
    }
}

/// The copies of a replica set, the master first. It belongs to the set's one writer.
#[derive(Debug)]
pub(crate) struct Copies {
    via_pool: Vec<Replica<ViaPool>>,
    /// The same, if the processor flushes all of them and nothing is recorded.
    by_processor: Option<Vec<Replica<Processor>>>,
    /// Of each copy.
    written: Arc<Tally>,
    /// [`trouble::count`] when all pools were last found healthy; only trouble changes that.
    healthy_at: u64,
}

impl Copies {
    pub(crate) fn new(logs: &[CheckedLog]) -> Copies {
        let by_processor = logs.iter().map(|log| {
            let processor = log.processor()?;
            Some(Replica::new(log, processor))
        });
        let copies = Copies {
            via_pool: logs.iter().map(|one| Replica::new(one, ViaPool)).collect(),
            by_processor: by_processor.collect(),
            written: Arc::default(),
            healthy_at: 0,
        };
        for copy in &copies.via_pool {
            copy.log.counts().join(&copies.written);
        }
        copies
    }

    /// For writes without the pool, which is correct while far memory is not emulated.
    #[inline(always)]
    pub(crate) fn by_processor(&self) -> Option<&[Replica<Processor>]> {
        match &self.by_processor {
            Some(copies) if !emulation::is_on() => Some(copies),
            _ => None,
        }
    }

    /// For all others.
    pub(crate) fn by_pool(&self) -> &[Replica<ViaPool>] {
        &self.via_pool
    }

    /// Fetches the line at `at` of the master, which is about to be written. The place may lie outside.
    #[inline(always)]
    pub(crate) fn prefetch_master(&self, at: u64) {
        if let Some(master) = self.via_pool.first() {
            master.prefetch(at);
        }
    }

    /// Whether no trouble has happened since all pools were found healthy.
    #[inline(always)]
    fn are_healthy(&self) -> bool {
        trouble::count() == self.healthy_at
    }

    /// Refuses where a pool's device has, as [`CheckedLog::refuse_if_poisoned`].
    #[inline(always)]
    pub(crate) fn refuse_if_poisoned(&mut self) -> Result<(), PoolError> {
        match self.are_healthy() {
            true => Ok(()),
            false => self.recheck_health(),
        }
    }

    #[cold]
    fn recheck_health(&mut self) -> Result<(), PoolError> {
        // Read before the pools are checked: trouble that happens meanwhile causes another check.
        let troubles = trouble::count();
        let mut logs = self.via_pool.iter().map(|copy| &copy.log);
        logs.clone().try_for_each(CheckedLog::refuse_if_poisoned)?;
        if logs.all(CheckedLog::is_healthy) {
            self.healthy_at = troubles;
        }
        Ok(())
    }

    /// Counts what was written to each copy, and refuses if any of it went to a lost page.
    #[inline(always)]
    pub(crate) fn wrote(&self, written: WrittenRange) -> Result<(), PoolError> {
        self.written.add(written.bytes, written.lines);
        match self.are_healthy() {
            true => Ok(()),
            // Two numbers rather than `written`, which would be spilled to memory for the call, trouble or not.
            false => self.refuse_if_lost(written.first, written.end),
        }
    }

    /// Refuses if any of that, which is about to be written, is lost.
    pub(crate) fn refuse_if_lost_in(&self, range: WrittenRange) -> Result<(), PoolError> {
        match self.are_healthy() {
            true => Ok(()),
            false => self.refuse_if_lost(range.first, range.end),
        }
    }

    #[cold]
    fn refuse_if_lost(&self, first: u64, end: u64) -> Result<(), PoolError> {
        let mut logs = self.via_pool.iter().map(|copy| &copy.log);
        logs.try_for_each(|log| log.refuse_if_lost(first.min(end), end.saturating_sub(first)))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for copy in &self.via_pool {
            copy.log.counts().leave(&self.written);
        }
    }
}

/// What was written to each copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenRange {
    /// The least offset, and the greatest end.
    first: u64,
    end: u64,
    bytes: u64,
    lines: u64,
}

impl WrittenRange {
    pub(crate) const NOTHING: WrittenRange = WrittenRange {
        first: u64::MAX,
        end: 0,
        bytes: 0,
        lines: 0,
    };

    /// And `len_bytes` at `at`.
    #[inline(always)]
    pub(crate) fn and(self, at: u64, len_bytes: usize) -> WrittenRange {
        WrittenRange {
            first: self.first.min(at),
            end: self.end.max(at + len_bytes as u64),
            bytes: self.bytes + len_bytes as u64,
            // Payloads begin at a line.
            lines: self.lines + Lines::count(at as usize, len_bytes) as u64,
        }
    }
}

/// Bugs that tests plant in the code above, to see the simulated power cut find them.
pub(crate) mod planted {
    /// What is omitted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(not(test), allow(dead_code, reason = "planted by tests only"))]
    pub(crate) enum Bug {
        HeadNotFlushed,
        TailNotFlushed,
        LastLineNotFlushed,
        NoFence,
    }

    #[cfg(test)]
    thread_local! {
        pub(crate) static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
    }

    #[cfg(test)]
    pub(super) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    #[cfg(not(test))]
    #[inline(always)]
    pub(super) fn is(_: Bug) -> bool {
        false
    }
}
