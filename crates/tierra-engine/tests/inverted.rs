//! Promise: an inverted index changes how rows are found, never which; it follows loads, seals, merges
//! and restarts by itself, and gives its space back.

mod support;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use support::{scan, used_bytes};
use tierra_column::{Encoding, Filter, LogicalType, Value, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, ScanCounters, ScanSpec, Snapshot, SpecError,
    Table, TableError, TableSpec,
};
use tierra_interleave::{Execution, Scheduling};
use tierra_memory::Speed;

const NUMBER: usize = 1;
const TEXT: usize = 2;

fn options(near_memory_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        threads: std::num::NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

fn spec(name: &str, index: Option<IndexKind>) -> TableSpec {
    let indexed = |name, ty| ColumnSpec {
        index,
        ..ColumnSpec::new(name, ty)
    };
    TableSpec {
        name: name.to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            indexed("number", LogicalType::Integer),
            indexed("text", LogicalType::Varchar),
        ],
        primary_key: vec![],
    }
}

/// Rows with ids from `first` on; NULL and texts follow from the numbers.
fn batch(first: i64, numbers: &[Option<i32>]) -> RecordBatch {
    let ids: Vec<i64> = (first..).take(numbers.len()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids)),
        Arc::new(Int32Array::from(numbers.to_vec())),
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(text))
                .collect::<StringViewArray>(),
        ),
    ];
    RecordBatch::try_new(spec("any", None).schema(), columns).unwrap()
}

fn text(number: i32) -> String {
    format!("the text of {number}")
}

fn load(table: &Arc<Table>, first: i64, numbers: &[Option<i32>]) {
    let mut loader = table.loader();
    for (at, numbers) in numbers.chunks(50_000).enumerate() {
        loader
            .push(batch(first + at as i64 * 50_000, numbers))
            .unwrap();
    }
    loader.finish().unwrap();
}

fn in_list(column: usize, values: &[i32]) -> (usize, Filter) {
    let set = match column {
        NUMBER => ValueSet::ordinals(values.iter().map(|n| ordinal::of_i32(*n)).collect()),
        _ => ValueSet::bytes(
            values
                .iter()
                .map(|n| text(*n).into_bytes().into())
                .collect(),
        ),
    };
    (column, Filter::in_set(Arc::new(set)))
}

fn ids(rows: &RecordBatch) -> Vec<i64> {
    let mut ids = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

/// A table and the numbers in it, by id.
struct Fixture {
    database: Arc<Database>,
    table: Arc<Table>,
    numbers: Vec<Option<i32>>,
}

impl Fixture {
    fn create(dir: &Path, near_memory_bytes: u64) -> Self {
        let database = Database::create(&dir.join("db"), &options(near_memory_bytes)).unwrap();
        let table = database.create_table(spec("t", Some(IndexKind::Inverted)));
        Self {
            table: table.unwrap(),
            database,
            numbers: Vec::new(),
        }
    }

    /// Closed and opened.
    fn reopen(self, dir: &Path, near_memory_bytes: u64) -> Self {
        let numbers = self.numbers;
        drop((self.table, self.database));
        let database = Database::open(&dir.join("db"), &options(near_memory_bytes)).unwrap();
        let table = database.table("t").unwrap();
        Self {
            database,
            table,
            numbers,
        }
    }

    fn load(&mut self, numbers: impl IntoIterator<Item = Option<i32>>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        load(&self.table, self.numbers.len() as i64, &numbers);
        self.numbers.extend(numbers);
    }

    fn append(&mut self, numbers: impl IntoIterator<Item = Option<i32>>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        let rows = batch(self.numbers.len() as i64, &numbers);
        self.table.append(&[rows]).unwrap();
        self.numbers.extend(numbers);
    }

    /// What there is once everything in the background is done.
    fn settled(&self) -> Snapshot {
        self.database.wait_for_near_copies().unwrap();
        self.table.snapshot()
    }

    fn expected(&self, values: &[i32]) -> Vec<i64> {
        let values: HashSet<i32> = values.iter().copied().collect();
        let rows = self.numbers.iter().zip(0_i64..);
        let found = rows.filter(|(n, _)| n.is_some_and(|n| values.contains(&n)));
        found.map(|(_, id)| id).collect()
    }

    /// Both columns answer the list as the oracle does; returns what it took, by column.
    fn check(&self, snapshot: &Snapshot, values: &[i32]) -> [ScanCounters; 2] {
        let expected = self.expected(values);
        [NUMBER, TEXT].map(|column| {
            let filter = [in_list(column, values)];
            let (rows, counters) = scan(snapshot, &[0, NUMBER, TEXT], &filter);
            assert_eq!(
                ids(&rows),
                expected,
                "column {column}, {} values",
                values.len()
            );
            for row in 0..rows.num_rows() {
                let number = self.numbers[ids_unsorted(&rows)[row] as usize].unwrap();
                let found = rows.column(1).as_primitive::<arrow::datatypes::Int32Type>();
                assert_eq!(found.value(row), number);
                assert_eq!(rows.column(2).as_string_view().value(row), text(number));
            }
            let (counted, _) = scan(snapshot, &[], &filter);
            assert_eq!(counted.num_rows(), expected.len());
            counters
        })
    }

    fn parts(&self, snapshot: &Snapshot) -> usize {
        snapshot.index_parts(NUMBER)
    }
}

fn ids_unsorted(rows: &RecordBatch) -> &[i64] {
    rows.column(0).as_primitive::<Int64Type>().values()
}

/// Different numbers in an order of their own: the last of a dictionary's codes are not the last rows.
fn spread(rows: std::ops::Range<i32>) -> impl Iterator<Item = Option<i32>> {
    rows.map(|row| Some((i64::from(row) * 7_919 % 1_000_003) as i32))
}

#[test]
fn a_list_is_answered_from_the_index_and_nothing_is_scanned() {
    let dir = tempfile::tempdir().unwrap();
    for near in [0, 1 << 30] {
        let dir = dir.path().join(near.to_string());
        std::fs::create_dir(&dir).unwrap();
        let mut t = Fixture::create(&dir, near);
        t.load(spread(0..200_000));
        let snapshot = t.settled();
        assert_eq!(snapshot.indexed_rows(NUMBER), 200_000);
        assert_eq!(t.parts(&snapshot), 1);
        let some: Vec<i32> = (0..200_000)
            .step_by(999)
            .map(|row| row * 7_919 % 1_000_003)
            .collect();
        let absent: Vec<i32> = (1..100).map(|n| -n).collect();
        for values in [vec![], some[..1].to_vec(), some.clone(), absent.clone()] {
            for counters in t.check(&snapshot, &values) {
                // Columns of the rows found are read, the column of the list is not.
                assert!(
                    counters.blocks_read <= 3 * values.len() as u64,
                    "{counters:?}"
                );
                let present = t.expected(&values).len() as u64;
                assert_eq!(counters.index_lookups, present, "{counters:?}");
            }
        }
        // Each mode, as a statement asks.
        for execution in [Execution::Plain, Execution::Interleaved] {
            let spec = ScanSpec {
                projection: vec![],
                filters: vec![in_list(NUMBER, &some)],
                batch_rows: 8192,
                execution: Scheduling::Fixed(execution),
            };
            let mut cursor = snapshot.scan(spec).cursor();
            assert_eq!(cursor.next(&[], 0).unwrap().unwrap().num_rows(), some.len());
            let counters = cursor.counters();
            assert_eq!(counters.blocks_read, 0);
            assert_eq!(counters.index_lookups, some.len() as u64);
            let is_interleaved = execution == Execution::Interleaved;
            assert_eq!(counters.suspensions > 0, is_interleaved, "{counters:?}");
        }
    }
}

#[test]
fn long_lists_and_common_values_are_scanned() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    // A value in each tenth row, and one of its own in the others.
    t.load((0..100_000).map(|row| Some(if row % 10 == 0 { -1 } else { row })));
    let snapshot = t.settled();
    let [few, _] = t.check(&snapshot, &[5, 70_001]);
    assert!(few.index_lookups > 0);
    for values in [
        vec![-1],
        (0..100_000).collect(),
        (0..50_000).map(|n| n * 2).collect(),
    ] {
        let [counters, _] = t.check(&snapshot, &values);
        assert!(counters.blocks_read > 90, "{counters:?}");
    }
    // Ten times as many values as the dictionary has, all but one of them absent.
    let many: Vec<i32> = (-1_000_000..-2).chain([17]).collect();
    t.check(&snapshot, &many);
}

#[test]
fn equality_ranges_and_negations_mean_what_they_do_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    let plain = t.database.create_table(spec("plain", None)).unwrap();
    let numbers: Vec<Option<i32>> = (0..90_000)
        .map(|row| (row % 7 != 0).then_some(row % 30_011))
        .collect();
    load(&plain, 0, &numbers);
    t.load(numbers);
    let indexed = t.settled();
    let plain = plain.snapshot();
    let value = |n: i32| Value::Ordinal(ordinal::of_i32(n));
    let set = |values: &[i32]| match in_list(NUMBER, values).1.kind {
        tierra_column::FilterKind::Set { values, .. } => values,
        _ => unreachable!("a list of two or more"),
    };
    let null_too = |filter: Filter| Filter {
        matches_null: true,
        ..filter
    };
    let first = (0, Filter::less(Value::Ordinal(ordinal::of_i64(60_000))));
    let cases: Vec<(Vec<(usize, Filter)>, bool)> = vec![
        (vec![(NUMBER, Filter::eq(value(100)))], true),
        (vec![(NUMBER, Filter::eq(value(-5)))], false),
        (
            vec![(NUMBER, Filter::between(value(100), value(110)))],
            true,
        ),
        (
            vec![(NUMBER, Filter::between(value(100), value(29_000)))],
            false,
        ),
        (vec![(NUMBER, Filter::not_eq(value(100)))], false),
        (
            vec![(NUMBER, Filter::not_in_set(set(&[5, 6]), false))],
            false,
        ),
        (vec![(NUMBER, Filter::is_null())], false),
        (vec![(NUMBER, null_too(Filter::eq(value(100))))], false),
        (
            vec![(TEXT, Filter::eq(Value::Bytes(text(77).into_bytes().into())))],
            true,
        ),
        // Two indexes at once, and an index beside a scan.
        (
            vec![in_list(NUMBER, &[5, 6, 7]), in_list(TEXT, &[6, 7, 8])],
            true,
        ),
        (vec![in_list(NUMBER, &[5, 6, 7]), first.clone()], true),
        (vec![first, in_list(TEXT, &[5, 6, 29_999])], true),
    ];
    for (filters, is_indexed) in cases {
        let (found, counters) = scan(&indexed, &[0], &filters);
        let (expected, without) = scan(&plain, &[0], &filters);
        assert_eq!(ids(&found), ids(&expected), "{filters:?}");
        assert_eq!(
            counters.index_lookups > 0,
            is_indexed,
            "{filters:?}: {counters:?}"
        );
        assert_eq!(without.index_lookups, 0);
        let counted = scan(&indexed, &[], &filters).0.num_rows();
        assert_eq!(counted, expected.num_rows(), "{filters:?}");
    }
}

/// A join's values arrive while the scan runs, in every thread.
#[test]
fn conditions_that_come_later_use_the_index_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(spread(0..200_000));
    let snapshot = t.settled();
    let values: Vec<i32> = (0..200).map(|row| row * 7_919 % 1_000_003).collect();
    let later = vec![in_list(NUMBER, &values)];
    let spec = ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 1024,
        execution: Scheduling::Auto,
    };
    let scan = snapshot.scan(spec);
    let mut cursors = [scan.cursor(), scan.cursor()];
    let before = cursors[0].next(&[], 0).unwrap().unwrap();
    let mut found: Vec<i64> = Vec::new();
    while let Some(rows) = cursors[1].next(&later, 1).unwrap() {
        found.extend_from_slice(ids_unsorted(&rows));
    }
    while let Some(rows) = cursors[0].next(&later, 1).unwrap() {
        found.extend_from_slice(ids_unsorted(&rows));
    }
    // What was read before knew nothing of the condition; it read the first rows, and these are they.
    assert!(before.num_rows() >= 1024);
    let expected = t.expected(&values);
    assert!(found.iter().all(|id| expected.contains(id)));
    let seen: HashSet<_> = found.iter().chain(ids_unsorted(&before)).collect();
    assert!(expected.iter().all(|id| seen.contains(id)));
    let [first, second] = cursors.map(|cursor| cursor.counters());
    assert_eq!(
        first.index_lookups + second.index_lookups,
        200,
        "looked up once for both"
    );
}

/// What one index leaves is looked at row by row: that costs less than asking another one at length.
#[test]
fn a_second_index_is_asked_only_as_far_as_the_first_leaves_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(spread(0..200_000));
    let snapshot = t.settled();
    let values: Vec<i32> = t.numbers[..600].iter().flatten().copied().collect();
    let one = (
        NUMBER,
        Filter::eq(Value::Ordinal(ordinal::of_i32(values[77]))),
    );
    let many = in_list(TEXT, &values);
    let (rows, counters) = scan(&snapshot, &[0], std::slice::from_ref(&many));
    assert_eq!((rows.num_rows(), counters.index_lookups), (600, 600));
    for filters in [[one.clone(), many.clone()], [many, one]] {
        let (rows, counters) = scan(&snapshot, &[0], &filters);
        assert_eq!(ids(&rows), [77]);
        assert_eq!(counters.index_lookups, 1, "{counters:?}");
    }
}

#[test]
fn values_that_lie_together_are_scanned_where_minima_and_maxima_leave_little() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load((0..200_000).map(|row| Some(row / 2)));
    let snapshot = t.settled();
    let many: Vec<i32> = (50_000..50_300).collect();
    let [counters, _] = t.check(&snapshot, &many);
    assert_eq!(counters.index_lookups, 0, "{counters:?}");
    // As many all over the table, and few.
    let spread: Vec<i32> = (0..300).map(|n| n * 333).collect();
    for values in [&spread[..], &many[..4]] {
        let [counters, _] = t.check(&snapshot, values);
        assert!(
            counters.index_lookups >= values.len() as u64,
            "{counters:?}"
        );
    }
}

#[test]
fn conditions_that_come_when_nothing_is_left_to_read_are_not_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Fixture::create(dir.path(), 0);
    t.load(spread(0..70_000));
    let snapshot = t.settled();
    let later = vec![in_list(NUMBER, &(0..1000).collect::<Vec<_>>())];
    let spec = ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 1 << 20,
        execution: Scheduling::Auto,
    };
    let mut cursor = snapshot.scan(spec).cursor();
    let rows = cursor.next(&[], 0).unwrap().unwrap();
    assert_eq!(rows.num_rows(), 70_000);
    assert!(cursor.next(&later, 1).unwrap().is_none());
    assert_eq!(
        (cursor.counters().lookups, cursor.counters().index_lookups),
        (0, 0)
    );
}

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

#[test]
fn columns_that_cannot_have_an_index_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options(0)).unwrap();
    let create = |ty, encoding| {
        let column = ColumnSpec {
            encoding,
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("c", ty)
        };
        database.create_table(TableSpec {
            name: "t".to_owned(),
            columns: vec![column],
            primary_key: vec![],
        })
    };
    let refused = |ty, encoding| match create(ty, encoding).unwrap_err() {
        TableError::Spec(error) => error,
        other => panic!("{other}"),
    };
    let error = refused(LogicalType::Integer, Some(Encoding::Delta));
    assert!(matches!(error, SpecError::Index { .. }));
    assert_eq!(
        error.to_string(),
        "column \"c\": an inverted index needs encoding dictionary, not delta: leave the encoding out, \
         or the index"
    );
    let wide = LogicalType::Decimal {
        precision: 30,
        scale: 2,
    };
    assert_eq!(
        refused(wide, None).to_string(),
        "column \"c\": DECIMAL(30, 2) cannot have an inverted index, which needs a dictionary: leave \
         the index out"
    );
    let table = create(LogicalType::Double, None).unwrap();
    assert_eq!(table.spec().columns[0].encoding, Some(Encoding::Dictionary));
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
