//! The hot set moves: how long until dynamic placement is as fast as before?
//!
//! Zipfian reads of a store whose near budget is a quarter of its records. Then all ranks are reassigned at once, and throughput
//! is measured in time slices from that moment on.

use std::time::{Duration, Instant};

use tierra_data::ycsb::{Distribution, Workload};
use tierra_kv::keyspace::Settings;
use tierra_memory::emulation::{self, FarMemory};

use super::{Store, WHO, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// Bytes that a record takes.
const RECORD_BYTES: u64 = 1088;
/// Requests of a slice.
const SLICE: usize = 50_000;
const SHARE: f64 = 0.9;

/// The experiment.
pub(in crate::experiments) struct KvShift;

impl Experiment for KvShift {
    fn name(&self) -> &'static str {
        "kv-shift"
    }

    fn about(&self) -> &'static str {
        "when the hot set moves, how soon does dynamic placement follow?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Records]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.records(4_000, 1_000_000);
        let (before, after) = lab.size((0.2, 0.4), (10.0, 25.0));
        let settings = Settings {
            near_bytes: records * RECORD_BYTES / 4,
            ..Settings::default()
        };
        let mut store = Store::load(settings, records)?;
        emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
        let workload = Workload::B.over(Distribution::Zipfian);
        let mut rows = Vec::new();
        let bar = progress::bar("hot sets", 2);
        let started = Instant::now();
        for (phase, seconds) in [("before", before), ("after", after)] {
            let shift = if phase == "after" { records / 2 } else { 0 };
            let mut requests = workload.requests(records, SEED ^ shift).shifted_by(shift);
            let start = Instant::now();
            let mut slice = 0;
            while start.elapsed() < Duration::from_secs_f64(seconds) {
                store.tick();
                let at = start.elapsed();
                let time_ns = store.serve(&mut requests, SLICE)?;
                let row = Row::new()
                    .text("phase", phase)
                    .text("second", format!("{:.0}", at.as_secs_f64().floor()))
                    .count("slice", slice)
                    .number("at_s", at.as_secs_f64())
                    .count("requests", SLICE as u64)
                    .count("time_ns", time_ns)
                    .count("moved_near", store.report().migrations.to_near);
                rows.push(row);
                let (near, far) = tiers::held_bytes(&store.report());
                tiers::note(
                    &mut rows,
                    "dynamic",
                    started.elapsed().as_secs_f64(),
                    near,
                    far,
                );
                slice += 1;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        emulation::set(None).by(WHO, "ending emulation")?;
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: Row::new()
                .count("records", records)
                .count("near_percent", 25),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        vec![Bar::at_most(
            "seconds until nine tenths of the throughput that it settles at",
            10.0,
            recovered_s(rows),
        )]
    }

    fn curves(&self) -> &'static [Curve] {
        const CURVES: [Curve; 1] = [tiers::curve("memory of each tier, before and after")];
        &CURVES
    }

    fn views(&self) -> &'static [View] {
        &[View {
            title: "time per request, second by second",
            category: "second",
            series: "phase",
            value: "time_ns",
            per: Some("requests"),
            unit: Unit::Nanoseconds,
            mean: false,
        }]
    }
}

/// When the slices after the shift are first nearly as fast as their last third.
fn recovered_s(rows: &[Row]) -> Option<f64> {
    let after: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| row.is(&[("phase", "after")]))
        .filter_map(|row| Some((row.value("at_s")?, row.value("time_ns")?)))
        .collect();
    let median = |slices: &[(f64, f64)]| {
        let mut times: Vec<f64> = slices.iter().map(|&(_, time)| time).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let settled = median(&after[after.len() - after.len() / 3..])?;
    // Several slices together, so that one interrupted slice does not count.
    const TOGETHER: usize = 5;
    let recovered = after
        .windows(TOGETHER)
        .find(|slices| median(slices).is_some_and(|time| time <= settled / SHARE))?;
    Some(recovered[0].0)
}
