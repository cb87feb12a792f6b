//! Loads that read a source column by column: the same rows as batches give, or nothing at all.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{self, all_rows, options, rows, spec, used_bytes};
use arrow::array::{Array, ArrayRef, RecordBatch};
use tierra_engine::{ColumnSource, ColumnsError, Database, InputError, LoadError, SEGMENT_ROWS};

/// A batch read column by column, in arrays of 10,007 values.
struct Columns {
    batch: RecordBatch,
    /// A column of which one value too many is given.
    too_long: Option<usize>,
    /// The read that fails, counted from 0.
    fails_at: usize,
    reads: AtomicUsize,
}

impl Columns {
    fn of(batch: RecordBatch) -> Self {
        Self {
            batch,
            too_long: None,
            fails_at: usize::MAX,
            reads: AtomicUsize::new(0),
        }
    }
}

impl ColumnSource for Columns {
    type Error = String;

    fn rows(&self) -> u64 {
        self.batch.num_rows() as u64
    }

    fn bytes(&self, _: usize, rows: Range<u64>) -> u64 {
        8 * (rows.end - rows.start)
    }

    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, String> {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.fails_at {
            return Err("the disk is gone".to_owned());
        }
        let values = self.batch.column(column);
        let end = rows.end as usize;
        let mut arrays: Vec<ArrayRef> = (rows.start as usize..end)
            .step_by(10_007)
            .map(|start| values.slice(start, 10_007.min(end - start)))
            .collect();
        if self.too_long == Some(column) {
            arrays.push(values.slice(0, 1));
        }
        Ok(arrays)
    }
}

#[test]
fn columns_give_the_rows_that_batches_give() {
    let most = 2 * SEGMENT_ROWS as i64;
    for count in [0, 1, 65_535, 65_536, most / 2, most / 2 + 1, most + 1] {
        for key in [vec![], vec![0]] {
            let dir = tempfile::tempdir().unwrap();
            let database = Database::create(&dir.path().join("db"), &options()).unwrap();
            let table = database.create_table(spec("t", key)).unwrap();
            let mut loader = table.loader();
            // Rows pushed before and after keep their places.
            loader.push(rows(0..7)).unwrap();
            let columns = Columns::of(rows(7..7 + count));
            loader.push_columns(&columns).unwrap();
            loader.push(rows(7 + count..10 + count)).unwrap();
            assert_eq!(loader.rows(), 10 + count as u64);
            assert_eq!(loader.finish().unwrap().rows, 10 + count as u64);
            assert!(all_rows(&table) == rows(0..10 + count), "{count} rows");
        }
    }
}

#[test]
fn whatever_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    table.append(&[rows(5..6)]).unwrap();
    let before = used_bytes(&database);
    let load = |columns: &Columns| {
        let mut loader = table.loader();
        let error = loader.push_columns(columns).unwrap_err();
        let after = loader.push(rows(0..1)).unwrap_err();
        assert!(matches!(after, LoadError::Undone), "{after}");
        error
    };
    let most = SEGMENT_ROWS as i64;

    let reads = Columns::of(rows(10..10 + most + 70_000));
    for fails_at in [0, 9, 15, 20] {
        let error = load(&Columns {
            fails_at,
            ..Columns::of(reads.batch.clone())
        });
        assert!(matches!(&error, ColumnsError::Source(message) if message == "the disk is gone"));
    }
    let error = load(&Columns {
        too_long: Some(3),
        ..Columns::of(reads.batch.clone())
    });
    let expected = |found: &InputError| matches!(found, InputError::RowCount { column, .. } if column == "price");
    assert!(
        matches!(&error, ColumnsError::Load(LoadError::Input(input)) if expected(input)),
        "{error}"
    );

    // A NULL is named by its row in the source.
    let mut columns = reads.batch.columns().to_vec();
    let at = most as usize + 60_000;
    let ids: arrow::array::Int64Array = (0..columns[0].len())
        .map(|row| (row != at).then_some(row as i64))
        .collect();
    columns[0] = Arc::new(ids);
    let nullable = spec("t", vec![]).schema();
    let fields: Vec<_> = nullable
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let with_null = RecordBatch::try_new(schema, columns).unwrap();
    let error = load(&Columns::of(with_null)).to_string();
    assert!(error.contains(&format!("row {at} is NULL")), "{error}");

    // A key that comes twice, in different segments.
    let mut ids: Vec<i64> = (10..10 + most + 70_000).collect();
    ids[most as usize + 3] = 10;
    let error = load(&Columns::of(support::rows_of(&ids)));
    assert!(
        matches!(&error, ColumnsError::Load(LoadError::DuplicateKey(_))),
        "{error}"
    );

    assert_eq!(used_bytes(&database), before, "its space was given back");
    assert_eq!(all_rows(&table), rows(5..6));
}
