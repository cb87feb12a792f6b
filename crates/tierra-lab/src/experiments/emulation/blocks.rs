//! Blocks in order: scans and bulk copies, of one thread and of two.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use tierra_memory::emulation::{FarMemory, begin_read, count_as_far};
use tierra_memory::{Region, persist};

use super::bench::{Bench, at_once};
use super::{COPY, SCAN};
use crate::error::LabError;

/// Bytes scanned and copied at a time.
const BYTES: usize = 256 << 10;
/// Bytes of each of two threads: it takes far longer than starting one.
pub(super) const LONG_BYTES: usize = 2 << 20;

impl Bench {
    pub(super) fn blocks(&mut self, region: &mut Region) -> Result<(), LabError> {
        let far = count_as_far(&region[..]);
        let limited = |rate: f64| FarMemory {
            latency_ns: 300.0,
            sequential_read_gb_per_s: rate,
            random_read_gb_per_s: rate,
            sequential_write_gb_per_s: rate,
            random_write_gb_per_s: rate,
            ..FarMemory::UNLIMITED
        };
        let half = region.len() / 2;
        let (one, other) = region.split_at_mut(half);
        let scan = || scanned(&one[..BYTES]);
        let both = || {
            let (_, ns) = at_once([&mut || scanned(&one[..LONG_BYTES]), &mut || {
                scanned(&other[..LONG_BYTES])
            }]);
            ns / (2 * LONG_BYTES) as f64
        };
        for rate in [0.5, 1.0, 2.0, 4.0] {
            let setting = format!("{rate} GB/s");
            self.compare(SCAN, &setting, 1.0 / rate, limited(rate), [&scan, &scan])?;
        }
        for rate in [0.5, 2.0] {
            let setting = format!("two threads, {rate} GB/s");
            self.compare(SCAN, &setting, 1.0 / rate, limited(rate), [&both, &both])?;
        }

        let from = vec![1; LONG_BYTES];
        let halves = RefCell::new([one, other]);
        let copied = |to: &mut [u8], bytes: usize| {
            let start = Instant::now();
            persist::copy_nontemporal(&mut to[..bytes], &from[..bytes]);
            start.elapsed().as_nanos() as f64 / bytes as f64
        };
        let copy = || copied(halves.borrow_mut()[0], BYTES);
        let both = || {
            let [one, other] = &mut *halves.borrow_mut();
            let (_, ns) = at_once([&mut || copied(one, LONG_BYTES), &mut || {
                copied(other, LONG_BYTES)
            }]);
            ns / (2 * LONG_BYTES) as f64
        };
        for rate in [0.5, 1.0, 2.0, 4.0] {
            let setting = format!("{rate} GB/s");
            self.compare(COPY, &setting, 1.0 / rate, limited(rate), [&copy, &copy])?;
        }
        for rate in [0.5, 2.0] {
            let setting = format!("two threads, {rate} GB/s");
            self.compare(COPY, &setting, 1.0 / rate, limited(rate), [&both, &both])?;
        }
        drop(far);
        Ok(())
    }
}

/// Nanoseconds per byte of reading them in order, a block at a time.
pub(super) fn scanned(bytes: &[u8]) -> f64 {
    let start = Instant::now();
    for block in bytes.chunks(4096) {
        let reading = begin_read(block);
        let words = block.chunks_exact(8).map(|word| u64::from(word[0]));
        black_box(words.sum::<u64>());
        drop(reading);
    }
    start.elapsed().as_nanos() as f64 / bytes.len() as f64
}
