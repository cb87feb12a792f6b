//! Primary keys are unique whatever way rows come in, and rows are found by them and put together
//! again, in either execution.

use std::sync::Arc;

use crate::support::{CITY, all_rows, options, rows, rows_of, spec};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use tierra_engine::{AppendError, Database, LoadError, LookupError, RowId, Table};
use tierra_interleave::{Execution, Lookups};

fn found(table: &Arc<Table>, keys: &[ArrayRef]) -> Vec<Option<RowId>> {
    let plain = table
        .snapshot()
        .rows_by_key(keys, &mut Lookups::new(Execution::Plain))
        .unwrap();
    assert_eq!(
        plain,
        table
            .snapshot()
            .rows_by_key(keys, &mut Lookups::new(Execution::Interleaved))
            .unwrap()
    );
    plain
}

fn reconstructed(table: &Arc<Table>, rows: &[RowId]) -> RecordBatch {
    let projection = table.projection(&Vec::from_iter(0..10));
    let one = |execution| {
        table
            .snapshot()
            .reconstruct(rows, &projection, &mut Lookups::new(execution))
            .unwrap()
    };
    assert_eq!(one(Execution::Plain), one(Execution::Interleaved));
    one(Execution::Interleaved)
}

fn ids(ids: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(ids.to_vec()))
}

#[test]
fn rows_are_found_and_put_together_from_segments_and_tail() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..100_000)).unwrap();
    loader.finish().unwrap();
    for id in 100_000..100_100 {
        table.append(&[rows(id..id + 1)]).unwrap();
    }
    let wanted = [99_999, 0, 100_099, 5, 1_023, 1_024, 100_000, 77_777];
    let check = |table: &Arc<Table>| {
        let rows = found(table, &[ids(&wanted)])
            .into_iter()
            .map(Option::unwrap);
        assert_eq!(
            reconstructed(table, &rows.collect::<Vec<_>>()),
            rows_of(&wanted)
        );
        assert_eq!(found(table, &[ids(&[-1, 100_100])]), [None, None]);
        let null: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(7)]));
        assert!(matches!(found(table, &[null])[..], [None, Some(_)]));
    };
    check(&table);
    let before = found(&table, &[ids(&wanted)]);
    table.seal().unwrap();
    check(&table);
    assert_eq!(
        found(&table, &[ids(&wanted)]),
        before,
        "rows keep their ids when they are sealed"
    );
    drop((table, database));
    let database = Database::open(&dir.path().join("db"), &options()).unwrap();
    let table = database.table("t").unwrap();
    check(&table);
    assert_eq!(
        found(&table, &[ids(&wanted)]),
        before,
        "and when they are read back"
    );
    assert_eq!(all_rows(&table), rows(0..100_100));
}

#[test]
fn a_key_of_several_columns_is_verified_not_only_hashed() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![CITY, 0])).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..70_000)).unwrap();
    loader.finish().unwrap();
    table.append(&[rows(70_000..70_010)]).unwrap();
    let cities: ArrayRef = Arc::new(StringViewArray::from(vec![
        "city number 007",
        "city number 007",
        "city number 003",
    ]));
    let rows_found = found(&table, &[cities, ids(&[7, 8, 70_003])]);
    assert!(
        matches!(rows_found[..], [Some(_), None, Some(_)]),
        "{rows_found:?}"
    );
    let pair = [rows_found[0].unwrap(), rows_found[2].unwrap()];
    assert_eq!(reconstructed(&table, &pair), rows_of(&[7, 70_003]));
    let error = table.append(&[rows(69_999..70_000)]).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("(city = city number 199, id = 69999)"),
        "{told}"
    );
}

#[test]
fn duplicates_are_refused_and_named_whatever_way_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let load = |parts: &[RecordBatch]| {
        let mut loader = table.loader();
        parts
            .iter()
            .try_for_each(|part| loader.push(part.clone()))?;
        loader.finish()
    };
    load(&[rows(0..70_000)]).unwrap();
    table.append(&[rows(70_000..70_100)]).unwrap();
    let unchanged = || assert_eq!(all_rows(&table), rows(0..70_100));

    let refused = |error: AppendError, key: &str| match error {
        AppendError::DuplicateKey(error) => assert_eq!(error.key, key),
        other => panic!("{other}"),
    };
    // Of a segment, of the tail, within the append.
    refused(
        table
            .append(&[rows(80_000..80_010), rows(5..6)])
            .unwrap_err(),
        "(id = 5)",
    );
    refused(
        table.append(&[rows(70_099..70_101)]).unwrap_err(),
        "(id = 70099)",
    );
    refused(
        table
            .append(&[rows_of(&[90_000, 90_001, 90_000])])
            .unwrap_err(),
        "(id = 90000)",
    );
    unchanged();

    let refused = |error: LoadError, key: &str| match error {
        LoadError::DuplicateKey(error) => assert_eq!(error.key, key),
        other => panic!("{other}"),
    };
    // Of a segment, of the tail, within the load.
    refused(
        load(&[rows(100_000..170_000), rows(69_999..70_000)]).unwrap_err(),
        "(id = 69999)",
    );
    refused(
        load(&[rows(70_050..70_051), rows(100_000..170_000)]).unwrap_err(),
        "(id = 70050)",
    );
    refused(
        load(&[rows(100_000..170_000), rows(100_001..100_002)]).unwrap_err(),
        "(id = 100001)",
    );
    unchanged();

    // What was refused left nothing in the way.
    load(&[rows(100_000..170_000)]).unwrap();
    assert_eq!(table.snapshot().rows(), 140_100);
}

#[test]
fn a_table_without_a_key_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let error = table
        .snapshot()
        .rows_by_key(&[ids(&[1])], &mut Lookups::default())
        .unwrap_err();
    assert!(matches!(error, LookupError::NoPrimaryKey { .. }), "{error}");
    let keyed = database.create_table(spec("k", vec![0])).unwrap();
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
    let error = keyed
        .snapshot()
        .rows_by_key(&[text], &mut Lookups::default())
        .unwrap_err();
    assert!(matches!(error, LookupError::KeyShape { .. }), "{error}");
}

/// A lookup of a few keys in a large table that was just opened is answered by a scan; the index is built meanwhile.
#[test]
fn a_large_table_answers_before_its_index_is_built() {
    const ROWS: i64 = (1 << 20) + 5_000;
    let dir = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    for key in [vec![0], vec![1, 0]] {
        let db = dir.path().join(format!("db{}", key.len()));
        let mut spec = spec("t", key.clone());
        spec.columns
            .retain(|column| ["id", "city"].contains(&column.name.as_str()));
        let columns = |ids: std::ops::Range<i64>| -> Vec<ArrayRef> {
            // In no order.
            let numbers: Int64Array = ids.clone().map(|id| id * 7919 % ROWS).collect();
            let cities = ids.map(|id| format!("city {}", id % 300));
            vec![
                Arc::new(numbers),
                Arc::new(StringViewArray::from_iter_values(cities)),
            ]
        };
        let batch = |ids| RecordBatch::try_new(spec.schema(), columns(ids)).unwrap();
        {
            let database = Database::create(&db, &options()).unwrap();
            let table = database.create_table(spec.clone()).unwrap();
            let mut loader = table.loader();
            loader.push(batch(0..ROWS - 10)).unwrap();
            loader.finish().unwrap();
            table.append(&[batch(ROWS - 10..ROWS)]).unwrap();
        }
        let database = Database::open(&db, &options()).unwrap();
        let snapshot = database.table("t").unwrap().snapshot();
        // Sealed, in the tail, and twice none.
        let mut wanted = columns(0..4);
        let mut last = columns(ROWS - 1..ROWS);
        last[0] = Arc::new(Int64Array::from(vec![ROWS + 7]));
        for (column, (wanted, absent)) in wanted.iter_mut().zip(last).enumerate() {
            let tail = columns(ROWS - 1..ROWS).swap_remove(column);
            let parts = [wanted.slice(2, 1), tail, absent.clone(), absent];
            let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
            *wanted = arrow::compute::concat(&parts).unwrap();
        }
        let keys: Vec<ArrayRef> = key.iter().map(|column| wanted[*column].clone()).collect();
        let find = || {
            let mut lookups = Lookups::new(Execution::Plain);
            let found = snapshot.rows_by_key(&keys, &mut lookups).unwrap();
            (found, lookups.report().lookups)
        };
        let (scanned, lookups) = find();
        // It was closed before the keys, which come in no order, were indexed; unless that was faster.
        if snapshot.key_index().listed_rows == 0 {
            assert_eq!(lookups, 0, "there was no index to look them up in");
        }
        assert!(scanned[0].is_some() && scanned[1].is_some());
        assert_eq!(scanned[2..], [None, None]);
        database.wait_for_near_copies().unwrap();
        assert_eq!(find(), (scanned, 4), "the index is built behind");
    }
}
