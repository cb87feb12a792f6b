//! `dynamic` with near memory for a quarter of the records against `only-dram`, in process and served over the protocol.
//!
//! The same driver sends the same requests to stores in this process and to servers, the two policies in turns. redis-server,
//! which has near memory only, is measured beside them. CPU time of the server's thread per request is reported as well as
//! elapsed time: over the protocol the client is often the limit.

use std::time::Instant;

use tierra_data::ycsb::{Distribution, Requests, Workload};
use tierra_kv::keyspace::{Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

use super::driver::{Run, Samples};
use super::remote::Remote;
use super::server::{REDIS, ServerProcess};
use super::store::Store;
use super::{WHO, tiers};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED, ScaleOption};
use crate::pin;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

const NEAR_PERCENT: u64 = 25;
const CONNECTIONS: usize = 4;
const PIPELINE: usize = 16;
/// A scan reads fifty records.
const REQUESTS_PER_SCAN: usize = 20;
/// Requests, in runs, before the first measured one: hot records must come near first.
const SETTLING_RUNS: usize = 20;

const NEAR: &str = "only-dram";
const DYNAMIC: &str = "dynamic, 25 % near";
const IN_PROCESS: &str = "in process";
const SERVED: &str = "served";

/// The study's workloads, with the strongest skew; those that leave larger stores come last.
const WORKLOADS: [Workload; 7] = [
    Workload::R,
    Workload::C.over(Distribution::Zipfian),
    Workload::B.over(Distribution::Zipfian),
    Workload::A.over(Distribution::Zipfian),
    Workload::F.over(Distribution::Zipfian),
    Workload::D,
    Workload::E.over(Distribution::Zipfian),
];
/// The experiment.
pub(in crate::experiments) struct YcsbServed;

impl Experiment for YcsbServed {
    fn name(&self) -> &'static str {
        "ycsb-served"
    }

    fn about(&self) -> &'static str {
        "with a quarter of the records near, how fast is the server, and the store in process, against all near?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &ScaleOption::OF_A_STORE
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.records(4_000, 1_000_000);
        let operations = lab.operations(2_000, 100_000);
        let runs = lab.runs(2, 4);
        let mut rows = Vec::new();
        let bar = progress::bar("workloads", 2 * WORKLOADS.len());
        let mut contenders = in_process(records)?;
        measure(&mut contenders, operations, runs, &mut rows, || bar.inc(1))?;
        drop(contenders);
        pin::to_cpu(0);
        let mut contenders = served(records)?;
        measure(&mut contenders, operations, runs, &mut rows, || bar.inc(1))?;
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: Row::new()
                .count("records", records)
                .count("operations", operations as u64)
                .count("runs", runs as u64)
                .count("near_percent", NEAR_PERCENT)
                .count("connections", CONNECTIONS as u64)
                .count("pipeline", PIPELINE as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let cpu = |policy: &str, workload: &str| {
            let identity = [("how", SERVED), ("policy", policy), ("workload", workload)];
            find(rows, &identity)?.value("cpu_ns")
        };
        let over = |workload: &str| Some(cpu(DYNAMIC, workload)? / cpu(NEAR, workload)?);
        let redis = |workload: &str| Some(cpu(REDIS, workload)? / cpu(DYNAMIC, workload)?);
        let skewed = ["A", "B", "C", "F", "D"].map(over);
        let all = WORKLOADS.iter().map(|workload| redis(workload.name));
        vec![
            Bar::at_most(
                "served, 25 % near, A, B, C, D, F: the server's processor time over all near, most",
                1.15,
                skewed
                    .into_iter()
                    .reduce(|most, next| Some(most?.max(next?)))
                    .flatten(),
            ),
            Bar::at_least(
                "served, 25 % near, every workload: requests a second of processor time over redis-server's, all near, least",
                2.0,
                all.reduce(|least, next| Some(least?.min(next?))).flatten(),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn curves(&self) -> &'static [Curve] {
        const CURVES: [Curve; 1] = [tiers::curve("memory of each tier while dynamic places")];
        &CURVES
    }
}

const fn view(title: &'static str, value: &'static str, per: Option<&'static str>) -> View {
    View {
        title,
        category: "workload",
        series: "contender",
        value,
        per,
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    view("time for a request", "time_ns", Some("operations")),
    view(
        "the server's processor time for a request",
        "cpu_ns",
        Some("operations"),
    ),
    view(
        "half of the requests take less than",
        "latency_p50_ns",
        None,
    ),
    view(
        "99 % of the requests take less than",
        "latency_p99_ns",
        None,
    ),
];

/// A store that serves, in this process or another.
enum Serving {
    Here(Box<Store>),
    There(ServerProcess, Box<Remote>),
}

impl Serving {
    fn run(&mut self, requests: &mut Requests, operations: usize) -> Result<Run, LabError> {
        match self {
            Serving::Here(store) => store.run(requests, operations),
            Serving::There(_, client) => client.run(requests, operations),
        }
    }

    /// CPU time of the server, if it is another process.
    fn cpu_ns(&self) -> Result<Option<u64>, LabError> {
        match self {
            Serving::Here(_) => Ok(None),
            Serving::There(server, _) => server.cpu_ns().map(Some),
        }
    }

    fn index(&mut self, records: u64) -> Result<(), LabError> {
        match self {
            Serving::Here(store) => store.index(records),
            Serving::There(_, client) => client.index(records),
        }
    }

    fn drop_index(&mut self) -> Result<(), LabError> {
        match self {
            Serving::Here(store) => {
                store.drop_index();
                Ok(())
            }
            Serving::There(_, client) => client.drop_index(),
        }
    }

    /// Bytes of near and of far memory; `None` if it does not know.
    fn held_bytes(&mut self) -> Result<Option<(u64, u64)>, LabError> {
        Ok(match self {
            Serving::Here(store) => Some(tiers::held_bytes(&store.report())),
            Serving::There(server, client) if server.who == WHO => {
                let records = client.info("tiers", "near_held_bytes")?;
                let tables = client.info("tiers", "table_bytes")?;
                Some((records + tables, client.info("tiers", "far_held_bytes")?))
            }
            Serving::There(..) => None,
        })
    }
}

/// A measured store.
struct Contender {
    how: &'static str,
    policy: &'static str,
    serving: Serving,
    records: u64,
}

impl Contender {
    fn name(&self) -> String {
        format!("{}, {}", self.policy, self.how)
    }
}

fn in_process(records: u64) -> Result<Vec<Contender>, LabError> {
    let all_near = Store::load(
        Settings {
            policy: Policy::OnlyDram,
            ..Settings::default()
        },
        records,
    )?;
    let settings = Settings {
        near_bytes: all_near.report().near.held_bytes * NEAR_PERCENT / 100,
        ..Settings::default()
    };
    let dynamic = Store::load(settings, records)?;
    let contender = |(policy, mut store): (_, Store)| {
        store.start_clock();
        Contender {
            how: IN_PROCESS,
            policy,
            serving: Serving::Here(Box::new(store)),
            records,
        }
    };
    Ok([(NEAR, all_near), (DYNAMIC, dynamic)].map(contender).into())
}

fn served(records: u64) -> Result<Vec<Contender>, LabError> {
    let emulated = ("emulate", "optane,scale=whole");
    let all_near = ServerProcess::tierra(&[("memory-alloc-policy", "only-dram"), emulated])?;
    let mut contenders = vec![contender(NEAR, all_near, records)?];
    let Serving::There(_, client) = &mut contenders[0].serving else {
        unreachable!("it was made so");
    };
    let budget = client.info("tiers", "near_held_bytes")? * NEAR_PERCENT / 100;
    let budget = budget.to_string();
    let dynamic = ServerProcess::tierra(&[("near-memory", &budget), emulated])?;
    contenders.push(contender(DYNAMIC, dynamic, records)?);
    match ServerProcess::redis(&[]) {
        Some(redis) => contenders.push(contender(REDIS, redis, records)?),
        None => println!("redis-server is not installed: it is not measured."),
    }
    Ok(contenders)
}

fn contender(
    policy: &'static str,
    server: ServerProcess,
    records: u64,
) -> Result<Contender, LabError> {
    let mut client = Remote::connect(&server, CONNECTIONS, PIPELINE)?;
    client.load(0..records)?;
    Ok(Contender {
        how: SERVED,
        policy,
        serving: Serving::There(server, Box::new(client)),
        records,
    })
}

/// Measures every workload, in turns.
fn measure(
    contenders: &mut [Contender],
    operations: usize,
    runs: usize,
    rows: &mut Vec<Row>,
    mut progress: impl FnMut(),
) -> Result<(), LabError> {
    let started = Instant::now();
    for workload in WORKLOADS {
        let is_scan = workload.name == "E";
        let operations = if is_scan {
            (operations / REQUESTS_PER_SCAN).max(1)
        } else {
            operations
        };
        if is_scan {
            for contender in contenders.iter_mut() {
                contender.serving.index(contender.records)?;
            }
        }
        // Servers do their own emulation.
        emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
        let mut requests = Vec::new();
        for contender in contenders.iter_mut() {
            let mut asked = workload.requests(contender.records, SEED);
            if contender.policy == DYNAMIC {
                let settling = operations * SETTLING_RUNS;
                contender.serving.run(&mut asked, settling)?;
            }
            requests.push(asked);
        }
        let mut samples = vec![(Samples::default(), Vec::new()); contenders.len()];
        for turn in turns(contenders.len(), runs) {
            let contender = &mut contenders[turn.contender];
            let cpu_ns = contender.serving.cpu_ns()?;
            let run = contender
                .serving
                .run(&mut requests[turn.contender], operations)?;
            if !turn.is_warm_up() {
                let (times, cpu) = &mut samples[turn.contender];
                times.add(&run);
                if let Some(before) = cpu_ns {
                    let after = contender.serving.cpu_ns()?.unwrap_or(before);
                    cpu.push(after - before);
                }
            }
            if contender.policy == DYNAMIC
                && let Some((near, far)) = contender.serving.held_bytes()?
            {
                let at_s = started.elapsed().as_secs_f64();
                tiers::note(rows, &contender.name(), at_s, near, far);
            }
        }
        emulation::set(None).by(WHO, "ending emulation")?;
        for ((contender, asked), (times, cpu_ns)) in
            contenders.iter_mut().zip(&requests).zip(samples)
        {
            contender.records = asked.records();
            if is_scan {
                contender.serving.drop_index()?;
            }
            let row = Row::new()
                .text("how", contender.how)
                .text("policy", contender.policy)
                .text("contender", contender.name())
                .text("workload", workload.name)
                .count("operations", operations as u64);
            let row = times.onto(row, "");
            rows.push(if cpu_ns.is_empty() {
                row
            } else {
                row.samples("cpu", "ns", cpu_ns)
            });
        }
        progress();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_about_the_worst_workload_and_need_the_peer() {
        let row = |policy: &str, workload: &str, cpu_ns| {
            Row::new()
                .text("how", SERVED)
                .text("policy", policy)
                .text("workload", workload)
                .samples("cpu", "ns", vec![cpu_ns])
        };
        let rows = |dynamic_d, redis_d| -> Vec<Row> {
            let of = |workload: &Workload| {
                let (dynamic, redis) = match workload.name {
                    "D" => (dynamic_d, redis_d),
                    _ => (105, 300),
                };
                let name = workload.name;
                [
                    row(NEAR, name, 100),
                    row(DYNAMIC, name, dynamic),
                    row(REDIS, name, redis),
                ]
            };
            WORKLOADS.iter().flat_map(of).collect()
        };
        let met = |rows: &[Row]| {
            let bars = YcsbServed.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&rows(110, 230)), [true, true]);
        assert_eq!(met(&rows(120, 230)), [false, false]);
        let mut alone = rows(110, 230);
        alone.retain(|row| !row.is(&[("policy", REDIS)]));
        assert_eq!(YcsbServed.bars(&alone)[1].measured, None);
    }
}
