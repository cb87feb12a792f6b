//! Emulation: is emulated far memory as slow as requested, and free if nothing is requested?
//!
//! Dependent chase, parallel random loads, sequential scan, stores with flush and fence, bulk copy, each with and without
//! emulation in turn. Samples take about a millisecond, so that on a shared machine most are not interrupted. If real memory
//! is slower than requested, emulation cannot be faster; the native times beside them show that.

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::time::{Duration, Instant};

use tierra_interleave::{Execution, Interleaved, Plain};
use tierra_memory::emulation::{self, FarMemory, begin_read, count_as_far};
use tierra_memory::measure::Chase;
use tierra_memory::{LINE_BYTES, Region, in_mode, persist};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Time of one sample.
const TIME: Duration = Duration::from_millis(1);
/// Samples are times of this many lines, loads or bytes, so that they are whole numbers.
const UNITS: u64 = 1_000_000;
/// Bytes scanned and copied at a time.
const BLOCKS_BYTES: usize = 256 << 10;
/// The contender's name in messages.
const WHO: &str = "the lab";

const CHASE: &str = "dependent chase";
const RANDOM: &str = "parallel random loads";
const SCAN: &str = "sequential scan";
const STORE: &str = "store, flush and fence";
const COPY: &str = "bulk copy";
const FREE: &str = "zero latency";
const OWN_WORK: &str = "emulator's own work";
/// The operations that are slowed.
const SLOWED: [&str; 5] = [CHASE, RANDOM, SCAN, STORE, COPY];

const ASKED: &str = "asked";
const EMULATED: &str = "emulated";
const NATIVE: &str = "native";

/// The experiment.
pub(super) struct Emulation;

impl Experiment for Emulation {
    fn name(&self) -> &'static str {
        "emulation"
    }

    fn about(&self) -> &'static str {
        "is emulated far memory as slow as asked, and free where nothing is asked?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (bytes, rounds) = (lab.size(16 << 20, 512 << 20), lab.size(3, 101));
        let mut region = Region::near(bytes).by(WHO, "mapping memory")?;
        region.populate().by(WHO, "bringing in memory")?;
        let page_bytes = region.page_size_bytes() as u64;
        let far = count_as_far(&region[..]);
        let mut bench = Bench {
            rounds,
            rows: Vec::new(),
            progress: progress::bar("settings", 33),
        };
        bench.loads(&mut region)?;
        bench.own_work()?;
        bench.scans(&region)?;
        bench.stores(&mut region)?;
        bench.progress.finish_and_clear();
        drop(far);
        let parameters = Row::new()
            .count("working_set_bytes", bytes as u64)
            .count("page_bytes", page_bytes)
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows: bench.rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        // Of all settings of an operation, the one with the largest deviation.
        let worst = |operation: &str, off: &dyn Fn([f64; 3]) -> f64| {
            let rows: Vec<Row> = rows
                .iter()
                .filter(|row| row.is(&[("operation", operation)]))
                .cloned()
                .collect();
            let all: Option<Vec<f64>> = distinct(&rows, "setting")
                .iter()
                .map(|setting| {
                    let [asked, emulated, native] = [ASKED, EMULATED, NATIVE].map(|who| {
                        let row = find(&rows, &[("setting", setting), ("who", who)])?;
                        Some(row.value("time_ns")? / row.value("units")?)
                    });
                    Some(off([asked?, emulated?, native?]))
                })
                .collect();
            all.and_then(|all| all.into_iter().reduce(f64::max))
        };
        let slowed = SLOWED.iter().map(|operation| {
            let off = |[asked, emulated, _]: [f64; 3]| 100.0 * (emulated - asked).abs() / asked;
            Bar::at_most(
                format!("emulation: {operation}, per cent off what was asked, worst setting"),
                10.0,
                worst(operation, &off),
            )
        });
        let free = Bar::at_most(
            "emulation: zero latency, ns a load more than native, plain or interleaved",
            3.0,
            worst(FREE, &|[_, emulated, native]| emulated - native),
        );
        slowed.chain([free]).collect()
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 1] = [View {
    title: "a line, a load or a byte",
    category: "setting",
    series: "who",
    value: "time_ns",
    per: Some("units"),
    unit: Unit::Nanoseconds,
    mean: false,
}];

/// What has been measured so far.
struct Bench {
    rounds: usize,
    rows: Vec<Row>,
    progress: indicatif::ProgressBar,
}

impl Bench {
    /// Measures one setting, with and without emulation in turn. Both functions return nanoseconds per unit.
    fn compare(
        &mut self,
        operation: &str,
        setting: &str,
        asked_ns: f64,
        far: FarMemory,
        [emulated, native]: [&dyn Fn() -> f64; 2],
    ) -> Result<(), LabError> {
        let mut samples = [Vec::new(), Vec::new()];
        for turn in turns(2, self.rounds) {
            let (far, measure) = [(Some(far), emulated), (None, native)][turn.contender];
            emulation::set(far).by(WHO, "asking for emulation")?;
            let units_ns = (measure() * UNITS as f64).round() as u64;
            if !turn.is_warm_up() {
                samples[turn.contender].push(units_ns);
            }
        }
        emulation::set(None).by(WHO, "ending emulation")?;
        let row = |who: &str| {
            Row::new()
                .text("operation", operation)
                .text("setting", format!("{operation}: {setting}"))
                .text("who", who)
                .count("units", UNITS)
        };
        self.rows
            .push(row(ASKED).number("time_ns", asked_ns * UNITS as f64));
        for (who, samples) in [EMULATED, NATIVE].into_iter().zip(samples) {
            self.rows.push(row(who).samples("time", "ns", samples));
        }
        self.progress.inc(1);
        Ok(())
    }

    fn loads(&mut self, region: &mut Region) -> Result<(), LabError> {
        let chase = RefCell::new(Chase::lay(region));
        for latency_ns in [200.0, 250.0, 300.0, 500.0, 1000.0] {
            let far = FarMemory {
                latency_ns,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{latency_ns} ns");
            let sides = chased(&chase, Execution::Plain, 1);
            self.compare(CHASE, &setting, latency_ns, far, [&sides.0, &sides.1])?;
        }
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
            let far = FarMemory {
                latency_ns: 300.0,
                misses_in_flight: 64,
                random_read_gb_per_s: rate,
                ..FarMemory::UNLIMITED
            };
            let sides = chased(&chase, Execution::Interleaved, 64);
            let asked_ns = LINE_BYTES as f64 / rate;
            let setting = format!("64 loads, {rate} GB/s");
            self.compare(RANDOM, &setting, asked_ns, far, [&sides.0, &sides.1])?;
        }
        Ok(())
    }

    /// Lines that the nearest cache holds, so that memory hides no work of the emulator.
    fn own_work(&mut self) -> Result<(), LabError> {
        let mut small = vec![0; 8 << 10];
        let far = count_as_far(&small);
        let chase = RefCell::new(Chase::lay(&mut small));
        let due_at_once = FarMemory {
            latency_ns: 1.0,
            misses_in_flight: 64,
            cache_bytes: 0,
            random_read_gb_per_s: 1000.0,
            sequential_read_gb_per_s: 1000.0,
            ..FarMemory::OPTANE
        };
        for execution in Execution::ALL {
            let sides = chased(&chase, execution, 8);
            let both: [&dyn Fn() -> f64; 2] = [&sides.0, &sides.1];
            self.compare(FREE, execution.name(), 0.0, FarMemory::UNLIMITED, both)?;
            let cached = format!("{execution}, cached in the model");
            self.compare(OWN_WORK, &cached, 0.0, FarMemory::OPTANE, both)?;
            let due = format!("{execution}, due at once");
            self.compare(OWN_WORK, &due, 0.0, due_at_once, both)?;
        }
        drop(far);
        let sides = chased(&chase, Execution::Plain, 8);
        let near = FarMemory::OPTANE;
        self.compare(OWN_WORK, "plain, near", 0.0, near, [&sides.0, &sides.1])
    }

    fn scans(&mut self, region: &Region) -> Result<(), LabError> {
        let scan = || {
            ns_per_byte(|| {
                for block in region[..BLOCKS_BYTES].chunks(4096) {
                    let reading = begin_read(block);
                    let words = block.chunks_exact(8).map(|word| u64::from(word[0]));
                    black_box(words.sum::<u64>());
                    drop(reading);
                }
            })
        };
        for rate in [0.5, 1.0, 2.0, 4.0] {
            let far = FarMemory {
                latency_ns: 300.0,
                sequential_read_gb_per_s: rate,
                random_read_gb_per_s: rate,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{rate} GB/s");
            self.compare(SCAN, &setting, 1.0 / rate, far, [&scan, &scan])?;
        }
        Ok(())
    }

    fn stores(&mut self, region: &mut Region) -> Result<(), LabError> {
        let lines = region.len() / LINE_BYTES;
        let region = RefCell::new(region);
        let stored = Cell::new(0_usize);
        let durable = || {
            const STORES: usize = 1000;
            let region = &mut *region.borrow_mut();
            let start = Instant::now();
            for _ in 0..STORES {
                let store = stored.get();
                stored.set(store + 1);
                let at = store.wrapping_mul(0x9E37_79B9_7F4A_7C15) % lines * LINE_BYTES;
                region[at] = store as u8;
                persist::persist(&region[at..at + 1]);
            }
            start.elapsed().as_nanos() as f64 / STORES as f64
        };
        for persist_ns in [500.0, 1000.0] {
            let far = FarMemory {
                persist_ns,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{persist_ns} ns");
            self.compare(STORE, &setting, persist_ns, far, [&durable, &durable])?;
        }
        for rate in [0.1, 0.05] {
            let far = FarMemory {
                random_write_gb_per_s: rate,
                sequential_write_gb_per_s: rate,
                ..FarMemory::UNLIMITED
            };
            let asked_ns = LINE_BYTES as f64 / rate;
            let setting = format!("{rate} GB/s");
            self.compare(STORE, &setting, asked_ns, far, [&durable, &durable])?;
        }

        let from = vec![1; BLOCKS_BYTES];
        let copy = || {
            let to = &mut region.borrow_mut()[..BLOCKS_BYTES];
            ns_per_byte(|| persist::copy_nontemporal(to, &from))
        };
        for rate in [0.5, 1.0, 2.0, 4.0] {
            let far = FarMemory {
                sequential_write_gb_per_s: rate,
                random_write_gb_per_s: rate,
                ..FarMemory::UNLIMITED
            };
            let setting = format!("{rate} GB/s");
            self.compare(COPY, &setting, 1.0 / rate, far, [&copy, &copy])?;
        }
        Ok(())
    }
}

/// Nanoseconds per line of that many chases, emulated while emulation is on, and native.
fn chased(
    chase: &RefCell<Chase<'_>>,
    execution: Execution,
    loads: usize,
) -> (impl Fn() -> f64, impl Fn() -> f64) {
    let emulated =
        move || in_mode!(execution, M => chase.borrow_mut().ns_per_line::<M>(loads, TIME));
    let native = move || match execution {
        Execution::Plain => chase.borrow_mut().ns_per_line::<Plain>(loads, TIME),
        Execution::Interleaved => chase.borrow_mut().ns_per_line::<Interleaved>(loads, TIME),
    };
    (emulated, native)
}

/// Times work on [`BLOCKS_BYTES`].
fn ns_per_byte(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / BLOCKS_BYTES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(operation: &str, setting: &str, times: [f64; 3]) -> Vec<Row> {
        let row = |(who, ns): (&str, f64)| {
            Row::new()
                .text("operation", operation)
                .text("setting", setting)
                .text("who", who)
                .count("units", 10)
                .number("time_ns", ns)
        };
        [ASKED, EMULATED, NATIVE]
            .into_iter()
            .zip(times)
            .map(row)
            .collect()
    }

    #[test]
    fn too_fast_is_as_wrong_as_too_slow_and_the_worst_setting_decides() {
        let mut rows = setting(CHASE, "a", [3000.0, 3300.0, 900.0]);
        let met = |rows: &[Row]| Emulation.bars(rows)[0].met;
        assert!(met(&rows));
        rows.extend(setting(CHASE, "b", [3000.0, 2600.0, 900.0]));
        assert!(!met(&rows));
        assert!(!met(&[]));
    }

    #[test]
    fn what_nothing_was_asked_for_is_held_against_native() {
        let rows = setting(FREE, "plain", [0.0, 42.0, 12.0]);
        assert_eq!(Emulation.bars(&rows)[5].measured, Some(3.0));
        assert!(Emulation.bars(&rows)[5].met);
    }
}
