//! How long threads have waited for emulated memory: the time in which a core of the modelled machine would be stalled.
//!
//! Invariant: a thread adds up its own waits, and tells them together: a wait costs no access to what threads share. What a thread has
//! not told is less than 65,536 ticks, some 20 us.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock;

/// Ticks that a thread waits before it tells.
const TOLD_TICKS: u64 = 1 << 16;

/// Ticks that were told.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// What one thread has waited and not told.
#[derive(Debug)]
pub(super) struct Stalled(Cell<u64>);

impl Stalled {
    pub(super) const fn new() -> Stalled {
        Stalled(Cell::new(0))
    }

    /// Adds a wait.
    #[inline]
    pub(super) fn add(&self, ticks: u64) {
        let stalled = self.0.get() + ticks;
        if stalled < TOLD_TICKS {
            self.0.set(stalled);
        } else {
            self.0.set(0);
            TOLD.fetch_add(stalled, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds that all threads of the process together have waited for emulated memory, [helpers](crate::helper) left out. They
/// wait on a processor, and so it is part of the process's time. Some 20 us of each thread may not be counted yet.
pub fn stalled_ns() -> u64 {
    match TOLD.load(Ordering::Relaxed) {
        // Nothing was emulated, and the clock may not be calibrated.
        0 => 0,
        ticks => (ticks as f64 / clock::calibration().ticks_per_ns) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_added_up_and_told_together() {
        // Other tests wait, too: the sum is at least what this one tells.
        let (stalled, before) = (Stalled::new(), TOLD.load(Ordering::Relaxed));
        stalled.add(TOLD_TICKS - 1);
        assert_eq!(stalled.0.get(), TOLD_TICKS - 1);
        stalled.add(1);
        assert_eq!(stalled.0.get(), 0);
        assert!(TOLD.load(Ordering::Relaxed) >= before + TOLD_TICKS);
        assert!(stalled_ns() > 0);
    }
}
