//! Figure 1 of the interleaving paper: binary search in arrays of 1 MB to 4 GB, near and far.
//!
//! The array holds int32 values in 2 MiB pages, 1 kB more than its round size; 10,000 values are looked up at a time. They are
//! the paper's (drawn from the array by mt19937 with seed 0), or fresh ones each round. The paper's values, searched again and
//! again, leave their paths in the last-level cache. Near memory is real. Far memory is emulated Optane over the same array;
//! only fresh values are used there, because the modelled cache would hold the paper's. There a plain search waits for each
//! load. That is an upper bound, since a processor begins the next search before one has ended. The lower bound, ten loads
//! overlapping regardless of dependences, is given beside it.
//!
//! Group sizes are swept for all ways that have one; each is judged by its best. The C++ peer and the search by hand do not use
//! the emulation and are measured near only.
//!
//! The floor of a lookup, near and far, is the replay of its lines as independent loads in that memory, and its computing: the
//! same searches for a few keys that stay in the nearest cache. Computing is measured near, because emulation would make it
//! wait for lines that the replay has waited for already.

mod bench;

use tierra_index::SearchTree;
use tierra_interleave::{GroupSize, MAX_LANES};

use self::bench::{Bench, Way, What, cached_name, contenders, many_name, replay_of};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::memory::Memory;
use crate::peers::coroutines::Coroutines;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct};
use crate::sorted::{Sorted, size_name};
use crate::stats::geometric_mean;
use crate::view::{Unit, View};

/// Values looked up in one sample, as in the paper.
const SEARCHES: usize = 10_000;
/// Values looked up at a time when the static tree is compared with `slice::binary_search`.
const MANY: usize = 100_000;
/// Group sizes.
const GROUPS: [usize; 6] = [8, 16, 24, 32, 48, MAX_LANES];
/// Arrays of at least this size are not cached: they have bars on group prefetching by hand and on the plain `async fn`.
const UNCACHED_BYTES: usize = 64 << 20;
/// In arrays of at least this size lookups are compared with their replay.
const REPLAYED_BYTES: usize = 256 << 20;

/// Which values are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Paper,
    Fresh,
}

impl Keys {
    fn name(self) -> &'static str {
        match self {
            Keys::Paper => "the paper's",
            Keys::Fresh => "fresh",
        }
    }
}

/// One view shows both bounds.
const FAR_VIEW: &str = "emulated optane, fresh values";

/// The measurements of each turn. The last one runs alone: another setting empties the modelled cache.
const TURNS: [&[(Memory, Keys)]; 3] = [
    &[(Memory::Near, Keys::Paper)],
    &[(Memory::Near, Keys::Fresh), (Memory::Optane, Keys::Fresh)],
    &[(Memory::OptaneOverlapping, Keys::Fresh)],
];

/// The combinations that are measured, and the key under which a view finds the best searches.
const PARTS: [(Memory, Keys, &str); 4] = [
    (Memory::Near, Keys::Paper, "near, the paper's values"),
    (Memory::Near, Keys::Fresh, "near, fresh values"),
    (Memory::Optane, Keys::Fresh, FAR_VIEW),
    (Memory::OptaneOverlapping, Keys::Fresh, FAR_VIEW),
];

/// The keys under which views find what searches are compared with: replays, computing, many values at a time.
const FLOORS: [(Memory, &str); 2] = [
    (Memory::Near, "near, compared with"),
    (Memory::Optane, "emulated optane, compared with"),
];
/// The keys under which views find the walk by group size.
const SWEEPS: [(Memory, &str); 2] = [
    (Memory::Near, "walk, near, in an array of"),
    (Memory::Optane, "walk, emulated optane, in an array of"),
];
/// The keys of the ratios that far memory costs, and of those that hiding it gains.
const COST: &str = "cost";
const GAIN: &str = "gain";

/// The experiment.
pub(super) struct Fig1;

impl Experiment for Fig1 {
    fn name(&self) -> &'static str {
        "fig1"
    }

    fn about(&self) -> &'static str {
        "how long does a binary search take in 1 MB to 4 GB, near and far, however it is written?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(2, 20);
        let sizes: Vec<usize> = lab
            .size(vec![20, 24], vec![20, 22, 24, 26, 28, 30, 32])
            .into_iter()
            .map(|bits| 1 << bits)
            .collect();
        let peer = Coroutines::compile(&lab.folder("peer")?)?;
        if peer.is_none() {
            println!("C++ coroutines are not measured: there is no clang++.");
        }
        let array = Sorted::new(sizes.iter().copied().max().unwrap_or(0))?;
        let bar = progress::bar("arrays", sizes.len());
        let mut rows = Vec::new();
        for bytes in sizes {
            bar.set_message(size_name(bytes));
            rows.extend(measure(&array, bytes, peer.as_ref(), rounds)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let ratios = ratios(&rows);
        rows.extend(ratios);
        let parameters = Row::new()
            .count("rounds", rounds as u64)
            .count("page_bytes", array.page_size_bytes() as u64)
            .count("mt19937_seed", 0)
            .text("cpp", peer.as_ref().map_or("absent", Coroutines::version));
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let walk = Way::Walk(GroupSize::DEFAULT).name();
        let plain_async = Way::Async(GroupSize::DEFAULT).name();
        let by_hand = Way::ByHand(GroupSize::DEFAULT).name();
        let (near, far) = (Memory::Near, Memory::Optane);
        let mut bars = Vec::new();
        for keys in [Keys::Paper, Keys::Fresh] {
            let over = |way: &str, peer: &str, least_bytes: usize| {
                let best = |array: &str, way: &str| best(rows, array, keys, near, way);
                let ratio = |array: &String| Some(best(array, way)? / best(array, peer)?);
                let ratios: Option<Vec<f64>> =
                    arrays(rows, least_bytes).iter().map(ratio).collect();
                ratios.filter(|ratios| !ratios.is_empty())
            };
            let (coroutines, values) = (over(walk, Coroutines::NAME, 0), keys.name());
            bars.push(Bar::at_most(
                format!("fig1: walk over C++20 coroutines, near, {values} values, geometric mean"),
                1.05,
                coroutines.clone().and_then(geometric_mean),
            ));
            bars.push(Bar::at_most(
                format!("fig1: walk over C++20 coroutines, near, {values} values, worst array"),
                1.15,
                coroutines.and_then(|ratios| ratios.into_iter().reduce(f64::max)),
            ));
            bars.push(Bar::at_most(
                format!(
                    "fig1: async loop over C++20 coroutines, near, from 64 MB, {values} values, geometric mean"
                ),
                1.05,
                over(plain_async, Coroutines::NAME, UNCACHED_BYTES).and_then(geometric_mean),
            ));
            bars.push(Bar::at_most(
                format!(
                    "fig1: walk over by hand, near, from 64 MB, {values} values, geometric mean"
                ),
                1.35,
                over(walk, by_hand, UNCACHED_BYTES).and_then(geometric_mean),
            ));
        }
        let fresh = |array: &str, memory, way: &str| best(rows, array, Keys::Fresh, memory, way);
        // How many times faster than `slice::binary_search` it is, depends on the processor; how near to its floor, on the code.
        let batch = Way::Batch.name();
        let per_search = |way: &str, searches: usize| {
            fresh("1 GB", near, way).map(|time| time / searches as f64)
        };
        let floor = per_search(replay_of(Way::Batch), SEARCHES)
            .zip(per_search(&cached_name(batch), SEARCHES))
            .map(|(waiting, computing)| waiting + computing);
        bars.push(Bar::at_most(
            "fig1: static tree, batched, 100,000 fresh values in 1 GB, over replay and computing, near",
            1.3,
            per_search(&many_name(batch), MANY)
                .zip(floor)
                .map(|(took, floor)| took / floor),
        ));
        bars.push(Bar::at_most(
            "fig1: walk on emulated optane over plain near, 4 GB, fresh values",
            1.0,
            fresh("4 GB", far, walk)
                .zip(fresh("4 GB", near, Way::Plain.name()))
                .map(|(far, near)| far / near),
        ));
        for memory in [near, far] {
            for way in Way::replayed() {
                let ratio = |array: &String| {
                    let group = way.group();
                    let took = of_group(rows, array, Keys::Fresh, memory, way.name(), group)?;
                    let computing = fresh(array, near, &cached_name(way.name()))?;
                    Some(took / (fresh(array, memory, replay_of(way))? + computing))
                };
                let large = arrays(rows, REPLAYED_BYTES);
                let ratios: Option<Vec<f64>> = large.iter().map(ratio).collect();
                bars.push(Bar::at_most(
                    format!(
                        "fig1: {} over replay and computing, {}, from 256 MB, worst array",
                        way.name(),
                        memory.name()
                    ),
                    1.3,
                    ratios.and_then(|ratios| ratios.into_iter().reduce(f64::max)),
                ));
            }
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        let ratio = |array: &str, (kind, of): (&str, &str), ratio: f64| {
            Row::new()
                .text("array", array)
                .text(kind, format!("{of} (paper)"))
                .number("ratio", ratio)
        };
        // Section 4.1: the groups are "in the upper part of these ranges with small arrays and,
        // conversely, in the lower part with large arrays"; the ranges' ends stand for the ends.
        let group = |array: &str, memory: &str, group| {
            Row::new()
                .text("array", array)
                .text("best_group_of", format!("coroutines, {memory} (paper)"))
                .count("group", group)
        };
        vec![
            ratio("1 MB", PLAIN_FAR, 2.3),
            ratio("4 GB", PLAIN_FAR, 4.2),
            ratio("1 MB", HIDDEN_FAR, 1.7),
            ratio("4 GB", HIDDEN_FAR, 2.4),
            ratio("64 MB", FAR_GAIN, 2.8),
            ratio("4 GB", FAR_GAIN, 5.0),
            ratio("4 GB", FAR_OVER_NEAR, 1.0),
            group("1 MB", "DRAM", 44),
            group("4 GB", "DRAM", 21),
            group("1 MB", "Optane", 49),
            group("4 GB", "Optane", 22),
        ]
    }
}

const PLAIN_FAR: (&str, &str) = (COST, "plain, far over near");
const HIDDEN_FAR: (&str, &str) = (COST, "walk, far over near");
const FAR_OVER_NEAR: (&str, &str) = (COST, "walk far over plain near");
const TREE_FAR: (&str, &str) = (COST, "static tree, batched, far over near");
const FAR_GAIN: (&str, &str) = (GAIN, "far, plain over walk");
const TREE_GAIN: (&str, &str) = (
    GAIN,
    "near, slice::binary_search over static tree, batched, 100,000 values",
);

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "array",
        series,
        value: "time_ns",
        per: Some("searches"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const fn ratio_view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "array",
        series,
        value: "ratio",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    }
}

const fn sweep_view(title: &'static str, series: &'static str) -> View {
    View {
        category: "group",
        ..view(title, series)
    }
}

const VIEWS: [View; 10] = [
    view(
        "time of a search near, fresh values, each way's best group",
        PARTS[1].2,
    ),
    view(
        "time of a search near, the paper's values, each way's best group",
        PARTS[0].2,
    ),
    view(
        "time of a search in far memory, fresh values, each way's best group",
        PARTS[2].2,
    ),
    view(
        "what a search near is compared with: its lines as bare loads, its computing in cache",
        FLOORS[0].1,
    ),
    view(
        "what a search in far memory is compared with: its lines as bare loads",
        FLOORS[1].1,
    ),
    ratio_view("what far memory costs: times as long", COST),
    ratio_view("what hiding misses gains: times as fast", GAIN),
    View {
        title: "the number of searches in a group with which the walk is fastest",
        category: "array",
        series: "best_group_of",
        value: "group",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
    sweep_view("time of a walk near by searches in a group", SWEEPS[0].1),
    sweep_view(
        "time of a walk in far memory by searches in a group",
        SWEEPS[1].1,
    ),
];

/// All rows of one array.
fn measure(
    array: &Sorted,
    bytes: usize,
    peer: Option<&Coroutines>,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let sorted = array.values(bytes);
    let tree = SearchTree::new(sorted);
    let mut bench = Bench::new(sorted, &tree, peer);
    let replays = bytes >= REPLAYED_BYTES;
    let mut rows = Vec::new();
    for parts in TURNS {
        let all: Vec<(Memory, Keys, What)> = parts
            .iter()
            .flat_map(|&(memory, keys)| {
                let replays = replays && keys == Keys::Fresh;
                contenders(memory, &GROUPS, peer.is_some(), replays)
                    .into_iter()
                    .map(move |what| (memory, keys, what))
            })
            .collect();
        if let [(memory @ Memory::OptaneOverlapping, _)] = parts {
            if bytes < UNCACHED_BYTES {
                // In the modelled cache both bounds measure only the emulator's work.
                continue;
            }
            bench.fill_cache(*memory)?;
        }
        let samples = bench.measure(&all, rounds)?;
        let row = |(&(memory, keys, what), samples): (&(Memory, Keys, What), Vec<u64>)| {
            let row = Row::new()
                .text("array", size_name(bytes))
                .count("array_bytes", bytes as u64)
                .text("keys", keys.name())
                .text("memory", memory.name())
                .text("way", what.name())
                .count("searches", what.searches() as u64)
                .samples("time", "ns", samples);
            match what {
                What::Search(way) => match way.group() {
                    Some(group) => row.count("group", group.get() as u64),
                    None => row,
                },
                _ => match FLOORS.iter().find(|(of, _)| *of == memory) {
                    Some((_, key)) => row.text(key, what.name()),
                    None => row,
                },
            }
        };
        rows.extend(all.iter().zip(samples).map(row));
    }
    Ok(shown(rows))
}

/// The rows with the keys of the views: each way's best group, and the walk's sweep.
fn shown(rows: Vec<Row>) -> Vec<Row> {
    let times: Vec<Option<f64>> = rows.iter().map(|row| row.value("time_ns")).collect();
    let identity = |row: &Row| ["array", "keys", "memory", "way"].map(|key| row.get(key).cloned());
    let is_best: Vec<bool> = rows
        .iter()
        .zip(&times)
        .map(|(row, time)| {
            let rivals = rows.iter().zip(&times);
            rivals
                .filter(|(rival, _)| identity(rival) == identity(row))
                .all(|(_, rival)| rival >= time)
        })
        .collect();
    let is =
        |row: &Row, keys: Keys, way: Way| row.is(&[("keys", keys.name()), ("way", way.name())]);
    let text = |row: &Row, key: &str| row.get(key).map_or_else(String::new, ToString::to_string);
    rows.into_iter()
        .zip(is_best)
        .map(|(mut row, is_best)| {
            if FLOORS.iter().any(|(_, key)| row.get(key).is_some()) {
                return row;
            }
            let fresh_walk = is(&row, Keys::Fresh, Way::Walk(GroupSize::DEFAULT));
            let sweep = SWEEPS
                .iter()
                .find(|(memory, _)| row.is(&[("memory", memory.name())]));
            if let Some((_, key)) = sweep.filter(|_| fresh_walk) {
                let array = text(&row, "array");
                row = row.text(key, array);
            }
            let part = PARTS.iter().find(|(memory, keys, _)| {
                row.is(&[("memory", memory.name()), ("keys", keys.name())])
            });
            match part {
                Some((.., part)) if is_best => {
                    if fresh_walk {
                        let of = format!("walk, {}", text(&row, "memory"));
                        row = row.text("best_group_of", of);
                    }
                    let way = text(&row, "way");
                    row.text(part, way)
                }
                _ => row,
            }
        })
        .collect()
}

/// The paper's ratios, computed from our rows.
fn ratios(rows: &[Row]) -> Vec<Row> {
    let (near, far) = (Memory::Near, Memory::Optane);
    let plain = Way::Plain.name();
    let walk = Way::Walk(GroupSize::DEFAULT).name();
    let batch = Way::Batch.name();
    let (many_std, many_batch) = (many_name(Way::Std.name()), many_name(batch));
    let each = [
        (PLAIN_FAR, (far, plain), (near, plain)),
        (HIDDEN_FAR, (far, walk), (near, walk)),
        (TREE_FAR, (far, batch), (near, batch)),
        (FAR_GAIN, (far, plain), (far, walk)),
        (FAR_OVER_NEAR, (far, walk), (near, plain)),
        (TREE_GAIN, (near, &many_std), (near, &many_batch)),
    ];
    let arrays = distinct(rows, "array");
    let ratio = |array: &String| {
        each.map(|((kind, of), (memory, way), (other_memory, other))| {
            let time = best(rows, array, Keys::Fresh, memory, way);
            let other = best(rows, array, Keys::Fresh, other_memory, other);
            let ratio = time
                .zip(other)
                .map_or(f64::NAN, |(time, other)| time / other);
            Row::new()
                .text("array", array)
                .text(kind, of)
                .number("ratio", ratio)
        })
    };
    arrays.iter().flat_map(ratio).collect()
}

/// The names of the arrays of at least that size.
fn arrays(rows: &[Row], least_bytes: usize) -> Vec<String> {
    let large: Vec<Row> = rows
        .iter()
        .filter(|row| row.value("array_bytes") >= Some(least_bytes as f64))
        .cloned()
        .collect();
    distinct(&large, "array")
}

/// The median of a way's best group.
fn best(rows: &[Row], array: &str, keys: Keys, memory: Memory, way: &str) -> Option<f64> {
    times(rows, array, keys, memory, way)
        .map(|(_, time)| time)
        .reduce(f64::min)
}

/// The median with one group.
fn of_group(
    rows: &[Row],
    array: &str,
    keys: Keys,
    memory: Memory,
    way: &str,
    group: Option<GroupSize>,
) -> Option<f64> {
    let group = group.map(|group| group.get() as f64);
    times(rows, array, keys, memory, way)
        .find(|(of, _)| *of == group)
        .map(|(_, time)| time)
}

/// Groups and medians of a way.
fn times<'a>(
    rows: &'a [Row],
    array: &'a str,
    keys: Keys,
    memory: Memory,
    way: &'a str,
) -> impl Iterator<Item = (Option<f64>, f64)> + 'a {
    let identity = move |row: &&Row| {
        row.is(&[
            ("array", array),
            ("keys", keys.name()),
            ("memory", memory.name()),
            ("way", way),
        ])
    };
    rows.iter()
        .filter(identity)
        .filter_map(|row| Some((row.value("group"), row.value("time_ns")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(array: &str, memory: Memory, way: &str, group: u64, ns: u64) -> Row {
        Row::new()
            .text("array", array)
            .count("array_bytes", REPLAYED_BYTES as u64)
            .text("keys", Keys::Fresh.name())
            .text("memory", memory.name())
            .text("way", way)
            .count("group", group)
            .samples("time", "ns", vec![ns])
    }

    fn measured(rows: &[Row], named: &str) -> Option<f64> {
        let bars = Fig1.bars(rows);
        let bar = bars.iter().find(|bar| bar.what.contains(named));
        bar.unwrap_or_else(|| panic!("no bar {named}")).measured
    }

    #[test]
    fn each_is_judged_by_its_best_group_and_the_worst_array_decides() {
        let near = Memory::Near;
        let mut rows = vec![
            row("a", near, "walk", 16, 130),
            row("a", near, "walk", 48, 100),
            row("a", near, Coroutines::NAME, 24, 100),
            row("a", near, Coroutines::NAME, 64, 300),
            row("b", near, "walk", 48, 121),
            row("b", near, Coroutines::NAME, 64, 100),
        ];
        let geometric = measured(&rows, "coroutines, near, fresh values, geometric").unwrap();
        assert!((geometric - 1.1).abs() < 1e-9);
        let worst = measured(&rows, "coroutines, near, fresh values, worst").unwrap();
        assert!((worst - 1.21).abs() < 1e-9);
        rows.pop();
        assert_eq!(
            measured(&rows, "coroutines, near, fresh values, worst"),
            None
        );
    }

    #[test]
    fn a_lookup_is_held_against_its_replay_and_its_computing_together() {
        let far = Memory::Optane;
        let group = GroupSize::DEFAULT.get() as u64;
        let rows = [
            row("a", far, "walk", group, 130),
            row("a", far, "walk", 8, 1),
            // Emulated, computing would wait as well.
            row("a", far, &cached_name("walk"), 0, 400),
            row("a", Memory::Near, &cached_name("walk"), 0, 40),
            row("a", far, replay_of(Way::Walk(GroupSize::DEFAULT)), 0, 60),
        ];
        assert_eq!(
            measured(&rows, "walk over replay and computing, emulated"),
            Some(1.3)
        );
        assert_eq!(
            measured(&rows, "walk over replay and computing, near"),
            None
        );
    }

    #[test]
    fn the_async_loop_is_held_against_coroutines_where_nothing_is_cached() {
        let near = Memory::Near;
        let mut rows = vec![
            row("a", near, "async loop", 48, 106),
            row("a", near, Coroutines::NAME, 48, 100),
        ];
        let ratio = |rows: &[Row]| {
            measured(
                rows,
                "async loop over C++20 coroutines, near, from 64 MB, fresh",
            )
        };
        assert!((ratio(&rows).unwrap() - 1.06).abs() < 1e-9);
        // A small array changes nothing.
        for (way, ns) in [("async loop", 900), (Coroutines::NAME, 1)] {
            let small = Row::new().text("array", "b").count("array_bytes", 1 << 20);
            let small = small
                .text("keys", Keys::Fresh.name())
                .text("memory", near.name());
            rows.push(small.text("way", way).samples("time", "ns", vec![ns]));
        }
        assert!((ratio(&rows).unwrap() - 1.06).abs() < 1e-9);
    }

    #[test]
    fn a_batch_is_held_against_bare_loads_of_as_many_searches() {
        let near = Memory::Near;
        let batch = Way::Batch.name();
        let rows = [
            row("1 GB", near, replay_of(Way::Batch), 0, 10 * SEARCHES as u64),
            row("1 GB", near, &cached_name(batch), 0, 5 * SEARCHES as u64),
            row("1 GB", near, &many_name(batch), 0, 30 * MANY as u64),
        ];
        assert_eq!(measured(&rows, "100,000 fresh values"), Some(2.0));
        assert_eq!(measured(&rows[1..], "100,000 fresh values"), None);
    }

    #[test]
    fn every_contender_answers() {
        let folder = tempfile::tempdir().unwrap();
        let peer = Coroutines::compile(folder.path()).unwrap();
        let array = Sorted::new(1 << 16).unwrap();
        let sorted = array.values(1 << 16);
        let tree = SearchTree::new(sorted);
        let mut bench = Bench::new(sorted, &tree, peer.as_ref());
        for keys in [Keys::Paper, Keys::Fresh] {
            let all: Vec<(Memory, Keys, What)> =
                contenders(Memory::Near, &[48], peer.is_some(), true)
                    .into_iter()
                    .map(|what| (Memory::Near, keys, what))
                    .collect();
            let samples = bench.measure(&all, 1).unwrap();
            assert!(samples.iter().all(|samples| samples.len() == 1));
        }
    }
}
