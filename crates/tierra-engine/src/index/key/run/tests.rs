//! A run's promises: it finds exactly what was pushed for any normalized keys, and uses no unchecked byte.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use tierra_interleave::{Interleaved, Plain};

use super::build::{BuiltRun, RunBuilder};
use super::layout::{Directory, Entry, leaves_at};
use super::merge::merge;
use super::search::{Leaves, Sought};

fn built(entries: &[Entry]) -> BuiltRun {
    let mut builder = RunBuilder::default();
    for (normalized_key, row) in entries {
        builder.push(*normalized_key, *row);
    }
    builder.finish()
}

fn stored(entries: &[Entry]) -> Vec<u8> {
    let built = built(entries);
    let mut bytes = vec![0xff; built.len_bytes()];
    built.write(&mut bytes);
    bytes
}

/// Numbers that look random, the same for each seed.
fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

fn sought_of(normalized_keys: &[u64]) -> Vec<Sought> {
    let normalized_keys = normalized_keys.iter().enumerate();
    normalized_keys
        .map(|(place, normalized_key)| Sought::of(*normalized_key, place))
        .collect()
}

/// Finds each of `normalized_keys`, alone and together with the others, and all rows of each.
fn check(entries: &[Entry], normalized_keys: impl Iterator<Item = u64>) {
    let bytes = stored(entries);
    let directory = Directory::read(&bytes).unwrap();
    let leaves_from = leaves_at(directory.len());
    let leaves = Leaves::new(directory);
    let normalized_keys: Vec<u64> = normalized_keys
        .filter(|normalized_key| leaves.may_have(*normalized_key))
        .collect();
    let mut sought = sought_of(&normalized_keys);
    let (mut plain, mut interleaved) = (
        vec![None; normalized_keys.len()],
        vec![None; normalized_keys.len()],
    );
    leaves.seek::<Plain>(&mut sought);
    let bytes = &bytes[leaves_from..];
    leaves.first_rows::<Plain>(bytes, &sought, |at, row| plain[at] = row);
    let tell = |at: usize, row| interleaved[at] = row;
    leaves.first_rows::<Interleaved>(bytes, &sought, tell);
    for ((normalized_key, sought), (plain, interleaved)) in normalized_keys
        .iter()
        .zip(sought)
        .zip(plain.into_iter().zip(interleaved))
    {
        let start = entries.partition_point(|entry| entry.0 < *normalized_key);
        let end = entries.partition_point(|entry| entry.0 <= *normalized_key);
        let expected: Vec<u64> = entries[start..end].iter().map(|entry| entry.1).collect();
        let all: Vec<u64> = leaves.all_rows(bytes, sought).collect();
        assert_eq!(all, expected, "{normalized_key}");
        assert_eq!(plain, interleaved, "{normalized_key}");
        assert_eq!(plain.is_some(), !expected.is_empty(), "{normalized_key}");
        assert!(
            plain.is_none_or(|row| expected.contains(&row)),
            "{normalized_key}"
        );
    }
}

/// Normalized keys around every `step`-th one, and at both ends.
fn around(entries: &[Entry], step: usize) -> impl Iterator<Item = u64> {
    let some = entries.iter().step_by(step);
    some.chain(entries.last()).flat_map(|(normalized_key, _)| {
        [
            normalized_key.wrapping_sub(1),
            *normalized_key,
            normalized_key.wrapping_add(1),
        ]
    })
}

#[test]
fn keys_of_every_kind_are_found() {
    const ROWS: u64 = 30_000;
    let in_order = |normalized_key: fn(u64) -> u64| -> Vec<Entry> {
        (0..ROWS)
            .map(|row| (normalized_key(row), (1 << 20) + row))
            .collect()
    };
    let mut hashes: Vec<Entry> = random(1).take(ROWS as usize).zip(0..).collect();
    hashes.sort_unstable();
    let mut rows_at_random: Vec<Entry> = (0..ROWS)
        .zip(random(2).map(|row| row % (1 << 52)))
        .collect();
    rows_at_random.sort_unstable();
    for (name, entries) in [
        ("dense", in_order(|row| row)),
        ("to the last", in_order(|row| u64::MAX - (ROWS - 1) + row)),
        ("with gaps", in_order(|row| row / 8 * 32 + row % 8)),
        ("ever wider", in_order(|row| row * row * row)),
        (
            "two clusters",
            in_order(|row| row + row / 20_000 * (1 << 63)),
        ),
        (
            "every power of two",
            (0..64).map(|bit| (1 << bit, bit)).collect(),
        ),
        ("hashes", hashes),
        ("rows at random", rows_at_random),
        ("alone", vec![(7, 9)]),
    ] {
        println!("{name}");
        check(&entries, around(&entries, 7).chain([0, u64::MAX]));
        let read: Vec<Entry> = built(&entries).iter().collect();
        assert!(read == entries, "{name}");
    }
}

#[test]
fn equal_keys_are_all_found_even_in_several_leaves() {
    let mut entries: Vec<Entry> = (0..20_000).map(|row| (5 + row / 9_000 * 3, row)).collect();
    entries.extend((0..50_000).map(|row| (1000, 20_000 + row)));
    entries.push((1001, 3));
    check(&entries, (0..20).chain(999..1003));
}

#[test]
fn keys_in_order_take_few_bytes_and_few_lines_of_near_memory() {
    let dense: Vec<Entry> = (0..1 << 20)
        .map(|row| (1000 + row, (7 << 20) + row))
        .collect();
    let (bytes, per_row) = (stored(&dense).len(), |bytes: usize| {
        bytes as f64 / dense.len() as f64
    });
    assert!(per_row(bytes) < 1.6, "{bytes}");
    let near = Leaves::new(Directory::read(&stored(&dense)).unwrap()).near_bytes();
    assert!(per_row(near) < 0.03, "{near}");
    let mut hashes: Vec<Entry> = random(3).take(1 << 20).zip(0..).collect();
    hashes.sort_unstable();
    let bytes = stored(&hashes);
    assert!(per_row(bytes.len()) < 9.5, "{}", bytes.len());
    let near = Leaves::new(Directory::read(&bytes).unwrap()).near_bytes();
    assert!(per_row(near) < 0.13, "{near}");
}

#[test]
fn the_bytes_stay_what_they_are() {
    let entries: Vec<Entry> = (0..3000)
        .map(|row| (row * row, ((3 << 20) + row) ^ 5))
        .collect();
    let bytes = stored(&entries);
    assert_eq!((bytes[4], bytes.len()), (1, 10_496));
    assert_eq!(crc32c::crc32c(&bytes), 1_626_367_957);
}

#[test]
fn leaves_that_follow_each_other_are_one_run() {
    let entries: Vec<Entry> = (0..10_000).map(|row| (3 * row, row)).collect();
    let mut joined = BuiltRun::default();
    for part in entries.chunks(3_000) {
        joined.append(built(part));
    }
    assert!(joined.iter().eq(entries.iter().copied()));
    let mut bytes = vec![0; joined.len_bytes()];
    joined.write(&mut bytes);
    assert_eq!(Directory::read(&bytes).unwrap(), joined.directory);
}

#[test]
fn what_is_sorted_alone_becomes_a_run() {
    let entries: Vec<Entry> = (0..5_000).map(|row| (row / 3, row)).collect();
    let go_on = AtomicBool::new(false);
    let merged = merge(&[], &entries, &go_on).unwrap();
    assert!(merged.iter().eq(entries.iter().copied()));
    let none = merge(&[], &[], &go_on).unwrap();
    assert!(none.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_keys_are_found(
        normalized_keys in prop::collection::vec((any::<u64>(), 0..64_u32), 1..3_000),
        strangers in prop::collection::vec((any::<u64>(), 0..64_u32), 0..200),
    ) {
        let normalized_keys: BTreeSet<u64> = normalized_keys.into_iter().map(|(normalized_key, bits)| normalized_key >> bits).collect();
        let entries: Vec<Entry> = normalized_keys.into_iter().zip(random(4).map(|row| row % (1 << 30))).collect();
        let strangers = strangers.into_iter().map(|(normalized_key, bits)| normalized_key >> bits);
        check(&entries, around(&entries, 1).chain(strangers));
    }

    /// Bytes with valid checksums and hostile content: an error, or answers without a panic.
    #[test]
    fn hostile_bytes_are_errors_or_answers(
        changes in prop::collection::vec((0..4096_usize, any::<u8>()), 1..8),
        in_leaves in any::<bool>(),
        cut in 0..20_000_usize,
    ) {
        let mut entries: Vec<Entry> = random(5).take(1_500).zip(0..).collect();
        entries.sort_unstable();
        let mut bytes = stored(&entries);
        let leaves_from = leaves_at(Directory::read(&bytes).unwrap().len());
        for (at, value) in changes {
            match in_leaves {
                true => bytes[leaves_from + at] = value,
                false => bytes[8 + at % (leaves_from - 8)] = value,
            }
        }
        if cut % 5 == 0 {
            bytes.truncate(cut % bytes.len());
        }
        if bytes.len() >= leaves_from {
            let crc = crc32c::crc32c(&bytes[64..leaves_from]);
            bytes[56..60].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32c::crc32c(&bytes[..60]);
            bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        }
        if let Ok(directory) = Directory::read(&bytes) {
            let leaves_from = leaves_at(directory.len());
            let leaves = Leaves::new(directory);
            let normalized_keys = around(&entries, 10).filter(|normalized_key| leaves.may_have(*normalized_key));
            let mut sought = sought_of(&normalized_keys.collect::<Vec<_>>());
            leaves.seek::<Plain>(&mut sought);
            let bytes = &bytes[leaves_from..];
            leaves.first_rows::<Interleaved>(bytes, &sought, |_, _| {});
            for sought in sought {
                leaves.all_rows(bytes, sought).for_each(drop);
            }
        }
    }
}
