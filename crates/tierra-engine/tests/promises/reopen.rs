//! Whatever is done to a table, in whatever order, it holds what a plain list of rows would hold,
//! and holds it again after it was closed and opened.

use std::sync::Arc;

use crate::support::{self, all_rows, options, rows, sorted, spec};
use proptest::prelude::*;
use tierra_engine::{Database, DatabaseOptions, Table};

#[derive(Clone, Debug)]
enum Step {
    Append(i64),
    AppendOneByOne(i64),
    Load(i64),
    LoadAndDrop(i64),
    Seal,
    Merge,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..3_000_i64).prop_map(Step::Append),
        2 => (1..40_i64).prop_map(Step::AppendOneByOne),
        2 => prop_oneof![1..100_i64, 65_535..65_538_i64, 65_536..90_000_i64].prop_map(Step::Load),
        1 => (1..90_000_i64).prop_map(Step::LoadAndDrop),
        2 => Just(Step::Seal),
        1 => Just(Step::Merge),
        3 => Just(Step::Reopen),
    ]
}

fn load(table: &Arc<Table>, first: i64, count: i64) -> tierra_engine::Loader {
    let mut loader = table.loader();
    for start in (first..first + count).step_by(7_000) {
        loader
            .push(rows(start..(start + 7_000).min(first + count)))
            .unwrap();
    }
    loader
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_table_holds_what_a_list_would(steps in prop::collection::vec(step(), 1..12), keyed: bool) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db");
        let mut database = Database::create(&dir, &options()).unwrap();
        let key = if keyed { vec![0] } else { vec![] };
        let mut table = database.create_table(spec("t", key)).unwrap();
        let mut count = 0;
        for step in steps {
            match step {
                Step::Append(rows_more) => {
                    let middle = count + rows_more / 3;
                    table.append(&[rows(count..middle), rows(middle..count + rows_more)]).unwrap();
                    count += rows_more;
                }
                Step::AppendOneByOne(rows_more) => {
                    for id in count..count + rows_more {
                        table.append(&[rows(id..id + 1)]).unwrap();
                    }
                    count += rows_more;
                }
                Step::Load(rows_more) => {
                    let report = load(&table, count, rows_more).finish().unwrap();
                    prop_assert_eq!(report.rows as i64, rows_more);
                    count += rows_more;
                }
                Step::LoadAndDrop(rows_more) => drop(load(&table, count, rows_more)),
                Step::Seal => table.seal().unwrap(),
                Step::Merge => table.merge_dictionaries().unwrap(),
                Step::Reopen => {
                    drop((table, database));
                    database = Database::open(&dir, &options()).unwrap();
                    table = database.table("t").unwrap();
                }
            }
            prop_assert_eq!(table.snapshot().rows() as i64, count);
        }
        prop_assert_eq!(all_rows(&table), rows(0..count));
        drop((table, database));
        let database = Database::open(&dir, &options()).unwrap();
        let table = database.table("t").unwrap();
        prop_assert_eq!(all_rows(&table), rows(0..count));
    }
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_table_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    load(&table, 0, 70_000).finish().unwrap();
    table.append(&[rows(70_000..70_500)]).unwrap();
    let before = table.snapshot();
    let projection: Vec<usize> = (0..10).collect();
    table.append(&[rows(70_500..71_000)]).unwrap();
    table.seal().unwrap();
    table.merge_dictionaries().unwrap();
    load(&table, 71_000, 70_000).finish().unwrap();
    database.drop_table("t").unwrap();
    // Space that is free now is used by others.
    let other = database.create_table(spec("other", vec![])).unwrap();
    load(&other, 500_000, 200_000).finish().unwrap();
    let (seen, _) = support::scan(&before, &projection, &[]);
    assert_eq!(sorted(&seen), rows(0..70_500));
    assert!(
        table.append(&[rows(0..1)]).is_err(),
        "the table was dropped"
    );
}

#[test]
fn tables_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let first = database.create_table(spec("a", vec![])).unwrap();
    assert!(
        database.create_table(spec("a", vec![])).is_err(),
        "the name is taken"
    );
    database.create_table(spec("b", vec![0])).unwrap();
    first.append(&[rows(0..10)]).unwrap();
    database.create_table(spec("c", vec![])).unwrap();
    assert!(database.drop_tables(&["c", "nosuch"]).is_err());
    assert_eq!(database.tables(), ["a", "b", "c"], "all or none");
    database.drop_tables(&["a", "c", "a"]).unwrap();
    assert!(database.drop_table("a").is_err(), "it is gone");
    let again = database.create_table(spec("a", vec![])).unwrap();
    assert_ne!(again.id(), first.id());
    drop((first, again, database));
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(database.tables(), ["a", "b"]);
    assert_eq!(database.table("a").unwrap().snapshot().rows(), 0);
    assert_eq!(database.table("b").unwrap().spec(), &spec("b", vec![0]));
}

#[test]
fn chunks_are_copied_near_again_after_a_reopen_as_far_as_the_budget_goes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    load(&table, 0, 70_000).finish().unwrap();
    // After a load, too.
    database.wait_for_near_copies().unwrap();
    let (_, counters) = support::scan(&table.snapshot(), &[0], &[]);
    assert!(counters.bytes_near > 0, "{counters:?}");
    drop((table, database));
    for near_bytes in [0, 1 << 20, 64 << 20] {
        let near = DatabaseOptions {
            near_memory_bytes: Some(near_bytes),
            ..options()
        };
        let database = Database::open(&dir, &near).unwrap();
        let table = database.table("t").unwrap();
        database.wait_for_near_copies().unwrap();
        let projection: Vec<usize> = (0..10).collect();
        let (seen, counters) = support::scan(&table.snapshot(), &projection, &[]);
        assert_eq!(sorted(&seen), rows(0..70_000));
        assert_eq!(counters.bytes_near > 0, near_bytes > 0, "{counters:?}");
        assert_eq!(
            counters.bytes_far > 0,
            near_bytes < 64 << 20,
            "{counters:?}"
        );
        let near = &database.tiers()[0];
        assert_eq!(near.capacity_bytes, near_bytes);
        assert!(near.used_bytes <= near_bytes);
        assert_eq!(near.used_bytes > 0, near_bytes > 0);
        // Heads of chunks and dictionaries are near whatever the budget is.
        assert!(near.always_near_bytes.is_some_and(|bytes| bytes > 0));
    }
}

#[test]
fn bytes_of_the_tail_are_those_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let mut logged = 0;
    for few in [1, 100, 1_000] {
        let mut loader = table.loader();
        loader.push(rows(0..few)).unwrap();
        let report = loader.finish().unwrap();
        assert_eq!((report.rows, report.segments), (few as u64, 0));
        // A record is about its rows, not the room that buffers for more have.
        let unpacked = 64 + rows(0..few).get_array_memory_size() as u64;
        assert!(report.stored_bytes > 0 && report.stored_bytes < 2 * unpacked);
        logged += report.stored_bytes;
    }
    assert_eq!(table.snapshot().tail_bytes(), logged);
    drop((table, database));
    let database = Database::open(&dir, &options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(table.snapshot().tail_bytes(), logged);
    table.seal().unwrap();
    assert_eq!(table.snapshot().tail_bytes(), 0);
}
