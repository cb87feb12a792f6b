//! Figures 4 and 5 of the placement study: a ratio of near to far memory, kept while records are added and grow.
//!
//! First each ratio is requested of a store that is loaded, and of one whose records then grow, as hashes do to which fields are
//! added. How soon is the ratio reached, and is it kept? Then the loaded store serves the workloads, compared with one that has
//! everything near.

use std::time::{Duration, Instant};

use tierra_kv::keyspace::{Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

use super::growth::Growth;
use super::paper::{self, RATIOS};
use super::placed::{self, Sizes, WORKLOADS, against_near};
use super::store::Store;
use super::{WHO, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// The largest difference of a ratio from its target, as a share of everything.
const TOLERANCE: f64 = 0.02;
/// The time after a load in which the ratio must be reached.
const WITHIN_S: f64 = 10.0;
const EVERY: Duration = Duration::from_millis(200);
/// Records added, or requests that grow some, between two reads of the clock.
const STEP: u64 = 256;
/// The ratio whose tiers are drawn.
const DRAWN: &str = "25 %";
const LOADED: &str = "loaded";
const GROWING: &str = "growing";

/// The experiment.
pub(in crate::experiments) struct YcsbRatio;

impl Experiment for YcsbRatio {
    fn name(&self) -> &'static str {
        "ycsb-ratio"
    }

    fn about(&self) -> &'static str {
        "does memory keep a ratio of near to far, also where records grow, and what does the far part cost?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &ScaleOption::OF_A_STORE
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let sizes = Sizes::of(lab);
        // Records that grow to several times their size.
        let growing_records = (sizes.records / 5).max(1);
        let after = lab.size(Duration::from_millis(400), Duration::from_secs(8));
        let mut rows = Vec::new();
        let bar = progress::bar("steps", RATIOS.len() * (2 + WORKLOADS.len()));
        for (near, far, name) in RATIOS {
            let settings = Settings {
                policy: Policy::Ratio,
                ratio: (near, far),
                ..Settings::default()
            };
            emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
            let mut watch = Watch::new(&settings, name, GROWING, &mut rows)?;
            watch.load(growing_records)?;
            watch.grow(after)?;
            bar.inc(1);
            let mut watch = Watch::new(&settings, name, LOADED, &mut rows)?;
            watch.load(sizes.records)?;
            watch.rest(after / 4)?;
            let store = watch.store;
            emulation::set(None).by(WHO, "ending emulation")?;
            bar.inc(1);
            let placement = format!("{name} near");
            rows.extend(against_near(
                store,
                &settings,
                sizes,
                "placement",
                &placement,
                || bar.inc(1),
            )?);
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: sizes
                .parameters()
                .count("growing_records", growing_records)
                .number("growing_s", after.as_secs_f64()),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        [(LOADED, "loaded"), (GROWING, "loaded, then growing")]
            .into_iter()
            .map(|(phase, what)| {
                let each = RATIOS.iter().map(|(.., name)| settled_s(rows, name, phase));
                let worst = each.reduce(|worst, next| Some(worst?.max(next?))).flatten();
                let what = format!("{what}: seconds after the load until the ratio is there within 2 %, and stays, at worst");
                Bar::at_most(what, WITHIN_S, worst)
            })
            .collect()
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn curves(&self) -> &'static [Curve] {
        &CURVES
    }

    fn paper(&self) -> Vec<Row> {
        paper::far_over_near("placement")
    }
}

const VIEWS: [View; 3] = [
    placed::view("time over that of everything near (figure 5)", "placement"),
    placed::times("time for a request (figure 5)", "placement", "time_ns"),
    View {
        title: "share of records' bytes near, by what was asked for, at the end (figure 4)",
        category: "asked",
        series: "phase",
        value: "final_near_share",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

const fn shares(title: &'static str, series: &'static str) -> Curve {
    Curve {
        title,
        at: "at_s",
        series,
        value: "near_share",
        unit: Unit::Ratio,
    }
}

const CURVES: [Curve; 3] = [
    shares("share near from the beginning of the load on", LOADED),
    shares("share near, records growing after the load", GROWING),
    tiers::curve("memory of each tier, 25 % near asked for"),
];

/// When, after the load, the near share first stays within the tolerance until the end.
fn settled_s(rows: &[Row], asked: &str, phase: &str) -> Option<f64> {
    let points: Vec<(f64, bool)> = rows
        .iter()
        .filter(|row| row.is(&[(phase, asked)]))
        .filter_map(|row| {
            let (near, far) = (row.value("near_bytes")?, row.value("far_bytes")?);
            let off = near / (near + far) - row.value("target_share")?;
            Some((row.value("after_load_s")?, off.abs() <= TOLERANCE))
        })
        .collect();
    let settled = points.iter().rposition(|&(_, is_near)| !is_near);
    let first = points.get(settled.map_or(0, |last| last + 1))?;
    Some(first.0.max(0.0))
}

/// A store that is watched.
struct Watch<'a> {
    store: Store,
    settings: &'a Settings,
    asked: &'static str,
    /// The phase in the rows of its points.
    phase: &'static str,
    rows: &'a mut Vec<Row>,
    started: Instant,
    loaded: Option<Instant>,
    looked: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(
        settings: &'a Settings,
        asked: &'static str,
        phase: &'static str,
        rows: &'a mut Vec<Row>,
    ) -> Result<Watch<'a>, LabError> {
        let mut store = Store::new(settings.clone())?;
        store.start_clock();
        Ok(Watch {
            store,
            settings,
            asked,
            phase,
            rows,
            started: Instant::now(),
            loaded: None,
            looked: None,
        })
    }

    fn load(&mut self, records: u64) -> Result<(), LabError> {
        while self.store.records < records {
            let next = records.min(self.store.records + STEP);
            self.store.insert_up_to(next)?;
            self.look(false);
        }
        self.loaded = Some(Instant::now());
        Ok(())
    }

    /// Lets records grow.
    fn grow(&mut self, time: Duration) -> Result<(), LabError> {
        let mut growth = Growth::of(self.store.records);
        let end = Instant::now() + time;
        while Instant::now() < end {
            growth.add_fields(&mut self.store, STEP)?;
            self.look(false);
        }
        self.look(true);
        growth.check(&mut self.store)
    }

    /// Waits without requests.
    fn rest(&mut self, time: Duration) -> Result<(), LabError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.store.idle(EVERY / 4);
            self.look(false);
        }
        self.look(true);
        Ok(())
    }

    /// Records the memory, if it is time to.
    fn look(&mut self, is_last: bool) {
        let now = Instant::now();
        if !is_last && self.looked.is_some_and(|looked| now - looked < EVERY) {
            return;
        }
        self.looked = Some(now);
        let at_s = (now - self.started).as_secs_f64();
        let after_load_s = self.loaded.map(|loaded| (now - loaded).as_secs_f64());
        let report = self.store.report();
        let (near, far) = (report.near.object_bytes, report.far.object_bytes);
        let (parts_near, parts_far) = self.settings.ratio;
        let share = near as f64 / (near + far).max(1) as f64;
        let row = Row::new()
            .text(self.phase, self.asked)
            .number("at_s", at_s)
            .number("after_load_s", after_load_s.unwrap_or(f64::NAN))
            .number(
                "target_share",
                f64::from(parts_near) / f64::from(parts_near + parts_far),
            )
            .count("near_bytes", near)
            .count("far_bytes", far)
            .count("near_held_bytes", report.near.held_bytes)
            .count("far_held_bytes", report.far.held_bytes)
            .count("moved_bytes", report.migrations.bytes)
            .number("near_share", share);
        self.rows.push(row);
        if is_last {
            let row = Row::new()
                .text("asked", self.asked)
                .text("phase", self.phase)
                .number("final_near_share", share);
            self.rows.push(row);
        }
        if self.asked == DRAWN {
            let (near, far) = tiers::held_bytes(&report);
            tiers::note(self.rows, self.phase, at_s, near, far);
        }
    }
}
