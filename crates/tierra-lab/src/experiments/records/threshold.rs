//! Figures 2 and 3 of the placement study: allocations of at least the threshold's size are far.
//!
//! The policy sees one allocation at a time, so it distinguishes only what is stored separately. The study's store has an
//! allocation for every field of a record: a hash whose values exceed 64 bytes is a table there. Tierra has the same limit,
//! `hash-max-listpack-value`, but its default is 1,024. A record of YCSB is then one object of 1.1 kB, near or far as a whole;
//! a threshold up to its size is `only-pmem`, a larger one `only-dram`. So that thresholds matter, the limit is set to 64 here,
//! as in the study. A record then has an object of 35 bytes for its key and one for each field. The study's 104 and 105
//! correspond to the requested size of a field's object and one byte more. Packed records, all far, are measured beside them.

use tierra_kv::keyspace::{Key, Keyspace, KeyspaceOptions, Policy, Settings};

use super::placed::{self, Sizes, WORKLOADS, against_near};
use super::prediction;
use super::sample;
use super::store::Store;
use super::{WHO, paper};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};
use tierra_data::ycsb::{FIELD_BYTES, FIELD_NAMES, FIELDS, Workload};

/// `hash-max-listpack-value` of Redis and of the study's store: larger values are stored separately.
const APART_BYTES: usize = 64;
const AT: &str = "a field's size";
const ABOVE: &str = "a byte more";
const PACKED: &str = "packed, all far";

/// The experiment.
pub(in crate::experiments) struct YcsbThreshold;

impl Experiment for YcsbThreshold {
    fn name(&self) -> &'static str {
        "ycsb-threshold"
    }

    fn about(&self) -> &'static str {
        "what does it cost to have everything from a size on in far memory?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &ScaleOption::OF_A_STORE
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let sizes = Sizes::of(lab);
        let field_bytes = field_object_bytes()?;
        let apart = |threshold| Settings {
            policy: Policy::Threshold,
            static_threshold: threshold,
            hash_packed_value_max: APART_BYTES,
            ..Settings::default()
        };
        let placements = [
            ("16 B", apart(16)),
            ("32 B", apart(32)),
            ("64 B", apart(64)),
            (AT, apart(field_bytes)),
            (ABOVE, apart(field_bytes + 1)),
            (
                PACKED,
                Settings {
                    policy: Policy::Threshold,
                    ..Settings::default()
                },
            ),
        ];
        let mut rows = Vec::new();
        let bar = progress::bar("workloads", placements.len() * WORKLOADS.len());
        for (name, settings) in placements {
            let store = Store::load(settings.clone(), sizes.records)?;
            let report = store.report();
            // As numastat counts it: tables are near.
            let near_bytes = report.near.object_bytes + report.table_bytes;
            let all_bytes = near_bytes + report.far.object_bytes;
            let row = Row::new()
                .text("threshold", name)
                .text("store", WHO)
                .count("threshold_bytes", settings.static_threshold as u64)
                .count("records", sizes.records)
                .count("near_record_bytes", report.near.object_bytes)
                .count("far_record_bytes", report.far.object_bytes)
                .count("table_bytes", report.table_bytes)
                .number("near_share", near_bytes as f64 / all_bytes as f64);
            rows.push(row);
            let measured = against_near(store, &settings, sizes, "placement", name, || bar.inc(1))?;
            match name {
                PACKED => {
                    let far_bytes = report.far.object_bytes;
                    let predict = |row| prediction::onto(row, sizes.records, far_bytes);
                    rows.extend(measured.into_iter().map(predict));
                }
                _ => rows.extend(measured),
            }
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: sizes
                .parameters()
                .count("field_bytes", FIELD_BYTES as u64)
                .count("field_object_bytes", field_bytes as u64)
                .count("paper_field_object_bytes", paper::LARGEST_ALLOCATION_BYTES),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let share = |threshold| {
            let row = find(rows, &[("threshold", threshold), ("store", WHO)])?;
            let near = row.value("near_record_bytes")?;
            Some(near / (near + row.value("far_record_bytes")?))
        };
        // A threshold that nothing reaches is everything near, compared with itself.
        let against_itself = |workload: &Workload| {
            let row = find(rows, &[("placement", ABOVE), ("workload", workload.name)])?;
            let over = row.value("time_over_near")?;
            Some(over.max(1.0 / over))
        };
        let packed = |workload: Workload| {
            let row = find(rows, &[("placement", PACKED), ("workload", workload.name)]);
            prediction::bar(row, &format!("packed records, {}", workload.name))
        };
        let farthest = WORKLOADS.iter().map(against_itself);
        let farthest = farthest.reduce(|most, next| Some(most?.max(next?)));
        // The key's object, of 48 bytes, and ten fields' of 128.
        vec![
            Bar::at_most(
                "a threshold of a field's size: share of records' bytes near",
                0.05,
                share(AT),
            ),
            Bar::at_least(
                "a byte more: share of records' bytes near",
                1.0,
                share(ABOVE),
            ),
            Bar::at_most(
                "a byte more, which is everything near: time over everything near, farthest from 1 of all workloads",
                1.05,
                farthest.flatten(),
            ),
            packed(Workload::R),
            packed(Workload::I),
            sample::faults_bar(rows),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        let mut rows = paper::threshold_shares();
        rows.extend(paper::far_over_near("placement"));
        rows
    }
}

const VIEWS: [View; 5] = [
    View {
        title: "share of memory near, by threshold (figure 2)",
        category: "threshold",
        series: "store",
        value: "near_share",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    placed::view("time over that of everything near (figure 3)", "placement"),
    View {
        title: "time over that of everything near, as lines, latency and bandwidth predict it",
        category: "workload",
        series: "placement",
        value: prediction::PREDICTED,
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    placed::times("time for a request (figure 3)", "placement", "time_ns"),
    View {
        title: "99 % of requests, sixteen at a time, take less than",
        category: "workload",
        series: "placement",
        value: "latency_p99_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

/// The size requested from the store for a field of a hundred bytes that is stored separately: the greatest threshold at
/// which it is far, found by trying.
fn field_object_bytes() -> Result<usize, LabError> {
    const ENOUGH_BYTES: usize = 4096;
    let settings = Settings {
        policy: Policy::Threshold,
        hash_packed_value_max: APART_BYTES,
        ..Settings::default()
    };
    let options = KeyspaceOptions {
        settings,
        ..KeyspaceOptions::default()
    };
    let mut keyspace = Keyspace::new(&options).by(WHO, "reserving memory")?;
    let mut fields_are_far = |threshold: usize| {
        keyspace
            .set_setting("static-threshold", &threshold.to_string())
            .by(WHO, "setting a threshold")?;
        let key = Key::new(b"record");
        let pairs = FIELD_NAMES
            .iter()
            .map(|name| (name.as_bytes(), &[0; FIELD_BYTES][..]));
        keyspace
            .db(0)
            .hash_set(&key, pairs)
            .by(WHO, "storing a record")?;
        let far = keyspace.report().far.objects;
        keyspace.db(0).remove(&key);
        Ok::<bool, LabError>(far >= FIELDS as u64)
    };
    let (mut far, mut near) = (1, ENOUGH_BYTES);
    while near - far > 1 {
        let middle = far.midpoint(near);
        if fields_are_far(middle)? {
            far = middle;
        } else {
            near = middle;
        }
    }
    Ok(far)
}
