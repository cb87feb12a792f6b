//! Promise: an inverted index changes how rows are found, never which.

use std::collections::HashSet;

use crate::support::indexed::{
    Fixture, NUMBER, TEXT, ids, ids_unsorted, in_list, load, options, spec, spread, text,
};
use crate::support::scan;
use tierra_column::{Encoding, Filter, LogicalType, Value, ordinal};
use tierra_engine::{
    ColumnSpec, Database, IndexKind, IndexUse, ScanSpec, SpecError, TableError, TableSpec,
};
use tierra_interleave::{Execution, Scheduling};

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
        for index_use in [IndexUse::Always, IndexUse::Never] {
            let spec = ScanSpec {
                projection: vec![0],
                filters: filters.clone(),
                batch_rows: 8192,
                execution: Scheduling::Auto,
            };
            let mut cursor = indexed.scan_with_indexes(spec, index_use).cursor();
            let mut found = Vec::new();
            while let Some(rows) = cursor.next(&[], 0).unwrap() {
                found.extend_from_slice(ids_unsorted(&rows));
            }
            found.sort_unstable();
            assert_eq!(found, ids(&expected), "{index_use:?}: {filters:?}");
            let is_asked = cursor.counters().index_lookups > 0;
            assert!(index_use == IndexUse::Always || !is_asked, "{filters:?}");
        }
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
