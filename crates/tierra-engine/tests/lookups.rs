//! Look-ups run on the executor, as a statement asks for, and are counted; the values of a list are
//! looked up once, however many segments and threads a scan has.

mod support;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use tierra_column::{Encoding, Filter, LogicalType, Value, ValueSet, ordinal};
use tierra_engine::{ColumnSpec, Database, ScanCounters, ScanSpec, Snapshot, TableSpec};
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
    let schema = snapshot.table().schema();
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
        let batch = snapshot.reconstruct(&rows, &[0, 1, 2], &schema, &mut lookups);
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
        "a single value is found without look-ups of a set"
    );
}
