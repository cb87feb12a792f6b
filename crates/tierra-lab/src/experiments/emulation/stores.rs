//! Stores: those that miss, those that are flushed, and what takes them back to memory.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use tierra_memory::emulation::{FarMemory, begin_store, count_as_far};
use tierra_memory::{LINE_BYTES, Region, persist};

use super::bench::Bench;
use super::{DURABLE, STORE};
use crate::error::LabError;

/// Stores of a sample: far more than a controller's queue holds.
const STORES: usize = 4000;

impl Bench {
    pub(super) fn stores(&mut self, region: &mut Region) -> Result<(), LabError> {
        let counted = count_as_far(&region[..]);
        let lines = region.len() / LINE_BYTES;
        let (region, stored) = (RefCell::new(region), Cell::new(0_usize));
        // Stores to lines in no order, each finished by `finish`.
        let storing = |finish: &dyn Fn(&mut [u8])| {
            let region = &mut *region.borrow_mut();
            let start = Instant::now();
            for _ in 0..STORES {
                let store = stored.get();
                stored.set(store + 1);
                let spread = (store as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                // The product's upper half: a division would take as long as much of what is measured.
                let line = ((u128::from(spread) * lines as u128) >> 64) as usize;
                let at = line * LINE_BYTES;
                region[at] = store as u8;
                finish(&mut region[at..at + 1]);
            }
            start.elapsed().as_nanos() as f64 / STORES as f64
        };
        let cached = || storing(&|byte| drop(begin_store(byte.as_ptr(), byte.len())));
        let durable = || storing(&|byte| persist::persist(byte));

        for latency_ns in [300.0, 500.0] {
            let far = FarMemory {
                latency_ns,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{latency_ns} ns");
            self.compare(STORE, &setting, latency_ns, far, [&cached, &cached])?;
        }
        for rate in [0.1, 0.05] {
            let far = slow_writes(rate);
            let asked_ns = LINE_BYTES as f64 / rate;
            let setting = format!("written back at {rate} GB/s");
            self.compare(STORE, &setting, asked_ns, far, [&cached, &cached])?;
        }

        for persist_ns in [500.0, 1000.0] {
            let far = FarMemory {
                persist_ns,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{persist_ns} ns");
            self.compare(DURABLE, &setting, persist_ns, far, [&durable, &durable])?;
        }
        for rate in [0.1, 0.05] {
            let asked_ns = LINE_BYTES as f64 / rate;
            let setting = format!("{rate} GB/s");
            let far = slow_writes(rate);
            self.compare(DURABLE, &setting, asked_ns, far, [&durable, &durable])?;
        }
        // The line of each store is asked for while the fence before it is waited for: two updates share what one takes.
        let far = FarMemory {
            latency_ns: 700.0,
            persist_ns: 300.0,
            ..FarMemory::UNLIMITED
        };
        let setting = "lines 700 ns away, persisted in 300";
        self.compare(DURABLE, setting, 500.0, far, [&durable, &durable])?;
        drop(counted);
        Ok(())
    }
}

/// Far memory that writes slowly.
fn slow_writes(rate: f64) -> FarMemory {
    FarMemory {
        random_write_gb_per_s: rate,
        sequential_write_gb_per_s: rate,
        ..FarMemory::UNLIMITED
    }
}
