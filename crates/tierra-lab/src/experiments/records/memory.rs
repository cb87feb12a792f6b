//! Figure 1 of the placement study: memory of a store of records, all near and all far, compared with redis-server.
//!
//! Records are inserted over the protocol, into one server after the other. Meanwhile memory is read: what the server reports,
//! and what the system reports of its process. A hash whose values are longer than `hash-max-listpack-value` is a table; one of shorter
//! values is packed into one object. Redis's limit is 64 by default, Tierra's 1,024. Both servers are measured with both, and compared
//! at the same one; their names say which.

use std::time::Instant;

use super::remote::Remote;
use super::server::ServerProcess;
use super::{WHO, paper, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::LabError;
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, ScaleOption};
use crate::pin;
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

const CONNECTIONS: usize = 4;
const PIPELINE: usize = 32;
/// Fractions of all records at which memory is compared.
const PARTS: [u64; 4] = [16, 8, 2, 1];
/// Points of a curve.
const POINTS: u64 = 32;
/// Tierra's memory over redis-server's, at the same limit.
const OVER_REDIS_MAX: f64 = 0.85;

/// A limit of packed values in bytes, as servers are told, and the names of servers that have it.
struct Limit {
    bytes: &'static str,
    near: &'static str,
    far: &'static str,
    redis: &'static str,
}

const LIMITS: [Limit; 2] = [
    Limit {
        bytes: "1024",
        near: "Tierra, values up to 1,024 B packed",
        far: "Tierra, all far, up to 1,024 B packed",
        redis: "redis-server, values up to 1,024 B packed",
    },
    Limit {
        bytes: "64",
        near: "Tierra, values up to 64 B packed",
        far: "Tierra, all far, up to 64 B packed",
        redis: "redis-server, values up to 64 B packed",
    },
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
        let bar = progress::bar("stores", 3 * LIMITS.len());
        let mut rows = Vec::new();
        for limit in &LIMITS {
            let packed = ("hash-max-listpack-value", limit.bytes);
            let near = [("memory-alloc-policy", "only-dram"), packed];
            let far = [
                ("memory-alloc-policy", "only-pmem"),
                ("emulate", "optane,scale=whole"),
                packed,
            ];
            for (name, settings) in [(limit.near, &near[..]), (limit.far, &far)] {
                fill(&ServerProcess::tierra(settings)?, name, records, &mut rows)?;
                bar.inc(1);
            }
            match ServerProcess::redis(&[packed]) {
                Some(server) => fill(&server, limit.redis, records, &mut rows)?,
                None => println!("{} is not measured: it is not installed.", limit.redis),
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
        let count = |row: &Row| row.value("count");
        let most = rows.iter().filter_map(count).reduce(f64::max);
        let of = |store, key: &str| {
            let is_full = |row: &&Row| row.is(&[("store", store)]) && count(row) == most;
            rows.iter().find(is_full)?.value(key)
        };
        let bars = LIMITS.iter().flat_map(|limit| {
            let over = |key| Some(of(limit.near, key)? / of(limit.redis, key)?);
            let values = limit.near.trim_start_matches("Tierra, ");
            [
                Bar::at_most(
                    format!("{values}: memory of a record over redis-server's, as the servers say"),
                    OVER_REDIS_MAX,
                    over("record_bytes"),
                ),
                Bar::at_most(
                    format!(
                        "{values}: resident memory of a record over redis-server's, as the system says"
                    ),
                    OVER_REDIS_MAX,
                    over("resident_record_bytes"),
                ),
            ]
        });
        bars.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_compared_at_the_same_limit() {
        let row = |store: &str, count, bytes| {
            Row::new()
                .text("store", store)
                .count("count", count)
                .number("record_bytes", bytes)
                .number("resident_record_bytes", 2.0 * bytes)
        };
        let [packed, apart] = &LIMITS;
        let mut rows = vec![
            row(packed.near, 10, 999.0),
            row(packed.near, 20, 80.0),
            row(packed.redis, 20, 100.0),
            row(apart.near, 20, 190.0),
            row(apart.redis, 20, 200.0),
        ];
        let bars = KvMemory.bars(&rows);
        let measured: Vec<Option<f64>> = bars.iter().map(|bar| bar.measured).collect();
        assert_eq!(measured, [0.8, 0.8, 0.95, 0.95].map(Some));
        assert_eq!(bars.iter().filter(|bar| bar.met).count(), 2);
        rows.pop();
        assert_eq!(KvMemory.bars(&rows)[2].measured, None);
    }
}
