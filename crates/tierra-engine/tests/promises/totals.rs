//! The promise of totals: they are those of the rows that the same scan returns, from segments and tail, with conditions and deleted
//! rows, whichever cursors and batches the work is spread over, and when copies are damaged. What headers know is not read, and packed
//! codes are not unpacked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::copied::{Place, ROWS, damage};
use crate::support::{CITY, options, rows, scan, spec};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use tierra_column::{Encoding, Filter, LogicalType, Totals, Value, WantedTotals, ordinal};
use tierra_engine::{
    BatchLimits, Change, Database, RowId, RowIds, Scan, ScanCounters, ScanCursor, ScanError,
    ScanSpec, ScanTotals, ScrubOptions, Snapshot, Table,
};
use tierra_interleave::Scheduling;

const ALL: WantedTotals = WantedTotals {
    sum: true,
    extremes: true,
};
const COUNT: WantedTotals = WantedTotals {
    sum: false,
    extremes: false,
};

fn spec_of(columns: &[usize], filters: &[(usize, Filter)]) -> ScanSpec {
    ScanSpec {
        projection: columns.to_vec(),
        filters: filters.to_vec(),
        batch_rows: 8192,
        execution: Scheduling::Auto,
    }
}

/// All that each column has.
fn wanted(table: &Table, columns: &[usize]) -> Vec<WantedTotals> {
    let of = |column: &usize| match ALL.of_type(table.spec().columns[*column].ty) {
        true => ALL,
        false => COUNT,
    };
    columns.iter().map(of).collect()
}

fn add(sum: &mut ScanTotals, part: &ScanTotals) {
    sum.rows += part.rows;
    for (sum, part) in sum.columns.iter_mut().zip(&part.columns) {
        sum.add(part);
    }
}

fn none(columns: usize) -> ScanTotals {
    ScanTotals {
        rows: 0,
        columns: vec![Totals::NONE; columns],
    }
}

fn drain(cursor: &mut ScanCursor, columns: usize) -> Result<ScanTotals, ScanError> {
    let mut sum = none(columns);
    while let Some(part) = cursor.next_totals(&[], 0)? {
        assert_eq!(part.columns.len(), columns);
        add(&mut sum, &part);
    }
    Ok(sum)
}

/// By two cursors that take turns.
fn by_two(scan: &Arc<Scan>, columns: usize) -> (ScanTotals, ScanCounters) {
    let mut cursors = [scan.cursor(), scan.cursor()];
    let mut is_over = [false; 2];
    let mut sum = none(columns);
    while is_over.contains(&false) {
        for (cursor, is_over) in cursors.iter_mut().zip(&mut is_over) {
            match cursor.next_totals(&[], 0).unwrap() {
                Some(part) => add(&mut sum, &part),
                None => *is_over = true,
            }
        }
    }
    let mut counters = cursors[0].counters();
    counters += cursors[1].counters();
    (sum, counters)
}

fn totals(
    snapshot: &Snapshot,
    columns: &[usize],
    filters: &[(usize, Filter)],
) -> (ScanTotals, ScanCounters) {
    let wanted = wanted(snapshot.table(), columns);
    let scan = snapshot.scan_totals(spec_of(columns, filters), wanted);
    by_two(&scan, columns.len())
}

/// The values of a column as integers.
fn integers(values: &ArrayRef) -> Vec<Option<i128>> {
    let wide = |value: Option<i64>| value.map(i128::from);
    let narrow = |value: Option<i32>| value.map(i128::from);
    match LogicalType::of_arrow(values.data_type()).unwrap() {
        LogicalType::Integer => values
            .as_primitive::<Int32Type>()
            .iter()
            .map(narrow)
            .collect(),
        LogicalType::Date => values
            .as_primitive::<Date32Type>()
            .iter()
            .map(narrow)
            .collect(),
        LogicalType::BigInt => values
            .as_primitive::<Int64Type>()
            .iter()
            .map(wide)
            .collect(),
        LogicalType::Timestamp => {
            let values = values.as_primitive::<TimestampMicrosecondType>();
            values.iter().map(wide).collect()
        }
        _ => values.as_primitive::<Decimal128Type>().iter().collect(),
    }
}

/// Totals are those of rows, by their definition.
fn check(found: &ScanTotals, of: &RecordBatch, context: &str) {
    assert_eq!(found.rows as usize, of.num_rows(), "{context}");
    for (totals, values) in found.columns.iter().zip(of.columns()) {
        let ty = LogicalType::of_arrow(values.data_type()).unwrap();
        let count = values.len() - values.null_count();
        assert_eq!(totals.count as usize, count, "{context}: {ty}");
        if !ALL.of_type(ty) {
            continue;
        }
        let integers = integers(values);
        let integers = || integers.iter().flatten();
        assert_eq!(totals.sum, integers().sum::<i128>(), "{context}: {ty}");
        let extremes = totals.extremes().map(|(least, greatest)| {
            let value = |ordinal| match ty {
                LogicalType::Integer | LogicalType::Date => ordinal::to_i32(ordinal).into(),
                _ => i128::from(ordinal::to_i64(ordinal)),
            };
            (value(least), value(greatest))
        });
        let expected = integers().min().zip(integers().max());
        assert_eq!(
            extremes,
            expected.map(|(least, greatest)| (*least, *greatest)),
            "{context}: {ty}"
        );
    }
}

/// Segments in several encodings, and 1,000 rows in the tail.
fn table(dir: &std::path::Path, encodings: &[(usize, Encoding)]) -> (Arc<Database>, Arc<Table>) {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    let mut spec = spec("t", vec![]);
    for (column, encoding) in encodings {
        spec.columns[*column].encoding = Some(*encoding);
    }
    let table = database.create_table(spec).unwrap();
    for start in [0, 70_000] {
        let mut loader = table.loader();
        loader.push(rows(start..start + 70_000)).unwrap();
        loader.finish().unwrap();
    }
    table.append(&[rows(140_000..141_000)]).unwrap();
    assert_eq!(table.snapshot().segments().len(), 2);
    (database, table)
}

fn delete(database: &Database, table: &Arc<Table>, is_deleted: impl Fn(i64) -> bool) {
    let snapshot = table.snapshot();
    let scan = snapshot.scan_with_row_ids(spec_of(&[0], &[]));
    let mut cursor = scan.cursor();
    let mut deleted = RowIds::default();
    while let Some(batch) = cursor.next(&[], 0).unwrap() {
        let keys = batch.column(0).as_primitive::<Int64Type>().values();
        let ids = batch.column(1).as_primitive::<UInt64Type>().values();
        for (_, id) in keys.iter().zip(ids).filter(|(key, _)| is_deleted(**key)) {
            deleted.insert(RowId::from_number(*id));
        }
    }
    let appended = Vec::new();
    let change = Change {
        snapshot,
        deleted,
        appended,
    };
    database.commit(vec![change]).unwrap();
}

fn conditions() -> Vec<Vec<(usize, Filter)>> {
    let i64_value = |value| Value::Ordinal(ordinal::of_i64(value));
    let i32_value = |value| Value::Ordinal(ordinal::of_i32(value));
    let city = Value::Bytes("city number 007".as_bytes().into());
    vec![
        vec![],
        vec![(0, Filter::between(i64_value(20_480), i64_value(90_111)))],
        vec![(0, Filter::between(i64_value(59_000), i64_value(120_500)))],
        vec![(2, Filter::eq(i32_value(42)))],
        vec![(2, Filter::less(i32_value(60))), (3, Filter::is_not_null())],
        vec![(CITY, Filter::eq(city))],
        vec![(2, Filter::is_null())],
        vec![(0, Filter::less(i64_value(-1)))],
    ]
}

#[test]
fn totals_are_those_of_the_rows() {
    let columns = Vec::from_iter(0..10);
    let encodings: [&[(usize, Encoding)]; 4] = [
        &[],
        &[
            (0, Encoding::Delta),
            (2, Encoding::Dynamic),
            (3, Encoding::Static),
            (6, Encoding::Rle),
            (7, Encoding::FrameOfReference),
        ],
        &[
            (0, Encoding::Plain),
            (2, Encoding::Dictionary),
            (3, Encoding::FastPfor),
            (6, Encoding::Lz4),
            (7, Encoding::Dynamic128),
        ],
        &[
            (2, Encoding::Plain),
            (3, Encoding::Dictionary),
            (6, Encoding::Static),
            (7, Encoding::Snappy),
        ],
    ];
    for encodings in encodings {
        let dir = tempfile::tempdir().unwrap();
        let (database, table) = table(dir.path(), encodings);
        for round in 0..2 {
            let snapshot = table.snapshot();
            assert_eq!(snapshot.rows() < 141_000, round == 1);
            for filters in conditions() {
                let context = format!("{encodings:?} {filters:?} round {round}");
                let (found, _) = totals(&snapshot, &columns, &filters);
                let (expected, _) = scan(&snapshot, &columns, &filters);
                check(&found, &expected, &context);
                let (counted, _) = totals(&snapshot, &[], &filters);
                assert_eq!(counted.rows, found.rows, "{context}");
            }
            // Some of each block, and all of some.
            delete(&database, &table, |id| id % 11 == 3 || id / 2048 % 20 == 1);
        }
    }
}

/// Totals by the values of a column are those of the rows with each value, NULL included, whatever its encoding.
#[test]
fn totals_by_group_are_those_of_its_rows() {
    let columns = Vec::from_iter(0..10);
    let encodings: [&[(usize, Encoding)]; 3] = [
        &[(2, Encoding::Dictionary), (CITY, Encoding::Dictionary)],
        &[
            (2, Encoding::Dictionary),
            (3, Encoding::Dynamic),
            (6, Encoding::Dictionary),
            (7, Encoding::Delta),
        ],
        &[
            (0, Encoding::Delta),
            (2, Encoding::Static),
            (CITY, Encoding::Plain),
        ],
    ];
    for encodings in encodings {
        let dir = tempfile::tempdir().unwrap();
        let (database, table) = table(dir.path(), encodings);
        for round in 0..2 {
            let snapshot = table.snapshot();
            for (of, filters) in [2, CITY, 6].into_iter().cycle().zip(conditions()) {
                let context = format!("by {of}, {encodings:?} {filters:?} round {round}");
                let (rows, _) = scan(&snapshot, &columns, &filters);
                let wanted = wanted(&table, &columns).into_iter().map(Some).collect();
                let scan = snapshot.scan_groups(spec_of(&columns, &filters), of, wanted);
                let mut cursors = [scan.cursor(), scan.cursor()];
                let mut found = BTreeMap::<Option<Value>, ScanTotals>::new();
                for cursor in &mut cursors {
                    while let Some(part) = cursor.next_groups(&[], 0).unwrap() {
                        assert_eq!(part.values.len(), part.rows.len());
                        for (group, rows) in part.rows.iter().enumerate() {
                            let value = Value::of_array(&part.values, group);
                            let sum = found.entry(value).or_insert_with(|| none(10));
                            let columns = part.columns.iter().map(|column| column[group]);
                            let (rows, columns) = (*rows, columns.collect());
                            add(sum, &ScanTotals { rows, columns });
                        }
                    }
                }
                let mut places = BTreeMap::<Option<Value>, Vec<u32>>::new();
                for row in 0..rows.num_rows() {
                    let value = Value::of_array(rows.column(of), row);
                    places.entry(value).or_default().push(row as u32);
                }
                assert!(found.keys().eq(places.keys()), "{context}");
                for (totals, places) in found.values().zip(places.values()) {
                    let places = arrow::array::UInt32Array::from(places.clone());
                    let of_group = arrow::compute::take_record_batch(&rows, &places).unwrap();
                    check(totals, &of_group, &context);
                }
            }
            delete(&database, &table, |id| id % 11 == 3 || id / 2048 % 20 == 1);
        }
    }
}

#[test]
fn scans_for_totals_share_a_pass_with_others() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = table(dir.path(), &[]);
    let snapshot = table.snapshot();
    let columns = [0, 3, 7];
    let mut shared = 0;
    for filters in conditions() {
        let limits = BatchLimits {
            queries: 3,
            wait: std::time::Duration::from_secs(10),
        };
        let spec = || spec_of(&columns, &filters);
        let of_rows = snapshot.scan_in_batch(spec(), database.batches(), limits);
        let of_totals = [0; 2].map(|_| {
            let wanted = wanted(&table, &columns);
            snapshot.scan_totals_in_batch(spec(), wanted, database.batches(), limits)
        });
        // They take turns, as tasks of one thread do.
        let mut cursor = of_rows.cursor();
        let mut cursors = of_totals.each_ref().map(|scan| scan.cursor());
        let (mut rows, mut sums) = (0, [none(3), none(3)]);
        let mut is_over = [false; 3];
        while is_over.contains(&false) {
            while !is_over[2] {
                match cursor.next(&[], 0).unwrap() {
                    Some(batch) if batch.num_rows() == 0 => break,
                    Some(batch) => rows += batch.num_rows(),
                    None => is_over[2] = true,
                }
            }
            for (at, cursor) in cursors.iter_mut().enumerate() {
                while !is_over[at] {
                    match cursor.next_totals(&[], 0).unwrap() {
                        Some(part) if part.rows == 0 => break,
                        Some(part) => add(&mut sums[at], &part),
                        None => is_over[at] = true,
                    }
                }
            }
        }
        let (expected, _) = scan(&snapshot, &columns, &filters);
        assert_eq!(rows, expected.num_rows());
        for sum in &sums {
            check(sum, &expected, &format!("{filters:?}"));
        }
        shared += cursors[0].counters().blocks_shared + cursors[1].counters().blocks_shared;
    }
    assert!(shared > 0);
}

#[test]
fn what_headers_know_is_not_read_and_packed_codes_are_not_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let encodings = [(0, Encoding::FrameOfReference), (2, Encoding::Dynamic)];
    let (database, table) = table(dir.path(), &encodings);
    let snapshot = table.snapshot();
    let read = |wanted: WantedTotals, filters: &[(usize, Filter)]| {
        let scan = snapshot.scan_totals(spec_of(&[0, 2], filters), vec![wanted; 2]);
        let (found, counters) = by_two(&scan, 2);
        (found.columns, counters)
    };
    let extremes = WantedTotals {
        sum: false,
        extremes: true,
    };
    let sum = WantedTotals {
        sum: true,
        extremes: false,
    };
    for wanted in [COUNT, extremes] {
        let (_, counters) = read(wanted, &[]);
        assert_eq!(counters.blocks_read, 0, "{wanted:?}");
    }
    let (found, counters) = read(sum, &[]);
    assert_eq!(found[0].sum, (0..141_000_i128).sum::<i128>());
    assert_eq!((counters.blocks_read, counters.blocks_decoded), (276, 0));
    // A condition leaves parts of two blocks, whose values may be the least and the greatest.
    let id = |id| Value::Ordinal(ordinal::of_i64(id));
    let (found, counters) = read(extremes, &[(0, Filter::between(id(5_000), id(50_000)))]);
    let ordinals = (ordinal::of_i64(5_000), ordinal::of_i64(50_000));
    assert_eq!(found[0].extremes(), Some(ordinals));
    assert!(counters.blocks_read < 10, "{counters:?}");
    assert_eq!(counters.blocks_decoded, 0);
    // Where rows are deleted, the header no longer tells.
    delete(&database, &table, |id| id == 0);
    let snapshot = table.snapshot();
    let (found, counters) = totals(&snapshot, &[0], &[]);
    let ordinals = (ordinal::of_i64(1), ordinal::of_i64(140_999));
    assert_eq!(found.columns[0].extremes(), Some(ordinals));
    assert!(counters.blocks_read > 0);
}

#[test]
fn damaged_copies_are_read_past_and_what_no_copy_has_is_named() {
    let place = Place::new();
    let columns = [0, 2, 3, 6, 7];
    for seed in 0..6 {
        let database = place.open(0);
        let victim = ["far", "b"][seed as usize % 2];
        let len_bytes = std::fs::metadata(place.pool(victim)).unwrap().len();
        place.change(victim, &damage(seed, len_bytes));
        let table = database.table("t").unwrap();
        let (found, _) = totals(&table.snapshot(), &columns, &[]);
        let expected = rows(0..ROWS).project(&columns).unwrap();
        check(&found, &expected, &format!("seed {seed}"));
        let scrubbed = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(scrubbed.lost, [], "seed {seed}");
    }
    let database = place.open(0);
    for tier in ["far", "b"] {
        let block = place.first_block(tier, 7);
        place.change(tier, std::slice::from_ref(&(block + 8..block + 9)));
    }
    let table = database.table("t").unwrap();
    let snapshot = table.snapshot();
    let moment = snapshot.scan_totals(spec_of(&[7], &[]), vec![ALL]);
    let error = drain(&mut moment.cursor(), 1).unwrap_err().to_string();
    assert!(error.contains("moment"), "{error}");
    // All other columns, and what headers know of this one.
    let (found, _) = totals(&snapshot, &[0, 2, 3, 6], &[]);
    let expected = rows(0..ROWS).project(&[0, 2, 3, 6]).unwrap();
    check(&found, &expected, "others");
    let counted = snapshot.scan_totals(spec_of(&[7], &[]), vec![COUNT]);
    let counted = drain(&mut counted.cursor(), 1).unwrap();
    assert_eq!(
        counted.columns[0].count,
        (ROWS - 1 - (ROWS - 1) / 19) as u64
    );
}
