//! The clock that waits are measured with: the processor's counter, calibrated against the system's.
//!
//! Invariant: a tick is as long on every core and at every frequency. That is what "invariant TSC" means on
//! x86-64, and what every processor with far memory has.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::arch;

/// Now, in ticks.
#[inline(always)]
pub(super) fn now() -> u64 {
    arch::ticks()
}

/// Ticks in a nanosecond. The first call takes the time of a calibration, 20 ms.
pub(super) fn ticks_per_ns() -> f64 {
    static TICKS_PER_NS: OnceLock<f64> = OnceLock::new();
    *TICKS_PER_NS.get_or_init(|| {
        const LONG_ENOUGH: Duration = Duration::from_millis(20);
        let (started, first) = both_clocks();
        while started.elapsed() < LONG_ENOUGH {
            std::hint::spin_loop();
        }
        let (ended, last) = both_clocks();
        last.saturating_sub(first) as f64 / ended.duration_since(started).as_nanos() as f64
    })
}

/// Both clocks at one moment: of several pairs the one taken fastest, so that no interrupt lies between.
fn both_clocks() -> (Instant, u64) {
    let pair = || {
        let before = now();
        let instant = Instant::now();
        let after = now();
        (after.saturating_sub(before), instant, before)
    };
    let mut best = pair();
    for _ in 0..32 {
        let (took, instant, before) = pair();
        if took < best.0 {
            best = (took, instant, before);
        }
    }
    let (took, instant, before) = best;
    (instant, before + took / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_agree() {
        let per_ns = ticks_per_ns();
        assert!(per_ns > 0.001 && per_ns < 20.0, "{per_ns}");
        let (started, first) = both_clocks();
        std::thread::sleep(Duration::from_millis(5));
        let (ended, last) = both_clocks();
        let ratio = (last - first) as f64 / per_ns / (ended - started).as_nanos() as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
}
