//! Loads of lookups: latency, misses in flight, random bandwidth.

use std::cell::RefCell;

use tierra_interleave::{Execution, Interleaved};
use tierra_memory::emulation::{FarMemory, count_as_far};
use tierra_memory::measure::Chase;
use tierra_memory::{LINE_BYTES, Region, in_mode};

use super::bench::{Bench, TIME, at_once, chased};
use super::{CHASE, RANDOM};
use crate::error::LabError;

/// The modelled cache of the presets, which working sets of several times its size do not fit into.
const CACHE: FarMemory = FarMemory {
    cache_bytes: FarMemory::OPTANE.cache_bytes,
    ..FarMemory::UNLIMITED
};

impl Bench {
    pub(super) fn loads(&mut self, region: &mut Region) -> Result<(), LabError> {
        let far = count_as_far(&region[..]);
        for bytes in [1 << 20, 64 << 20, 512 << 20, 4 << 30] {
            if let Some(part) = region.get_mut(..bytes) {
                self.latencies(part, bytes)?;
            }
        }
        let len = region.len().min(512 << 20);
        self.parallel(&mut region[..len])?;
        drop(far);
        Ok(())
    }

    /// A dependent chase: each load waits for the latency.
    fn latencies(&mut self, part: &mut [u8], bytes: usize) -> Result<(), LabError> {
        let chase = RefCell::new(Chase::new(part));
        let sides = chased(&chase, Execution::Plain, 1);
        let size = format!("{} MiB", bytes >> 20);
        let all: &[f64] = if bytes == 512 << 20 {
            &[200.0, 250.0, 300.0, 500.0, 1000.0]
        } else {
            &[300.0]
        };
        for &latency_ns in all {
            let far = FarMemory {
                latency_ns,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{latency_ns} ns, {size}");
            self.compare(CHASE, &setting, latency_ns, far, [&sides.0, &sides.1])?;
        }
        // What the modelled cache holds is as near as it is; what it does not hold by far is as far.
        if bytes >= 4 * CACHE.cache_bytes {
            let far = FarMemory {
                latency_ns: 300.0,
                ..CACHE
            };
            let setting = format!("300 ns, {size}, with the modelled cache");
            self.compare(CHASE, &setting, 300.0, far, [&sides.0, &sides.1])?;
        }
        Ok(())
    }

    /// Independent loads share the latency among the misses in flight, and all threads the bandwidth.
    fn parallel(&mut self, part: &mut [u8]) -> Result<(), LabError> {
        {
            let chase = RefCell::new(Chase::new(part));
            for (misses, loads) in [
                (1, 24),
                (4, 24),
                (8, 24),
                (10, 10),
                (10, 16),
                (10, 24),
                (10, 64),
            ] {
                let far = FarMemory {
                    latency_ns: 300.0,
                    misses_in_flight: misses,
                    ..FarMemory::UNLIMITED
                };
                let setting = format!("{loads} loads, {misses} misses, 300 ns");
                let sides = chased(&chase, Execution::Interleaved, loads);
                let asked_ns = 300.0 / misses as f64;
                self.compare(RANDOM, &setting, asked_ns, far, [&sides.0, &sides.1])?;
            }
            for rate in [1.0, 2.0] {
                let sides = chased(&chase, Execution::Interleaved, 64);
                let asked_ns = LINE_BYTES as f64 / rate;
                let setting = format!("64 loads, {rate} GB/s");
                self.compare(
                    RANDOM,
                    &setting,
                    asked_ns,
                    limited(rate),
                    [&sides.0, &sides.1],
                )?;
            }
        }
        let (one, other) = part.split_at_mut(part.len() / 2);
        let both = RefCell::new([Chase::new(one), Chase::new(other)]);
        let emulated = || {
            let [one, other] = &mut *both.borrow_mut();
            let chase = |chase: &mut Chase<'_>| in_mode!(Execution::Interleaved, M => chase.ns_per_line::<M>(64, TIME));
            per_line(at_once([&mut || chase(one), &mut || chase(other)]).0)
        };
        let native = || {
            let [one, other] = &mut *both.borrow_mut();
            let chase = |chase: &mut Chase<'_>| chase.ns_per_line::<Interleaved>(64, TIME);
            per_line(at_once([&mut || chase(one), &mut || chase(other)]).0)
        };
        for rate in [1.0, 2.0] {
            let asked_ns = LINE_BYTES as f64 / rate;
            let setting = format!("64 loads in each of two threads, {rate} GB/s");
            self.compare(
                RANDOM,
                &setting,
                asked_ns,
                limited(rate),
                [&emulated, &native],
            )?;
        }
        Ok(())
    }
}

/// Far memory with this random bandwidth, and with more misses in flight than it needs.
fn limited(random_read_gb_per_s: f64) -> FarMemory {
    FarMemory {
        latency_ns: 300.0,
        misses_in_flight: 64,
        random_read_gb_per_s,
        ..FarMemory::UNLIMITED
    }
}

/// Nanoseconds per line of two threads together.
fn per_line([one, other]: [f64; 2]) -> f64 {
    1.0 / (1.0 / one + 1.0 / other)
}
