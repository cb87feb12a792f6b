//! What a call chain costs: one binary search, flat and under five levels of functions.
//!
//! ```text
//! cargo run --release -p tierra-interleave --example depth -- [MIB...]
//! ```
//!
//! The levels lie around the load (as when a structure hides its arrays behind functions) or around the
//! whole search (as when a query calls a column that calls a dictionary that calls the search). They are
//! `async fn`s, or functions that return a mapped future. The ways alternate over fresh keys; lower
//! quartiles, and the ratio to the flat search of the same kind. Every answer is checked.

use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};
use std::process::ExitCode;
use std::time::Instant;

use tierra_interleave::{Chain, Cx, GroupSize, Interleaved, map_into};

const SEARCHES: usize = 2_000;
const ROUNDS: usize = 201;

type Cxi = Cx<Interleaved>;

/// The search around a load that `$load` makes.
macro_rules! search_by {
    ($search:ident, $load:ident) => {
        async fn $search(cx: Cxi, sorted: &[u32], key: u32) -> usize {
            let (mut low, mut len) = (0, sorted.len());
            while len > 1 {
                let probed = $load(cx, &sorted[low + len / 2]).await;
                let half = len / 2;
                low = select_unpredictable(probed <= key, low + half, low);
                len -= half;
            }
            low
        }
    };
}

fn load(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    cx.load(place).map(|value| *value)
}
search_by!(flat, load);

fn mapped_2(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    load(cx, place).map(|value| value ^ 1)
}
fn mapped_3(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    mapped_2(cx, place).map(|value| value ^ 2)
}
fn mapped_4(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    mapped_3(cx, place).map(|value| value ^ 2)
}
fn mapped_5(cx: Cxi, place: &u32) -> impl Future<Output = u32> {
    mapped_4(cx, place).map(|value| value ^ 1)
}
search_by!(load_mapped, mapped_5);

async fn async_1(cx: Cxi, place: &u32) -> u32 {
    *cx.load(place).await
}
async fn async_2(cx: Cxi, place: &u32) -> u32 {
    async_1(cx, place).await ^ 1
}
async fn async_3(cx: Cxi, place: &u32) -> u32 {
    async_2(cx, place).await ^ 2
}
async fn async_4(cx: Cxi, place: &u32) -> u32 {
    async_3(cx, place).await ^ 2
}
async fn async_5(cx: Cxi, place: &u32) -> u32 {
    async_4(cx, place).await ^ 1
}
search_by!(load_async, async_5);

fn search_mapped(cx: Cxi, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    flat(cx, sorted, key)
        .map(|rank| rank ^ 1)
        .map(|rank| rank ^ 2)
        .map(|rank| rank ^ 2)
        .map(|rank| rank ^ 1)
}

async fn search_async_2(cx: Cxi, sorted: &[u32], key: u32) -> usize {
    flat(cx, sorted, key).await ^ 1
}
async fn search_async_3(cx: Cxi, sorted: &[u32], key: u32) -> usize {
    search_async_2(cx, sorted, key).await ^ 2
}
async fn search_async_4(cx: Cxi, sorted: &[u32], key: u32) -> usize {
    search_async_3(cx, sorted, key).await ^ 2
}
async fn search_async(cx: Cxi, sorted: &[u32], key: u32) -> usize {
    search_async_4(cx, sorted, key).await ^ 1
}

fn walk(cx: Cxi, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    let (mut low, mut len) = (0, sorted.len());
    cx.walk(&sorted[len / 2], move |probed| {
        let half = len / 2;
        low = select_unpredictable(*probed <= key, low + half, low);
        len -= half;
        if len > 1 {
            Continue(&sorted[low + len / 2])
        } else {
            Break(low)
        }
    })
}

fn walk_mapped(cx: Cxi, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    walk(cx, sorted, key)
        .map(|rank| rank ^ 1)
        .map(|rank| rank ^ 2)
        .map(|rank| rank ^ 2)
        .map(|rank| rank ^ 1)
}

fn measure(mib: usize) {
    // Value = 2 * index, so that the right answer to every key is key / 2; 1 KiB more than asked for, so
    // that halvings do not compete for the same cache sets.
    let values = (mib * (1 << 20) + 1024) / size_of::<u32>();
    let sorted: Vec<u32> = (0..values as u32).map(|index| 2 * index).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;

    type Way<'a> = (&'a str, usize, Box<dyn Fn(&[u32], &mut [usize]) + 'a>);
    macro_rules! ways {
        ($($name:literal $flat:literal $search:ident),* $(,)?) => {
            [$(($name, $flat, {
                let sorted = &sorted;
                Box::new(move |keys: &[u32], ranks: &mut [usize]| {
                    let lookup = |cx: Cxi, &key: &u32| $search(cx, sorted, key);
                    map_into(GroupSize::DEFAULT, keys, lookup, ranks);
                })
            })),*]
        };
    }
    let ways: [Way; 7] = ways![
        "async loop, flat" 0 flat,
        "  5 maps around the load" 0 load_mapped,
        "  5 async fns around the load" 0 load_async,
        "  4 maps around the search" 0 search_mapped,
        "  4 async fns around the search" 0 search_async,
        "walk, flat" 5 walk,
        "  4 maps around the walk" 5 walk_mapped,
    ];
    let mut times_ns = vec![Vec::with_capacity(ROUNDS); ways.len()];
    let mut ranks = vec![usize::MAX; SEARCHES];
    for _ in 0..ROUNDS {
        for ((name, _, way), times_ns) in ways.iter().zip(&mut times_ns) {
            let keys: Vec<u32> = std::iter::repeat_with(|| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % (2 * values as u64)) as u32
            })
            .take(SEARCHES)
            .collect();
            let start = Instant::now();
            way(&keys, &mut ranks);
            times_ns.push(start.elapsed().as_nanos() as f64 / SEARCHES as f64);
            for (&key, rank) in keys.iter().zip(&mut ranks) {
                assert_eq!(*rank, key as usize / 2, "wrong answer to {key}, {name}");
                *rank = usize::MAX;
            }
        }
    }
    let quartiles_ns: Vec<f64> = times_ns
        .into_iter()
        .map(|mut times_ns| {
            times_ns.sort_by(f64::total_cmp);
            times_ns[ROUNDS / 4]
        })
        .collect();
    println!("{mib} MiB, ns per search and ratio to flat:");
    for ((name, flat, _), ns) in ways.iter().zip(&quartiles_ns) {
        println!("{ns:>8.1} {:>6.2}  {name}", ns / quartiles_ns[*flat]);
    }
}

fn main() -> ExitCode {
    let sizes: Result<Vec<usize>, _> = std::env::args().skip(1).map(|mib| mib.parse()).collect();
    let sizes = match sizes {
        Ok(sizes) if sizes.is_empty() => vec![1, 64],
        Ok(sizes) if sizes.iter().all(|mib| (1..=8192).contains(mib)) => sizes,
        _ => {
            eprintln!("usage: depth [MIB...], each from 1 to 8192");
            return ExitCode::FAILURE;
        }
    };
    sizes.into_iter().for_each(measure);
    ExitCode::SUCCESS
}
