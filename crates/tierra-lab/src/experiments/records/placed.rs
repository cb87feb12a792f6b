//! A placement compared with everything near: both get the same requests, in turns, for every workload of the study.
//!
//! Each placement is compared with a near store of its own, in alternating runs, so that only two stores exist at a time. Runs whose
//! times scatter are repeated ([`steady`]), and inserts find memory that has been touched before ([`sample`]).

use tierra_data::ycsb::Workload;
use tierra_kv::keyspace::{Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

use super::sample::{self, Sample};
use super::{Store, WHO};
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::row::Row;
use crate::stats;
use crate::steady::{self, Sampled};
use crate::view::{Unit, View};

/// D and I leave larger stores and E's index has its own cost: they come last.
pub(super) const WORKLOADS: [Workload; 8] = [
    Workload::R,
    Workload::C,
    Workload::B,
    Workload::A,
    Workload::F,
    Workload::D,
    Workload::E,
    Workload::I,
];
/// A scan reads fifty records.
const REQUESTS_PER_SCAN: usize = 20;

/// The size of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) records: u64,
    operations: usize,
    runs: usize,
}

impl Sizes {
    /// The requested size; by default a million records, and runs of 100,000 requests, so that all ends within five minutes.
    pub(super) fn of(lab: &Lab) -> Sizes {
        Sizes {
            records: lab.records(4_000, 1_000_000),
            operations: lab.operations(2_000, 100_000),
            runs: lab.runs(2, 4),
        }
    }

    pub(super) fn parameters(&self) -> Row {
        Row::new()
            .count("records", self.records)
            .count("operations", self.operations as u64)
            .count("scans", (self.operations / REQUESTS_PER_SCAN) as u64)
            .count("runs", self.runs as u64)
    }
}

/// These settings with everything near.
fn near(settings: &Settings) -> Settings {
    Settings {
        policy: Policy::OnlyDram,
        near_bytes: u64::MAX,
        ..settings.clone()
    }
}

/// A row per workload: times of `placed`, which was made with these settings, and of everything near.
pub(super) fn against_near(
    placed: Store,
    settings: &Settings,
    sizes: Sizes,
    key: &str,
    placement: &str,
    mut progress: impl FnMut(),
) -> Result<Vec<Row>, LabError> {
    let mut stores = [Store::load(near(settings), placed.records)?, placed];
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let is_scan = workload.name == "E";
        let operations = if is_scan {
            (sizes.operations / REQUESTS_PER_SCAN).max(1)
        } else {
            sizes.operations
        };
        if is_scan {
            for store in &mut stores {
                store.index(store.records)?;
            }
        }
        for store in &mut stores {
            sample::prepare(store, workload, operations)?;
        }
        emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
        let mut requests = stores
            .each_ref()
            .map(|store| workload.requests(store.records, SEED));
        let sampled = steady::in_turns(
            stores.len(),
            sizes.runs,
            |at| Sample::take(&mut stores[at], &mut requests[at], operations, workload),
            Sample::time_ns,
        )?;
        emulation::set(None).by(WHO, "ending emulation")?;
        for (store, asked) in stores.iter_mut().zip(&requests) {
            store.records = asked.records();
            if is_scan {
                store.drop_index();
            }
        }
        let report = stores[1].report();
        let [near, placed] = &sampled[..] else {
            unreachable!("there are two stores");
        };
        let time_ns = |sampled: &Sampled<Sample>| {
            let times: Vec<u64> = sampled.samples.iter().map(Sample::time_ns).collect();
            stats::median(&times).filter(|_| !sampled.refused)
        };
        let over = time_ns(placed)
            .zip(time_ns(near))
            .map(|(placed, near)| placed / near);
        let row = Row::new()
            .text(key, placement)
            .text("workload", workload.name)
            .count("operations", operations as u64)
            .count("near_bytes", report.near.object_bytes)
            .count("far_bytes", report.far.object_bytes)
            .count("table_bytes", report.table_bytes)
            .number("time_over_near", over.unwrap_or(f64::NAN));
        let row = sample::onto(near, sample::onto(placed, row, ""), "_near");
        rows.push(near.mark(placed.mark(row)));
        progress();
    }
    Ok(rows)
}

/// The time over that of everything near, per workload, by placement.
pub(super) const fn view(title: &'static str, key: &'static str) -> View {
    View {
        title,
        category: "workload",
        series: key,
        value: "time_over_near",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    }
}

/// The time per request, likewise.
pub(super) const fn times(title: &'static str, key: &'static str, value: &'static str) -> View {
    View {
        title,
        category: "workload",
        series: key,
        value,
        per: Some("operations"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}
