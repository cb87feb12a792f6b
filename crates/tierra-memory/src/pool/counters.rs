//! What a pool was written and found to hold, counted: wear, and damage.
//!
//! Invariant: counts are exact once the threads that count are done; while they work each is some moment's. A
//! thread counts in a shard of its own, by plain additions; only threads beyond [`SHARDS`] share one. Who
//! writes the same to several pools, a word at a time, has a [`Tally`] that counts for all of them at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Bytes that were stored, and the lines that were sent to the medium for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Written {
    /// Bytes stored.
    pub bytes: u64,
    /// Lines flushed, or handed to the kernel to be written back, which does it page by page.
    pub lines: u64,
}

/// What happened to a pool since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Payloads and headers of finished extents.
    pub extents: Written,
    /// Writes to logs: records, undo logs, what transactions change, copies of replica sets.
    pub logs: Written,
    /// Publications.
    pub superblock: Written,
    /// What [`Pool::restore`](crate::Pool::restore) and [`Pool::restore_header`](crate::Pool::restore_header) wrote.
    pub repair: Written,
    /// Lines flushed on opening, because they were read as valid; no bytes were stored.
    pub believed_lines: u64,
    /// Bytes whose checksum was computed, as far as it was reported to the pool ([`Pool::count_check`](crate::Pool::count_check)).
    pub checked_bytes: u64,
    /// Checks that failed.
    pub failed_checks: u64,
    /// Pages lost to errors of the medium.
    pub lost_pages: u64,
}

/// Why something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Extent,
    Log,
    Superblock,
    Repair,
    /// Nothing is: what an earlier process stored is flushed.
    Belief,
}

/// Threads that count for themselves alone; the others share the last shard.
const SHARDS: usize = 32;

/// Slots of a shard: bytes and lines by cause, then the checks.
const CHECKED_BYTES: usize = 10;
const FAILED_CHECKS: usize = 11;
const LOST_PAGES: usize = 12;
const LOG_BYTES: usize = 2 * Cause::Log as usize;
const LOG_LINES: usize = LOG_BYTES + 1;

/// Counts of a thread: two lines, which no other thread's share.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; 13]);

/// The counts of a pool.
#[derive(Debug, Default)]
pub(super) struct Counts {
    shards: [Shard; SHARDS],
    /// Tallies of the current writers. Locked to read them, and to add or remove one.
    tallies: Mutex<Vec<Arc<Tally>>>,
}

/// What one writer has written to logs, for each pool that it writes the same to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    bytes: AtomicU64,
    lines: AtomicU64,
}

impl Tally {
    /// Counts a write. One thread at a time.
    #[inline(always)]
    pub(super) fn add(&self, bytes: u64, lines: u64) {
        for (counter, count) in [(&self.bytes, bytes), (&self.lines, lines)] {
            let sum = counter.load(Ordering::Relaxed).wrapping_add(count);
            counter.store(sum, Ordering::Relaxed);
        }
    }

    fn sum(&self, slot: usize) -> u64 {
        match slot {
            LOG_BYTES => self.bytes.load(Ordering::Relaxed),
            LOG_LINES => self.lines.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The shard of this thread, the same in all pools.
#[inline]
fn shard() -> usize {
    match SHARD.get() {
        usize::MAX => new_shard(),
        shard => shard,
    }
}

#[cold]
fn new_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let shard = NEXT.fetch_add(1, Ordering::Relaxed).min(SHARDS - 1);
    SHARD.set(shard);
    shard
}

impl Counts {
    #[inline]
    fn add(&self, shard: usize, slot: usize, count: u64) {
        let counter = &self.shards[shard].0[slot];
        if shard < SHARDS - 1 {
            // There is no other writer.
            let sum = counter.load(Ordering::Relaxed).wrapping_add(count);
            counter.store(sum, Ordering::Relaxed);
        } else {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn written(&self, cause: Cause, bytes: u64, lines: u64) {
        let shard = shard();
        self.add(shard, 2 * cause as usize, bytes);
        self.add(shard, 2 * cause as usize + 1, lines);
    }

    pub(super) fn lost(&self, pages: u64) {
        self.add(shard(), LOST_PAGES, pages);
    }

    pub(super) fn checked(&self, bytes: u64, is_valid: bool) {
        let shard = shard();
        self.add(shard, CHECKED_BYTES, bytes);
        self.add(shard, FAILED_CHECKS, u64::from(!is_valid));
    }

    /// From now on what the tally counts, and has counted, is this pool's as well.
    pub(super) fn join(&self, tally: &Arc<Tally>) {
        lock(&self.tallies).push(Arc::clone(tally));
    }

    /// The tally counts no more.
    pub(super) fn leave(&self, tally: &Arc<Tally>) {
        let mut tallies = lock(&self.tallies);
        if let Some(at) = tallies.iter().position(|one| Arc::ptr_eq(one, tally)) {
            let (bytes, lines) = (tally.sum(LOG_BYTES), tally.sum(LOG_LINES));
            self.written(Cause::Log, bytes, lines);
            tallies.swap_remove(at);
        }
    }

    /// What was counted so far.
    pub(super) fn so_far(&self) -> Counters {
        let written = |cause: Cause| Written {
            bytes: self.sum(2 * cause as usize),
            lines: self.sum(2 * cause as usize + 1),
        };
        Counters {
            extents: written(Cause::Extent),
            logs: written(Cause::Log),
            superblock: written(Cause::Superblock),
            repair: written(Cause::Repair),
            believed_lines: written(Cause::Belief).lines,
            checked_bytes: self.sum(CHECKED_BYTES),
            failed_checks: self.sum(FAILED_CHECKS),
            lost_pages: self.sum(LOST_PAGES),
        }
    }

    fn sum(&self, slot: usize) -> u64 {
        let tallies = lock(&self.tallies);
        let shards = self.shards.iter().map(|shard| &shard.0[slot]);
        let counts = shards.map(|count| count.load(Ordering::Relaxed));
        let counts = counts.chain(tallies.iter().map(|tally| tally.sum(slot)));
        counts.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than shards.
    #[test]
    fn nothing_is_counted_twice_or_forgotten() {
        const THREADS: u64 = 2 * SHARDS as u64;
        let counts = Counts::default();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..1_000).for_each(|n| counts.written(Cause::Log, n, 2)));
            }
        });
        assert_eq!(counts.sum(2 * Cause::Log as usize), THREADS * 999 * 500);
        assert_eq!(counts.sum(2 * Cause::Log as usize + 1), THREADS * 2_000);
        assert_eq!(counts.sum(2 * Cause::Repair as usize), 0);
    }

    /// As long as it counts, and behind that; twice where a pool has two of its copies.
    #[test]
    fn a_tally_counts_for_each_pool_that_it_joined() {
        let (one, two) = (Counts::default(), Counts::default());
        let tally = Arc::new(Tally::default());
        one.join(&tally);
        two.join(&tally);
        two.join(&tally);
        tally.add(4, 1);
        tally.add(100, 2);
        let counted = || [&one, &two].map(|counts| (counts.sum(LOG_BYTES), counts.sum(LOG_LINES)));
        assert_eq!(counted(), [(104, 3), (208, 6)]);
        two.leave(&tally);
        assert_eq!(counted(), [(104, 3), (208, 6)]);
        tally.add(1, 1);
        assert_eq!(counted(), [(105, 4), (209, 7)]);
        one.leave(&tally);
        two.leave(&tally);
        assert_eq!(counted(), [(105, 4), (209, 7)]);
        assert!(lock(&one.tallies).is_empty() && lock(&two.tallies).is_empty());
    }
}
