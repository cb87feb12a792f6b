//! The promise of the hash index: it answers as a `HashMap<u64, Vec<u64>>` does, in every mode,
//! however it came by its entries and while it grows.

use std::collections::HashMap;

use proptest::prelude::*;
use tierra_index::HashIndex;
use tierra_interleave::{Cx, Execution, GroupSize, Mode, in_mode, map_into};

async fn all_rows<M: Mode>(cx: Cx<M>, index: &HashIndex, key: u64) -> Vec<u64> {
    let mut rows = Vec::new();
    let mut candidates = index.candidates(key);
    while let Some(row) = candidates.next(cx).await {
        rows.push(row);
    }
    rows.sort_unstable();
    rows
}

fn check(index: &HashIndex, oracle: &HashMap<u64, Vec<u64>>, keys: &[u64]) {
    assert_eq!(index.len(), oracle.values().map(Vec::len).sum::<usize>());
    assert_eq!(index.is_empty(), oracle.is_empty());
    for execution in Execution::ALL {
        let mut first = vec![None; keys.len()];
        let mut all = vec![Vec::new(); keys.len()];
        in_mode!(execution, M => {
            let group = GroupSize::DEFAULT;
            map_into(group, keys, |cx: Cx<M>, &key| index.get(cx, key), &mut first);
            map_into(group, keys, |cx: Cx<M>, &key| all_rows(cx, index, key), &mut all);
        });
        for ((key, first), all) in keys.iter().zip(first).zip(all) {
            let mut expected = oracle.get(key).cloned().unwrap_or_default();
            expected.sort_unstable();
            assert_eq!(all, expected, "{execution}: rows of {key}");
            match first {
                Some(row) => assert!(expected.contains(&row), "{execution}: a row of {key}"),
                None => assert!(expected.is_empty(), "{execution}: {key} has rows"),
            }
        }
    }
}

/// Few keys with several rows each, and the extremes.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, any::<u64>(), Just(u64::MAX), Just(u64::MAX - 1)]
}

proptest! {
    #[test]
    fn answers_as_the_standard_map(
        capacity in 0usize..500,
        one_by_one in prop::collection::vec((key(), 0u64..u64::MAX), 0..300),
        together in prop::collection::vec((key(), 0u64..u64::MAX), 0..300),
        absent in prop::collection::vec(key(), 0..50),
    ) {
        let mut index = HashIndex::with_capacity(capacity);
        let mut oracle: HashMap<u64, Vec<u64>> = HashMap::new();
        for &(key, row) in &one_by_one {
            index.insert(key, row);
            oracle.entry(key).or_default().push(row);
        }
        index.insert_all(&together);
        for &(key, row) in &together {
            oracle.entry(key).or_default().push(row);
        }
        let keys: Vec<u64> = oracle.keys().copied().chain(absent).collect();
        check(&index, &oracle, &keys);
    }
}

#[test]
fn growth_invalidates_no_answer() {
    let mut index = HashIndex::new();
    let mut oracle: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut next_check = 1;
    for row in 0..300_000u64 {
        // Every third key comes twice.
        let key = (row - u64::from(row % 4 == 3)).wrapping_mul(0x1234_5678_9abc_def1);
        index.insert(key, row);
        oracle.entry(key).or_default().push(row);
        if row + 1 == next_check {
            let mut keys: Vec<u64> = oracle.keys().copied().collect();
            keys.extend(1..100);
            check(&index, &oracle, &keys);
            next_check *= 3;
        }
    }
    let keys: Vec<u64> = oracle.keys().copied().collect();
    check(&index, &oracle, &keys);
}

#[test]
fn memory_stays_within_its_bound() {
    let mut index = HashIndex::new();
    for row in 0..1_000_000u64 {
        index.insert(row, row);
        if row > 1_000 && row.is_multiple_of(9_973) {
            // 16 bytes an entry at a load between just under 40 % and 80 %.
            let per_entry = index.bytes() as f64 / row as f64;
            assert!(
                (19.0..43.0).contains(&per_entry),
                "{per_entry} bytes per entry at {row}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "the greatest u64 is no row")]
fn the_vacant_row_is_refused() {
    HashIndex::new().insert(1, u64::MAX);
}
