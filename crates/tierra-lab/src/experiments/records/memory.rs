//! Figure 1 of the placement study: memory of a store of records, all near and all far, compared with redis-server.
//!
//! Records are inserted over the protocol, into one server after the other. Meanwhile memory is read: what the server reports,
//! and what the system reports of its process. Redis stores a hash with values above 64 bytes as a table; Tierra packs values
//! up to 1,024 bytes into one object. Each is also measured with the other's limit.

use std::time::Instant;

use super::remote::Remote;
use super::server::{REDIS, ServerProcess};
use super::{WHO, paper, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::LabError;
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, ScaleOption};
use crate::pin;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

const CONNECTIONS: usize = 4;
const PIPELINE: usize = 32;
/// Fractions of all records at which memory is compared.
const PARTS: [u64; 4] = [16, 8, 2, 1];
/// Points of a curve.
const POINTS: u64 = 32;

const FAR: &str = "Tierra, only-pmem";
const PACKED_REDIS: &str = "redis-server, listpack up to 1,024 B";

type Server = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Name, implementation and settings.
const SERVERS: [Server; 5] = [
    (WHO, WHO, &[("memory-alloc-policy", "only-dram")]),
    (
        FAR,
        WHO,
        &[
            ("memory-alloc-policy", "only-pmem"),
            ("emulate", "optane,scale=whole"),
        ],
    ),
    (
        "Tierra, listpack up to 64 B",
        WHO,
        &[
            ("memory-alloc-policy", "only-dram"),
            ("hash-max-listpack-value", "64"),
        ],
    ),
    (REDIS, REDIS, &[]),
    (PACKED_REDIS, REDIS, &[("hash-max-listpack-value", "1024")]),
];

/// The experiment.
pub(in crate::experiments) struct KvMemory;

impl Experiment for KvMemory {
    fn name(&self) -> &'static str {
        "kv-memory"
    }

    fn about(&self) -> &'static str {
        "how much memory does a record of ten fields of a hundred bytes take, near, far, and in redis-server?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Records]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.records(4_000, 1_000_000);
        pin::to_cpu(0);
        let bar = progress::bar("stores", SERVERS.len());
        let mut rows = Vec::new();
        for (name, whose, settings) in SERVERS {
            let server = if whose == WHO {
                Some(ServerProcess::tierra(settings)?)
            } else {
                ServerProcess::redis(settings)
            };
            match server {
                Some(server) => fill(&server, name, records, &mut rows)?,
                None => println!("{name} is not measured: redis-server is not installed."),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: Row::new()
                .count("records", records)
                .count("connections", CONNECTIONS as u64)
                .count("pipeline", PIPELINE as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let most = rows
            .iter()
            .filter(|row| row.is(&[("store", WHO)]))
            .filter_map(|row| row.value("count"))
            .fold(0.0, f64::max);
        let most = format!("{most}");
        let of = |store, key: &str| {
            let row = find(rows, &[("store", store), ("count", &most)])?;
            row.value(key)
        };
        let over = |redis, key: &str| Some(of(WHO, key)? / of(redis, key)?);
        vec![
            Bar::at_most(
                "memory of a record over redis-server's, as the servers say",
                0.85,
                over(REDIS, "record_bytes"),
            ),
            Bar::at_most(
                "resident memory of a record over redis-server's, as the system says",
                0.85,
                over(REDIS, "resident_record_bytes"),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn curves(&self) -> &'static [Curve] {
        const CURVES: [Curve; 1] = [tiers::curve("memory while records are inserted (figure 1)")];
        &CURVES
    }

    fn paper(&self) -> Vec<Row> {
        vec![paper::bytes_per_record()]
    }
}

const fn view(title: &'static str, value: &'static str) -> View {
    View {
        title,
        category: "records",
        series: "store",
        value,
        per: None,
        unit: Unit::Bytes,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    view("memory of a record, as the server says", "record_bytes"),
    view(
        "memory of a record, as the system says of the process",
        "resident_record_bytes",
    ),
    view("near memory in all", "near_bytes"),
    view("far memory in all", "far_bytes"),
];

/// Memory of a server.
struct Used {
    used: u64,
    resident: u64,
    /// The part of [`used`](Self::used) in the far tier.
    far: u64,
}

impl Used {
    fn of(server: &ServerProcess, client: &mut Remote) -> Result<Used, LabError> {
        let far = if server.who == WHO {
            client.info("tiers", "far_held_bytes")?
        } else {
            0
        };
        Ok(Used {
            used: client.info("memory", "used_memory")?,
            resident: server.resident_bytes()?,
            far,
        })
    }
}

/// Inserts records and records the memory they take.
fn fill(
    server: &ServerProcess,
    name: &str,
    records: u64,
    rows: &mut Vec<Row>,
) -> Result<(), LabError> {
    let mut client = Remote::connect(server, CONNECTIONS, PIPELINE)?;
    let empty = Used::of(server, &mut client)?;
    let started = Instant::now();
    let mut loaded = 0;
    let stops = (1..=POINTS).map(|point| records * point / POINTS);
    for stop in stops {
        client.load(loaded..stop)?;
        loaded = stop;
        let now = Used::of(server, &mut client)?;
        let near = now.used.saturating_sub(now.far);
        let at_s = started.elapsed().as_secs_f64();
        tiers::note(rows, name, at_s, near, now.far);
        if PARTS.iter().all(|part| loaded != records / part) {
            continue;
        }
        let each = |now: u64, empty: u64| now.saturating_sub(empty) as f64 / loaded as f64;
        let row = Row::new()
            .text("store", name)
            .text("records", loaded.to_string())
            .count("count", loaded)
            .count("used_bytes", now.used)
            .count("empty_bytes", empty.used)
            .count("resident_bytes", now.resident)
            .count("empty_resident_bytes", empty.resident)
            .count("near_bytes", near)
            .count("far_bytes", now.far)
            .number("record_bytes", each(now.used, empty.used))
            .number("resident_record_bytes", each(now.resident, empty.resident));
        rows.push(row);
    }
    client.check(records)
}
