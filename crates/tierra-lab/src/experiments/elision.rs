//! Elision: what do levels of functions around a lookup cost, written as documented and written naively?
//!
//! One binary search, flat and under one to five levels. The levels are around the load (a structure that hides its arrays
//! behind functions) or around the search (a query that calls a column that calls a dictionary). A level is a function that
//! returns a mapped future (a *chain*) or an `async fn`. Every level flips a bit, so that none can be optimised away, and the
//! result is checked.

use std::hint::select_unpredictable;
use std::time::Instant;

use tierra_interleave::{Chain, Cx, GroupSize, Interleaved, map_into};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::sorted::{self, Sorted, check, size_name};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Searches of one sample.
const SEARCHES: usize = 10_000;
/// Most levels.
const DEEPEST: u32 = 5;
/// Arrays of at least this size do not fit a cache.
const LARGE_BYTES: usize = 64 << 20;

const CHAIN: &str = "chain";
const FLAT: &str = "flat";

type Cxi = Cx<Interleaved>;

/// A level that maps the result of the next one.
macro_rules! chain {
    ($($outer:ident = $inner:ident($($arg:ident: $type:ty),*) -> $out:ident ^ $bit:literal;)*) => {$(
        fn $outer(cx: Cxi, $($arg: $type),*) -> impl Future<Output = $out> {
            $inner(cx, $($arg),*).map(|out| out ^ $bit)
        }
    )*};
}

/// A level that awaits the next one.
macro_rules! awaits {
    ($($outer:ident = $inner:ident($($arg:ident: $type:ty),*) -> $out:ident ^ $bit:literal;)*) => {$(
        async fn $outer(cx: Cxi, $($arg: $type),*) -> $out {
            $inner(cx, $($arg),*).await ^ $bit
        }
    )*};
}

/// The search around a load that `$load` makes, which flips the bits of `$mask`.
macro_rules! searches {
    ($($search:ident by $load:ident ^ $mask:literal;)*) => {$(
        async fn $search(cx: Cxi, sorted: &[u32], key: u32) -> usize {
            let (mut low, mut len) = (0, sorted.len());
            while len > 1 {
                let probed = $load(cx, &sorted[low + len / 2]).await ^ $mask;
                let half = len / 2;
                low = select_unpredictable(probed <= key, low + half, low);
                len -= half;
            }
            low
        }
    )*};
}

fn load(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    cx.load(place).map(|value| *value)
}

chain! {
    load_chain_1 = load(place: &u32) -> u32 ^ 1;
    load_chain_2 = load_chain_1(place: &u32) -> u32 ^ 2;
    load_chain_3 = load_chain_2(place: &u32) -> u32 ^ 4;
    load_chain_4 = load_chain_3(place: &u32) -> u32 ^ 8;
    load_chain_5 = load_chain_4(place: &u32) -> u32 ^ 16;
}
awaits! {
    load_async_1 = load(place: &u32) -> u32 ^ 1;
    load_async_2 = load_async_1(place: &u32) -> u32 ^ 2;
    load_async_3 = load_async_2(place: &u32) -> u32 ^ 4;
    load_async_4 = load_async_3(place: &u32) -> u32 ^ 8;
    load_async_5 = load_async_4(place: &u32) -> u32 ^ 16;
}
searches! {
    by_load by load ^ 0;
    by_load_chain_1 by load_chain_1 ^ 1;
    by_load_chain_2 by load_chain_2 ^ 3;
    by_load_chain_3 by load_chain_3 ^ 7;
    by_load_chain_4 by load_chain_4 ^ 15;
    by_load_chain_5 by load_chain_5 ^ 31;
    by_load_async_1 by load_async_1 ^ 1;
    by_load_async_2 by load_async_2 ^ 3;
    by_load_async_3 by load_async_3 ^ 7;
    by_load_async_4 by load_async_4 ^ 15;
    by_load_async_5 by load_async_5 ^ 31;
}
chain! {
    search_chain_1 = by_load(sorted: &[u32], key: u32) -> usize ^ 1;
    search_chain_2 = search_chain_1(sorted: &[u32], key: u32) -> usize ^ 2;
    search_chain_3 = search_chain_2(sorted: &[u32], key: u32) -> usize ^ 4;
    search_chain_4 = search_chain_3(sorted: &[u32], key: u32) -> usize ^ 8;
    search_chain_5 = search_chain_4(sorted: &[u32], key: u32) -> usize ^ 16;
}
awaits! {
    search_async_1 = by_load(sorted: &[u32], key: u32) -> usize ^ 1;
    search_async_2 = search_async_1(sorted: &[u32], key: u32) -> usize ^ 2;
    search_async_3 = search_async_2(sorted: &[u32], key: u32) -> usize ^ 4;
    search_async_4 = search_async_3(sorted: &[u32], key: u32) -> usize ^ 8;
    search_async_5 = search_async_4(sorted: &[u32], key: u32) -> usize ^ 16;
}

fn walk(cx: Cxi, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    sorted::walk(cx, sorted, key)
}
chain! {
    walk_chain_1 = walk(sorted: &[u32], key: u32) -> usize ^ 1;
    walk_chain_2 = walk_chain_1(sorted: &[u32], key: u32) -> usize ^ 2;
    walk_chain_3 = walk_chain_2(sorted: &[u32], key: u32) -> usize ^ 4;
    walk_chain_4 = walk_chain_3(sorted: &[u32], key: u32) -> usize ^ 8;
    walk_chain_5 = walk_chain_4(sorted: &[u32], key: u32) -> usize ^ 16;
}
awaits! {
    walk_async_1 = walk(sorted: &[u32], key: u32) -> usize ^ 1;
    walk_async_2 = walk_async_1(sorted: &[u32], key: u32) -> usize ^ 2;
    walk_async_3 = walk_async_2(sorted: &[u32], key: u32) -> usize ^ 4;
    walk_async_4 = walk_async_3(sorted: &[u32], key: u32) -> usize ^ 8;
    walk_async_5 = walk_async_4(sorted: &[u32], key: u32) -> usize ^ 16;
}

/// Searches an array for keys.
type Run = fn(&[u32], &[u32], &mut [usize]);

/// One way to write the lookup.
struct Way {
    /// Its flat form, without the levels.
    of: &'static str,
    /// The form of a level.
    level: &'static str,
    levels: u32,
    /// Whether levels around the search flip bits of the answer.
    flips: bool,
    state_bytes: usize,
    run: Run,
}

/// The size of the lookup that a function returns.
fn state_bytes<Fut>(_: impl Fn(Cxi, &'static [u32], u32) -> Fut) -> usize {
    size_of::<Fut>()
}

macro_rules! ways {
    ($($of:literal, $level:expr, $levels:literal, $flips:literal: $lookup:ident;)*) => {
        [$(Way {
            of: $of,
            level: $level,
            levels: $levels,
            flips: $flips,
            state_bytes: state_bytes($lookup),
            run: |sorted, keys, ranks| {
                let lookup = |cx: Cxi, &key: &u32| $lookup(cx, sorted, key);
                map_into(GroupSize::DEFAULT, keys, lookup, ranks);
            },
        }),*]
    };
}

fn ways() -> [Way; 32] {
    ways! {
        "load", FLAT, 0, false: by_load;
        "load", CHAIN, 1, false: by_load_chain_1;
        "load", CHAIN, 2, false: by_load_chain_2;
        "load", CHAIN, 3, false: by_load_chain_3;
        "load", CHAIN, 4, false: by_load_chain_4;
        "load", CHAIN, 5, false: by_load_chain_5;
        "load", "async fn", 1, false: by_load_async_1;
        "load", "async fn", 2, false: by_load_async_2;
        "load", "async fn", 3, false: by_load_async_3;
        "load", "async fn", 4, false: by_load_async_4;
        "load", "async fn", 5, false: by_load_async_5;
        "search", CHAIN, 1, true: search_chain_1;
        "search", CHAIN, 2, true: search_chain_2;
        "search", CHAIN, 3, true: search_chain_3;
        "search", CHAIN, 4, true: search_chain_4;
        "search", CHAIN, 5, true: search_chain_5;
        "search", "async fn", 1, true: search_async_1;
        "search", "async fn", 2, true: search_async_2;
        "search", "async fn", 3, true: search_async_3;
        "search", "async fn", 4, true: search_async_4;
        "search", "async fn", 5, true: search_async_5;
        "walk", FLAT, 0, false: walk;
        "walk", CHAIN, 1, true: walk_chain_1;
        "walk", CHAIN, 2, true: walk_chain_2;
        "walk", CHAIN, 3, true: walk_chain_3;
        "walk", CHAIN, 4, true: walk_chain_4;
        "walk", CHAIN, 5, true: walk_chain_5;
        "walk", "async fn", 1, true: walk_async_1;
        "walk", "async fn", 2, true: walk_async_2;
        "walk", "async fn", 3, true: walk_async_3;
        "walk", "async fn", 4, true: walk_async_4;
        "walk", "async fn", 5, true: walk_async_5;
    }
}

impl Way {
    /// The name of its line in tables.
    fn name(&self) -> String {
        match (self.levels, self.of) {
            (0, "walk") => "flat walk".to_owned(),
            (0, _) => "flat async loop".to_owned(),
            (levels, of) => format!("{} around the {of}, {levels}", self.level),
        }
    }

    /// Its flat form, without the levels.
    fn flat(&self) -> &'static str {
        if self.of == "walk" { "walk" } else { "load" }
    }
}

/// The experiment.
pub(super) struct Elision;

impl Experiment for Elision {
    fn name(&self) -> &'static str {
        "elision"
    }

    fn about(&self) -> &'static str {
        "what do one to five levels of functions around a lookup cost, as chains and as async fns?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 31);
        let sizes: &[usize] = lab.size(&[1 << 16, 1 << 20], &[1 << 16, 1 << 20, 1 << 26, 1 << 28]);
        let array = Sorted::new(sizes.iter().copied().max().unwrap_or(0))?;
        let bar = progress::bar("arrays", sizes.len());
        let mut rows = Vec::new();
        for &bytes in sizes {
            bar.set_message(size_name(bytes));
            rows.extend(measure(array.values(bytes), bytes, rounds)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("rounds", rounds as u64)
            .count("group", GroupSize::DEFAULT.get() as u64)
            .count("page_bytes", array.page_size_bytes() as u64);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let deepest = DEEPEST.to_string();
        let worst = |large: bool| {
            let ratios: Option<Vec<f64>> = rows
                .iter()
                .filter(|row| row.is(&[("level", CHAIN), ("levels", &deepest)]))
                .filter(|row| {
                    let bytes = row.value("array_bytes").unwrap_or(0.0);
                    (bytes >= LARGE_BYTES as f64) == large
                })
                .map(|row| {
                    let (array, flat) =
                        (row.get("array")?.to_string(), row.get("flat")?.to_string());
                    let flat = find(rows, &[("array", &array), ("of", &flat), ("level", FLAT)])?;
                    Some(row.value("time_ns")? / flat.value("time_ns")?)
                })
                .collect();
            ratios.and_then(|ratios| ratios.into_iter().reduce(f64::max))
        };
        vec![
            Bar::at_most(
                "elision: five chains over flat, in cache, worst place and array",
                1.25,
                worst(false),
            ),
            Bar::at_most(
                "elision: five chains over flat, from 64 MB, worst place and array",
                1.1,
                worst(true),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "time of a binary search, fresh keys, by levels of functions around it",
        category: "lookup",
        series: "array",
        value: "time_ns",
        per: Some("searches"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "bytes of state of a lookup under way",
        category: "lookup",
        series: "state",
        value: "state_bytes",
        per: None,
        unit: Unit::Bytes,
        mean: false,
    },
];

fn measure(sorted: &[u32], bytes: usize, rounds: usize) -> Result<Vec<Row>, LabError> {
    let ways = ways();
    let mut random = Random::new(SEED);
    let mut samples = vec![Vec::with_capacity(rounds); ways.len()];
    let mut ranks = vec![usize::MAX; SEARCHES];
    for turn in turns(ways.len(), rounds) {
        let way = &ways[turn.contender];
        let draw = || random.below(sorted.len() as u64) as u32;
        let keys: Vec<u32> = std::iter::repeat_with(draw).take(SEARCHES).collect();
        ranks.fill(usize::MAX);
        let start = Instant::now();
        (way.run)(sorted, &keys, &mut ranks);
        let time_ns = start.elapsed().as_nanos() as u64;
        if way.flips {
            let flipped = (1 << way.levels) - 1;
            ranks.iter_mut().for_each(|rank| *rank ^= flipped);
        }
        check(&way.name(), &keys, &ranks)?;
        if !turn.is_warm_up() {
            samples[turn.contender].push(time_ns);
        }
    }
    let rows = ways.iter().zip(samples).map(|(way, samples)| {
        Row::new()
            .text("array", size_name(bytes))
            .count("array_bytes", bytes as u64)
            .text("lookup", way.name())
            .text("of", way.of)
            .text("flat", way.flat())
            .text("level", way.level)
            .count("levels", u64::from(way.levels))
            .text("state", "bytes")
            .count("state_bytes", way.state_bytes as u64)
            .count("searches", SEARCHES as u64)
            .samples("time", "ns", samples)
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::distinct;

    #[test]
    fn every_way_finds_every_key() {
        let array = Sorted::new(1 << 12).unwrap();
        let rows = measure(array.values(1 << 12), 1 << 12, 1).unwrap();
        assert_eq!(distinct(&rows, "lookup").len(), rows.len());
        assert!(rows.iter().all(|row| row.value("state_bytes") > Some(0.0)));
    }

    #[test]
    fn chains_are_held_against_the_flat_lookup_of_their_kind() {
        let row = |of: &str, flat: &str, level: &str, levels, ns| {
            Row::new()
                .text("array", "x")
                .count("array_bytes", 1 << 10)
                .text("of", of)
                .text("flat", flat)
                .text("level", level)
                .count("levels", levels)
                .samples("time", "ns", vec![ns])
        };
        let rows = [
            row("load", "load", FLAT, 0, 100),
            row("walk", "walk", FLAT, 0, 50),
            row("search", "load", CHAIN, 5, 110),
            row("walk", "walk", CHAIN, 5, 60),
            row("walk", "walk", "async fn", 5, 500),
        ];
        let bars = Elision.bars(&rows);
        assert_eq!(bars[0].measured, Some(1.2));
        assert!(!bars[1].met, "no large array was measured");
    }
}
