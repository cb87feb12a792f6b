//! Whatever a client sends is answered in the protocol, and the server goes on; whatever is restored is a value or an error.
//!
//! The code and the seeds are those of the fuzz targets `protocol`, `server` and `dump`; here mutations are drawn at random. A
//! failure prints what was sent.

#[path = "../../../../fuzz/src/dump.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
mod dump;

#[path = "../../../../fuzz/src/protocol.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
mod protocol;

use std::path::Path;

use proptest::prelude::*;

/// The seeds of a target, each with its options in front.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new("../../fuzz/seeds").join(target);
    let files = std::fs::read_dir(&directory).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn seeds_keep_their_promises() {
    let requests = seeds("protocol");
    assert!(requests.len() >= 11, "{} seeds", requests.len());
    for seed in requests {
        protocol::check(seed[0], &seed[1..]);
        protocol::serve(&seed[1..]);
    }
    let payloads = seeds("dump");
    assert!(payloads.len() >= 11, "{} seeds", payloads.len());
    for seed in payloads {
        dump::check(seed[0], &seed[1..]);
        dump::check(seed[0] ^ 1, &seed[1..]);
    }
}

/// What a mutation does to bytes at a place.
#[derive(Clone, Debug)]
enum Change {
    Set(u8),
    Insert(Vec<u8>),
    Remove(usize),
    Repeat(usize),
    /// Another seed begins here.
    Join(prop::sample::Index),
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Change)>> {
    let bytes = || {
        prop_oneof![
            Just(b'*'),
            Just(b'$'),
            Just(b'\r'),
            Just(b'\n'),
            Just(b'-'),
            b'0'..=b'9',
            any::<u8>()
        ]
    };
    let change = prop_oneof![
        4 => bytes().prop_map(Change::Set),
        2 => prop::collection::vec(bytes(), 1..5).prop_map(Change::Insert),
        2 => (1usize..20).prop_map(Change::Remove),
        1 => (1usize..60).prop_map(Change::Repeat),
        1 => any::<prop::sample::Index>().prop_map(Change::Join),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), change), 1..6)
}

fn forge(seed: &[u8], seeds: &[Vec<u8>], changes: Vec<(prop::sample::Index, Change)>) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (at, change) in changes {
        let at = at.index(bytes.len() + 1);
        let some = |len: usize| at..(at + len).min(bytes.len());
        match change {
            Change::Set(byte) => {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            Change::Insert(more) => _ = bytes.splice(at..at, more),
            Change::Remove(len) => _ = bytes.drain(some(len)),
            Change::Repeat(len) => {
                let more = bytes[some(len)].to_vec();
                bytes.splice(at..at, more);
            }
            Change::Join(other) => bytes.extend_from_slice(&other.get(seeds)[1..]),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn forged_requests_are_answered_or_refused(seed: prop::sample::Index, changes in changes()) {
        let seeds = seeds("protocol");
        let bytes = forge(&seeds[seed.index(seeds.len())], &seeds, changes);
        if let [options, bytes @ ..] = &bytes[..] {
            protocol::check(*options, bytes);
            protocol::serve(bytes);
        }
    }

    #[test]
    fn forged_payloads_are_values_or_refused(seed: prop::sample::Index, changes in changes()) {
        let seeds = seeds("dump");
        let bytes = forge(&seeds[seed.index(seeds.len())], &seeds, changes);
        if let [options, value @ ..] = &bytes[..] {
            dump::check(*options, value);
        }
    }
}
