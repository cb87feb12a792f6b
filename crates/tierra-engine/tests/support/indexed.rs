//! A table with inverted indexes, and an oracle of what lists of values find in it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use tierra_column::{Filter, LogicalType, ValueSet, ordinal};
use tierra_engine::{
    ColumnSpec, Database, DatabaseOptions, IndexKind, ScanCounters, Snapshot, Table, TableSpec,
};

use super::scan;

pub(crate) const NUMBER: usize = 1;
pub(crate) const TEXT: usize = 2;

pub(crate) fn options(near_memory_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        threads: std::num::NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

pub(crate) fn spec(name: &str, index: Option<IndexKind>) -> TableSpec {
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
pub(crate) fn batch(first: i64, numbers: &[Option<i32>]) -> RecordBatch {
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

pub(crate) fn text(number: i32) -> String {
    format!("the text of {number}")
}

pub(crate) fn load(table: &Arc<Table>, first: i64, numbers: &[Option<i32>]) {
    let mut loader = table.loader();
    for (at, numbers) in numbers.chunks(50_000).enumerate() {
        loader
            .push(batch(first + at as i64 * 50_000, numbers))
            .unwrap();
    }
    loader.finish().unwrap();
}

pub(crate) fn in_list(column: usize, values: &[i32]) -> (usize, Filter) {
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

pub(crate) fn ids(rows: &RecordBatch) -> Vec<i64> {
    let mut ids = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

/// A table and the numbers in it, by id.
pub(crate) struct Fixture {
    pub(crate) database: Arc<Database>,
    pub(crate) table: Arc<Table>,
    pub(crate) numbers: Vec<Option<i32>>,
}

impl Fixture {
    pub(crate) fn create(dir: &Path, near_memory_bytes: u64) -> Self {
        let database = Database::create(&dir.join("db"), &options(near_memory_bytes)).unwrap();
        let table = database.create_table(spec("t", Some(IndexKind::Inverted)));
        Self {
            table: table.unwrap(),
            database,
            numbers: Vec::new(),
        }
    }

    /// Closed and opened.
    pub(crate) fn reopen(self, dir: &Path, near_memory_bytes: u64) -> Self {
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

    pub(crate) fn load(&mut self, numbers: impl IntoIterator<Item = Option<i32>>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        load(&self.table, self.numbers.len() as i64, &numbers);
        self.numbers.extend(numbers);
    }

    pub(crate) fn append(&mut self, numbers: impl IntoIterator<Item = Option<i32>>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        let rows = batch(self.numbers.len() as i64, &numbers);
        self.table.append(&[rows]).unwrap();
        self.numbers.extend(numbers);
    }

    /// What there is once everything in the background is done.
    pub(crate) fn settled(&self) -> Snapshot {
        self.database.wait_for_near_copies().unwrap();
        self.table.snapshot()
    }

    pub(crate) fn expected(&self, values: &[i32]) -> Vec<i64> {
        let values: HashSet<i32> = values.iter().copied().collect();
        let rows = self.numbers.iter().zip(0_i64..);
        let found = rows.filter(|(n, _)| n.is_some_and(|n| values.contains(&n)));
        found.map(|(_, id)| id).collect()
    }

    /// Both columns answer the list as the oracle does; returns what it took, by column.
    pub(crate) fn check(&self, snapshot: &Snapshot, values: &[i32]) -> [ScanCounters; 2] {
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

    pub(crate) fn parts(&self, snapshot: &Snapshot) -> usize {
        snapshot.index_parts(NUMBER)
    }
}

pub(crate) fn ids_unsorted(rows: &RecordBatch) -> &[i64] {
    rows.column(0).as_primitive::<Int64Type>().values()
}

/// Different numbers in an order of their own: the last of a dictionary's codes are not the last rows.
pub(crate) fn spread(rows: std::ops::Range<i32>) -> impl Iterator<Item = Option<i32>> {
    rows.map(|row| Some((i64::from(row) * 7_919 % 1_000_003) as i32))
}
