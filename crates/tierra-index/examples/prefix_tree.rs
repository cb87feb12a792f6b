//! Ranks among sorted strings: the prefix tree against binary search.
//!
//! ```text
//! cargo run --release -p tierra-index --example prefix_tree -- [STRINGS...]
//! ```
//!
//! Looks up strings of 15 letters, of which 100,000, 1 and 8 million are made (or the numbers given),
//! drawn anew for each way in each round; every answer is checked. The strings lie one behind the other
//! with 16 bytes for each that say where, as in a dictionary. Prints medians.

use std::process::ExitCode;
use std::time::Instant;

use tierra_index::{PrefixTree, SortedStrings};
use tierra_interleave::{Cx, GroupSize, Interleaved, Mode, Plain, map_into};

const LOOKUPS: usize = 20_000;
const ROUNDS: usize = 11;
const LETTERS: usize = 15;
const STRINGS_MAX: usize = 100_000_000;

/// Where each string begins and ends.
struct Strings {
    places: Vec<(usize, usize)>,
    bytes: Vec<u8>,
}

impl SortedStrings for Strings {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, rank: usize) -> &[u8] {
        let (from, to) = self.places[rank];
        &self.bytes[from..to]
    }

    async fn load<M: Mode>(&self, cx: Cx<M>, rank: usize) -> &[u8] {
        let &(from, to) = cx.load(&self.places[rank]).await;
        cx.load_bytes(&self.bytes[from..to]).await
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Looks up all strings and writes the rank of each.
type Way<'a> = dyn Fn(&[Vec<u8>], &mut [Option<usize>]) + 'a;

fn main() -> ExitCode {
    let counts: Result<Vec<usize>, _> = std::env::args().skip(1).map(|arg| arg.parse()).collect();
    let mut counts = match counts {
        Ok(counts) if counts.iter().all(|count| (1..=STRINGS_MAX).contains(count)) => counts,
        _ => {
            eprintln!("usage: prefix_tree [STRINGS...], from 1 to {STRINGS_MAX}");
            return ExitCode::FAILURE;
        }
    };
    if counts.is_empty() {
        counts = vec![100_000, 1_000_000, 8_000_000];
    }
    println!("ns per lookup, medians of {ROUNDS} rounds of {LOOKUPS}");
    counts.into_iter().for_each(measure);
    ExitCode::SUCCESS
}

fn measure(count: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let strings = make(count, &mut random);
    let count = strings.len();
    let start = Instant::now();
    let tree = PrefixTree::new(&strings);
    let built_ms = start.elapsed().as_secs_f64() * 1e3;

    let ways: [(&str, &Way<'_>); 5] = [
        ("tree batched", &|wanted, ranks| {
            tree.find_all::<Interleaved, _, _>(
                GroupSize::DEFAULT,
                &strings,
                wanted,
                |index, rank| ranks[index] = rank,
            );
        }),
        ("tree interleaved", &|wanted, ranks| {
            map_into(
                GroupSize::DEFAULT,
                wanted,
                |cx: Cx<Interleaved>, wanted| tree.find(cx, &strings, wanted),
                ranks,
            );
        }),
        ("keys interleaved", &|wanted, ranks| {
            map_into(
                GroupSize::DEFAULT,
                wanted,
                |cx: Cx<Interleaved>, wanted| tree.find_by_binary_search(cx, &strings, wanted),
                ranks,
            );
        }),
        ("keys plain", &|wanted, ranks| {
            map_into(
                GroupSize::DEFAULT,
                wanted,
                |cx: Cx<Plain>, wanted| tree.find_by_binary_search(cx, &strings, wanted),
                ranks,
            );
        }),
        ("binary_search", &|wanted, ranks| {
            for (wanted, rank) in wanted.iter().zip(ranks) {
                let found = strings
                    .places
                    .binary_search_by(|&(from, to)| strings.bytes[from..to].cmp(wanted));
                *rank = found.ok();
            }
        }),
    ];
    let mut samples_ns = ways.each_ref().map(|_| Vec::new());
    let mut ranks = vec![None; LOOKUPS];
    for _ in 0..ROUNDS {
        for ((_, way), samples_ns) in ways.iter().zip(&mut samples_ns) {
            let places = || Some((random.next() % count as u64) as usize);
            let expected: Vec<Option<usize>> =
                std::iter::repeat_with(places).take(LOOKUPS).collect();
            let wanted: Vec<Vec<u8>> = expected
                .iter()
                .flatten()
                .map(|&rank| strings.get(rank).to_vec())
                .collect();
            ranks.fill(None);
            let start = Instant::now();
            way(&wanted, &mut ranks);
            samples_ns.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            assert!(ranks == expected, "wrong ranks");
        }
    }

    let per_string = tree.len_bytes() as f64 / count as f64;
    println!(
        "\n{count} strings; index of {per_string:.1} bytes a string built in {built_ms:.1} ms"
    );
    let medians_ns = samples_ns.map(|mut samples| {
        samples.sort_unstable_by(f64::total_cmp);
        samples[samples.len() / 2]
    });
    for ((name, _), ns) in ways.iter().zip(medians_ns) {
        println!(
            "{name:>20} {ns:>8.1} {:>6.1}x",
            medians_ns[ways.len() - 1] / ns
        );
    }
}

/// Distinct strings in order, shuffled in memory: a dictionary's strings lie as they arrived.
fn make(count: usize, random: &mut Random) -> Strings {
    let mut bytes = vec![0; count * LETTERS];
    for letter in &mut bytes {
        *letter = b'a' + (random.next() >> 32) as u8 % 26;
    }
    let string = |number: usize| number * LETTERS..(number + 1) * LETTERS;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| bytes[string(a)].cmp(&bytes[string(b)]));
    order.dedup_by(|a, b| bytes[string(*a)] == bytes[string(*b)]);
    let places = order
        .into_iter()
        .map(|number| (string(number).start, string(number).end));
    Strings {
        places: places.collect(),
        bytes,
    }
}
