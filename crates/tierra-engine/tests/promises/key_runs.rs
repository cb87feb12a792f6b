//! Promise: what keys find, and which are refused, does not depend on what is indexed yet, in near memory or in runs; and a
//! damaged run costs time, never an answer, nor the database.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::support::pool_bytes;
use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use tierra_column::LogicalType;
use tierra_engine::{
    AppendError, ColumnSpec, Database, DatabaseOptions, Replicas, ScrubOptions, Snapshot, Table,
    TableSpec,
};
use tierra_interleave::{Execution, Lookups, Scheduling};

/// More rows than this become a segment at once.
const LOADED: i64 = 70_000;

fn options() -> DatabaseOptions {
    with_near_memory(0)
}

fn with_near_memory(bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(bytes),
        threads: std::num::NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

/// In memory where possible.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir());
    dir.unwrap()
}

/// Whose key is `id` alone, or a text and it.
fn spec(composite: bool) -> TableSpec {
    TableSpec {
        name: "t".to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            ColumnSpec::new("city", LogicalType::Varchar).not_null(),
            ColumnSpec::new("value", LogicalType::Integer).not_null(),
        ],
        primary_key: if composite { vec![1, 0] } else { vec![0] },
    }
}

fn city(id: i64) -> String {
    format!("city {}", id.rem_euclid(300))
}

fn rows(ids: &[i64], value: i32) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(StringViewArray::from_iter_values(
            ids.iter().map(|id| city(*id)),
        )),
        Arc::new(Int32Array::from(vec![value; ids.len()])),
    ];
    RecordBatch::try_new(spec(false).schema(), columns).unwrap()
}

fn keys(snapshot: &Snapshot, ids: &[i64]) -> Vec<ArrayRef> {
    let batch = rows(ids, 0);
    let key = &snapshot.table().spec().primary_key;
    key.iter()
        .map(|column| batch.column(*column).clone())
        .collect()
}

/// The value of each id's row, `None` where there is none.
fn values(snapshot: &Snapshot, ids: &[i64], scheduling: impl Into<Scheduling>) -> Vec<Option<i32>> {
    let mut lookups = Lookups::new(scheduling);
    let found = snapshot
        .rows_by_key(&keys(snapshot, ids), &mut lookups)
        .unwrap();
    let there: Vec<_> = found.iter().flatten().copied().collect();
    let projection = snapshot.table().projection(&[0, 2]);
    let read = snapshot
        .reconstruct(&there, &projection, &mut lookups)
        .unwrap();
    let read_ids = read.column(0).as_primitive::<arrow::datatypes::Int64Type>();
    let mut values = read.column(1).as_primitive::<Int32Type>().values().iter();
    let wanted = ids.iter().zip(&found).filter(|(_, row)| row.is_some());
    assert!(wanted.map(|(id, _)| id).eq(read_ids.values()));
    found
        .iter()
        .map(|row| row.and_then(|_| values.next().copied()))
        .collect()
}

/// What should be there: ids and the values of their rows.
type Oracle = BTreeMap<i64, i32>;

fn check(snapshot: &Snapshot, oracle: &Oracle, some: &[i64]) {
    let step = oracle.len() / 40 + 1;
    let there = oracle.keys().step_by(step).chain(oracle.keys().next_back());
    let ids: Vec<i64> = there.copied().chain(some.iter().copied()).collect();
    let expected: Vec<_> = ids.iter().map(|id| oracle.get(id).copied()).collect();
    for execution in [Execution::Plain, Execution::Interleaved] {
        assert_eq!(values(snapshot, &ids, execution), expected);
    }
    for (id, expected) in ids.iter().zip(&expected).step_by(9) {
        assert_eq!(
            values(snapshot, &[*id], Scheduling::Auto),
            [*expected],
            "{id}"
        );
    }
    assert_eq!(snapshot.rows(), oracle.len() as u64);
}

#[derive(Clone, Debug)]
enum Step {
    /// Ids from `first` on, each `step` after the one before.
    Append {
        first: i64,
        step: i64,
        count: i64,
    },
    /// Enough to be a segment: in ascending order, or not.
    Load {
        first: i64,
        step: i64,
        in_order: bool,
    },
    Seal,
    Merge,
    Settle,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..400_000_i64, 1..2000_i64, 1..60_i64);
    let append = append.prop_map(|(first, step, count)| Step::Append { first, step, count });
    let load = (0..400_000_i64, 1..6_i64, any::<bool>());
    let load = load.prop_map(|(first, step, in_order)| Step::Load {
        first,
        step,
        in_order,
    });
    let step = prop_oneof![
        8 => append,
        1 => load,
        4 => Just(Step::Seal),
        1 => Just(Step::Merge),
        3 => Just(Step::Settle),
        2 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 4..24)
}

/// Every id that the oracle has is refused, and nothing of its batch is taken; all others are taken.
fn add(table: &Arc<Table>, oracle: &mut Oracle, ids: &[i64], value: i32) {
    let is_new = ids.iter().all(|id| !oracle.contains_key(id));
    match table.append(&[rows(ids, value)]) {
        Ok(count) => {
            assert!(is_new, "a key that is there was taken");
            assert_eq!(count, ids.len() as u64);
            oracle.extend(ids.iter().map(|id| (*id, value)));
        }
        Err(AppendError::DuplicateKey(error)) => {
            assert!(!is_new, "{error}, which is new");
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn answers_do_not_depend_on_what_is_indexed(
        steps in steps(),
        composite in any::<bool>(),
        near_bytes in prop_oneof![Just(0), Just(200_000), Just(64 << 20)],
    ) {
        let dir = folder();
        let dir = dir.path().join("db");
        let options = with_near_memory(near_bytes);
        let mut database = Database::create(&dir, &options).unwrap();
        let mut table = database.create_table(spec(composite)).unwrap();
        let mut oracle = Oracle::new();
        let mut old: Option<(Snapshot, Oracle)> = None;
        for (at, step) in steps.into_iter().enumerate() {
            let value = at as i32;
            match step {
                Step::Append { first, step, count } => {
                    let ids: Vec<i64> = (0..count).map(|at| first + at * step).collect();
                    add(&table, &mut oracle, &ids, value);
                }
                Step::Load { first, step, in_order } => {
                    let mut ids: Vec<i64> = (0..LOADED).map(|at| first + at * step).collect();
                    if !in_order {
                        ids.swap(0, LOADED as usize / 2);
                    }
                    add(&table, &mut oracle, &ids, value);
                }
                Step::Seal => table.seal().unwrap(),
                Step::Merge => table.merge_dictionaries().unwrap(),
                Step::Settle => {
                    database.wait_for_near_copies().unwrap();
                    let snapshot = table.snapshot();
                    let sealed = snapshot.rows() - snapshot.tail_rows();
                    prop_assert_eq!(snapshot.key_index().listed_rows, sealed);
                    prop_assert!(snapshot.key_index().runs <= 16);
                    let size = snapshot.key_index();
                    if near_bytes == 64 << 20 {
                        prop_assert_eq!(size.copied_bytes, size.far_bytes);
                    }
                    prop_assert!(size.copied_bytes <= near_bytes);
                }
                Step::Reopen => {
                    old = None;
                    drop((table, database));
                    database = Database::open(&dir, &options).unwrap();
                    table = database.table("t").unwrap();
                }
            }
            check(&table.snapshot(), &oracle, &[-1, 1, 777, 401_003, i64::MIN, i64::MAX]);
            match &old {
                Some((snapshot, oracle)) => check(snapshot, oracle, &[5, 6]),
                None => old = Some((table.snapshot(), oracle.clone())),
            }
        }
    }
}

#[test]
fn a_load_in_order_is_listed_when_it_is_committed_and_costs_little_near_memory() {
    let dir = folder();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec(false)).unwrap();
    let ids: Vec<i64> = (0..3 * LOADED).collect();
    let mut loader = table.loader();
    for ids in ids.chunks(10_000) {
        loader.push(rows(ids, 1)).unwrap();
    }
    loader.finish().unwrap();
    let size = table.snapshot().key_index();
    assert_eq!((size.listed_rows, size.runs), (3 * LOADED as u64, 1));
    assert!(size.far_bytes < 2 * size.listed_rows, "{size:?}");
    assert!(size.near_bytes < size.listed_rows / 10, "{size:?}");
    drop((table, database));
    // Nothing has to be read to refuse and to find.
    let database = Database::open(&dir, &options()).unwrap();
    let table = database.table("t").unwrap();
    let error = table.append(&[rows(&[5], 2)]).unwrap_err();
    assert!(error.to_string().contains("(id = 5)"), "{error}");
    table.append(&[rows(&[-5], 2)]).unwrap();
    let size = table.snapshot().key_index();
    assert!(size.near_bytes < 3 * LOADED as u64 / 10, "{size:?}");
    assert_eq!(
        values(&table.snapshot(), &[-5, 7], Execution::Plain),
        [Some(2), Some(1)]
    );
}

#[test]
fn small_runs_are_joined_and_give_their_space_back() {
    let dir = folder();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec(false)).unwrap();
    let (mut oracle, mut most) = (Oracle::new(), 0);
    for round in 0..40 {
        let ids: Vec<i64> = (0..500).map(|at| at * 40 + round).collect();
        add(&table, &mut oracle, &ids, round as i32);
        table.seal().unwrap();
        if round % 3 == 0 {
            database.wait_for_near_copies().unwrap();
        }
        most = most.max(table.snapshot().key_index().runs);
    }
    assert!((1..=8).contains(&most), "{most} runs");
    check(&table.snapshot(), &oracle, &[20_001]);
    let bytes = pool_bytes(&database);
    drop((table, database));
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(pool_bytes(&database), bytes);
    check(&database.table("t").unwrap().snapshot(), &oracle, &[20_001]);
}

/// Where a pool has lines that begin like this, in ascending order.
fn lines(pool: &[u8], begin: &[u8]) -> Vec<usize> {
    let lines = (0..pool.len()).step_by(64);
    lines.filter(|at| pool[*at..].starts_with(begin)).collect()
}

/// Two segments, each with a run of keys in no order; the second tier is `b`.
fn create(dir: &Path, tiers: &[&str], composite: bool) -> Oracle {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    if tiers.len() > 1 {
        database.add_tier("b", &dir.join("b.pool")).unwrap();
    }
    let replicas = Replicas::of_table(tiers.iter().copied());
    let table = database.create_table_in(spec(composite), replicas).unwrap();
    let mut oracle = Oracle::new();
    let ids: Vec<i64> = (0..LOADED).map(|at| at * 7919 % 1_000_003).collect();
    add(&table, &mut oracle, &ids, 1);
    add(&table, &mut oracle, &[-3, -2], 2);
    database.wait_for_near_copies().unwrap();
    assert_eq!(table.snapshot().key_index().listed_rows, LOADED as u64);
    oracle
}

#[test]
fn a_damaged_run_is_made_again_and_answers_stay_right() {
    for composite in [false, true] {
        let dir = folder();
        let oracle = create(dir.path(), &["far"], composite);
        let path = dir.path().join("db/far.pool");
        let whole = std::fs::read(&path).unwrap();
        let [run] = lines(&whole, b"TKEY")[..] else {
            panic!("one run")
        };
        let leaves = run + 64 + 24 * 80;
        for (what, places) in [
            ("the extent's header", vec![run - 64 + 10]),
            ("the header", vec![run + 24]),
            ("the directory", vec![run + 64 + 9]),
            ("leaves", (4..60).map(|leaf| leaves + leaf * 2048).collect()),
        ] {
            let mut pool = whole.clone();
            places.iter().for_each(|at| pool[*at] ^= 1);
            std::fs::write(&path, &pool).unwrap();
            let database = Database::open(&dir.path().join("db"), &options()).unwrap();
            let table = database.table("t").unwrap();
            let old = table.snapshot();
            let error = table.append(&[rows(&[7919 * 5], 3)]).unwrap_err();
            assert!(
                matches!(error, AppendError::DuplicateKey(_)),
                "{what}: {error}"
            );
            check(&old, &oracle, &[-9]);
            database.wait_for_near_copies().unwrap();
            let snapshot = table.snapshot();
            assert_eq!(snapshot.key_index().listed_rows, LOADED as u64, "{what}");
            check(&old, &oracle, &[-9]);
            check(&snapshot, &oracle, &[-9]);
            drop((old, snapshot, table, database));
            let database = Database::open(&dir.path().join("db"), &options()).unwrap();
            let report = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
            assert_eq!(report.damaged_copies, 0, "{what}");
            check(&database.table("t").unwrap().snapshot(), &oracle, &[-9]);
        }
    }
}

#[test]
fn a_near_copy_answers_whatever_becomes_of_the_run_and_none_is_made_of_a_damaged_one() {
    let dir = folder();
    let oracle = create(dir.path(), &["far"], false);
    let path = dir.path().join("db/far.pool");
    let run = lines(&std::fs::read(&path).unwrap(), b"TKEY")[0];
    let leaves = run + 64 + 24 * 80;
    let damage = || {
        let mut pool = std::fs::OpenOptions::new();
        let pool = pool.read(true).write(true).open(&path).unwrap();
        for leaf in 4..60 {
            let mut byte = [0];
            pool.read_exact_at(&mut byte, leaves as u64 + leaf * 2048)
                .unwrap();
            pool.write_all_at(&[byte[0] ^ 1], leaves as u64 + leaf * 2048)
                .unwrap();
        }
    };
    let open = || {
        let database = Database::open(&dir.path().join("db"), &with_near_memory(64 << 20)).unwrap();
        database.wait_for_near_copies().unwrap();
        let snapshot = database.table("t").unwrap().snapshot();
        (database, snapshot)
    };
    let (database, snapshot) = open();
    let size = snapshot.key_index();
    assert!(
        size.copied_bytes > 0 && size.copied_bytes == size.far_bytes,
        "{size:?}"
    );
    damage();
    check(&snapshot, &oracle, &[-9]);
    let now = database.table("t").unwrap().snapshot().key_index();
    assert_eq!((now.runs, now.copied_bytes), (1, size.copied_bytes));
    drop((database, snapshot));
    // The job that copies it finds the damage; what is made instead is copied.
    let (_database, snapshot) = open();
    let made = snapshot.key_index();
    assert_eq!(
        (made.listed_rows, made.copied_bytes),
        (size.listed_rows, made.far_bytes)
    );
    assert_ne!(
        lines(&std::fs::read(&path).unwrap(), b"TKEY").last(),
        Some(&run)
    );
    check(&snapshot, &oracle, &[-9]);
}

#[test]
fn a_damaged_run_is_put_right_from_another_copy() {
    let dir = folder();
    let oracle = create(dir.path(), &["far", "b"], false);
    let path = dir.path().join("db/far.pool");
    let whole = std::fs::read(&path).unwrap();
    let run = lines(&whole, b"TKEY")[0];
    let leaves = run + 64 + 24 * 80;
    for places in [
        vec![run + 24],
        vec![run + 64 + 9],
        (4..60).map(|leaf| leaves + leaf * 2048).collect(),
    ] {
        let mut pool = whole.clone();
        places.iter().for_each(|at| pool[*at] ^= 1);
        std::fs::write(&path, &pool).unwrap();
        let database = Database::open(&dir.path().join("db"), &options()).unwrap();
        let table = database.table("t").unwrap();
        check(&table.snapshot(), &oracle, &[-9]);
        let all: Vec<i64> = oracle.keys().copied().collect();
        assert!(
            values(&table.snapshot(), &all, Scheduling::Auto)
                .iter()
                .all(Option::is_some)
        );
        let (_, totals) = database.faults();
        assert!(totals.repaired > 0 && totals.lost == 0, "{totals:?}");
        let report = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(report.damaged_copies, 0, "{places:?}");
    }
    // Either copy is enough.
    std::fs::remove_file(&path).unwrap();
    let degraded = DatabaseOptions {
        degraded: true,
        ..options()
    };
    let database = Database::open(&dir.path().join("db"), &degraded).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(table.snapshot().key_index().listed_rows, LOADED as u64);
    check(&table.snapshot(), &oracle, &[-9]);
}
