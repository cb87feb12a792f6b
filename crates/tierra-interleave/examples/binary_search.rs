//! Binary searches in a sorted array, plain against interleaved.
//!
//! ```text
//! cargo run --release -p tierra-interleave --example binary_search -- [MIB...]
//! ```
//!
//! Searches arrays of 1, 32 and 256 MiB (or the sizes given) for 10,000 random keys each, checks
//! every answer, and prints the time per search: the plain loop, then groups of growing size. The
//! ways alternate and the best of their rounds counts, so that a busy machine disturbs all alike.
//!
//! Large arrays also miss the TLB. 2 MiB pages avoid most of that, and glibc asks for them when
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0` is in the environment; the example
//! says what share of the array really lies on them.

use std::hint::select_unpredictable;
use std::process::ExitCode;
use std::time::Instant;

use tierra_interleave::{Cx, GroupSize, Interleaved, Mode, Plain, map_into};

const SEARCHES: usize = 10_000;
const ROUNDS: usize = 20;
const GROUP_SIZES: [usize; 7] = [1, 4, 8, 16, 24, 32, 64];

/// The index of the last value not above `key`, or 0: one load per halving, no unpredictable branch.
async fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> usize {
    let (mut low, mut len) = (0, sorted.len());
    while len > 1 {
        let half = len / 2;
        let middle = low + half;
        let probed = *cx.load(&sorted[middle]).await;
        low = select_unpredictable(probed <= key, middle, low);
        len -= half;
    }
    low
}

/// Nanoseconds per search of one run over all keys; the answers land in `ranks`.
fn time_ns<M: Mode>(group: GroupSize, sorted: &[u32], keys: &[u32], ranks: &mut [usize]) -> f64 {
    let start = Instant::now();
    map_into(
        group,
        keys,
        |cx: Cx<M>, &key| search(cx, sorted, key),
        ranks,
    );
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn measure(mib: usize) {
    // Value = 2 * index, so that the right answer to every key, present or absent, is key / 2.
    // One KiB more than asked for: halving a power of two probes addresses that compete for the same
    // few cache sets, which would measure those conflicts.
    let values = (mib * (1 << 20) + 1024) / size_of::<u32>();
    let sorted: Vec<u32> = (0..values as u32).map(|index| 2 * index).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let keys: Vec<u32> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % (2 * values as u64)) as u32
    })
    .take(SEARCHES)
    .collect();

    let mut ranks = vec![usize::MAX; SEARCHES];
    let groups = GROUP_SIZES.map(|lanes| GroupSize::new(lanes).expect("sizes are 1 to 64"));
    let mut plain_ns = f64::INFINITY;
    let mut grouped_ns = [f64::INFINITY; GROUP_SIZES.len()];
    for _ in 0..ROUNDS {
        plain_ns = plain_ns.min(time_ns::<Plain>(
            GroupSize::DEFAULT,
            &sorted,
            &keys,
            &mut ranks,
        ));
        check_and_clear(&keys, &mut ranks);
        for (&group, best_ns) in groups.iter().zip(&mut grouped_ns) {
            *best_ns = best_ns.min(time_ns::<Interleaved>(group, &sorted, &keys, &mut ranks));
            check_and_clear(&keys, &mut ranks);
        }
    }

    print!("{mib:>6} MiB {:>8} {plain_ns:>8.1}", huge_pages(&sorted));
    for ns in grouped_ns {
        print!(" {ns:>7.1}");
    }
    println!();
}

/// Every answer must be right, and found by the run that follows, not left from the one before.
fn check_and_clear(keys: &[u32], ranks: &mut [usize]) {
    for (&key, rank) in keys.iter().zip(ranks) {
        assert_eq!(*rank, key as usize / 2, "wrong answer to {key}");
        *rank = usize::MAX;
    }
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
        Ok(sizes) if sizes.is_empty() => vec![1, 32, 256],
        Ok(sizes) if sizes.iter().all(|mib| (1..=8192).contains(mib)) => sizes,
        _ => {
            eprintln!("usage: binary_search [MIB...], each from 1 to 8192");
            return ExitCode::FAILURE;
        }
    };
    println!("ns per search; best of {ROUNDS} rounds of {SEARCHES} searches, answers checked");
    print!("     array  2M pages    plain");
    for lanes in GROUP_SIZES {
        print!(" {:>7}", format!("of {lanes}"));
    }
    println!();
    for mib in sizes {
        measure(mib);
    }
    ExitCode::SUCCESS
}
