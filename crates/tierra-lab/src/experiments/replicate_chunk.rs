//! Figure 3.8 of the replication thesis: what replicas add to durable writes of 4 bytes to 1 MiB, by method.
//!
//! Chunks begin at uniformly distributed elements of an array on tmpfs treated as persistent memory. Each is compared with the
//! write of the same chunk to one copy, near and in emulated Optane. The largest is also compared with bare copies past the cache,
//! near alone: bare instructions are not emulated.

use std::time::Instant;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{Composition, CopyBy, Master, Method, ReplicaSet, Scatter, Waits};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::plain::PlainC;
use crate::progress;
use crate::random::Random;
use crate::replicas::{Copies, MEMORIES, check, emulating, panel};
use crate::results::Tier;
use crate::row::Row;
use crate::sorted::size_name;
use crate::turns::turns;
use crate::update_cost;
use crate::view::{Unit, View};

/// The most replicas.
const REPLICAS: usize = 3;
/// Bytes of a chunk.
const CHUNKS: [usize; 15] = [
    4,
    8,
    16,
    32,
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];
/// The chunk of the bar on appends.
const APPENDED: usize = 1 << 20;
/// Bytes that one sample writes to each copy, and its maximal number of writes.
const SAMPLE_BYTES: usize = 2 << 20;
const WRITES_MOST: usize = 1_000;
/// The same maximum for threads, which take tens of microseconds to wake.
const WRITES_BY_THREADS: usize = 30;
const UNREPLICATED: &str = "one copy";
const APPENDS: &str = "appended in order";

/// The experiment.
pub(super) struct ReplicateChunk;

impl Experiment for ReplicateChunk {
    fn name(&self) -> &'static str {
        "replicate-chunk"
    }

    fn about(&self) -> &'static str {
        "what do replicas add to durable writes of 4 bytes to 1 MiB, by method?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(8 << 20, 512 << 20);
        let rounds = lab.size(2, 11);
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let plain = PlainC::compile(&lab.folder("replicate-chunk")?)?;
        if plain.is_none() {
            println!("C is not measured: a C compiler, clwb and AVX-512 are needed.");
        }
        let copies = Copies::create(lab, 1 + REPLICAS, bytes, flush)?;
        let mut alone = copies.set(0)?;
        let mut rows = Vec::new();
        let mut random = Random::new(SEED);
        let methods = methods();
        let bar = progress::bar("chunks", CHUNKS.len() * REPLICAS * MEMORIES.len());
        for replicas in 1..=REPLICAS {
            let mut set = copies.set(replicas)?;
            for (memory, far) in MEMORIES {
                for chunk in CHUNKS {
                    let samples = emulating(far, || {
                        let mut samples = vec![Vec::with_capacity(rounds); 1 + methods.len()];
                        for (number, turn) in turns(samples.len(), rounds).enumerate() {
                            let content = content(chunk, number);
                            let (set, method) = match turn.contender {
                                0 => (&mut alone, &ONE_COPY),
                                method => (&mut set, &methods[method - 1]),
                            };
                            let places = places(chunk, writes(chunk, method), bytes, &mut random);
                            let time_ns = write(set, method, &places, &content)?;
                            if !turn.is_warm_up() {
                                samples[turn.contender].push(time_ns);
                            }
                        }
                        Ok(samples)
                    })?;
                    rows.extend(shown(memory, replicas, chunk, &methods, samples));
                    bar.inc(1);
                }
            }
            if replicas == REPLICAS {
                rows.extend(appends(&copies, &mut set, plain.as_ref(), rounds)?);
            }
        }
        bar.finish_and_clear();
        drop(alone);
        rows.extend(update_cost::measure(lab, &copies)?);
        let parameters = Row::new()
            .count("array_bytes", bytes as u64)
            .count("rounds", rounds as u64)
            .text("flush", flush.to_string());
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let appends: Vec<&Row> = rows
            .iter()
            .filter(|row| row.get(APPENDS).is_some())
            .collect();
        let time = |row: &&Row| row.value("time_ns");
        let plain = appends
            .iter()
            .find(|row| row.is(&[(APPENDS, PlainC::NAME)]));
        let ours = appends
            .iter()
            .filter(|row| !row.is(&[(APPENDS, PlainC::NAME)]));
        let best = ours.filter_map(|row| row.value("time_ns")).reduce(f64::min);
        let rate = plain
            .and_then(time)
            .zip(best)
            .map(|(plain, ours)| plain / ours);
        vec![
            Bar::at_least(
                "1 MiB appended to 3 replicas: bytes a second over plain copies past the cache",
                0.8,
                rate,
            ),
            update_cost::bar(rows),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// A plain write to one copy.
const ONE_COPY: Method = Method::Always(Composition {
    waits: Waits::Once,
    ..Composition::BASIC
});

/// The methods of the figure, and our additions.
fn methods() -> Vec<Method> {
    let basic = Composition::BASIC;
    let fetched = Composition {
        waits: Waits::Once,
        prefetch: true,
        ..basic
    };
    let streams = Composition {
        waits: Waits::Once,
        copy: CopyBy::Streams,
        master: Master::Post,
        ..basic
    };
    let all_streamed = Composition {
        master: Master::Streamed,
        ..streams
    };
    let scattered = Scatter::detect().map(|leave| Composition {
        copy: CopyBy::Scatter(leave),
        ..fetched
    });
    let mut all = vec![basic, fetched, streams, all_streamed];
    all.extend(scattered);
    all.extend(Composition::THREADS);
    let [by_threads, _] = Composition::THREADS;
    let mut all: Vec<Method> = all.into_iter().map(Method::Always).collect();
    all.push(Method::Threshold {
        up_to_bytes: 2 << 10,
        short: scattered.unwrap_or(fetched),
        long: by_threads,
    });
    all
}

/// Writes of a sample.
fn writes(chunk: usize, method: &Method) -> usize {
    let wakes = |one: &Composition| matches!(one.copy, CopyBy::Threads(_));
    let most = match method {
        Method::Always(one) if wakes(one) => WRITES_BY_THREADS,
        _ => WRITES_MOST,
    };
    (SAMPLE_BYTES / chunk).clamp(1, most)
}

/// Where a sample's chunks begin.
fn places(chunk: usize, count: usize, bytes: usize, random: &mut Random) -> Vec<u64> {
    let elements = ((bytes - chunk) / 4 + 1) as u64;
    (0..count).map(|_| random.below(elements) * 4).collect()
}

/// Bytes that differ from turn to turn.
fn content(chunk: usize, number: usize) -> Vec<u8> {
    (0..chunk).map(|at| (at + number * 7 + 1) as u8).collect()
}

/// The time to write a sample's chunks; the last must be in every copy.
fn write(
    set: &mut ReplicaSet,
    method: &Method,
    places: &[u64],
    content: &[u8],
) -> Result<u64, LabError> {
    let start = Instant::now();
    for &at in places {
        set.write(method, at, content)
            .by("Tierra", "writing chunks")?;
    }
    let time = start.elapsed();
    let last = places.last().map(|&at| at as usize);
    check(set, &method.to_string(), last, content)?;
    Ok(time.as_nanos() as u64)
}

fn shown(
    memory: &str,
    replicas: usize,
    chunk: usize,
    methods: &[Method],
    samples: Vec<Vec<u64>>,
) -> impl Iterator<Item = Row> {
    let replicas = match replicas {
        1 => "1 replica",
        2 => "2 replicas",
        _ => "3 replicas",
    };
    let view = panel(replicas, memory);
    let names = methods
        .iter()
        .map(|method| (method.to_string(), writes(chunk, method) as u64));
    let one_copy = (UNREPLICATED.to_owned(), writes(chunk, &ONE_COPY) as u64);
    let names: Vec<(String, u64)> = [one_copy].into_iter().chain(names).collect();
    let each = |row: &Row| Some(row.value("time_ns")? / row.value("writes")?);
    let mut without = None;
    names
        .into_iter()
        .zip(samples)
        .map(move |((name, writes), samples)| {
            let row = Row::new()
                .text(&view, name)
                .text(
                    "chunk",
                    if chunk < 1024 {
                        format!("{chunk} B")
                    } else {
                        size_name(chunk)
                    },
                )
                .count("chunk_bytes", chunk as u64)
                .count("writes", writes)
                .samples("time", "ns", samples);
            let time = each(&row);
            // The first is the time of one copy.
            let without = *without.get_or_insert(time);
            let times = time.zip(without).map(|(with, without)| with / without);
            row.number("relative_time", times.unwrap_or(f64::NAN))
        })
}

/// Consecutive chunks of a megabyte, by the suitable methods and by bare copies.
fn appends(
    copies: &Copies,
    set: &mut ReplicaSet,
    plain: Option<&PlainC>,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let own: Vec<Method> = methods().into_iter().skip(2).collect();
    let room = set.bytes(0).len();
    let appended = |number: usize| (number * APPENDED % (room - APPENDED)) / APPENDED * APPENDED;
    let mut plain = match plain {
        Some(plain) => Some((plain, copies.scratches(1 + REPLICAS, room / 4)?)),
        None => None,
    };
    let count = own.len() + usize::from(plain.is_some());
    let mut samples = vec![Vec::with_capacity(rounds); count];
    for (number, turn) in turns(count, rounds * 4).enumerate() {
        let content = content(APPENDED, number);
        let time_ns = match own.get(turn.contender) {
            Some(method) => write(set, method, &[appended(number) as u64], &content)?,
            None => {
                let (plain, scratches) = plain.as_mut().expect("it takes part");
                let at = appended(number) % (room / 4 - APPENDED) / APPENDED * APPENDED;
                let mut to: Vec<&mut [u8]> =
                    scratches.iter_mut().map(|copy| &mut copy[at..]).collect();
                let start = Instant::now();
                plain.append(&mut to, &content);
                start.elapsed().as_nanos() as u64
            }
        };
        if !turn.is_warm_up() {
            samples[turn.contender].push(time_ns);
        }
    }
    let names = own.iter().map(ToString::to_string);
    let names = names.chain([PlainC::NAME.to_owned()]);
    let rows = names.zip(samples).map(|(name, samples)| {
        Row::new()
            .text(APPENDS, name)
            .text("chunk", size_name(APPENDED))
            .count("replicas", REPLICAS as u64)
            .samples("time", "ns", samples)
    });
    Ok(rows.collect())
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "chunk",
        series,
        value: "relative_time",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    }
}

const VIEWS: [View; 8] = [
    update_cost::VIEW,
    view("1 replica: times the write to one copy", "1 replica"),
    view("2 replicas", "2 replicas"),
    view("3 replicas", "3 replicas"),
    view(
        "1 replica in emulated Optane: times the write to one copy there",
        "1 replica, emulated optane",
    ),
    view(
        "2 replicas in emulated Optane",
        "2 replicas, emulated optane",
    ),
    view(
        "3 replicas in emulated Optane",
        "3 replicas, emulated optane",
    ),
    View {
        title: "1 MiB appended to a master and 3 replicas",
        category: "chunk",
        series: APPENDS,
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];
