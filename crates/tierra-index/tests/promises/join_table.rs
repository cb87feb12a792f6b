//! The promise of the join table: it answers as a `HashMap<u64, Vec<u32>>` does, in every mode and
//! however many threads have built it.

use std::collections::HashMap;

use proptest::prelude::*;
use tierra_index::{JoinMatch, JoinRows, JoinTable};
use tierra_interleave::{Cx, Execution, GroupSize, in_mode, map_into};

/// Builds a table of `keys` without the rows that `has_key` leaves out, and compares it with a map on all
/// of its keys and `others`.
fn check(keys: &[u64], has_key: impl Fn(usize) -> bool + Sync, threads: usize, others: &[u64]) {
    let table = JoinTable::build(keys, &has_key, threads);
    let mut oracle: HashMap<u64, Vec<u32>> = HashMap::new();
    for (row, key) in keys.iter().enumerate().filter(|(row, _)| has_key(*row)) {
        oracle.entry(*key).or_default().push(row as u32);
    }
    assert_eq!(table.keys(), oracle.len());
    assert_eq!(table.rows_with_key(), oracle.values().map(Vec::len).sum());
    let wanted: Vec<u64> = keys.iter().chain(others).copied().collect();
    for execution in Execution::ALL {
        let mut found = vec![JoinMatch::default(); wanted.len()];
        let report = in_mode!(execution, M => map_into(
            GroupSize::DEFAULT, &wanted, |cx: Cx<M>, &key| table.find(cx, key), &mut found));
        assert_eq!(report.lookups, wanted.len() as u64);
        for (key, found) in wanted.iter().zip(found) {
            let rows = match table.rows(found) {
                JoinRows::None => Vec::new(),
                JoinRows::One(row) => vec![row],
                JoinRows::Many(rows) => rows.to_vec(),
            };
            assert_eq!(found.is_some(), !rows.is_empty());
            let expected = oracle.get(key).cloned().unwrap_or_default();
            assert_eq!(rows, expected, "{execution}: rows of {key}");
        }
    }
}

/// Few keys with several rows each, and the extremes.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, any::<u64>(), Just(0), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn answers_as_the_standard_map(
        keys in prop::collection::vec(key(), 0..400),
        without in prop::collection::vec(any::<bool>(), 400),
        others in prop::collection::vec(key(), 0..50),
        threads in 1usize..4,
    ) {
        check(&keys, |_| true, threads, &others);
        check(&keys, |row| !without[row], threads, &others);
    }
}

fn mixed(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn tables_of_one_part_and_of_several_around_the_boundary() {
    // 8,192 buckets of three expected keys are the largest table of one part.
    let boundary = 3 << 13;
    for rows in [
        1,
        2,
        3,
        4,
        boundary - 1,
        boundary,
        boundary + 1,
        3 * boundary,
    ] {
        for threads in [1, 2, 5] {
            let unique: Vec<u64> = (0..rows).map(mixed).collect();
            let others: Vec<u64> = (rows..rows + 100).map(mixed).collect();
            check(&unique, |_| true, threads, &others);
            // Keys that are their own rows; a few rows each; every third without a key.
            let dense: Vec<u64> = (0..rows).map(|i| i / 3).collect();
            check(&dense, |row| row % 3 != 1, threads, &[rows, u64::MAX]);
        }
    }
}

#[test]
fn one_key_may_have_all_rows() {
    let keys = vec![7; 200_000];
    check(&keys[..1000], |_| true, 1, &[0, 8]);
    let table = JoinTable::build(&keys, |_| true, 3);
    let found = tierra_interleave::run_plain(|cx| table.find(cx, 7));
    let rows: Vec<u32> = (0..200_000).collect();
    assert_eq!(table.rows(found), JoinRows::Many(&rows));
    assert_eq!(table.keys(), 1);
}

#[test]
fn nothing_is_found_where_nothing_is() {
    check(&[], |_| true, 4, &[0, 1, u64::MAX]);
    check(&[0, 0, 1], |_| false, 4, &[0, 1, u64::MAX]);
}

/// A table takes no more than was said before it was built.
#[test]
fn the_bytes_of_a_table_are_known_before() {
    for rows in [0, 1, 1000, 100_000, 1_000_000] {
        for rows_per_key in [1, 2, 50] {
            let keys: Vec<u64> = (0..rows as u64)
                .map(|row| mixed(row / rows_per_key))
                .collect();
            let table = JoinTable::build(&keys, |_| true, 2);
            let fixed = 1000 + table.keys() / 100;
            assert!(
                table.bytes() <= JoinTable::bytes_to_build(rows) + fixed,
                "{rows} {rows_per_key}"
            );
        }
    }
}
