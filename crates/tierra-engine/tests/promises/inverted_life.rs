//! Promise: an inverted index follows loads, seals, merges and restarts by itself, whatever is asked meanwhile,
//! and gives its space back.

use std::path::Path;
use std::sync::Arc;

use crate::support::indexed::{Fixture, NUMBER, TEXT, ids, in_list, options, spread};
use crate::support::{scan, used_bytes};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use proptest::prelude::*;
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{ColumnSpec, Database, IndexKind, TableSpec};
use tierra_memory::Speed;

#[test]
fn small_segments_are_joined_so_that_parts_stay_few() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(spread(0..70_000));
    let mut most = 0;
    for step in 0..24 {
        t.append(spread(70_000 + step * 600..70_000 + (step + 1) * 600));
        t.table.seal().unwrap();
        let snapshot = t.settled();
        let sealed = snapshot.rows() - snapshot.tail_rows();
        assert_eq!(snapshot.indexed_rows(NUMBER), sealed);
        most = most.max(t.parts(&snapshot));
    }
    let snapshot = t.settled();
    assert_eq!(snapshot.segments().len(), 25);
    assert!((2..=8).contains(&most), "{most} parts");
    let values: Vec<i32> = (0..84_000)
        .step_by(1_201)
        .map(|row| (i64::from(row) * 7_919 % 1_000_003) as i32)
        .collect();
    t.check(&snapshot, &values);
    // Rows of the tail are in no index yet.
    t.append([Some(values[3]), None, Some(-77)]);
    let snapshot = t.table.snapshot();
    t.check(&snapshot, &[values[3], -77]);
}

#[test]
fn a_merge_of_the_dictionary_makes_the_index_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 1 << 30);
    t.load(spread(0..70_000));
    let old = t.settled();
    // New values, between the others: more than a tenth, so that a merge is due.
    t.load((0..70_000).map(|row| (row % 9 != 0).then_some(-row)));
    let snapshot = t.settled();
    let dictionary = snapshot.coded_dictionary(NUMBER).unwrap();
    assert_eq!((dictionary.generation(), dictionary.delta_len()), (2, 0));
    assert_eq!(snapshot.indexed_rows(NUMBER), 140_000);
    assert_eq!(t.parts(&snapshot), 1);
    let values: Vec<i32> = (0..70_000)
        .step_by(700)
        .map(|row| -row)
        .chain([0, 7_919])
        .collect();
    for counters in t.check(&snapshot, &values) {
        assert!(counters.index_lookups > 0);
    }
    // A snapshot from before goes on with its own index.
    let (rows, counters) = scan(&old, &[0], &[in_list(NUMBER, &[0, 7_919, -9])]);
    assert_eq!((ids(&rows), counters.blocks_read > 0), (vec![0, 1], true));
    assert!(counters.index_lookups > 0);
    // One more time, asked for.
    t.append([Some(-1_000_000)]);
    t.table.seal().unwrap();
    t.table.merge_dictionaries().unwrap();
    let snapshot = t.settled();
    assert_eq!(snapshot.coded_dictionary(NUMBER).unwrap().generation(), 3);
    assert_eq!(snapshot.indexed_rows(TEXT), 140_001);
    t.check(&snapshot, &[-1_000_000, 7_919]);
}

#[test]
fn an_index_is_there_after_opening_and_is_finished_if_it_was_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(spread(0..70_000));
    t.settled();
    // Closed before the background has come to it, perhaps.
    t.load(spread(70_000..140_000));
    let values = [0, 7_919, 999_999];
    let t = t.reopen(dir.path(), 0);
    let snapshot = t.settled();
    assert_eq!(snapshot.indexed_rows(NUMBER), 140_000);
    for counters in t.check(&snapshot, &values) {
        assert!(
            counters.index_lookups > 0 && counters.blocks_read <= 12,
            "{counters:?}"
        );
    }
    let bytes = used_bytes(&t.database);
    drop(snapshot);
    // The same near.
    let t = t.reopen(dir.path(), 1 << 30);
    let snapshot = t.settled();
    t.check(&snapshot, &values);
    drop(snapshot);
    let t = t.reopen(dir.path(), 0);
    assert_eq!(used_bytes(&t.database), bytes);
}

#[test]
fn dropping_a_table_gives_the_space_of_its_index_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 1 << 30);
    let before = used_bytes(&t.database);
    t.load(spread(0..70_000));
    let snapshot = t.settled();
    let bytes = snapshot.index_bytes(NUMBER);
    assert!(
        bytes > 70_000 * 17 / 8 && bytes < 70_000 * 3,
        "{bytes} bytes of rows by code"
    );
    assert!(used_bytes(&t.database) > before + bytes);
    drop(snapshot);
    let database = t.database.clone();
    drop(t);
    database.drop_table("t").unwrap();
    assert!(used_bytes(&database) <= before);
}

/// What somebody asked for comes before what is merely convenient.
#[test]
fn a_column_that_is_to_lie_near_comes_before_an_index() {
    let wide = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let create = |dir: &Path, near_memory_bytes| {
        let database = Database::create(dir, &options(near_memory_bytes)).unwrap();
        let table = database.create_table(TableSpec {
            name: "t".to_owned(),
            columns: vec![
                ColumnSpec {
                    near: Some(true),
                    encoding: Some(Encoding::Plain),
                    ..ColumnSpec::new("wide", LogicalType::BigInt).not_null()
                },
                ColumnSpec {
                    index: Some(IndexKind::Inverted),
                    ..ColumnSpec::new("number", LogicalType::Integer)
                },
            ],
            primary_key: vec![],
        });
        let table = table.unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values((0..70_000).map(wide))),
            Arc::new(spread(0..70_000).collect::<Int32Array>()),
        ];
        let rows = RecordBatch::try_new(table.schema(), columns).unwrap();
        table.append(&[rows]).unwrap();
        database.wait_for_near_copies().unwrap();
        (database, table.snapshot())
    };
    let dir = tempfile::tempdir().unwrap();
    let (_database, far) = create(&dir.path().join("far"), 0);
    let (wide_bytes, index_bytes) = (far.segments()[0].stored_bytes(0), far.index_bytes(1));
    let room = index_bytes / 2;
    assert!(wide_bytes > room, "{wide_bytes} bytes, room of {room}");
    // Both do not fit.
    let (database, snapshot) = create(&dir.path().join("near"), wide_bytes + room);
    assert_eq!(snapshot.segments()[0].speed(0), Speed::Near);
    drop((snapshot, database));
    let database = Database::open(&dir.path().join("near"), &options(wide_bytes + room)).unwrap();
    database.wait_for_near_copies().unwrap();
    let snapshot = database.table("t").unwrap().snapshot();
    assert_eq!(snapshot.segments()[0].speed(0), Speed::Near);
}

#[test]
fn a_column_of_nulls_has_nothing_to_index_until_values_come() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(std::iter::repeat_n(None, 70_000));
    let snapshot = t.settled();
    assert_eq!(t.parts(&snapshot), 0);
    t.check(&snapshot, &[1]);
    t.load(spread(0..70_000));
    let snapshot = t.settled();
    assert_eq!(snapshot.indexed_rows(NUMBER), 140_000);
    let [counters, _] = t.check(&snapshot, &[0, 7_919]);
    assert!(counters.index_lookups > 0);
}

/// Steps of a table's life.
#[derive(Debug, Clone)]
enum Step {
    Load(Vec<Option<i32>>),
    Append(Vec<Option<i32>>),
    Seal,
    Merge,
    Reopen,
    Wait,
    Look(Vec<i32>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = prop_oneof![8 => (0..400_i32).prop_map(Some), 1 => Just(None)];
    // Loads of fewer rows than this go to the tail.
    let many = (0..1000_i32, 1..2000_i32).prop_map(|(start, modulus)| {
        let number = move |row: i32| (row % 11 != 3).then_some((row * 37 + start) % modulus);
        Step::Load((0..66_000).map(number).collect())
    });
    let values = prop::collection::vec(-5..2000_i32, 0..40);
    let step = prop_oneof![
        1 => many,
        3 => prop::collection::vec(number, 1..300).prop_map(Step::Append),
        3 => Just(Step::Seal),
        1 => Just(Step::Merge),
        1 => Just(Step::Reopen),
        2 => Just(Step::Wait),
        4 => values.prop_map(Step::Look),
    ];
    prop::collection::vec(step, 4..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever has or has not been indexed yet, a list finds the rows that an oracle finds.
    #[test]
    fn answers_do_not_depend_on_what_is_indexed(steps in steps(), near in any::<bool>()) {
        let near = if near { 1 << 30 } else { 0 };
        let dir = tempfile::tempdir().unwrap();
        let mut t = Fixture::create(dir.path(), near);
        for step in steps.into_iter().chain([Step::Wait, Step::Look((0..60).collect())]) {
            match step {
                Step::Load(numbers) => t.load(numbers),
                Step::Append(numbers) => t.append(numbers),
                Step::Seal => t.table.seal().unwrap(),
                Step::Merge => t.table.merge_dictionaries().unwrap(),
                Step::Reopen => t = t.reopen(dir.path(), near),
                Step::Wait => {
                    t.settled();
                }
                Step::Look(values) => {
                    t.check(&t.table.snapshot(), &values);
                }
            }
        }
        let snapshot = t.settled();
        let has_values = t.numbers.iter().any(Option::is_some);
        if snapshot.segments().iter().any(|_| true) && has_values && snapshot.tail_rows() == 0 {
            prop_assert_eq!(snapshot.indexed_rows(NUMBER), snapshot.rows());
        }
    }
}
