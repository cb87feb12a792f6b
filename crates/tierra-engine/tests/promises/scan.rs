//! A scan returns exactly the rows that meet its conditions, from segments and tail alike, and
//! reads no more than it must.

use std::collections::HashSet;
use std::sync::Arc;

use crate::support::{CITY, options, rows, scan, sorted, spec};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Decimal128Type, Int64Type, UInt64Type};
use tierra_column::{Filter, Value, ValueSet, evaluate, ordinal};
use tierra_engine::{Database, RowId, ScanSpec, Snapshot};
use tierra_interleave::Lookups;

/// 150,000 rows in a segment, 1,000 in the tail.
fn table(dir: &std::path::Path) -> (Arc<Database>, Snapshot) {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let mut loader = table.loader();
    for start in (0..150_000).step_by(10_000) {
        loader.push(rows(start..start + 10_000)).unwrap();
    }
    let report = loader.finish().unwrap();
    assert_eq!((report.rows, report.segments), (150_000, 1));
    table
        .append(&[rows(150_000..150_990), rows(150_990..151_000)])
        .unwrap();
    let snapshot = table.snapshot();
    assert_eq!((snapshot.rows(), snapshot.tail_rows()), (151_000, 1_000));
    (database, snapshot)
}

fn expected(filters: &[(usize, Filter)]) -> RecordBatch {
    let mut batch = rows(0..151_000);
    for (column, filter) in filters {
        let mask = evaluate(filter, batch.column(*column)).unwrap();
        batch = arrow::compute::filter_record_batch(
            &batch,
            &arrow::array::BooleanArray::new(mask, None),
        )
        .unwrap();
    }
    batch
}

#[test]
fn every_filter_keeps_the_rows_that_the_oracle_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let i32_value = |value| Value::Ordinal(ordinal::of_i32(value));
    let i64_value = |value| Value::Ordinal(ordinal::of_i64(value));
    let text = |value: &str| Value::Bytes(value.as_bytes().into());
    let cities = Arc::new(
        ValueSet::of_array(&rows(3..6).column(CITY).clone())
            .unwrap()
            .0,
    );
    let sets: Vec<Vec<(usize, Filter)>> = vec![
        vec![],
        vec![(0, Filter::between(i64_value(149_500), i64_value(150_500)))],
        vec![(2, Filter::eq(i32_value(42)))],
        vec![(2, Filter::not_eq(i32_value(42)))],
        vec![(2, Filter::is_null())],
        vec![(2, Filter::is_not_null()), (3, Filter::is_null())],
        vec![
            (1, Filter::eq(Value::Ordinal(1))),
            (2, Filter::less(i32_value(10))),
        ],
        vec![(4, Filter::greater(Value::Wide(100_000 << 70)))],
        vec![(
            5,
            Filter::less_or_equal(Value::Ordinal(ordinal::of_f64(0.0))),
        )],
        vec![(CITY, Filter::in_set(cities.clone()))],
        vec![
            (CITY, Filter::not_in_set(cities, false)),
            (2, Filter::greater_or_equal(i32_value(90))),
        ],
        vec![
            (9, Filter::greater(text("ñote 9"))),
            (6, Filter::less(i32_value(1_000))),
        ],
        vec![(0, Filter::less(i64_value(-1)))],
    ];
    for filters in sets {
        let (found, counters) = scan(&snapshot, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &filters);
        let expected = expected(&filters);
        assert_eq!(counters.rows as usize, expected.num_rows(), "{filters:?}");
        assert_eq!(sorted(&found), expected, "{filters:?}");
        let (counted, _) = scan(&snapshot, &[], &filters);
        assert_eq!(counted.num_rows(), expected.num_rows(), "{filters:?}");
    }
}

#[test]
fn nothing_is_read_to_count_rows_and_nothing_decoded_where_nothing_matches() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let (counted, counters) = scan(&snapshot, &[], &[]);
    assert_eq!(counted.num_rows(), 151_000);
    assert_eq!(
        (
            counters.blocks_read,
            counters.bytes_near + counters.bytes_far
        ),
        (0, 0)
    );

    // Between stored values, so that minima and maxima rule nothing out.
    let stored = rows(0..151_000);
    let stored: HashSet<i128> = stored
        .column(3)
        .as_primitive::<Decimal128Type>()
        .iter()
        .flatten()
        .collect();
    let absent = (500_000..).find(|price| !stored.contains(price)).unwrap();
    let price = Filter::eq(Value::Ordinal(ordinal::of_i64(absent as i64)));
    let (found, counters) = scan(&snapshot, &[0, 8, 9], &[(3, price)]);
    assert_eq!(found.num_rows(), 0);
    assert_eq!(counters.blocks_decoded, 0);
    assert!(
        counters.blocks_read > 0 && counters.blocks_read <= 147,
        "{counters:?}"
    );

    // Ids ascend, so minima and maxima leave one block of each column.
    let one = Filter::eq(Value::Ordinal(ordinal::of_i64(77_777)));
    let (found, counters) = scan(&snapshot, &[0, 8], &[(0, one)]);
    assert_eq!(found.column(0).as_primitive::<Int64Type>().value(0), 77_777);
    assert_eq!((counters.blocks_read, counters.blocks_decoded), (2, 2));
    assert_eq!(counters.blocks_skipped, 2 * 146);
}

#[test]
fn cursors_share_the_rows_and_take_conditions_that_come_late() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let scan = snapshot.scan(ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 1000,
        execution: tierra_interleave::Scheduling::Auto,
    });
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut cursor = scan.cursor();
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                while let Some(batch) = cursor.next(&[], 0).unwrap() {
                    ids.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
                }
                ids
            })
        })
        .collect();
    let mut ids: Vec<i64> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..151_000));

    let scan = snapshot.scan(ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 1000,
        execution: tierra_interleave::Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let first = cursor.next(&[], 0).unwrap().unwrap();
    let late = [(
        0,
        Filter::greater_or_equal(Value::Ordinal(ordinal::of_i64(150_990))),
    )];
    let mut rows = 0;
    while let Some(batch) = cursor.next(&late, 1).unwrap() {
        rows += batch.num_rows();
    }
    assert_eq!((first.num_rows() >= 1000, rows), (true, 10));
}

#[test]
fn a_row_is_found_again_by_the_id_that_the_scan_tells() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let filters: [Vec<(usize, Filter)>; 3] = [
        vec![],
        vec![(2, Filter::eq(Value::Ordinal(ordinal::of_i32(42))))],
        vec![(
            0,
            Filter::between(
                Value::Ordinal(ordinal::of_i64(149_500)),
                Value::Ordinal(ordinal::of_i64(150_995)),
            ),
        )],
    ];
    for filters in filters {
        let spec = |projection: Vec<usize>| ScanSpec {
            projection,
            filters: filters.clone(),
            batch_rows: 1000,
            execution: tierra_interleave::Scheduling::Auto,
        };
        let plain = snapshot.scan(spec((0..10).collect()));
        let (mut plain, mut told) = (
            plain.cursor(),
            snapshot.scan_with_row_ids(spec(vec![0])).cursor(),
        );
        // Also where nothing but the ids is asked for.
        let mut alone = snapshot.scan_with_row_ids(spec(vec![])).cursor();
        let mut seen = 0;
        while let Some(expected) = plain.next(&[], 0).unwrap() {
            let batch = told.next(&[], 0).unwrap().unwrap();
            assert_eq!(batch.column(0), expected.column(0));
            assert_eq!(
                alone.next(&[], 0).unwrap().unwrap().column(0),
                batch.column(1)
            );
            let ids = batch.column(1).as_primitive::<UInt64Type>();
            let ids: Vec<RowId> = ids
                .values()
                .iter()
                .copied()
                .map(RowId::from_number)
                .collect();
            let projection = snapshot.table().projection(&Vec::from_iter(0..10));
            let found = snapshot.reconstruct(&ids, &projection, &mut Lookups::default());
            assert_eq!(found.unwrap(), expected);
            seen += ids.len();
        }
        assert!(told.next(&[], 0).unwrap().is_none());
        assert_eq!(alone.counters().rows as usize, seen);
    }
}

#[test]
fn distinct_values_are_counted_nearly_right() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    assert!(snapshot.tail_rows() > 0 && !snapshot.segments().is_empty());
    let all = rows(0..151_000);
    for column in 0..10 {
        let values = all.column(column);
        let value = |row| Value::of_array(values, row);
        let exact: HashSet<_> = (0..values.len()).filter_map(value).collect();
        let exact = exact.len() as f64;
        let counted = snapshot.distinct_values(column).unwrap_or(0) as f64;
        let off = (counted - exact).abs();
        assert!(
            off <= (0.13 * exact).max(3.0),
            "column {column}: {counted} of {exact}"
        );
    }
}

#[test]
fn statistics_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let all = rows(0..151_000);
    let id = snapshot.statistics(0);
    assert_eq!(id.min, Some(Value::Ordinal(ordinal::of_i64(0))));
    assert_eq!(id.max, Some(Value::Ordinal(ordinal::of_i64(150_999))));
    for column in 0..10 {
        assert_eq!(
            snapshot.statistics(column).null_count,
            all.column(column).null_count() as u64
        );
    }
}
