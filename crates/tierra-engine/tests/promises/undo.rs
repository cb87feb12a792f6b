//! What fails, or is given up, leaves nothing behind: no row, no key, no space.

use std::sync::Arc;

use crate::changed::{self, Model};
use crate::support::{self, NOTE, all_rows, options, pool_bytes, rows, sorted, spec, used_bytes};
use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch};
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{
    AppendError, ColumnSpec, Database, DatabaseOptions, InputError, LoadError, StorageError, Table,
    TableSpec,
};
use tierra_memory::PoolError;

fn load(table: &Arc<Table>, ids: std::ops::Range<i64>) -> Result<(), LoadError> {
    let mut loader = table.loader();
    for start in ids.clone().step_by(50_000) {
        loader.push(rows(start..(start + 50_000).min(ids.end)))?;
    }
    loader.finish().map(|_| ())
}

#[test]
fn a_full_pool_undoes_the_load_and_leaves_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let small = DatabaseOptions {
        capacity_bytes: Some(48 << 20),
        ..options()
    };
    let database = Database::create(&dir, &small).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    load(&table, 0..100_000).unwrap();
    table.append(&[rows(100_000..100_100)]).unwrap();
    let before = used_bytes(&database);
    let error = load(&table, 1_000_000..3_500_000).unwrap_err();
    let full = matches!(
        error,
        LoadError::Storage(StorageError::Pool(PoolError::Full { .. }))
    );
    assert!(full, "{error}");
    assert_eq!(used_bytes(&database), before, "its space was given back");
    assert_eq!(all_rows(&table), rows(0..100_100));
    // There is room for what fits, under the same keys.
    load(&table, 1_000_000..1_070_000).unwrap();
    assert_eq!(table.snapshot().rows(), 170_100);
    drop((table, database));
    let database = Database::open(&dir, &small).unwrap();
    assert_eq!(database.table("t").unwrap().snapshot().rows(), 170_100);
}

#[test]
fn a_full_pool_refuses_appends_and_keeps_what_was_appended() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let small = DatabaseOptions {
        capacity_bytes: Some(16 << 20),
        ..options()
    };
    let database = Database::create(&dir, &small).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let mut count = 0;
    let error = loop {
        match table.append(&[rows(count..count + 5_000)]) {
            Ok(_) => count += 5_000,
            Err(error) => break error,
        }
    };
    let full = matches!(
        error,
        AppendError::Storage(StorageError::Pool(PoolError::Full { .. }))
    );
    assert!(full && count > 0, "{error}");
    assert_eq!(all_rows(&table), rows(0..count));
    drop((table, database));
    let database = Database::open(&dir, &small).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..count));
}

#[test]
fn a_load_that_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    load(&table, 0..70_000).unwrap();
    let before = used_bytes(&database);
    let mut loader = table.loader();
    for start in (100_000..1_300_000).step_by(50_000) {
        loader.push(rows(start..start + 50_000)).unwrap();
    }
    assert_eq!(
        table.snapshot().rows(),
        70_000,
        "nothing is visible before the end"
    );
    drop(loader);
    assert_eq!(used_bytes(&database), before);
    assert_eq!(all_rows(&table), rows(0..70_000));
}

#[test]
fn rows_that_do_not_fit_are_named_and_none_of_them_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let good = rows(0..10);
    let with = |column: usize, values: ArrayRef| {
        let mut columns = good.columns().to_vec();
        let mut fields: Vec<_> = good.schema().fields().iter().cloned().collect();
        fields[column] = Arc::new(
            fields[column]
                .as_ref()
                .clone()
                .with_data_type(values.data_type().clone())
                .with_nullable(true),
        );
        columns[column] = values;
        RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap()
    };
    let refused = |bad: RecordBatch| match table.append(&[good.clone(), bad]).unwrap_err() {
        AppendError::Input(error) => error,
        other => panic!("{other}"),
    };

    let error = refused(with(0, Arc::new(Int32Array::from_iter_values(0..10))));
    assert_eq!(
        error.to_string(),
        "table \"t\", column \"id\" is BIGINT, the rows have Int32: cast them first"
    );
    let error = refused(with(
        0,
        Arc::new(
            (0..10)
                .map(|id| (id != 4).then_some(id))
                .collect::<arrow::array::Int64Array>(),
        ),
    ));
    assert!(matches!(error, InputError::Null { row: 4, .. }), "{error}");
    let digits = arrow::array::Decimal128Array::from_iter_values(
        (0..10).map(|row| if row == 7 { 10_i128.pow(12) } else { row }),
    );
    let error = refused(with(
        3,
        Arc::new(digits.with_precision_and_scale(12, 2).unwrap()),
    ));
    assert!(
        error.to_string().contains("row 7 is 10000000000.00"),
        "{error}"
    );
    let error = refused(good.project(&[0, 1]).unwrap());
    assert!(
        matches!(
            error,
            InputError::ColumnCount {
                expected: 10,
                found: 2,
                ..
            }
        ),
        "{error}"
    );

    let mut loader = table.loader();
    loader.push(rows(0..70_000)).unwrap();
    assert!(loader.push(good.project(&[0]).unwrap()).is_err());
    assert!(matches!(loader.push(rows(0..1)), Err(LoadError::Undone)));
    assert!(matches!(loader.finish(), Err(LoadError::Undone)));
    assert_eq!(table.snapshot().rows(), 0);

    // Other text types are text.
    let city = good.column(support::CITY);
    let plain = arrow::compute::cast(city, &arrow::datatypes::DataType::Utf8).unwrap();
    table.append(&[with(support::CITY, plain)]).unwrap();
    assert_eq!(all_rows(&table), good);
    assert_eq!(city.len(), 10);
}

#[test]
fn a_table_begun_for_a_load_appears_with_its_rows_or_never() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let mut database = Database::create(&dir, &options()).unwrap();
    let before = used_bytes(&database);
    // Given up, few rows or many: nothing is left, now or after opening.
    for count in [0, 10, 70_000, 1_200_000] {
        let table = database.begin_table(spec("t", vec![0])).unwrap();
        let mut loader = table.loader();
        for start in (0..count).step_by(50_000) {
            loader
                .push(rows(start..(start + 50_000).min(count)))
                .unwrap();
        }
        assert!(database.tables().is_empty() && database.table("t").is_none());
        drop((loader, table));
        assert_eq!(used_bytes(&database), before);
    }
    drop(database);
    database = Database::open(&dir, &options()).unwrap();
    assert!(database.tables().is_empty());
    // Committed, the rows are there with it, and it goes on as any other.
    for (name, count) in [("none", 0), ("few", 10), ("segment", 70_000)] {
        let table = database.begin_table(spec(name, vec![0])).unwrap();
        load(&table, 0..count).unwrap();
        assert_eq!(database.table(name).unwrap().id(), table.id());
        table.append(&[rows(count..count + 5)]).unwrap();
        load(&table, count + 5..count + 20).unwrap();
        assert_eq!(sorted(&all_rows(&table)), sorted(&rows(0..count + 20)));
    }
    let appended = database.begin_table(spec("appended", vec![])).unwrap();
    appended.append(&[rows(0..3)]).unwrap();
    drop((appended, database));
    database = Database::open(&dir, &options()).unwrap();
    for (name, count) in [
        ("none", 20),
        ("few", 30),
        ("segment", 70_020),
        ("appended", 3),
    ] {
        let table = database.table(name).unwrap();
        assert_eq!(sorted(&all_rows(&table)), sorted(&rows(0..count)), "{name}");
        table.seal().unwrap();
    }
}

#[test]
fn of_two_tables_begun_with_one_name_the_first_committed_stays() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let begin = || database.begin_table(spec("t", vec![0])).unwrap();
    let (first, second, third) = (begin(), begin(), begin());
    load(&second, 0..10).unwrap();
    for (late, count) in [(&first, 10), (&third, 70_000)] {
        let error = load(late, 0..count).unwrap_err();
        let created = matches!(error, LoadError::Storage(StorageError::Created { .. }));
        assert!(created, "{error}");
    }
    assert!(database.begin_table(spec("t", vec![])).is_err());
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..10));
    database.drop_table("t").unwrap();
    // The name is free again; ids are not.
    let again = begin();
    load(&again, 0..3).unwrap();
    assert!(again.id() > third.id());
    let after = database.create_table(spec("u", vec![])).unwrap();
    assert!(after.id() > again.id());
    drop((again, after, first, second, third, database));
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(database.tables(), ["t", "u"]);
}

/// A key that is stored already is noticed at the commit, when every value has its code.
#[test]
fn a_load_that_is_refused_at_its_commit_leaves_no_codes() {
    let used = [true, false].map(|refused| {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("db"), &options()).unwrap();
        let mut spec = spec("t", vec![0]);
        spec.columns[NOTE].encoding = Some(Encoding::Dictionary);
        let table = database.create_table(spec).unwrap();
        load(&table, 0..100_000).unwrap();
        if refused {
            let error = load(&table, 99_999..300_000).unwrap_err();
            assert!(matches!(error, LoadError::DuplicateKey(_)), "{error}");
        }
        // What is committed next would bring along every code that had been given out.
        load(&table, 100_000..170_000).unwrap();
        assert_eq!(all_rows(&table), rows(0..170_000));
        // Which chunks have near copies depends on when the first load's were made.
        pool_bytes(&database)
    });
    assert_eq!(used[0], used[1], "with the refused load, and without");
}

/// A pool without room for the segment that a compaction makes: everything stays as it was, and goes on. Once there is room, the
/// rows that are gone give back theirs.
#[test]
fn a_pool_that_is_full_leaves_out_a_compaction() {
    const CAPACITY_BYTES: u64 = 24 << 20;
    const ROWS: i64 = 800_000;
    const GONE: i64 = 260_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let small = DatabaseOptions {
        capacity_bytes: Some(CAPACITY_BYTES),
        ..options()
    };
    let database = Database::create(&path, &small).unwrap();
    let table = database.create_table(changed::spec("t", true)).unwrap();
    let all: Vec<(i64, i64)> = (0..ROWS).map(|key| (key, 0)).collect();
    changed::commit(&database, &table, &[], &all).unwrap();
    changed::commit(&database, &table, &[], &[(ROWS, 0)]).unwrap();
    let mut model: Model = all.into_iter().chain([(ROWS, 0)]).collect();
    // A quarter of a MiB at a time, which cannot be made smaller.
    let numbers = ColumnSpec::new("number", LogicalType::Integer);
    let filler = TableSpec {
        name: "filler".to_owned(),
        columns: vec![numbers],
        primary_key: vec![],
    };
    let filler = database.create_table(filler).unwrap();
    let batch = |first: i32| {
        let numbers = (first..first + 66_000).map(|n| n.wrapping_mul(0x5851_F42D));
        let numbers: ArrayRef = Arc::new(numbers.collect::<Int32Array>());
        RecordBatch::try_new(filler.schema(), vec![numbers]).unwrap()
    };
    let mut loads = (0..).map(|load| filler.append(&[batch(load * 66_000)]));
    assert!(loads.any(|load| load.is_err()));
    let (stored, before) = (table.snapshot().stored_bytes(), pool_bytes(&database));
    let room = CAPACITY_BYTES - before;
    assert!(
        room < stored / 2,
        "{room} bytes left for two thirds of {stored}"
    );
    let gone: Vec<i64> = (0..GONE).collect();
    changed::commit(&database, &table, &gone, &[]).unwrap();
    model.retain(|key, _| *key >= GONE);
    let after = pool_bytes(&database);
    assert_eq!(table.snapshot().deleted_rows(), GONE as u64, "compacted");
    assert!(after <= before + (1 << 16), "{after} of {before} bytes");
    changed::check(&table.snapshot(), &model, &[], &[7]);
    // Commits go on.
    changed::commit(&database, &table, &[GONE], &[(GONE, 1)]).unwrap();
    model.insert(GONE, 1);
    database.wait_for_near_copies().unwrap();
    changed::check(&table.snapshot(), &model, &[], &[7]);
    drop((table, filler));
    database.close();
    drop(database);
    let database = Database::open(&path, &small).unwrap();
    let table = database.table("t").unwrap();
    changed::check(&table.snapshot(), &model, &[], &[7]);
    database.drop_table("filler").unwrap();
    changed::commit(&database, &table, &[GONE + 1], &[]).unwrap();
    model.remove(&(GONE + 1));
    database.wait_for_near_copies().unwrap();
    assert_eq!(table.snapshot().deleted_rows(), 0);
    changed::check(&table.snapshot(), &model, &[], &[7]);
}
