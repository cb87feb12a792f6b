//! Probes of a hash index and searches of a sorted slice, plain against interleaved.
//!
//! ```text
//! cargo run --release -p tierra-index --example probes -- [ENTRIES]
//! ```
//!
//! Builds both over the same keys (4 million unless told otherwise), looks up 100,000 random keys,
//! half of them present, checks that both modes give the same and right answers, and prints the
//! best of several alternating rounds.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tierra_index::{HashIndex, lower_bound};
use tierra_interleave::{Cx, Execution, GroupSize, in_mode, map_into};

const LOOKUPS: usize = 100_000;
const ROUNDS: usize = 10;

fn main() -> ExitCode {
    let entries = match std::env::args()
        .nth(1)
        .map(|entries| entries.parse::<u64>())
    {
        None => 4_000_000,
        Some(Ok(entries @ 1..=1_000_000_000)) => entries,
        Some(_) => {
            eprintln!("usage: probes [ENTRIES], from 1 to 1000000000");
            return ExitCode::FAILURE;
        }
    };
    // Even keys are present: key 2 * row leads to row.
    let pairs: Vec<(u64, u64)> = (0..entries).map(|row| (2 * row, row)).collect();
    let sorted: Vec<u64> = pairs.iter().map(|&(key, _)| key).collect();
    let start = Instant::now();
    let mut index = HashIndex::with_capacity(pairs.len());
    index.insert_all(&pairs);
    let built = start.elapsed();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let keys: Vec<u64> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % (2 * entries)
    })
    .take(LOOKUPS)
    .collect();

    let mut rows = vec![None; LOOKUPS];
    let mut ranks = vec![0; LOOKUPS];
    let mut best = [[Duration::MAX; 2]; 2];
    for _ in 0..ROUNDS {
        for (execution, [probe, search]) in Execution::ALL.into_iter().zip(&mut best) {
            rows.fill(None);
            ranks.fill(usize::MAX);
            let group = GroupSize::DEFAULT;
            let start = Instant::now();
            in_mode!(execution, M => map_into(
                group, &keys, |cx: Cx<M>, &key| index.get(cx, key), &mut rows));
            *probe = start.elapsed().min(*probe);
            let start = Instant::now();
            in_mode!(execution, M => map_into(
                group, &keys, |cx: Cx<M>, &key| lower_bound(cx, &sorted, key), &mut ranks));
            *search = start.elapsed().min(*search);
            for ((&key, &row), &rank) in keys.iter().zip(&rows).zip(&ranks) {
                assert_eq!(
                    row,
                    (key % 2 == 0).then_some(key / 2),
                    "row of {key}, {execution}"
                );
                assert_eq!(rank as u64, key.div_ceil(2), "rank of {key}, {execution}");
            }
        }
    }

    println!(
        "{entries} entries; index of {} MiB built in {} ms; ns per lookup:",
        index.bytes() >> 20,
        built.as_millis()
    );
    println!("{:>12} {:>12} {:>12}", "", "hash index", "lower bound");
    for (execution, times) in Execution::ALL.into_iter().zip(best) {
        let [probe, search] = times.map(|time| time.as_nanos() as f64 / LOOKUPS as f64);
        println!("{execution:>12} {probe:>12.1} {search:>12.1}");
    }
    ExitCode::SUCCESS
}
