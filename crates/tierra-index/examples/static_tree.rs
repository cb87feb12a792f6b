//! Ranks in a sorted array: the static search tree against binary search.
//!
//! ```text
//! cargo run --release -p tierra-index --example static_tree -- [--u64] [MB...]
//! ```
//!
//! Arrays of 1, 16, 64, 256 and 1024 MB (or the sizes given, 4096 at most) on 2 MiB pages where the
//! system grants them. Each round draws 100,000 fresh values from the array, looks them up in every
//! way in turn, and checks every answer; the medians of the rounds are printed, and last the tree's
//! levels with the price of one random line at each: what the batch cannot go below.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use tierra_index::{Key, SearchTree, lower_bound};
use tierra_interleave::{Cx, GroupSize, Interleaved, Mode, Plain, map_into};
use tierra_memory::Region;

const LOOKUPS: usize = 100_000;
const ROUNDS: usize = 15;
const MB_MAX: usize = 4096;

/// The values: `value(i)` at place `i`, far apart enough that the type is made use of.
trait Value: Key + Copy + Ord {
    fn new(place: usize, step: u64) -> Self;
    fn low_bits(self) -> u64;
}

impl Value for u32 {
    fn new(place: usize, step: u64) -> u32 {
        (place as u64 * step) as u32
    }
    fn low_bits(self) -> u64 {
        u64::from(self)
    }
}

impl Value for u64 {
    fn new(place: usize, step: u64) -> u64 {
        place as u64 * step
    }
    fn low_bits(self) -> u64 {
        self
    }
}

/// Looks up all keys and writes the rank of each.
type Way<'a, K> = dyn Fn(&[K], &mut [usize]) + 'a;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let wide = args.first().is_some_and(|arg| arg == "--u64");
    if wide {
        args.remove(0);
    }
    let sizes: Result<Vec<usize>, _> = args.iter().map(|arg| arg.parse()).collect();
    let mut sizes_mb = match sizes {
        Ok(sizes) if sizes.iter().all(|mb| (1..=MB_MAX).contains(mb)) => sizes,
        _ => {
            eprintln!("usage: static_tree [--u64] [MB...], from 1 to {MB_MAX}");
            return ExitCode::FAILURE;
        }
    };
    if sizes_mb.is_empty() {
        sizes_mb = vec![1, 16, 64, 256, 1024];
    }
    println!("ns per lookup, medians of {ROUNDS} rounds of {LOOKUPS}");
    for mb in sizes_mb {
        let measured = if wide {
            measure::<u64>(mb, u64::MAX)
        } else {
            measure::<u32>(mb, u64::from(u32::MAX))
        };
        if let Err(error) = measured {
            eprintln!("{mb} MB: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn measure<K: Value>(mb: usize, greatest: u64) -> Result<(), tierra_memory::RegionError> {
    let mut region = Region::near(mb << 20)?;
    region.populate()?;
    let page_kib = region.page_size_bytes() >> 10;
    // SAFETY: any bytes are a value of an unsigned integer.
    let (before, sorted, after) = unsafe { region.align_to_mut::<K>() };
    assert!(
        before.is_empty() && after.is_empty(),
        "a region is aligned to lines"
    );
    let step = greatest / sorted.len() as u64;
    for (place, value) in sorted.iter_mut().enumerate() {
        *value = K::new(place, step);
    }
    let sorted = &*sorted;

    let start = Instant::now();
    let tree = SearchTree::new(sorted);
    let built_ms = start.elapsed().as_secs_f64() * 1e3;
    let searcher = tree.over(sorted);

    let ways: [(&str, &Way<'_, K>); 6] = [
        ("tree batched", &|keys, ranks| {
            searcher.lower_bounds::<Interleaved>(keys, ranks);
        }),
        ("tree interleaved", &|keys, ranks| {
            one_by_one::<Interleaved, _, _>(keys, |cx, key| searcher.lower_bound(cx, key), ranks);
        }),
        ("tree plain", &|keys, ranks| {
            one_by_one::<Plain, _, _>(keys, |cx, key| searcher.lower_bound(cx, key), ranks);
        }),
        ("search interleaved", &|keys, ranks| {
            one_by_one::<Interleaved, _, _>(keys, |cx, key| lower_bound(cx, sorted, key), ranks);
        }),
        ("search plain", &|keys, ranks| {
            one_by_one::<Plain, _, _>(keys, |cx, key| lower_bound(cx, sorted, key), ranks);
        }),
        ("binary_search", &|keys, ranks| {
            for (key, rank) in keys.iter().zip(ranks) {
                *rank = sorted.binary_search(key).unwrap_or(usize::MAX);
            }
        }),
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || -> Vec<usize> {
        let next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % sorted.len() as u64) as usize
        };
        std::iter::repeat_with(next).take(LOOKUPS).collect()
    };
    let mut samples_ns = ways.each_ref().map(|_| Vec::new());
    let mut line_ns = Vec::new();
    let mut ranks = vec![0; LOOKUPS];
    for _ in 0..ROUNDS {
        for ((_, way), samples_ns) in ways.iter().zip(&mut samples_ns) {
            // Drawn for each way anew: values looked up before would be near.
            let places = draw();
            let keys: Vec<K> = places.iter().map(|&place| K::new(place, step)).collect();
            ranks.fill(usize::MAX);
            let start = Instant::now();
            way(&keys, &mut ranks);
            samples_ns.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            assert!(ranks == places, "wrong ranks");
        }
        let places = draw();
        let start = Instant::now();
        let sum = places.iter().fold(0, |sum: u64, &place| {
            sum.wrapping_add(sorted[place].low_bits())
        });
        black_box(sum);
        line_ns.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
    }

    println!(
        "\n{mb} MB on {page_kib} KiB pages; tree of {} KiB built in {built_ms:.1} ms; \
         {:.1} ns per independent random line",
        tree.len_bytes() >> 10,
        median(&mut line_ns)
    );
    let medians_ns = samples_ns.each_mut().map(|samples| median(samples));
    let slowest_ns = medians_ns[medians_ns.len() - 1];
    for ((name, _), ns) in ways.iter().zip(medians_ns) {
        println!("{name:>20} {ns:>8.1} {:>6.1}x", slowest_ns / ns);
    }
    Ok(())
}

fn one_by_one<M, K, Fut>(keys: &[K], lookup: impl Fn(Cx<M>, K) -> Fut, ranks: &mut [usize])
where
    M: Mode,
    K: Copy,
    Fut: Future<Output = usize>,
{
    map_into(GroupSize::DEFAULT, keys, |cx, &key| lookup(cx, key), ranks);
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}
