//! Stores to a pool, and the proof that they are durable.
//!
//! ```text
//! store_line, copy, a slice  ->  Unpersisted  -- flush -->  Flushed  -- fence -->  Persisted
//!                                                              many may share it
//! ```
//! Invariant: a function that must not run before bytes are durable asks for a [`Persisted`], which only a
//! fence makes. Every store to a pool that may be read after a power cut goes through here or, to the logs of a
//! replica set, through `copies.rs`, so a recorder sees them all. Here it costs a branch per store without one, there
//! nothing. What was stored to a page that is lost (`lost.rs`) is not flushed but refused.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Pool;
use super::counters::Cause;
use super::layout::FIRST_EXTENT;
use crate::persist::Lines;
use crate::recording::Order;
use crate::{LINE_BYTES, arch};

/// Bytes that were stored and may be in a cache only: a power cut may keep any part of them.
#[must_use = "what is not flushed does not survive a power cut"]
#[derive(Debug)]
pub(crate) struct Unpersisted<'p> {
    pool: &'p Pool,
    start: *const u8,
    len_bytes: u64,
    /// Those of them that were stored.
    stored_bytes: u64,
    cause: Cause,
}

/// Flushed bytes. A fence waits for the flushes of its own thread only, so this
/// stays on it.
#[must_use = "what is not fenced does not survive a power cut"]
#[derive(Debug)]
pub(crate) struct Flushed<'p> {
    pool: &'p Pool,
    start: *const u8,
    end: *const u8,
    _not_send: PhantomData<*const ()>,
}

/// Proof that bytes survive whatever the medium survives.
#[derive(Debug)]
pub(crate) struct Persisted(());

impl<'p> Unpersisted<'p> {
    /// These bytes and `len_bytes` behind them, which were written through a slice.
    pub(super) fn and_behind(self, len_bytes: u64) -> Unpersisted<'p> {
        Unpersisted {
            len_bytes: self.len_bytes + len_bytes,
            stored_bytes: self.stored_bytes + len_bytes,
            ..self
        }
    }

    /// The same bytes, counted as repair.
    pub(super) fn for_repair(self) -> Unpersisted<'p> {
        Unpersisted {
            cause: Cause::Repair,
            ..self
        }
    }

    #[inline]
    fn count(&self, cause: Cause) {
        let lines = Lines::of(self.start, self.len_bytes as usize).count;
        let counts = &self.pool.counts;
        counts.written(cause, self.stored_bytes, lines as u64);
    }

    /// What an earlier process stored is prepared to be flushed.
    fn begin(&self) -> io::Result<()> {
        self.count(self.cause);
        if self.cause != Cause::Belief {
            return Ok(());
        }
        let pool = self.pool;
        let offset = (self.start.addr() - pool.address(0).addr()) as u64;
        // SAFETY: made by `stored_before`, from mapped bytes of this pool's file, before anybody else has the log or the slot.
        unsafe {
            pool.medium
                .believe(&pool.file, self.start, offset, self.len_bytes)
        }
    }

    /// Flushes the bytes.
    pub(crate) fn flush(self) -> io::Result<Flushed<'p>> {
        self.begin()?;
        // SAFETY: made by the functions below, from mapped bytes of this pool.
        unsafe { self.pool.medium.flush(self.start, self.len_bytes)? };
        self.pool.refuse_if_lost(self.start, self.len_bytes)?;
        Ok(Flushed {
            pool: self.pool,
            start: self.start,
            end: self.start.wrapping_add(self.len_bytes as usize),
            _not_send: PhantomData,
        })
    }

    /// Flush and fence.
    pub(crate) fn persist(self) -> io::Result<Persisted> {
        self.begin()?;
        // SAFETY: as for `flush`.
        unsafe { self.pool.medium.persist(self.start, self.len_bytes)? };
        self.pool.refuse_if_lost(self.start, self.len_bytes)?;
        Ok(Persisted(()))
    }

    /// For bytes that nothing durable names yet: they are durable once [`Pool::settle`] returns.
    pub(super) fn stage(self) -> io::Result<()> {
        self.count(Cause::Extent);
        let Unpersisted { pool, start, .. } = self;
        let offset = (start.addr() - pool.address(0).addr()) as u64;
        // SAFETY: as for `flush`.
        unsafe {
            pool.medium
                .stage(&pool.file, start, offset, self.len_bytes)?
        };
        pool.refuse_if_lost(start, self.len_bytes)?;
        pool.add_staged(offset, self.len_bytes);
        Ok(())
    }
}

impl<'p> Flushed<'p> {
    /// Combines both under one fence. They are of one pool.
    pub(super) fn and(self, other: Flushed<'p>) -> Flushed<'p> {
        debug_assert!(std::ptr::eq(self.pool, other.pool));
        Flushed {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            ..self
        }
    }

    /// Waits until the bytes are durable.
    pub(crate) fn fence(self) -> io::Result<Persisted> {
        let len_bytes = (self.end.addr() - self.start.addr()) as u64;
        // SAFETY: both ends come from mapped bytes of one pool, whose mapping has no holes.
        unsafe { self.pool.medium.fence(self.start, len_bytes)? };
        Ok(Persisted(()))
    }
}

/// What streaming stores can take of some bytes: words of four, and what is left at both ends, shorter than
/// a word, hence in one line each.
pub(super) struct Words<'b> {
    pub(super) head: &'b [u8],
    pub(super) words: &'b [u8],
    pub(super) tail: &'b [u8],
    /// Whether both ends are there and are flushed by one flush.
    pub(super) ends_share_a_line: bool,
}

impl Words<'_> {
    /// Of bytes that go to an address, or to an offset, which is a multiple of lines away from one.
    #[inline(always)]
    pub(super) fn of(at: u64, bytes: &[u8]) -> Words<'_> {
        const WORD_BYTES: usize = 4;
        let lead = (at.next_multiple_of(WORD_BYTES as u64) - at) as usize;
        let (head, rest) = bytes.split_at(lead.min(bytes.len()));
        let (words, tail) = rest.split_at(rest.len() / WORD_BYTES * WORD_BYTES);
        let line = |at: u64| at / LINE_BYTES as u64;
        let last = at + (bytes.len() - tail.len()) as u64;
        Words {
            head,
            words,
            tail,
            ends_share_a_line: !head.is_empty() && !tail.is_empty() && line(at) == line(last),
        }
    }
}

/// Stores words of one line in the order given; `before` is called with each.
///
/// # Safety
/// The line at `start` must be mapped, whole, and this thread's alone.
#[inline(always)]
pub(super) unsafe fn store_words(
    start: *mut u8,
    words: impl IntoIterator<Item = (usize, u64)>,
    before: impl Fn(*mut u8, u64),
) {
    for (at, word) in words {
        assert!(at % 8 == 0 && at < LINE_BYTES, "a word of the line");
        let to = start.wrapping_add(at);
        before(to, word);
        // SAFETY: inside the caller's line and aligned. Release keeps the stores in this order.
        unsafe { AtomicU64::from_ptr(to.cast()) }.store(word, Ordering::Release);
    }
}

/// Copies bytes; the shortest, which are most, without a call.
///
/// # Safety
/// `[to, to + bytes.len())` must be mapped, writable and not shared, hence no part of `bytes`.
#[inline(always)]
pub(super) unsafe fn copy(to: *mut u8, bytes: &[u8]) {
    let from = bytes.as_ptr();
    // SAFETY: both sides have that many bytes, by the caller's promise.
    unsafe {
        match bytes.len() {
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            len => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

impl Persisted {
    /// By a fence that has just completed.
    pub(super) fn by_fence() -> Persisted {
        Persisted(())
    }

    /// Of nothing, which is always durable.
    pub(super) fn nothing() -> Persisted {
        Persisted(())
    }

    /// Of bytes that were read back after the process which stored them had ended.
    pub(super) fn by_earlier_run() -> Persisted {
        Persisted(())
    }
}

impl Pool {
    /// Stores words of one line in the order given: x86 lets them reach memory in no other. Each comes
    /// with its offset in the line.
    ///
    /// # Safety
    /// The line at `offset` must be mapped, whole, and this thread's alone.
    pub(super) unsafe fn store_line(
        &self,
        offset: u64,
        words: impl IntoIterator<Item = (usize, u64)>,
    ) -> Unpersisted<'_> {
        let start = self.address(offset);
        let mut stored_bytes = 0;
        let words = words.into_iter().inspect(|_| stored_bytes += 8);
        // SAFETY: the caller's promise.
        unsafe {
            store_words(start, words, |to, word| {
                if let Some(recorder) = &self.recorder {
                    recorder.stored(to, &word.to_ne_bytes(), Order::Program);
                }
            });
        }
        Unpersisted {
            pool: self,
            start,
            len_bytes: LINE_BYTES as u64,
            stored_bytes,
            cause: match offset < FIRST_EXTENT {
                true => Cause::Superblock,
                false => Cause::Log,
            },
        }
    }

    /// Copies bytes, in no order that could be relied on.
    ///
    /// # Safety
    /// `[offset, offset + bytes.len())` must be mapped and this thread's alone.
    pub(super) unsafe fn copy(&self, offset: u64, bytes: &[u8]) -> Unpersisted<'_> {
        let to = self.address(offset);
        if let Some(recorder) = &self.recorder {
            recorder.stored(to, bytes, Order::None);
        }
        // SAFETY: the caller's promise.
        unsafe { copy(to, bytes) };
        Unpersisted {
            pool: self,
            start: to,
            len_bytes: bytes.len() as u64,
            stored_bytes: bytes.len() as u64,
            cause: Cause::Log,
        }
    }

    /// Prefetches the line of a byte that is going to be written.
    #[inline]
    pub(super) fn prefetch(&self, offset: u64) {
        arch::prefetch(self.address(offset));
    }

    /// Bytes that were stored before, by an earlier process, which a kill may have left in a cache.
    ///
    /// # Safety
    /// `[offset, offset + len_bytes)` must be mapped.
    pub(super) unsafe fn stored_before(&self, offset: u64, len_bytes: u64) -> Unpersisted<'_> {
        Unpersisted {
            pool: self,
            start: self.address(offset),
            len_bytes,
            stored_bytes: 0,
            cause: Cause::Belief,
        }
    }

    /// Waits until everything staged before, by any thread, is durable.
    pub(super) fn settle(&self) -> io::Result<Persisted> {
        self.medium.settle(&self.file)?;
        Ok(Persisted(()))
    }
}
