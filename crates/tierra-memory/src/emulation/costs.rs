//! Far memory in ticks of the clock: what the model computes with.
//!
//! Invariant: derived from a checked [`FarMemory`] alone, and copied into every thread that meets it, so that
//! no lookup reads what another thread may be changing.

use super::FarMemory;
use super::clock::Calibration;
use crate::LINE_BYTES;

/// Lines whose bandwidth a thread takes at a time: few enough that threads alternate within a
/// microsecond, enough that the shared counter is touched rarely.
pub(super) const SLICE_LINES: u64 = 8;

/// The time that transfers take in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// Ticks per byte of the device's time, in order and at random, in units of 2^-32.
    sequential: u64,
    random: u64,
}

impl Rates {
    fn new(sequential_gb_per_s: f64, random_gb_per_s: f64, ticks_per_ns: f64) -> Rates {
        // 1 GB/s is a byte a nanosecond; an unlimited one takes no time.
        let scaled = |rate: f64| (ticks_per_ns / rate * (1u64 << 32) as f64).round() as u64;
        Rates {
            sequential: scaled(sequential_gb_per_s),
            random: scaled(random_gb_per_s),
        }
    }

    /// Ticks of `bytes` in order.
    #[inline]
    pub(super) fn sequential(&self, bytes: u64) -> u64 {
        times(self.sequential, bytes)
    }

    /// Ticks of `bytes` at random.
    #[inline]
    pub(super) fn random(&self, bytes: u64) -> u64 {
        times(self.random, bytes)
    }

    /// Whether nothing takes time.
    pub(super) fn are_free(&self) -> bool {
        self.random == 0 && self.sequential == 0
    }
}

#[inline]
fn times(rate: u64, bytes: u64) -> u64 {
    ((u128::from(rate) * u128::from(bytes)) >> 32) as u64
}

/// Everything that the model asks of the setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) latency: u64,
    pub(super) misses: usize,
    pub(super) overlap: usize,
    pub(super) reads: Rates,
    pub(super) writes: Rates,
    pub(super) persist: u64,
    /// A line's number shifted right by this is its internal line's.
    pub(super) internal_shift: u32,
    pub(super) cache_sets: usize,
    pub(super) everywhere: bool,
    /// Neither latency nor bandwidth: loads need not be looked at.
    pub(super) free_loads: bool,
    /// Ticks of a random line, of a line in order, and of a stretch of random lines.
    pub(super) random_line: u64,
    pub(super) sequential_line: u64,
    pub(super) slice_ticks: u64,
}

impl Costs {
    /// Of a description, on a clock whose ticks are nanoseconds and which is read at once.
    #[cfg(test)]
    pub(super) fn in_ns(far: &str) -> Costs {
        let clock = Calibration {
            ticks_per_ns: 1.0,
            reading: 0,
        };
        Costs::new(&far.parse().expect("a setting"), &clock)
    }

    /// Of no far memory at all.
    pub(super) const NONE: Costs = Costs {
        latency: 0,
        misses: 1,
        overlap: 1,
        reads: Rates {
            sequential: 0,
            random: 0,
        },
        writes: Rates {
            sequential: 0,
            random: 0,
        },
        persist: 0,
        internal_shift: 0,
        cache_sets: 0,
        everywhere: false,
        free_loads: true,
        random_line: 0,
        sequential_line: 0,
        slice_ticks: 0,
    };

    /// Of a checked description. What a wait will be late by is taken off beforehand.
    pub(super) fn new(far: &FarMemory, clock: &Calibration) -> Costs {
        let ticks_per_ns = clock.ticks_per_ns;
        let ticks = |ns: f64| ((ns * ticks_per_ns).round() as u64).saturating_sub(clock.lateness());
        let reads = Rates::new(
            far.sequential_read_gb_per_s,
            far.random_read_gb_per_s,
            ticks_per_ns,
        );
        let writes = Rates::new(
            far.sequential_write_gb_per_s,
            far.random_write_gb_per_s,
            ticks_per_ns,
        );
        let line = LINE_BYTES as u64;
        Costs {
            latency: ticks(far.latency_ns),
            misses: far.misses_in_flight,
            overlap: far.plain_overlap,
            reads,
            writes,
            persist: ticks(far.persist_ns),
            internal_shift: (far.internal_line_bytes / LINE_BYTES).trailing_zeros(),
            cache_sets: super::cache::sets_of(far.cache_bytes),
            everywhere: far.everywhere,
            free_loads: far.latency_ns == 0.0 && reads.are_free(),
            random_line: reads.random(line),
            sequential_line: reads.sequential(line),
            slice_ticks: reads.random(SLICE_LINES * line),
        }
    }
}
