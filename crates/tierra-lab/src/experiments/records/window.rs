//! The gain of looking up a window's keys together: the same lookups with the window on and off.
//!
//! Keys are drawn uniformly from a store larger than the caches. With values of 16 bytes a lookup reads a group of the table and
//! a line of the record. With values of 1,000 bytes it also reads a record of eighteen lines, each of which takes one of the ten
//! misses that the emulated far memory handles at a time.

use std::hint::black_box;
use std::time::Instant;

use tierra_kv::keyspace::{Expiry, Key, Keyspace, KeyspaceOptions, Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

use super::WHO;
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

const FINDS: usize = 50_000;
const MEMORIES: [(&str, Policy, Option<FarMemory>); 2] = [
    ("near", Policy::OnlyDram, None),
    (
        "far, emulated",
        Policy::OnlyPmem,
        Some(FarMemory::OPTANE.whole()),
    ),
];
const VALUES: [(&str, usize); 2] = [("find, 16 B values", 16), ("read, 1,000 B values", 1000)];
const WINDOWS: [usize; 4] = [4, 16, 64, 128];
const OFF: &str = "off";

/// The experiment.
pub(in crate::experiments) struct KvWindow;

impl Experiment for KvWindow {
    fn name(&self) -> &'static str {
        "kv-window"
    }

    fn about(&self) -> &'static str {
        "what is it worth to look up the keys of all requests that have arrived together?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.size(20_000, 4_000_000);
        let rounds = lab.size(2, 21);
        let mut rows = Vec::new();
        let bar = progress::bar("stores", MEMORIES.len() * VALUES.len());
        for (memory, policy, far) in MEMORIES {
            for (what, bytes) in VALUES {
                let mut store = fill(policy, records, bytes)?;
                emulation::set(far).by(WHO, "asking for emulation")?;
                let mut samples = vec![Vec::with_capacity(rounds); 1 + WINDOWS.len()];
                for (number, turn) in turns(samples.len(), rounds).enumerate() {
                    let window = turn.contender.checked_sub(1).map(|at| WINDOWS[at]);
                    let time_ns = finds(&mut store, records, bytes, window, number as u64)?;
                    if !turn.is_warm_up() {
                        samples[turn.contender].push(time_ns);
                    }
                }
                emulation::set(None).by(WHO, "ending emulation")?;
                let names = std::iter::once(OFF.to_owned());
                let names = names.chain(WINDOWS.iter().map(|window| format!("{window} keys")));
                for (name, samples) in names.zip(samples) {
                    let row = Row::new()
                        .text("window", name)
                        .text("memory", format!("{memory}: {what}"))
                        .text("tier", memory)
                        .text("what", what)
                        .count("value_bytes", bytes as u64)
                        .count("finds", FINDS as u64)
                        .samples("time", "ns", samples);
                    rows.push(row);
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters: Row::new()
                .count("records", records)
                .count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let (what, _) = VALUES[0];
        let gain = |memory| {
            let time = |window| {
                find(
                    rows,
                    &[("tier", memory), ("what", what), ("window", window)],
                )?
                .value("time_ns")
            };
            Some(time(OFF)? / time("16 keys")?)
        };
        let [near, far] = MEMORIES.map(|(memory, ..)| gain(memory));
        vec![
            Bar::at_least("16 keys found together over one by one, near", 1.5, near),
            Bar::at_least(
                "16 keys found together over one by one, far, emulated",
                3.0,
                far,
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &[View {
            title: "time per key, by how many are looked up together",
            category: "window",
            series: "memory",
            value: "time_ns",
            per: Some("finds"),
            unit: Unit::Nanoseconds,
            mean: false,
        }]
    }
}

fn fill(policy: Policy, records: u64, bytes: usize) -> Result<Keyspace, LabError> {
    let settings = Settings {
        policy,
        ..Settings::default()
    };
    let mut store = Keyspace::new(&KeyspaceOptions {
        settings,
        ..KeyspaceOptions::default()
    })
    .by(WHO, "reserving memory")?;
    let mut value = vec![0; bytes];
    for record in 0..records {
        value.fill(record as u8);
        let key = name(record);
        store
            .db(0)
            .set_string(&Key::new(&key), &value, Expiry::Clear)
            .by(WHO, "filling the store")?;
    }
    Ok(store)
}

/// Sixteen bytes without a pattern.
fn name(record: u64) -> [u8; 16] {
    let mut name = [b'k'; 16];
    name[8..].copy_from_slice(&record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    name
}

/// The time to find keys and read their values' lines, so many per window.
fn finds(
    store: &mut Keyspace,
    records: u64,
    bytes: usize,
    window: Option<usize>,
    seed: u64,
) -> Result<u64, LabError> {
    let mut random = Random::new(SEED ^ seed);
    let wanted: Vec<u64> = (0..FINDS).map(|_| random.below(records)).collect();
    let names: Vec<[u8; 16]> = wanted.iter().map(|&record| name(record)).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    store.set_window(window.is_some());
    let mut found = Vec::with_capacity(WINDOWS[WINDOWS.len() - 1]);
    let db = store.db(0);
    let mut sum = 0;
    let start = Instant::now();
    for keys in keys.chunks(window.unwrap_or(WINDOWS[1])) {
        found.clear();
        db.find_many(keys, &mut found);
        for (key, found) in keys.iter().zip(&found) {
            let Some(entry) = db.find(&Key::with_found(key, *found)) else {
                return Err(super::wrong(WHO, 0));
            };
            sum += db
                .string(entry)
                .iter()
                .step_by(64)
                .map(|&byte| u64::from(byte))
                .sum::<u64>();
        }
    }
    let time = start.elapsed();
    let lines = bytes.div_ceil(64) as u64;
    let expected: u64 = wanted
        .iter()
        .map(|&record| u64::from(record as u8) * lines)
        .sum();
    if black_box(sum) != expected {
        return Err(super::wrong(WHO, 0));
    }
    Ok(time.as_nanos() as u64)
}
