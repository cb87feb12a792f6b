//! Figure 4.9: all 13 queries of the Star Schema Benchmark in random order, by the policy of all columns.
//!
//! Numbers have the policy's encodings. Texts lie in the same tiers as codes of their dictionaries, as in the thesis. Each thread
//! runs queries of its own in an order drawn by the seed, the same for all policies. Policies are compared round by round.

use std::sync::Arc;

use arrow::array::RecordBatch;
use tierra_column::{Encoding, LogicalType};
use tierra_data::{Part, Scale, Source, ssb};
use tierra_engine::{Database, TableSpec};
use tierra_sql::load::{LoadOptions, load_file};
use tierra_sql::{Session, SessionOptions};

use super::data::Store;
use super::policy::{B, FAR, POLICY, Place, PlacedCopy, Policy, b, far, near};
use super::read::threads_name;
use super::{Experiment, Measured};
use crate::answer::{Answer, Reference, Tolerance};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::{TableFile, write_parquet};
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, SEED, ScaleOption};
use crate::memory::optane;
use crate::peers::datafusion::{InMemory, Texts};
use crate::progress;
use crate::random::Random;
use crate::replicas::emulating;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::sessions::at_once;
use crate::turns::samples;
use crate::view::{Unit, View};

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
/// Far tiers beside the first.
const TIERS: [&str; 3] = ["b", "c", "d"];

const THREADS: &str = "threads of queries";
const OVER: &str = "over_plain";
const NOISE: &str = "threads of like copies";

const VIEWS: [View; 3] = [
    View {
        title: "queries a second over those of two uncompressed far copies (figure 4.9)",
        category: POLICY,
        series: THREADS,
        value: OVER,
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "time of a query in the mix, per thread",
        category: POLICY,
        series: THREADS,
        value: "time_ns",
        per: Some("queries"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "bytes written to far memory while all tables were loaded",
        category: POLICY,
        series: "written to",
        value: "written_bytes",
        per: None,
        unit: Unit::Bytes,
        mean: false,
    },
];

/// The policies of the figure, but those over two sockets; one copy without an encoding, as tables have by default; two of it, both far
/// and one near; a near copy in another encoding than the far one; and what the engine makes of `auto`.
fn policies() -> Vec<Policy> {
    let (plain, fixed, dynamic) = (Encoding::Plain, Encoding::Static, Encoding::Dynamic);
    let of = |copies: &[PlacedCopy]| Policy::of(copies);
    let further = |tier| PlacedCopy {
        place: Place::Tier(tier),
        encoding: Some(plain),
    };
    vec![
        none(),
        two_like(),
        two_like_near(),
        one_plain(),
        two_plain(),
        of(&[far(plain), b(plain), further("c"), further("d")]),
        of(&[far(fixed), b(plain)]),
        two_packed(),
        of(&[far(fixed), b(dynamic)]),
        of(&[far(dynamic), b(dynamic)]),
        of(&[far(plain), near(plain)]),
        of(&[far(fixed), near(fixed)]),
        of(&[far(dynamic), near(dynamic)]),
        of(&[far(dynamic), near(fixed)]),
        auto(),
        auto_near(),
    ]
}

/// Two far copies in the encodings of the engine's policy.
fn auto() -> Policy {
    Policy::automatic(&[FAR, B])
}

/// A far copy in the encoding of the engine's policy for one tier, and a near copy of it.
fn auto_near() -> Policy {
    Policy::automatic(&[FAR, Place::Near])
}

/// One far copy in the encodings that fit.
fn none() -> Policy {
    Policy::chosen_by_engine(&[FAR])
}

/// Two far copies of the same bytes, in the encodings that fit. The first is read, as if it were alone.
fn two_like() -> Policy {
    Policy::chosen_by_engine(&[FAR, B])
}

/// A far and a near copy of the same bytes.
fn two_like_near() -> Policy {
    Policy::chosen_by_engine(&[FAR, Place::Near])
}

/// A policy in rows.
fn name(policy: &Policy) -> String {
    match policy {
        it if *it == none() => format!("one copy as by default ({policy})"),
        it if *it == two_like() || *it == two_like_near() => {
            format!("two like copies ({policy})")
        }
        _ => policy.to_string(),
    }
}

fn one_plain() -> Policy {
    Policy::of(&[far(Encoding::Plain)])
}

fn two_plain() -> Policy {
    Policy::of(&[far(Encoding::Plain), b(Encoding::Plain)])
}

fn two_packed() -> Policy {
    Policy::of(&[far(Encoding::Static), b(Encoding::Static)])
}

/// The experiment.
pub(in super::super) struct PcrSsb;

impl Experiment for PcrSsb {
    fn name(&self) -> &'static str {
        "pcr-ssb"
    }

    fn about(&self) -> &'static str {
        "how fast is a mix of the Star Schema Benchmark's queries on far data, by the encodings and memories of all columns' copies?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.01, 1.0)).by("the generator", "choosing a scale")?;
        let rounds = lab.runs(1, 7);
        let folder = lab.folder("pcr-ssb-files")?;
        let mut files = Vec::new();
        for table in ssb::Table::ALL {
            let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
            let file = write_parquet(&folder, table.name(), &table.schema(), batches)?;
            files.push(file);
        }
        let references = references(lab, &files)?;
        let specs = specs(lab, &files)?;
        let policies = policies();
        let bar = progress::bar("policies", policies.len());
        let (mut all, mut rows) = (Vec::new(), Vec::new());
        for policy in &policies {
            bar.set_message(policy.to_string());
            let loaded = Loaded::create(lab, policy, &specs, &files)?;
            rows.push(
                Row::new()
                    .text(POLICY, name(policy))
                    .text("written to", "far memory")
                    .count("written_bytes", loaded.written_bytes),
            );
            all.push(loaded);
            bar.inc(1);
        }
        bar.finish_and_clear();
        for threads in lab::thread_counts() {
            let times = emulating(Some(optane(threads)), || {
                all.iter()
                    .try_for_each(|loaded| loaded.store.choose_replicas())?;
                samples(policies.len(), rounds, |turn| {
                    let sessions = &mut all[turn.contender].sessions[..threads];
                    let time = at_once(sessions, |thread, session| {
                        let seed = SEED ^ (turn.round * lab::threads() + thread) as u64;
                        for query in order(seed) {
                            ask(lab, session, query, &references[query])?;
                        }
                        Ok(())
                    })?;
                    Ok(time.as_nanos() as u64)
                })
            })?;
            for (policy, times) in policies.iter().zip(times) {
                rows.push(
                    Row::new()
                        .text(POLICY, name(policy))
                        .text(THREADS, threads_name(threads))
                        .count("threads", threads as u64)
                        .count("queries", ssb::QUERIES.len() as u64)
                        .samples("time", "ns", times),
                );
            }
        }
        let ratios = ratios(&rows);
        rows.extend(ratios);
        let parameters = Row::new()
            .number("scale", scale.factor())
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let mut bars = Vec::new();
        for threads in ["1 thread", "2 threads"] {
            let mut bar = |what: &str, least: f64, measured: Option<f64>| {
                let what =
                    format!("pcr-ssb: queries a second with {what}, emulated optane, {threads}");
                bars.push(Bar::at_least(what, least, measured));
            };
            bar(
                "the best two copies over two uncompressed far ones",
                1.25,
                best(rows, threads, &two_plain(), |_| true),
            );
            bar(
                "the best two far copies over two uncompressed far ones",
                1.25,
                best(rows, threads, &two_plain(), |policy| !has_near(policy)),
            );
            bar(
                "the engine's policy with a near copy over the best two copies",
                0.95,
                over_best(rows, threads, &auto_near(), |_| true),
            );
            bar(
                "the engine's policy of two far copies over the best two far copies",
                0.95,
                over_best(rows, threads, &auto(), |policy| !has_near(policy)),
            );
            bar(
                "the best two copies over one copy as tables have by default",
                1.0,
                best(rows, threads, &none(), |_| true),
            );
        }
        let written = |policy: &Policy| {
            let identity = [
                (POLICY, name(policy)),
                ("written to", "far memory".to_owned()),
            ];
            let identity = identity.each_ref().map(|(key, text)| (*key, text.as_str()));
            find(rows, &identity)?.value("written_bytes")
        };
        let over = written(&two_packed()).zip(written(&one_plain()));
        bars.push(Bar::at_most(
            "pcr-ssb: bytes written to far memory for two static copies over those for one uncompressed copy",
            1.0,
            over.map(|(packed, plain)| packed / plain),
        ));
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.2.3: the best policy over two uncompressed copies in persistent memory.
        let over = |threads: &str, times: f64| {
            Row::new()
                .text(POLICY, "the best (paper)")
                .text(THREADS, threads)
                .number(OVER, times)
        };
        vec![
            over("1 thread (paper)", 1.2),
            over("3 threads (paper)", 1.25),
            over("6 threads, two sockets (paper)", 1.2),
        ]
    }
}

/// A database whose columns have a policy, and a session a thread.
struct Loaded {
    sessions: Vec<Session>,
    written_bytes: u64,
    // Removed last.
    store: Store,
}

impl Loaded {
    fn create(
        lab: &Lab,
        policy: &Policy,
        specs: &[TableSpec],
        files: &[TableFile],
    ) -> Result<Loaded, LabError> {
        // Others would be taken by the engine's policy.
        let is_named = |tier: &&'static str| {
            let mut copies = policy.copies().iter();
            copies.any(|copy| copy.place == Place::Tier(tier))
        };
        let tiers: Vec<&str> = TIERS.into_iter().filter(is_named).collect();
        let store = Store::with_tiers(lab, lab::threads(), &tiers)?;
        for spec in specs {
            store.create_table(spec.clone(), policy, LogicalType::Integer)?;
        }
        load(store.database(), files)?;
        store.settle()?;
        let written_bytes = store.written_bytes();
        let options = SessionOptions {
            // A query has a thread of its own.
            threads: Some(1),
            ..SessionOptions::default()
        };
        let session = || {
            let session = Session::new(Arc::clone(store.database()), &options);
            session.by(Tierra::ENGINE, "opening a session")
        };
        Ok(Loaded {
            sessions: (0..lab::threads())
                .map(|_| session())
                .collect::<Result<_, _>>()?,
            written_bytes,
            store,
        })
    }
}

fn load(database: &Arc<Database>, files: &[TableFile]) -> Result<(), LabError> {
    for file in files {
        let loaded = load_file(database, &file.table, &file.path, &LoadOptions::default());
        loaded.by(Tierra::ENGINE, format!("loading {}", file.table))?;
    }
    Ok(())
}

/// The tables that a load of the files makes.
fn specs(lab: &Lab, files: &[TableFile]) -> Result<Vec<TableSpec>, LabError> {
    let store = Store::with_tiers(lab, lab::threads(), &[])?;
    load(store.database(), files)?;
    let spec = |file: &TableFile| {
        let table = store.database().table(&file.table);
        table.expect("it was loaded").spec().clone()
    };
    Ok(files.iter().map(spec).collect())
}

/// DataFusion's answers, by query.
fn references(lab: &Lab, files: &[TableFile]) -> Result<Vec<Reference>, LabError> {
    let who = Texts::Utf8.engine();
    let peer = lab.runtime().block_on(InMemory::load(files, Texts::Utf8));
    let peer = peer.by(who, "loading")?;
    let reference = |query: &ssb::Query| {
        let answer = lab.runtime().block_on(peer.query(query.sql));
        let answer = answer.by(who, format!("answering {}", query.name))?;
        let order = lab.runtime().block_on(peer.order(query.sql));
        Ok(Reference {
            who: who.to_owned(),
            answer: Answer::of(&answer).by("Arrow", "showing an answer")?,
            order: order.by(who, format!("planning {}", query.name))?,
        })
    };
    ssb::QUERIES.iter().map(reference).collect()
}

/// All queries in an order drawn by a seed.
fn order(seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order = Vec::from_iter(0..ssb::QUERIES.len());
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

fn ask(lab: &Lab, session: &Session, query: usize, right: &Reference) -> Result<(), LabError> {
    let ssb::Query { name, sql, .. } = &ssb::QUERIES[query];
    let batches: Result<Vec<RecordBatch>, _> = lab.runtime().block_on(session.query(sql));
    let batches = batches.by(Tierra::ENGINE, format!("answering {name}"))?;
    let answer = Answer::of(&batches).by("Arrow", "showing an answer")?;
    answer.check(name, Tierra::ENGINE, right, Tolerance::EXACT_DECIMALS)
}

/// Queries a second of the mix over those with another policy, in the median of the rounds.
fn over(rows: &[Row], threads: &str, policy: &Policy, other: &Policy) -> Option<f64> {
    let of = |policy: &Policy| find(rows, &[(POLICY, &name(policy)), (THREADS, threads)]);
    of(other)?.over(of(policy)?, "time_ns")
}

fn has_near(policy: &Policy) -> bool {
    let mut copies = policy.copies().iter();
    copies.any(|copy| copy.place == Place::Near)
}

/// The most of it of some policies with two copies; `None` unless all were measured.
fn best(
    rows: &[Row],
    threads: &str,
    other: &Policy,
    is_wanted: impl Fn(&Policy) -> bool,
) -> Option<f64> {
    let two = policies().into_iter();
    let two = two.filter(|policy| policy.copies().len() == 2 && is_wanted(policy));
    let all: Option<Vec<f64>> = two
        .map(|policy| over(rows, threads, &policy, other))
        .collect();
    all?.into_iter().reduce(f64::max)
}

/// Queries a second with a policy over those with the best of some with two copies, itself included.
fn over_best(
    rows: &[Row],
    threads: &str,
    policy: &Policy,
    is_wanted: impl Fn(&Policy) -> bool,
) -> Option<f64> {
    let own = over(rows, threads, policy, &two_plain())?;
    Some(own / best(rows, threads, &two_plain(), is_wanted)?)
}

/// Queries a second over those of two uncompressed copies, and of two like copies over one of them, which read the same: what that is off
/// 1 is noise.
fn ratios(rows: &[Row]) -> Vec<Row> {
    let mut ratios = Vec::new();
    for threads in distinct(rows, THREADS) {
        for policy in policies() {
            let row = Row::new()
                .text(POLICY, name(&policy))
                .text(THREADS, &threads);
            let over = over(rows, &threads, &policy, &two_plain());
            ratios.extend(over.map(|over| row.number(OVER, over)));
        }
        let row = Row::new().text(NOISE, &threads);
        let noise = over(rows, &threads, &two_like(), &none());
        ratios.extend(noise.map(|noise| row.number("like_over_one", noise)));
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_runs_every_query_once() {
        let (one, other) = (order(1), order(2));
        assert_ne!(one, other);
        for mut order in [one, other] {
            order.sort_unstable();
            assert_eq!(order, Vec::from_iter(0..ssb::QUERIES.len()));
        }
    }

    #[test]
    fn bars_are_on_the_best_copies_and_what_is_written() {
        // Everything else takes 1000.
        let rows = |changed: &[(Policy, u64)], packed_bytes: u64| {
            let mut rows = Vec::new();
            for policy in policies() {
                let name = name(&policy);
                let mut times = changed.iter().filter(|(it, _)| *it == policy);
                let time_ns = times.next().map_or(1000, |(_, time_ns)| *time_ns);
                for threads in ["1 thread", "2 threads"] {
                    rows.push(
                        Row::new()
                            .text(POLICY, &name)
                            .text(THREADS, threads)
                            .samples("time", "ns", vec![time_ns; 3]),
                    );
                }
                let bytes = match policy == two_packed() {
                    true => packed_bytes,
                    false => 100,
                };
                rows.push(
                    Row::new()
                        .text(POLICY, &name)
                        .text("written to", "far memory")
                        .count("written_bytes", bytes),
                );
            }
            rows
        };
        // Of each number of threads, and of the bytes.
        let met = |rows: &[Row]| {
            let met = Vec::from_iter(PcrSsb.bars(rows).iter().map(|bar| bar.met));
            assert_eq!(met.len(), 11);
            assert_eq!(met[..5], met[5..10]);
            ([met[0], met[1], met[2], met[3], met[4]], met[10])
        };
        let (packed, is_near) = (
            two_packed(),
            Policy::of(&[far(Encoding::Static), near(Encoding::Static)]),
        );
        assert_eq!(
            met(&rows(&[(packed.clone(), 750)], 99)),
            ([true, true, false, false, true], true)
        );
        assert_eq!(
            met(&rows(&[(is_near, 750)], 101)),
            ([true, false, false, true, true], false)
        );
        let slow = [(packed, 900), (none(), 800)];
        assert_eq!(
            met(&rows(&slow, 100)),
            ([false, false, false, false, false], true)
        );
        assert_eq!(met(&[]), ([false; 5], false));
        let like = ratios(&rows(&[(two_like(), 800)], 1));
        let noise = find(&like, &[(NOISE, "1 thread")]);
        assert_eq!(noise.unwrap().value("like_over_one"), Some(1.25));
    }
}
