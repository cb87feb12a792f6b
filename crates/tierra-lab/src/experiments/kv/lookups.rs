//! Lookups in a persistent tree: what does interleaving save with near leaves, and with far ones?
//!
//! Random existing keys, in trees whose entries take 64 MB and more. Leaves are in a pool on tmpfs, as it is ("near") and with
//! the latency of Optane emulated ("far"). Inner nodes and the leaves' fingerprints are near in both.

use std::time::Instant;

use tierra_index::PersistentTree;
use tierra_interleave::{Execution, Lookups, Scheduling};
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::replication::ReplicaSet;
use tierra_memory::{Pool, PoolOptions};

use super::{LEAF_BYTES, LEAF_ENTRIES, WHO, create, key};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::sorted::size_name;
use crate::turns::turns;
use crate::view::{Unit, View};

/// Lookups of one sample.
const LOOKUPS: usize = 10_000;

const WAYS: [Scheduling; 3] = [
    Scheduling::Fixed(Execution::Plain),
    Scheduling::Fixed(Execution::Interleaved),
    Scheduling::Auto,
];
const MEMORIES: [(&str, Option<FarMemory>); 2] = [
    ("near", None),
    ("far, emulated", Some(FarMemory::OPTANE.whole())),
];

/// The experiment.
pub(in crate::experiments) struct KvLookups;

impl Experiment for KvLookups {
    fn name(&self) -> &'static str {
        "lookups-kv"
    }

    fn about(&self) -> &'static str {
        "what does interleaving save in lookups of a persistent B+-tree, leaves near and far?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bits = lab.size(vec![15], vec![22, 24]);
        let rounds = lab.size(2, 21);
        let points: Vec<(usize, usize)> = (0..MEMORIES.len())
            .flat_map(|memory| (0..WAYS.len()).map(move |way| (memory, way)))
            .collect();
        let mut rows = Vec::new();
        let bar = progress::bar("trees", bits.len());
        for bits in bits {
            let entries = 1_u64 << bits;
            let folder = lab.folder_in_memory()?;
            let tree = load(folder.path(), entries)?;
            let mut random = Random::new(SEED);
            let mut samples = vec![Vec::with_capacity(rounds); points.len()];
            for turn in turns(points.len(), rounds) {
                let (memory, way) = points[turn.contender];
                emulation::set(MEMORIES[memory].1).by(WHO, "asking for emulation")?;
                let time_ns = sample(&tree, entries, WAYS[way], &mut random);
                emulation::set(None).by(WHO, "ending emulation")?;
                let time_ns = time_ns?;
                if !turn.is_warm_up() {
                    samples[turn.contender].push(time_ns);
                }
            }
            for ((memory, way), samples) in points.iter().zip(samples) {
                let (memory, way) = (MEMORIES[*memory].0, WAYS[*way].name());
                rows.push(
                    Row::new()
                        .text("entries", size_name(16 << bits))
                        .text("memory", memory)
                        .text("way", way)
                        .text("shown", format!("{memory}, {way}"))
                        .count("leaves_bytes", tree.leaves().0 * LEAF_BYTES as u64)
                        .count("near_bytes", tree.near_bytes() as u64)
                        .count("lookups", LOOKUPS as u64)
                        .samples("time", "ns", samples),
                );
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("rounds", rounds as u64)
            .text("far", "optane, all its bandwidth, registered");
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let each = |entries: &str, memory: &str, way: Scheduling| {
            let identity = [
                ("entries", entries),
                ("memory", memory),
                ("way", way.name()),
            ];
            let row = find(rows, &identity)?;
            Some(row.value("time_ns")? / row.value("lookups")?)
        };
        let [plain, interleaved, auto] = WAYS;
        let [(near, _), (far, _)] = MEMORIES;
        let saved = |entries: &String, memory| {
            Some(each(entries, memory, plain)? / each(entries, memory, interleaved)?)
        };
        // Interleaved, a leaf's line costs its share of the misses that far memory takes at a time.
        let line_ns = FarMemory::OPTANE.latency_ns / FarMemory::OPTANE.misses_in_flight as f64;
        let over_lines = |entries: &String| {
            let expected = each(entries, near, interleaved)? + line_ns;
            Some(each(entries, far, interleaved)? / expected)
        };
        let over_better = |entries: &String, memory| {
            let better = each(entries, memory, plain)?.min(each(entries, memory, interleaved)?);
            Some(each(entries, memory, auto)? / better)
        };
        let sizes = distinct(rows, "entries");
        let autos = sizes
            .iter()
            .flat_map(|entries| [near, far].map(|memory| over_better(entries, memory)));
        vec![
            Bar::at_least(
                "near: plain lookups over interleaved ones, least of all sizes",
                2.5,
                extreme(sizes.iter().map(|entries| saved(entries, near)), f64::min),
            ),
            Bar::at_least(
                "far: plain lookups over interleaved ones, least of all sizes",
                4.0,
                extreme(sizes.iter().map(|entries| saved(entries, far)), f64::min),
            ),
            Bar::at_most(
                "far, interleaved: time over that of near leaves and latency / misses in flight, most of all sizes",
                1.3,
                extreme(sizes.iter().map(over_lines), f64::max),
            ),
            Bar::at_most(
                "auto: time over the better of both ways, most of all sizes and memories",
                1.1,
                extreme(autos, f64::max),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// The least or the most, if all are known and there are any.
fn extreme(values: impl Iterator<Item = Option<f64>>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    values
        .reduce(|one, other| Some(choose(one?, other?)))
        .flatten()
}

const VIEWS: [View; 1] = [View {
    title: "a lookup, by bytes of entries",
    category: "entries",
    series: "shown",
    value: "time_ns",
    per: Some("lookups"),
    unit: Unit::Nanoseconds,
    mean: false,
}];

/// Keys in ascending order fill leaves.
fn load(folder: &std::path::Path, entries: u64) -> Result<PersistentTree, LabError> {
    let doing = "making a pool";
    let pool = Pool::create(&folder.join("pool"), &PoolOptions::default()).by(WHO, doing)?;
    let leaves = entries.div_ceil(LEAF_ENTRIES as u64);
    let log = pool.allocate(leaves * LEAF_BYTES as u64, 0);
    let log = log.and_then(|log| log.finish_log()).by(WHO, doing)?;
    let set = ReplicaSet::open(&[(pool, log.extent())]).by(WHO, doing)?;
    let mut tree = create(set)?;
    for number in 0..entries {
        let put = tree.put(key(number), value(number));
        put.by(WHO, "loading a tree")?;
    }
    Ok(tree)
}

fn value(number: u64) -> u64 {
    number ^ 0x5555
}

/// The time of lookups of fresh keys, whose answers are then checked.
fn sample(
    tree: &PersistentTree,
    entries: u64,
    way: Scheduling,
    random: &mut Random,
) -> Result<u64, LabError> {
    let draw = || random.below(entries);
    let numbers: Vec<u64> = std::iter::repeat_with(draw).take(LOOKUPS).collect();
    let keys: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
    let mut values = vec![None; LOOKUPS];
    let start = Instant::now();
    tree.get_all(&mut Lookups::new(way), &keys, &mut values);
    let time = start.elapsed();
    for (number, found) in numbers.iter().zip(values) {
        if found != Some(value(*number)) {
            return Err(LabError::AnswersDiffer {
                what: format!("key {} of a tree", key(*number)),
                left: "what was put".to_owned(),
                right: format!("what is found, {way}"),
                detail: format!("{} and {found:?}", value(*number)),
            });
        }
    }
    Ok(time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of a lookup: plain, interleaved, auto; near, then far.
    fn rows(times: [[u64; 3]; 2]) -> Vec<Row> {
        let memories = MEMORIES.iter().zip(times);
        let points = memories.flat_map(|((memory, _), times)| {
            let ways = WAYS.iter().zip(times);
            ways.map(move |(way, time_ns)| {
                Row::new()
                    .text("entries", "64 MB")
                    .text("memory", *memory)
                    .text("way", way.name())
                    .count("lookups", 1)
                    .samples("time", "ns", vec![time_ns])
            })
        });
        points.collect()
    }

    #[test]
    fn every_bar_can_be_missed() {
        let met = |times| {
            let bars = KvLookups.bars(&rows(times));
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met([[160, 50, 52], [400, 80, 82]]), [true; 4]);
        assert_eq!(
            met([[100, 50, 60], [400, 120, 120]]),
            [false, false, false, false]
        );
        assert_eq!(
            met([[160, 50, 52], [480, 110, 110]]),
            [true, true, false, true]
        );
        let mut missing = rows([[160, 50, 52], [400, 80, 82]]);
        missing.pop();
        assert_eq!(KvLookups.bars(&missing)[3].measured, None);
    }

    #[test]
    fn a_small_run_shows_every_way() {
        let lab = Lab::new(true, &std::env::temp_dir()).unwrap();
        let Ok(measured) = KvLookups.run(&lab) else {
            // There is no folder in memory.
            return;
        };
        assert_eq!(measured.rows.len(), MEMORIES.len() * WAYS.len());
        assert_eq!(VIEWS[0].grid(&measured.rows).categories.len(), 1);
    }
}
