//! A gate against the mode that would have been right: from arrays in the nearest cache to arrays in
//! memory, keys uniform and skewed.
//!
//! ```text
//! cargo run --release -p tierra-interleave --example residency -- [KIB...]
//! ```
//!
//! Binary searches for fresh keys, plain, interleaved and gated in alternation; lower quartiles of
//! their rounds, in nanoseconds per search. The last column is the gated time over the better mode's, probing included. Every answer
//! is checked.

use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};
use std::process::ExitCode;
use std::time::Instant;

use tierra_interleave::{
    Cx, Execution, Gate, GroupSize, Lookups, Mode, Scheduling, in_mode, map_into,
};

const SEARCHES: usize = 20_000;
const WAYS: [Scheduling; 3] = [
    Scheduling::Fixed(Execution::Plain),
    Scheduling::Fixed(Execution::Interleaved),
    Scheduling::Auto,
];
const ROUNDS: usize = 31;
const ZIPF_EXPONENT: f64 = 0.99;

/// The index of the last value not above `key`, or 0. Of an array that is not empty.
fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
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

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to 1, 1 excluded.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// An index below `len`: each equally likely, or the n-th most likely with a probability of about
/// n to the power of -0.99, the likely ones spread over the array.
fn index(random: &mut Random, len: usize, zipf: bool) -> usize {
    if !zipf {
        return (random.next() % len as u64) as usize;
    }
    // The inverse of the integral that approximates the sum of probabilities.
    let power = 1.0 - ZIPF_EXPONENT;
    let sum = ((len as f64 + 1.0).powf(power) - 1.0) / power;
    let rank = (1.0 + random.fraction() * sum * power).powf(1.0 / power) - 1.0;
    let spread = (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * len as u128) >> 64) as usize
}

fn measure(kib: usize, zipf: bool) {
    // Value = 2 * index, so that the right answer to every key, present or absent, is key / 2. A little
    // more than asked for, so that halvings do not compete for the same cache sets.
    let values = kib * 1024 / size_of::<u32>() + 256;
    let sorted: &[u32] = &(0..values as u32)
        .map(|index| 2 * index)
        .collect::<Vec<_>>();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let gate = Gate::new(GroupSize::DEFAULT);

    let mut times_ns = [const { Vec::new() }; 3];
    let mut ranks = vec![usize::MAX; SEARCHES];
    for _ in 0..ROUNDS {
        for (way, times_ns) in WAYS.into_iter().zip(&mut times_ns) {
            let keys: Vec<u32> =
                std::iter::repeat_with(|| 2 * index(&mut random, values, zipf) as u32)
                    .take(SEARCHES)
                    .collect();
            let mut lookups = Lookups::new(way);
            let start = Instant::now();
            lookups.run(&gate, SEARCHES, |execution, size, part| {
                let (keys, ranks) = (&keys[part.clone()], &mut ranks[part]);
                in_mode!(execution, M => map_into(
                    size,
                    keys,
                    |cx: Cx<M>, &key: &u32| search(cx, sorted, key),
                    ranks,
                ))
            });
            times_ns.push(start.elapsed().as_nanos() as f64 / SEARCHES as f64);
            for (&key, rank) in keys.iter().zip(&mut ranks) {
                assert_eq!(*rank, key as usize / 2, "wrong answer to {key}");
                *rank = usize::MAX;
            }
        }
    }
    let [plain_ns, interleaved_ns, gated_ns] = times_ns.map(|mut times_ns| {
        times_ns.sort_by(f64::total_cmp);
        times_ns[ROUNDS / 4]
    });
    println!(
        "{kib:>8} KiB {:>8} {plain_ns:>8.1} {interleaved_ns:>12.1} {gated_ns:>8.1} {:>12} {:>7.2}",
        if zipf { "zipf" } else { "uniform" },
        gate.execution(),
        gated_ns / plain_ns.min(interleaved_ns),
    );
}

fn main() -> ExitCode {
    let sizes: Result<Vec<usize>, _> = std::env::args().skip(1).map(|kib| kib.parse()).collect();
    let sizes = match sizes {
        Ok(sizes) if sizes.is_empty() => (4..=18).step_by(2).map(|bits| 1 << bits).collect(),
        Ok(sizes) if sizes.iter().all(|kib| (1..=8 << 20).contains(kib)) => sizes,
        _ => {
            eprintln!("usage: residency [KIB...], each from 1 to {}", 8 << 20);
            return ExitCode::FAILURE;
        }
    };
    println!("ns per search, lower quartile of {ROUNDS} rounds of {SEARCHES} fresh keys");
    println!("       array     keys    plain  interleaved    gated     gate took  gated/better");
    for kib in sizes {
        measure(kib, false);
        measure(kib, true);
    }
    ExitCode::SUCCESS
}
