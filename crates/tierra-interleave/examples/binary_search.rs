//! Binary searches in a sorted array: plain, interleaved, and group prefetching written by hand.
//!
//! ```text
//! cargo run --release -p tierra-interleave --example binary_search -- [MIB...]
//! ```
//!
//! Searches arrays of 1, 16, 64 and 256 MiB (or the sizes given) for 2,000 random keys at a time,
//! fresh ones each time, as a query brings them, so that only the upper levels are cached. The ways
//! alternate; each figure is the lower quartile of their rounds, which other work on
//! the machine disturbs least, in nanoseconds per search, and every answer is checked.
//!
//! Large arrays also miss the TLB. 2 MiB pages avoid most of that, and glibc asks for them when
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0` is in the environment; the example
//! says what share of the array really lies on them.

use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};
use std::process::ExitCode;
use std::time::Instant;

use tierra_interleave::{Cx, GroupSize, Interleaved, MAX_LANES, Mode, Plain, map_into};

const SEARCHES: usize = 2_000;
const ROUNDS: usize = 101;
const WALKED_GROUPS: [usize; 6] = [1, 8, 16, 32, 48, 64];

/// The index of the last value not above `key`, or 0: one load per halving, no unpredictable branch.
/// Of an array that is not empty.
async fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> usize {
    let (mut low, mut len) = (0, sorted.len());
    while len > 1 {
        let probed = *cx.load(&sorted[low + len / 2]).await;
        let half = len / 2;
        low = select_unpredictable(probed <= key, low + half, low);
        len -= half;
    }
    low
}

/// The same as a chain of loads: no state but the loop's own variables.
fn search_by_walk<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
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

/// Group prefetching, written by hand for this structure: all keys of a group take each halving
/// together, and share its length. This works because every search is equally long.
fn search_by_hand(sorted: &[u32], keys: &[u32], ranks: &mut [usize]) {
    let mut lows = [0; MAX_LANES];
    let group = GroupSize::DEFAULT.get();
    for (keys, ranks) in keys.chunks(group).zip(ranks.chunks_mut(group)) {
        let lows = &mut lows[..keys.len()];
        lows.fill(0);
        let mut len = sorted.len();
        while len > 1 {
            let half = len / 2;
            for &low in lows.iter() {
                prefetch(&sorted[low + half]);
            }
            for (low, &key) in lows.iter_mut().zip(keys) {
                *low = select_unpredictable(sorted[*low + half] <= key, *low + half, *low);
            }
            len -= half;
        }
        ranks.copy_from_slice(lows);
    }
}

#[inline(always)]
fn prefetch(place: &u32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the x86-64 baseline, and a prefetch neither faults nor has an effect that
    // the program can see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

fn measure(mib: usize) {
    // Value = 2 * index, so that the right answer to every key, present or absent, is key / 2.
    // One KiB more than asked for: halving a power of two probes addresses that compete for the same
    // few cache sets, which would measure those conflicts.
    let values = (mib * (1 << 20) + 1024) / size_of::<u32>();
    let sorted: &[u32] = &(0..values as u32)
        .map(|index| 2 * index)
        .collect::<Vec<_>>();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut fresh_keys = || -> Vec<u32> {
        std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % (2 * values as u64)) as u32
        })
        .take(SEARCHES)
        .collect()
    };

    type Way<'a> = Box<dyn Fn(&[u32], &mut [usize]) + 'a>;
    let mut ways: Vec<Way> = vec![
        Box::new(|keys, ranks| {
            let lookup = |cx: Cx<Plain>, &key: &u32| search(cx, sorted, key);
            map_into(GroupSize::DEFAULT, keys, lookup, ranks);
        }),
        Box::new(|keys, ranks| search_by_hand(sorted, keys, ranks)),
        Box::new(|keys, ranks| {
            let lookup = |cx: Cx<Interleaved>, &key: &u32| search(cx, sorted, key);
            map_into(GroupSize::DEFAULT, keys, lookup, ranks);
        }),
    ];
    for lanes in WALKED_GROUPS {
        let group = GroupSize::new(lanes).expect("sizes are 1 to 64");
        ways.push(Box::new(move |keys, ranks| {
            let lookup = |cx: Cx<Interleaved>, &key: &u32| search_by_walk(cx, sorted, key);
            map_into(group, keys, lookup, ranks);
        }));
    }

    let mut times_ns = vec![Vec::with_capacity(ROUNDS); ways.len()];
    let mut ranks = vec![usize::MAX; SEARCHES];
    for _ in 0..ROUNDS {
        for (way, times_ns) in ways.iter().zip(&mut times_ns) {
            let keys = fresh_keys();
            let start = Instant::now();
            way(&keys, &mut ranks);
            times_ns.push(start.elapsed().as_nanos() as f64 / SEARCHES as f64);
            for (&key, rank) in keys.iter().zip(&mut ranks) {
                assert_eq!(*rank, key as usize / 2, "wrong answer to {key}");
                *rank = usize::MAX;
            }
        }
    }

    print!("{mib:>6} MiB {:>8} ", huge_pages(sorted));
    for times_ns in &mut times_ns {
        times_ns.sort_by(f64::total_cmp);
        print!(" {:>7.1}", times_ns[ROUNDS / 4]);
    }
    println!();
}

/// The share of the array on 2 MiB pages, from the kernel's account of the mapping it lies in.
fn huge_pages(values: &[u32]) -> String {
    let address = values.as_ptr().addr();
    let Ok(mappings) = std::fs::read_to_string("/proc/self/smaps") else {
        return "unknown".into();
    };
    let mut inside = false;
    for line in mappings.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let bound = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            inside = (bound(from)..bound(to)).contains(&address);
        } else if inside && first == "AnonHugePages:" {
            let kib = line
                .split_whitespace()
                .nth(1)
                .and_then(|kib| kib.parse().ok());
            let share: f64 = kib.unwrap_or(0.0) * 1024.0 / size_of_val(values) as f64;
            return format!("{:.0} %", share.min(1.0) * 100.0);
        }
    }
    "unknown".into()
}

fn main() -> ExitCode {
    let sizes: Result<Vec<usize>, _> = std::env::args().skip(1).map(|mib| mib.parse()).collect();
    let sizes = match sizes {
        Ok(sizes) if sizes.is_empty() => vec![1, 16, 64, 256],
        Ok(sizes) if sizes.iter().all(|mib| (1..=8192).contains(mib)) => sizes,
        _ => {
            eprintln!("usage: binary_search [MIB...], each from 1 to 8192");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "ns per search, lower quartile of {ROUNDS} rounds of {SEARCHES} fresh keys; groups of {} unless said",
        GroupSize::DEFAULT
    );
    print!("     array  2M pages    plain by hand   async");
    for lanes in WALKED_GROUPS {
        print!(" {:>7}", format!("walk {lanes}"));
    }
    println!();
    for mib in sizes {
        measure(mib);
    }
    ExitCode::SUCCESS
}
