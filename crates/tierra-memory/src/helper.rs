//! Helper threads: each brings bytes into the last-level cache just before another thread reads them.
//!
//! ```text
//!  reader: asks for step n ──▶ ring of ranges ──▶ helper: prefetches them, a line at a time
//!          reads step n - k ──▶ counter of steps that were reached ──▶ leaves out what is too late
//! ```
//! The reader never waits for its helper: what finds no room in the ring is not asked for, and a helper that has fallen behind
//! passes over what the reader has reached. A helper only hints at addresses. It reads nothing, so memory that is given back
//! meanwhile does no harm.
//!
//! Source: Mustafa et al., SAMOS 2016, section 6: reading in place moves misses from copying into the operators, and helper
//! threads that prefetch given regions would hide them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::{LINE_BYTES, arch, emulation};

/// Ranges that may be asked for and not yet be prefetched.
const RING: usize = 256;
/// Lines prefetched before a helper looks whether the reader has passed it.
const PIECE_LINES: usize = 16;
/// How long a helper looks for work before it sleeps: being woken takes a reader a system call.
const AWAKE: Duration = Duration::from_micros(50);

/// Threads of the process that are busy by their own account ([`Busy`]), and the helpers that they have.
static TAKEN_CORES: AtomicUsize = AtomicUsize::new(0);
/// Idle helper threads.
static IDLE: Mutex<Vec<Arc<Work>>> = Mutex::new(Vec::new());

/// A thread that keeps a core busy, and takes part in deciding whether one is spare for helpers.
#[derive(Debug)]
pub struct Busy(());

impl Busy {
    /// Counts the caller as busy, until the value is dropped.
    pub fn begin() -> Busy {
        TAKEN_CORES.fetch_add(1, Ordering::Relaxed);
        Busy(())
    }

    /// A helper, if a core is spare: the machine has more than are taken by busy threads and their helpers.
    pub fn helper(&self) -> Option<Helper> {
        let take = |taken: usize| (taken < cores()).then_some(taken + 1);
        TAKEN_CORES
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        let idle = lock_idle().pop();
        match idle.map_or_else(start, Some) {
            Some(work) => Some(Helper { work, step: 0 }),
            None => {
                TAKEN_CORES.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        TAKEN_CORES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A helper thread, as long as it is held. The thread is kept for the next one.
#[derive(Debug)]
pub struct Helper {
    work: Arc<Work>,
    /// The step asked for last.
    step: u64,
}

impl Helper {
    /// Whether its core is needed: more threads are busy than when it was given. The caller drops it then.
    pub fn is_in_the_way(&self) -> bool {
        TAKEN_CORES.load(Ordering::Relaxed) > cores()
    }

    /// Asks for these ranges, and goes on at once. Returns the number of the step, for [`Helper::reach`].
    pub fn prefetch(&mut self, ranges: &[&[u8]]) -> u64 {
        self.step += 1;
        let work = &*self.work;
        let mut asked = work.asked.load(Ordering::Relaxed);
        for range in ranges {
            if asked - work.done.load(Ordering::Acquire) == RING as u64 {
                break;
            }
            let slot = &work.ring[asked as usize % RING];
            slot.address.store(range.as_ptr().addr(), Ordering::Relaxed);
            slot.len_bytes.store(range.len(), Ordering::Relaxed);
            slot.step.store(self.step, Ordering::Relaxed);
            asked += 1;
        }
        // In one order with `sleeps`: either the helper sees the work or the reader sees that it sleeps.
        work.asked.store(asked, Ordering::SeqCst);
        if work.sleeps.load(Ordering::SeqCst) {
            work.wake();
        }
        self.step
    }

    /// The bytes of a step are used now: it and those before are of no more use.
    pub fn reach(&mut self, step: u64) {
        self.work.reached.store(step, Ordering::Release);
    }

    /// How many ranges were prefetched to their ends, and how many were begun too late, by this thread ever.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.work.prefetched), count(&self.work.late))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let work = &self.work;
        work.reached.store(u64::MAX, Ordering::Release);
        // What is left in the ring is passed over; the next user begins with an empty one.
        while work.done.load(Ordering::Acquire) != work.asked.load(Ordering::Relaxed) {
            work.wake();
            thread::yield_now();
        }
        work.reached.store(0, Ordering::Release);
        lock_idle().push(work.clone());
        TAKEN_CORES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a reader and its helper share.
#[derive(Debug)]
struct Work {
    ring: [Slot; RING],
    /// Ranges asked for so far. Only the reader stores it.
    asked: Counter,
    /// Ranges that were taken from the ring. Only the helper stores it.
    done: Counter,
    /// The step that the reader has reached.
    reached: Counter,
    prefetched: AtomicU64,
    late: AtomicU64,
    sleeps: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

/// A counter on lines of its own: one thread stores it often, another reads it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl std::ops::Deref for Counter {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// A range of addresses, which is never read through it.
#[derive(Debug, Default)]
struct Slot {
    address: AtomicUsize,
    len_bytes: AtomicUsize,
    step: AtomicU64,
}

impl Work {
    fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn run(&self) -> ! {
        loop {
            self.await_work();
            let done = self.done.load(Ordering::Relaxed);
            let slot = &self.ring[done as usize % RING];
            let start = slot.address.load(Ordering::Relaxed);
            let len_bytes = slot.len_bytes.load(Ordering::Relaxed);
            let step = slot.step.load(Ordering::Relaxed);
            let counter = match self.prefetch(start, len_bytes, step) {
                true => &self.prefetched,
                false => &self.late,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.done.store(done + 1, Ordering::Release);
        }
    }

    /// Returns when the ring is not empty.
    fn await_work(&self) {
        let done = self.done.load(Ordering::Relaxed);
        let mut began: Option<Instant> = None;
        while self.asked.load(Ordering::SeqCst) == done {
            if began.get_or_insert_with(Instant::now).elapsed() < AWAKE {
                std::hint::spin_loop();
                continue;
            }
            self.sleeps.store(true, Ordering::SeqCst);
            if self.asked.load(Ordering::SeqCst) == done {
                thread::park();
            }
            self.sleeps.store(false, Ordering::SeqCst);
            began = None;
        }
    }

    /// Prefetches a range; `false` if the reader reached it before.
    fn prefetch(&self, start: usize, len_bytes: usize, step: u64) -> bool {
        let piece_bytes = PIECE_LINES * LINE_BYTES;
        for piece in (0..len_bytes).step_by(piece_bytes) {
            if self.reached.load(Ordering::Acquire) >= step {
                return false;
            }
            let end = (piece + piece_bytes).min(len_bytes);
            for at in (piece..end).step_by(LINE_BYTES) {
                arch::prefetch_shared(std::ptr::without_provenance(start + at));
            }
            emulation::fetch_for_others(start + piece, end - piece);
        }
        true
    }
}

/// Starts a thread that helps for the rest of the process; `None` if the system has none left.
fn start() -> Option<Arc<Work>> {
    let work = Arc::new(Work {
        ring: [const {
            Slot {
                address: AtomicUsize::new(0),
                len_bytes: AtomicUsize::new(0),
                step: AtomicU64::new(0),
            }
        }; RING],
        asked: Counter::default(),
        done: Counter::default(),
        reached: Counter::default(),
        prefetched: AtomicU64::new(0),
        late: AtomicU64::new(0),
        sleeps: AtomicBool::new(false),
        thread: std::sync::OnceLock::new(),
    });
    let shared = work.clone();
    let builder = thread::Builder::new().name("tierra-helper".into());
    let spawned = builder.spawn(move || {
        let _ = shared.thread.set(thread::current());
        shared.run()
    });
    spawned.ok().map(|_| work)
}

/// Cores that the process may use.
fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

fn lock_idle() -> std::sync::MutexGuard<'static, Vec<Arc<Work>>> {
    // A list of threads: every state of it is valid.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that take cores run one after the other.
    static ONE: Mutex<()> = Mutex::new(());

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
            thread::yield_now();
        }
    }

    #[test]
    fn helpers_come_only_where_a_core_is_spare_and_leave_when_it_is_not() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = Busy::begin();
        let mut helpers = Vec::new();
        while let Some(helper) = busy.helper() {
            helpers.push(helper);
            assert!(helpers.len() < cores(), "one core is the reader's own");
        }
        assert_eq!(helpers.len(), cores() - 1);
        assert!(helpers.iter().all(|helper| !helper.is_in_the_way()));
        let another = Busy::begin();
        assert!(helpers.iter().all(Helper::is_in_the_way));
        if helpers.pop().is_some() {
            assert!(helpers.iter().all(|helper| !helper.is_in_the_way()));
        }
        drop(another);
    }

    #[test]
    fn what_is_asked_for_is_prefetched_unless_it_was_reached_before() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = Busy::begin();
        let Some(mut helper) = busy.helper() else {
            return;
        };
        let bytes = vec![1_u8; 1 << 16];
        let (prefetched, late) = helper.counts();
        // More than the ring holds, so that it turns round.
        for round in 0..10 {
            for piece in bytes.chunks(1000).take(RING / 8) {
                helper.prefetch(&[piece, &piece[..0]]);
            }
            let wanted = prefetched + (round + 1) * 2 * (RING / 8) as u64;
            until("all ranges are prefetched", || helper.counts().0 == wanted);
            // Longer than it stays awake: it sleeps, and is woken.
            thread::sleep(AWAKE * 4);
        }
        let step = helper.prefetch(&[]);
        helper.reach(step + 2);
        helper.prefetch(&[&bytes]);
        helper.prefetch(&[&bytes]);
        until("two ranges are late", || helper.counts().1 == late + 2);
        helper.prefetch(&[&bytes]);
        let wanted = prefetched + 20 * (RING / 8) as u64 + 1;
        until("the next is not", || helper.counts().0 == wanted);
        // The next user finds an empty ring.
        helper.prefetch(&vec![&bytes[..]; RING]);
        drop(helper);
        let Some(mut again) = busy.helper() else {
            return;
        };
        let prefetched = again.counts().0;
        again.prefetch(&[&bytes]);
        until("a helper is used again", || again.counts().0 > prefetched);
    }
}
