//! One setting at a time, with and without emulation in turn.

use std::cell::RefCell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tierra_interleave::{Execution, Interleaved, Plain};
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::in_mode;
use tierra_memory::measure::Chase;

use super::WHO;
use crate::error::{Context, LabError};
use crate::progress;
use crate::row::Row;
use crate::turns::turns;

pub(super) const ASKED: &str = "asked";
pub(super) const EMULATED: &str = "emulated";
pub(super) const NATIVE: &str = "native";

/// Time of one sample.
pub(super) const TIME: Duration = Duration::from_millis(1);
/// Samples are times of this many lines, loads or bytes, so that they are whole numbers.
const UNITS: u64 = 1_000_000;

/// Settings of a full run.
const SETTINGS: usize = 62;

/// Nanoseconds per unit of some work.
pub(super) type Work<'a> = &'a dyn Fn() -> f64;

/// What has been measured so far.
pub(super) struct Bench {
    rounds: usize,
    rows: Vec<Row>,
    progress: indicatif::ProgressBar,
}

impl Bench {
    pub(super) fn new(rounds: usize) -> Bench {
        Bench {
            rounds,
            rows: Vec::new(),
            progress: progress::bar("settings", SETTINGS),
        }
    }

    /// The rows.
    pub(super) fn finish(self) -> Vec<Row> {
        self.progress.finish_and_clear();
        self.rows
    }

    /// Measures one setting, with `far` emulated and with nothing emulated in turn.
    pub(super) fn compare(
        &mut self,
        operation: &str,
        setting: &str,
        asked_ns: f64,
        far: FarMemory,
        [emulated, native]: [Work<'_>; 2],
    ) -> Result<(), LabError> {
        self.compare_with(operation, setting, asked_ns, Some(far), [emulated, native])
    }

    /// The same, but where `far` is `None` nothing is emulated on either side.
    pub(super) fn compare_with(
        &mut self,
        operation: &str,
        setting: &str,
        asked_ns: f64,
        far: Option<FarMemory>,
        [emulated, native]: [Work<'_>; 2],
    ) -> Result<(), LabError> {
        let mut samples = [Vec::new(), Vec::new()];
        for turn in turns(2, self.rounds) {
            let (far, measure) = [(far, emulated), (None, native)][turn.contender];
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
}

/// Nanoseconds per line of that many chases, emulated while emulation is on, and native.
pub(super) fn chased(
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

/// Runs both at once, the second in a thread of its own; returns what they returned, and the nanoseconds from when both had begun until
/// both were done.
pub(super) fn at_once<T: Send>([one, other]: [&mut (dyn FnMut() -> T + Send); 2]) -> ([T; 2], f64) {
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            both.wait();
            other()
        });
        both.wait();
        let start = Instant::now();
        let one = one();
        let other = other
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ([one, other], start.elapsed().as_nanos() as f64)
    })
}
