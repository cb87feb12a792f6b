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

/// What was found out about the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    pub(super) ticks_per_ns: f64,
    /// Ticks from one reading to the next, when nothing else is done.
    pub(super) reading: u64,
}

impl Calibration {
    /// How late a wait ends on average: at the first reading past its time.
    pub(super) fn lateness(&self) -> u64 {
        self.reading / 2
    }
}

/// The first call takes the time of a calibration, 20 ms.
pub(super) fn calibration() -> Calibration {
    static CALIBRATION: OnceLock<Calibration> = OnceLock::new();
    *CALIBRATION.get_or_init(|| {
        const LONG_ENOUGH: Duration = Duration::from_millis(20);
        let (started, first) = both_clocks();
        while started.elapsed() < LONG_ENOUGH {
            std::hint::spin_loop();
        }
        let (ended, last) = both_clocks();
        let ns = ended.duration_since(started).as_nanos() as f64;
        Calibration {
            ticks_per_ns: last.saturating_sub(first) as f64 / ns,
            reading: reading(),
        }
    })
}

/// The least that a reading took in some rounds of many, interrupts aside.
fn reading() -> u64 {
    const READINGS: u64 = 64;
    let round = |_| {
        let first = now();
        let last = (0..READINGS).fold(first, |_, _| now());
        last.saturating_sub(first) / READINGS
    };
    (0..32).map(round).min().unwrap_or(0)
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
        let per_ns = calibration().ticks_per_ns;
        assert!(per_ns > 0.001 && per_ns < 20.0, "{per_ns}");
        let reading_ns = calibration().reading as f64 / per_ns;
        assert!(reading_ns < 1000.0, "{reading_ns}");
        let (started, first) = both_clocks();
        std::thread::sleep(Duration::from_millis(5));
        let (ended, last) = both_clocks();
        let ratio = (last - first) as f64 / per_ns / (ended - started).as_nanos() as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
}
