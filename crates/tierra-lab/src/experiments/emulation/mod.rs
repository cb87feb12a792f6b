//! Emulation: does emulated far memory do what its description says, what does emulating cost, and is it free if nothing is requested?
//!
//! Every property of a description is measured by itself, with and without emulation in turn: latency over working sets from
//! 1 MiB to 4 GiB, with and without the modelled cache; misses in flight; bandwidth of reads and writes, of one thread and of
//! two; stores that miss, flushes and fences; several memories at once, another socket, channels shared with near memory.
//! Samples take about a millisecond, so that on a shared machine most are not interrupted. Where memory itself is slower than
//! what was asked (4 GiB on 2 MiB pages can be: every access walks the page table), its own time is what the emulated one is held
//! against.

mod bench;
mod blocks;
mod loads;
mod own_work;
mod places;
mod stores;

use tierra_memory::Region;
use tierra_memory::emulation::FarMemory;

use bench::{ASKED, Bench, EMULATED, NATIVE};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::view::{Unit, View};

/// The contender's name in messages.
const WHO: &str = "the lab";

const CHASE: &str = "dependent chase";
const RANDOM: &str = "parallel random loads";
const SCAN: &str = "sequential scan";
const STORE: &str = "store that misses";
const DURABLE: &str = "store, flush and fence";
const COPY: &str = "bulk copy";
const PLACES: &str = "several memories";
const SOCKETS: &str = "another socket";
const CHANNELS: &str = "near and far at once";
const FREE: &str = "zero latency";
const OFF: &str = "switched off";
const LINE: &str = "a far line, due";
const OBJECT: &str = "an object of 17 lines, due";
const CACHED: &str = "a line in the modelled cache";
/// Everything is due as soon as it is asked for: what is left is the emulation's own work.
pub(super) const DUE: FarMemory = FarMemory {
    latency_ns: 1.0,
    remote_latency_ns: 1.0,
    misses_in_flight: 64,
    random_read_gb_per_s: 1000.0,
    sequential_read_gb_per_s: 1000.0,
    ..FarMemory::UNLIMITED
};
/// What a description asks for.
const DESCRIBED: [&str; 9] = [
    CHASE, RANDOM, SCAN, STORE, DURABLE, COPY, PLACES, SOCKETS, CHANNELS,
];

/// The experiment.
pub(super) struct Emulation;

impl Experiment for Emulation {
    fn name(&self) -> &'static str {
        "emulation"
    }

    fn about(&self) -> &'static str {
        "is emulated far memory as slow as asked, what does emulating cost, and is it free where nothing is asked?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 101);
        let largest = lab.size(16 << 20, 4 << 30);
        let mut region = Region::near(largest).by(WHO, "mapping memory")?;
        region.populate().by(WHO, "bringing in memory")?;
        let page_bytes = region.page_size_bytes() as u64;
        let mut bench = Bench::new(rounds);
        bench.loads(&mut region)?;
        bench.blocks(&mut region)?;
        bench.stores(&mut region)?;
        bench.places(&mut region)?;
        bench.own_work()?;
        let parameters = Row::new()
            .count("working_set_bytes", largest as u64)
            .count("page_bytes", page_bytes)
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows: bench.finish(),
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
        let added = |[_, emulated, native]: [f64; 3]| emulated - native;
        let described = DESCRIBED.iter().map(|operation| {
            // Emulation makes memory slower, never faster.
            let off = |[asked, emulated, native]: [f64; 3]| {
                let due = asked.max(native);
                100.0 * (emulated - due).abs() / due
            };
            Bar::at_most(
                format!("emulation: {operation}, per cent off what was asked, worst setting"),
                10.0,
                worst(operation, &off),
            )
        });
        let free = Bar::at_most(
            "emulation: zero latency, ns a load more than native, plain or interleaved",
            3.0,
            worst(FREE, &added),
        );
        let line = Bar::at_most(
            "emulation: its own work, ns for a far line that is due",
            15.0,
            worst(LINE, &added),
        );
        let object = Bar::at_most(
            "emulation: its own work, ns for a far object of 17 lines that is due",
            40.0,
            worst(OBJECT, &added),
        );
        let off = Bar::at_most(
            "emulation: switched off, per cent that searches take longer than without it",
            0.5,
            worst(OFF, &|[_, off, native]| 100.0 * (off - native) / native),
        );
        described.chain([free, line, object, off]).collect()
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
    fn memory_that_is_slower_than_asked_stays_as_slow() {
        let rows = |emulated| setting(CHASE, "a", [3000.0, emulated, 4000.0]);
        assert!(Emulation.bars(&rows(4200.0))[0].met);
        assert!(!Emulation.bars(&rows(4500.0))[0].met);
        assert!(!Emulation.bars(&rows(3000.0))[0].met);
    }

    #[test]
    fn what_nothing_was_asked_for_is_held_against_native() {
        let rows = setting(FREE, "plain", [0.0, 42.0, 12.0]);
        let bars = Emulation.bars(&rows);
        assert_eq!(bars[DESCRIBED.len()].measured, Some(3.0));
        assert!(bars[DESCRIBED.len()].met);
    }
}
