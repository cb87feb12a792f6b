//! Lookups run on the executor, as a statement asks for, and are counted; the values of a list are
//! looked up once, however many segments and threads a scan has.

use crate::support;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Schema};
use tierra_column::{Encoding, Filter, LogicalType, Value, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, Projection, ScanCounters, ScanSpec, Snapshot, TableSpec,
};
use tierra_interleave::{Execution, Lookups, Scheduling};

const SEGMENTS: i32 = 3;
const SEGMENT_ROWS: i32 = 70_000;
const DISTINCT: i32 = 20_000;

fn number(row: i32) -> i32 {
    (row * 7_919 % DISTINCT) * 2
}

fn text(number: i32) -> String {
    format!("value {number:08}")
}

/// Numbers and strings by dictionary, a key, in several segments.
fn table(dir: &std::path::Path) -> (Arc<Database>, Snapshot) {
    let database = Database::create(&dir.join("db"), &support::options()).unwrap();
    let by_dictionary = |name, ty| ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        ..ColumnSpec::new(name, ty)
    };
    let table = database
        .create_table(TableSpec {
            name: "t".to_owned(),
            columns: vec![
                ColumnSpec::new("id", LogicalType::Integer).not_null(),
                by_dictionary("number", LogicalType::Integer),
                by_dictionary("text", LogicalType::Varchar),
            ],
            primary_key: vec![0],
        })
        .unwrap();
    for segment in 0..SEGMENTS {
        let rows = segment * SEGMENT_ROWS..(segment + 1) * SEGMENT_ROWS;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(rows.clone())),
            Arc::new(Int32Array::from_iter_values(rows.clone().map(number))),
            Arc::new(StringViewArray::from_iter_values(
                rows.map(|row| text(number(row))),
            )),
        ];
        let batch = RecordBatch::try_new(table.schema(), columns).unwrap();
        let mut loader = table.loader();
        loader.push(batch).unwrap();
        loader.finish().unwrap();
    }
    assert_eq!(table.snapshot().segments().len(), SEGMENTS as usize);
    let snapshot = table.snapshot();
    (database, snapshot)
}

#[test]
fn a_projection_takes_any_names_and_no_other_types() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let field = |name, ty: LogicalType| Field::new(name, ty.arrow(), true);
    let (number, text) = (
        field("n", LogicalType::Integer),
        field("t", LogicalType::Varchar),
    );
    let project = |columns: &[usize], fields: Vec<Field>| {
        let schema = Arc::new(Schema::new(fields));
        Projection::new(snapshot.table(), columns.to_vec(), schema)
    };
    let renamed = project(&[2, 1], vec![text.clone(), number.clone()]).unwrap();
    assert_eq!(renamed.columns(), [2, 1]);
    assert_eq!(renamed.schema().field(0).name(), "t");
    for (columns, fields, why) in [
        (&[1][..], vec![text.clone()], "t of table t is INTEGER"),
        (&[1], vec![number.clone(), text], "2 fields for 1 columns"),
        (&[3], vec![number], "table t has 3 columns"),
    ] {
        let error = project(columns, fields).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// Every third number, of which every second is in the table.
fn wanted() -> Vec<i32> {
    (0..2 * DISTINCT).step_by(39).collect()
}

fn filters() -> [(usize, Filter); 2] {
    let numbers = wanted().into_iter();
    let ordinals = numbers.clone().map(ordinal::of_i32).collect();
    let strings = numbers.map(|number| text(number).into_bytes().into());
    [
        (1, Filter::in_set(Arc::new(ValueSet::ordinals(ordinals)))),
        (
            2,
            Filter::in_set(Arc::new(ValueSet::bytes(strings.collect()))),
        ),
    ]
}

fn count(
    snapshot: &Snapshot,
    filter: &(usize, Filter),
    execution: Scheduling,
) -> (usize, ScanCounters) {
    let scan = snapshot.scan(ScanSpec {
        projection: vec![],
        filters: vec![filter.clone()],
        batch_rows: 8192,
        execution,
    });
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let mut cursor = scan.cursor();
            std::thread::spawn(move || {
                let mut rows = 0;
                while let Some(batch) = cursor.next(&[], 0).unwrap() {
                    rows += batch.num_rows();
                }
                (rows, cursor.counters())
            })
        })
        .collect();
    let (mut rows, mut counters) = (0, ScanCounters::default());
    for thread in threads {
        let (more, read) = thread.join().unwrap();
        rows += more;
        counters += read;
    }
    (rows, counters)
}

#[test]
fn a_list_is_looked_up_once_for_all_segments_and_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let members = wanted().len() as u64;
    let is_wanted = |row: &i32| number(*row) % 39 == 0;
    let expected = (0..SEGMENTS * SEGMENT_ROWS).filter(is_wanted).count();
    for filter in filters() {
        for scheduling in [
            Scheduling::Auto,
            Execution::Plain.into(),
            Execution::Interleaved.into(),
        ] {
            let (rows, counters) = count(&snapshot, &filter, scheduling);
            assert_eq!(rows, expected, "{scheduling}");
            // Once, and once more what the dictionary's first part does not have.
            let once = members..=2 * members;
            assert!(
                once.contains(&counters.lookups),
                "{scheduling} {counters:?}"
            );
            match scheduling {
                Scheduling::Auto => {}
                Scheduling::Fixed(Execution::Plain) => assert_eq!(counters.suspensions, 0),
                Scheduling::Fixed(Execution::Interleaved) => {
                    assert!(counters.suspensions >= members, "{counters:?}");
                }
            }
        }
    }
}

#[test]
fn keys_and_cells_run_on_the_executor() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, snapshot) = table(dir.path());
    let ids: Vec<i32> = (0..SEGMENTS * SEGMENT_ROWS).step_by(1_001).collect();
    let keys: ArrayRef = Arc::new(Int32Array::from(ids.clone()));
    let projection = snapshot.table().projection(&[0, 1, 2]);
    let mut answers = Vec::new();
    for scheduling in [
        Scheduling::Auto,
        Execution::Plain.into(),
        Execution::Interleaved.into(),
    ] {
        let mut lookups = Lookups::new(scheduling);
        let rows = snapshot
            .rows_by_key(std::slice::from_ref(&keys), &mut lookups)
            .unwrap();
        let found = lookups.report();
        assert_eq!(found.lookups, ids.len() as u64);
        let rows: Vec<_> = rows.into_iter().map(Option::unwrap).collect();
        let batch = snapshot.reconstruct(&rows, &projection, &mut lookups);
        let report = lookups.report();
        assert_eq!(report.lookups, 4 * ids.len() as u64);
        match scheduling {
            Scheduling::Auto => {}
            Scheduling::Fixed(Execution::Plain) => assert_eq!(report.suspensions, 0),
            Scheduling::Fixed(Execution::Interleaved) => {
                assert!(found.suspensions >= ids.len() as u64, "{found:?}");
                // A line of the chunk at least, and for two of three columns one of a dictionary.
                let cells = report.suspensions - found.suspensions;
                assert!(cells >= 5 * ids.len() as u64, "{report:?}");
            }
        }
        answers.push(batch.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let value = |column: usize, row: usize| answers[0].column(column).slice(row, 1);
    assert_eq!(
        value(2, 5).as_ref(),
        &StringViewArray::from(vec![text(number(ids[5]))])
    );

    let last = Value::Ordinal(ordinal::of_i32(number(0)));
    assert_eq!(
        count(&snapshot, &(1, Filter::eq(last)), Scheduling::Auto)
            .1
            .lookups,
        0,
        "a single value is found without lookups of a set"
    );
}

/// What column `at` of a table with all types and encodings holds: an INTEGER key first, then NULLs
/// here and there.
fn any_column(at: usize) -> ColumnSpec {
    let decimal = |precision| LogicalType::Decimal {
        precision,
        scale: 2,
    };
    let types = [
        (LogicalType::Integer, Some(Encoding::Dictionary)),
        (LogicalType::Varchar, Some(Encoding::Dictionary)),
        (LogicalType::Integer, Some(Encoding::FrameOfReference)),
        (LogicalType::Varchar, Some(Encoding::Plain)),
        (LogicalType::BigInt, Some(Encoding::Dynamic)),
        (LogicalType::Date, Some(Encoding::Static)),
        (LogicalType::Timestamp, Some(Encoding::Delta)),
        (LogicalType::Double, Some(Encoding::Plain)),
        (LogicalType::Boolean, None),
        (decimal(10), Some(Encoding::Dictionary)),
        (decimal(30), None),
    ];
    if at == 0 {
        return ColumnSpec::new("id", LogicalType::Integer).not_null();
    }
    let (ty, encoding) = types[at % types.len()];
    ColumnSpec {
        encoding,
        ..ColumnSpec::new(format!("c{at}"), ty)
    }
}

fn any_values(at: usize, rows: std::ops::Range<i32>) -> ArrayRef {
    // Columns without any NULL, with some, and with nothing else.
    let is_null = |row: i32| at > 0 && (at % 13 == 12 || at % 3 == 1 && (row + at as i32) % 7 == 0);
    let numbers = rows
        .clone()
        .map(|row| (!is_null(row)).then_some(row * 31 % 9_973 - 4_000));
    let text = |number: i32| format!("{number:0width$}", width = 1 + number as usize % 40);
    let column = any_column(at);
    match column.ty {
        LogicalType::Integer if at == 0 => Arc::new(Int32Array::from_iter_values(rows)),
        LogicalType::Integer => Arc::new(numbers.collect::<Int32Array>()),
        LogicalType::Date => Arc::new(numbers.collect::<Date32Array>()),
        LogicalType::BigInt => Arc::new(
            numbers
                .map(|number| number.map(i64::from))
                .collect::<Int64Array>(),
        ),
        LogicalType::Timestamp => Arc::new(
            numbers
                .map(|number| number.map(i64::from))
                .collect::<TimestampMicrosecondArray>(),
        ),
        LogicalType::Double => Arc::new(
            numbers
                .map(|number| number.map(f64::from))
                .collect::<Float64Array>(),
        ),
        LogicalType::Boolean => Arc::new(
            numbers
                .map(|number| number.map(|number| number % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        LogicalType::Varchar => Arc::new(
            numbers
                .map(|number| number.map(|number| text(number.abs())))
                .collect::<StringViewArray>(),
        ),
        LogicalType::Decimal { .. } => Arc::new(
            numbers
                .map(|number| number.map(i128::from))
                .collect::<Decimal128Array>()
                .with_data_type(column.ty.arrow()),
        ),
    }
}

#[test]
fn rows_of_segments_and_tail_come_in_the_order_they_were_asked_for() {
    const COLUMNS: usize = 70;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut database = Database::create(&path, &support::options()).unwrap();
    let mut table = database
        .create_table(TableSpec {
            name: "any".to_owned(),
            columns: (0..COLUMNS).map(any_column).collect(),
            primary_key: vec![0],
        })
        .unwrap();
    let (mut parts, mut first) = (Vec::new(), 0);
    // Two that become segments, one that stays in the tail.
    for rows in [66_000, 65_537, 500] {
        let values = |at: usize| any_values(at, first..first + rows);
        let columns = (0..COLUMNS).map(values).collect();
        let part = RecordBatch::try_new(table.schema(), columns).unwrap();
        table.append(std::slice::from_ref(&part)).unwrap();
        parts.push(part);
        first += rows;
    }
    let everything = concat_batches(&table.schema(), &parts).unwrap();

    for is_reopened in [false, true] {
        if is_reopened {
            // No block is verified, and no chunk copied near, until it is used.
            drop((database, table));
            database = Database::open(&path, &support::options()).unwrap();
            table = database.table("any").unwrap();
        }
        let snapshot = table.snapshot();
        assert_eq!((snapshot.segments().len(), snapshot.tail_rows()), (2, 500));
        let every = |step: usize| (0..first).rev().step_by(step).collect::<Vec<_>>();
        for wanted in [vec![], vec![first - 1], vec![7, 7, 131_800, 7], every(977)] {
            let keys: ArrayRef = Arc::new(Int32Array::from(wanted.clone()));
            let mut lookups = Lookups::new(Scheduling::Auto);
            let rows = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
            let rows: Vec<_> = rows.into_iter().map(Option::unwrap).collect();
            let indices = UInt32Array::from_iter_values(wanted.iter().map(|row| *row as u32));
            let expected = take_record_batch(&everything, &indices).unwrap();
            for projection in [(0..COLUMNS).collect(), vec![69, 3, 3, 12], vec![]] {
                let expected = expected.project(&projection).unwrap();
                let projected = Projection::new(&table, projection, expected.schema()).unwrap();
                for scheduling in [
                    Scheduling::Auto,
                    Execution::Plain.into(),
                    Execution::Interleaved.into(),
                ] {
                    let mut lookups = Lookups::new(scheduling);
                    let found = snapshot
                        .reconstruct(&rows, &projected, &mut lookups)
                        .unwrap();
                    assert_eq!(found, expected, "{scheduling}, reopened: {is_reopened}");
                }
            }
        }
    }
}
