//! What emulating costs by itself: over lines that the nearest cache holds, so that memory hides none of it.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use tierra_index::lower_bound;
use tierra_interleave::{Cx, Execution, GroupSize, Interleaved, Mode, Plain, map_into};
use tierra_memory::emulation::{FarMemory, Fetch, begin_fetch, count_as_far};
use tierra_memory::measure::Chase;
use tierra_memory::{LINE_BYTES, Region, in_mode};

use super::bench::{Bench, chased};
use super::{CACHED, DUE, FREE, LINE, OBJECT, OFF, WHO};
use crate::error::{Context, LabError};

/// Lines of an object: a record of a kilobyte with its header.
const OBJECT_LINES: usize = 17;
const OBJECT_BYTES: usize = OBJECT_LINES * LINE_BYTES;
/// Objects, which the second nearest cache holds together.
const OBJECTS: usize = 256;

/// Bytes that the nearest cache holds.
const SMALL_BYTES: usize = 8 << 10;
/// Values of the searches, and of the array that is searched: 1 MiB, the smallest that the experiments look at.
const SEARCHES: usize = 10_000;
const VALUES: usize = 1 << 18;

impl Bench {
    pub(super) fn own_work(&mut self) -> Result<(), LabError> {
        let mut region = Region::near(OBJECTS * OBJECT_BYTES).by(WHO, "mapping memory")?;
        region.populate().by(WHO, "bringing in memory")?;
        let far = count_as_far(&region[..]);
        {
            let chase = RefCell::new(Chase::new(&mut region[..SMALL_BYTES]));
            for execution in Execution::ALL {
                let sides = chased(&chase, execution, 8);
                let sides = [&sides.0 as &dyn Fn() -> f64, &sides.1];
                let cached = FarMemory::OPTANE.whole();
                self.compare(FREE, execution.name(), 0.0, FarMemory::UNLIMITED, sides)?;
                self.compare(CACHED, execution.name(), 0.0, cached, sides)?;
                self.compare(LINE, execution.name(), 0.0, DUE, sides)?;
            }
        }
        self.objects(&region[..])?;
        drop(far);
        self.switched_off()
    }

    /// Objects that are asked for and then used, eight at a time, as the window of the key-value server does.
    fn objects(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        const WINDOW: usize = 8;
        const TIMES: usize = 20;
        let objects: Vec<&[u8]> = bytes.chunks_exact(OBJECT_BYTES).collect();
        let fetched = || {
            let start = Instant::now();
            for window in (0..TIMES).flat_map(|_| objects.chunks(WINDOW)) {
                let mut under_way = [const { None }; WINDOW];
                for (object, fetch) in window.iter().zip(&mut under_way) {
                    *fetch = begin_fetch(black_box(object));
                }
                under_way.into_iter().flatten().for_each(Fetch::wait);
            }
            start.elapsed().as_nanos() as f64 / (TIMES * objects.len()) as f64
        };
        for (setting, cache_bytes) in [
            ("without the modelled cache", 0),
            // The objects together are four times as large.
            ("not in the modelled cache", OBJECTS * OBJECT_BYTES / 4),
            ("in the modelled cache", 8 * OBJECTS * OBJECT_BYTES),
        ] {
            let far = FarMemory { cache_bytes, ..DUE };
            self.compare(OBJECT, setting, 0.0, far, [&fetched, &fetched])?;
        }
        Ok(())
    }

    /// Searches by way of what asks whether to emulate, while nothing is, against searches that never ask.
    fn switched_off(&mut self) -> Result<(), LabError> {
        let values: Vec<u32> = (0..VALUES as u32).map(|value| value * 2).collect();
        let keys: Vec<u32> = (0..SEARCHES as u32)
            .map(|at| at.wrapping_mul(0x9E37_79B9) % (2 * VALUES as u32))
            .collect();
        let found = RefCell::new(vec![0; SEARCHES]);
        for execution in Execution::ALL {
            let asking =
                || in_mode!(execution, M => searched::<M>(&values, &keys, &mut found.borrow_mut()));
            let native = || match execution {
                Execution::Plain => searched::<Plain>(&values, &keys, &mut found.borrow_mut()),
                Execution::Interleaved => {
                    searched::<Interleaved>(&values, &keys, &mut found.borrow_mut())
                }
            };
            let setting = format!("{execution}, {SEARCHES} searches of 1 MiB");
            self.compare_with(OFF, &setting, 0.0, None, [&asking, &native])?;
        }
        Ok(())
    }
}

/// Nanoseconds per search.
fn searched<M: Mode>(values: &[u32], keys: &[u32], found: &mut [usize]) -> f64 {
    let start = Instant::now();
    map_into(
        GroupSize::DEFAULT,
        keys,
        |cx: Cx<M>, key| lower_bound(cx, values, *key),
        found,
    );
    black_box(&found);
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}
