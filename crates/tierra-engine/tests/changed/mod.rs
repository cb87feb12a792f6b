//! What the tests of deletions share: a table whose rows are a function of their key and of how often they were changed, a model
//! of what it holds, and every way to read it, compared with the model.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use tierra_column::{Encoding, Filter, LogicalType, Value, ordinal};
use tierra_engine::{
    Change, ColumnSpec, CommitError, Database, IndexKind, IndexUse, RowId, ScanError, ScanSpec,
    Snapshot, Table, TableSpec,
};
use tierra_interleave::{Lookups, Scheduling};

/// Keys, each with the number of its row's changes.
pub(crate) type Model = BTreeMap<i64, i64>;

pub(crate) fn spec(name: &str, has_key: bool) -> TableSpec {
    let word = ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        index: Some(IndexKind::Inverted),
        ..ColumnSpec::new("word", LogicalType::Varchar)
    };
    TableSpec {
        name: name.to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            ColumnSpec::new("changes", LogicalType::BigInt).not_null(),
            word,
            ColumnSpec::new("small", LogicalType::Integer),
        ],
        primary_key: if has_key { vec![0] } else { vec![] },
    }
}

pub(crate) fn word(id: i64, changes: i64) -> Option<String> {
    ((id + changes) % 5 != 0).then(|| format!("word {:03}", (id * 7919 + changes) % 40))
}

pub(crate) fn small(id: i64, changes: i64) -> Option<i32> {
    ((id + changes) % 7 != 0).then_some(((id + 3 * changes) % 1000) as i32)
}

pub(crate) fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let words: StringViewArray = rows
        .iter()
        .map(|(id, changes)| word(*id, *changes))
        .collect();
    let smalls: Int32Array = rows
        .iter()
        .map(|(id, changes)| small(*id, *changes))
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(words),
        Arc::new(smalls),
    ];
    RecordBatch::try_new(spec("any", false).schema(), columns).unwrap()
}

/// All rows that meet the conditions; with their ids as the last column if asked for.
pub(crate) fn scan(
    snapshot: &Snapshot,
    projection: &[usize],
    filters: &[(usize, Filter)],
    index_use: Option<IndexUse>,
) -> Vec<RecordBatch> {
    scanned(snapshot, projection, filters, index_use).unwrap()
}

/// [`scan`] of a database that may be damaged.
pub(crate) fn scanned(
    snapshot: &Snapshot,
    projection: &[usize],
    filters: &[(usize, Filter)],
    index_use: Option<IndexUse>,
) -> Result<Vec<RecordBatch>, ScanError> {
    let spec = ScanSpec {
        projection: projection.to_vec(),
        filters: filters.to_vec(),
        batch_rows: 1000,
        execution: Scheduling::Auto,
    };
    let scan = match index_use {
        Some(index_use) => snapshot.scan_with_indexes(spec, index_use),
        None => snapshot.scan_with_row_ids(spec),
    };
    let mut cursor = scan.cursor();
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0)? {
        batches.push(batch);
    }
    Ok(batches)
}

/// The row id of each key.
pub(crate) fn ids(snapshot: &Snapshot) -> BTreeMap<i64, RowId> {
    let batches = scan(snapshot, &[0], &[], None);
    let pairs = batches.iter().flat_map(|batch| {
        let keys = batch.column(0).as_primitive::<Int64Type>().values().iter();
        let rows = batch.column(1).as_primitive::<UInt64Type>().values().iter();
        keys.copied().zip(rows.map(|row| RowId::from_number(*row)))
    });
    pairs.collect()
}

/// The first two columns.
pub(crate) fn pairs(batch: &RecordBatch) -> Vec<(i64, i64)> {
    let values = |column| batch.column(column).as_primitive::<Int64Type>().values();
    values(0)
        .iter()
        .copied()
        .zip(values(1).iter().copied())
        .collect()
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Compares all ways of reading a snapshot with the model.
pub(crate) fn check(snapshot: &Snapshot, model: &Model, gone: &[RowId], gone_keys: &[i64]) {
    assert_eq!(snapshot.rows(), model.len() as u64, "number of rows");
    let counted = |filters: &[(usize, Filter)], index_use| {
        rows(&scan(snapshot, &[], filters, Some(index_use)))
    };
    assert_eq!(counted(&[], IndexUse::Never), model.len(), "counted rows");
    // All columns, with row ids.
    let batches = scan(snapshot, &[0, 1, 2, 3], &[], None);
    assert_eq!(rows(&batches), model.len(), "scanned rows");
    let mut row_ids = Vec::new();
    for batch in &batches {
        let keys = batch.column(0).as_primitive::<Int64Type>();
        let found: Vec<(i64, i64)> = keys.values().iter().map(|id| (*id, model[id])).collect();
        let expected = self::batch(&found);
        assert_eq!(&batch.columns()[..4], expected.columns());
        let ids = batch.column(4).as_primitive::<UInt64Type>().values();
        row_ids.extend(ids.iter().map(|row| RowId::from_number(*row)));
    }
    let mut distinct: Vec<_> = row_ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), model.len(), "row ids");
    // Late.
    let mut lookups = Lookups::new(Scheduling::Auto);
    let projection = snapshot.table().projection(&[0, 1, 2, 3]);
    let some: Vec<RowId> = row_ids.iter().copied().step_by(7).collect();
    let late = snapshot
        .reconstruct(&some, &projection, &mut lookups)
        .unwrap();
    let keys = late.column(0).as_primitive::<Int64Type>().values();
    let found: Vec<(i64, i64)> = keys.iter().map(|id| (*id, model[id])).collect();
    assert_eq!(late.columns(), self::batch(&found).columns());
    assert!(some.iter().all(|row| snapshot.contains(*row)));
    for row in gone {
        assert!(!snapshot.contains(*row), "{row:?} is deleted");
        assert!(
            snapshot
                .reconstruct(&[*row], &projection, &mut lookups)
                .is_err()
        );
    }
    // By conditions, with and without indexes, counted and read.
    for sought in ["word 000", "word 017", "word 033", "no word"] {
        let filter = || (2, Filter::eq(Value::Bytes(sought.as_bytes().into())));
        let is_it = |(id, changes): &(&i64, &i64)| word(**id, **changes).as_deref() == Some(sought);
        let expected = model.iter().filter(is_it).count();
        for index_use in [IndexUse::Never, IndexUse::Always, IndexUse::WhereCheaper] {
            assert_eq!(
                counted(&[filter()], index_use),
                expected,
                "{sought} {index_use:?}"
            );
            let read = scan(snapshot, &[0], &[filter()], Some(index_use));
            assert_eq!(rows(&read), expected);
        }
        let least = Filter::greater_or_equal(Value::Ordinal(ordinal::of_i32(500)));
        let both = [filter(), (3, least)];
        let expected = model.iter().filter(is_it);
        let expected = expected.filter(|row| small(*row.0, *row.1).is_some_and(|n| n >= 500));
        assert_eq!(counted(&both, IndexUse::Always), expected.count());
    }
    let bounds = snapshot.statistics(3);
    let smalls = || {
        model
            .iter()
            .filter_map(|(id, changes)| small(*id, *changes))
    };
    let value = |n: Option<i32>| n.map(|n| Value::Ordinal(ordinal::of_i32(n)));
    let (least, most) = (value(smalls().min()), value(smalls().max()));
    let nulls = (model.len() - smalls().count()) as u64;
    match bounds.counts_deleted {
        false => assert_eq!(
            (bounds.min, bounds.max, bounds.null_count),
            (least, most, nulls)
        ),
        true => {
            assert!(least.is_none() || bounds.min <= least && most <= bounds.max);
            assert!(nulls <= bounds.null_count);
        }
    }
    assert!(snapshot.indexed_rows(2) <= snapshot.rows());
    let estimate = snapshot.distinct_values(2).unwrap_or(0);
    assert!(estimate <= snapshot.rows().max(50));
    if snapshot.table().spec().primary_key.is_empty() {
        return;
    }
    let keys: Vec<i64> = model.keys().chain(gone_keys).copied().chain([-1]).collect();
    let wanted: ArrayRef = Arc::new(Int64Array::from(keys.clone()));
    let found = snapshot.rows_by_key(&[wanted], &mut lookups).unwrap();
    let mut there = Vec::new();
    for (key, row) in keys.iter().zip(&found) {
        assert_eq!(row.is_some(), model.contains_key(key), "key {key}");
        there.extend(row);
    }
    let late = snapshot
        .reconstruct(&there, &projection, &mut lookups)
        .unwrap();
    let there = keys.iter().filter_map(|key| Some((*key, *model.get(key)?)));
    assert_eq!(
        late.columns(),
        self::batch(&there.collect::<Vec<_>>()).columns()
    );
}

/// A change of a table: rows of some keys go, others come.
pub(crate) fn change(snapshot: &Snapshot, deleted: &[i64], appended: &[(i64, i64)]) -> Change {
    let ids = match deleted.is_empty() {
        true => BTreeMap::new(),
        false => ids(snapshot),
    };
    Change {
        snapshot: snapshot.clone(),
        deleted: deleted.iter().map(|key| ids[key]).collect(),
        appended: match appended.is_empty() {
            true => Vec::new(),
            false => vec![batch(appended)],
        },
    }
}

/// Commits a change of the newest snapshot.
pub(crate) fn commit(
    database: &Database,
    table: &Arc<Table>,
    deleted: &[i64],
    appended: &[(i64, i64)],
) -> Result<(), CommitError> {
    let change = change(&table.snapshot(), deleted, appended);
    database.commit(vec![change]).map(drop)
}

/// A source of random numbers, so that a seed says everything.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    /// Some keys of a model.
    pub(crate) fn keys(&mut self, model: &Model, most: usize) -> Vec<i64> {
        if model.is_empty() {
            return Vec::new();
        }
        let count = 1 + self.below(most);
        let all: Vec<i64> = model.keys().copied().collect();
        let mut keys: Vec<i64> = (0..count).map(|_| all[self.below(all.len())]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
