//! From predicates to keys: predicates that restrict every column of a table's primary key to a few values.
//!
//! Invariant: a [`KeyLookup`] holds each key once. A row meets the predicates that the lookup replaces if and only if
//! the lookup holds its key.

use std::ops::Bound;

use arrow::array::{Array, ArrayRef};
use datafusion::error::Result;
use tierra_column::{Filter, FilterKind, Value};
use tierra_engine::{LookupError, RowId, Snapshot, Table};
use tierra_interleave::Lookups;

use crate::types::logical_type;
use crate::values;

/// A lookup costs about as much as scanning this many rows: with one key per 128 rows, lookups take 0.4 to 0.6 of a
/// scan's time (`examples/late_rows.rs`, 1 M rows, two threads).
const ROWS_PER_LOOKUP: u64 = 96;

/// The predicates that a statement has for a table.
pub(crate) struct KeyPredicates<'a> {
    /// Filters on one column each.
    pub(crate) filters: &'a [(usize, Filter)],
    /// Lists of whole keys: each key has one value per key column. The number identifies the list.
    pub(crate) tuples: &'a [(usize, Vec<Vec<Value>>)],
}

/// Keys to look up.
#[derive(Debug, Clone)]
pub(crate) struct KeyLookup {
    /// One array per key column, one row per key.
    keys: Vec<ArrayRef>,
    /// The indices of the filters that it replaces.
    filters: Vec<usize>,
    /// The number of the list of keys that it replaces.
    tuples: Option<usize>,
}

impl KeyLookup {
    pub(crate) fn len(&self) -> usize {
        self.keys.first().map_or(0, |column| column.len())
    }

    /// A range of the keys, one array per key column.
    pub(crate) fn slice(&self, start: usize, len: usize) -> Vec<ArrayRef> {
        let keys = self.keys.iter();
        keys.map(|column| column.slice(start, len)).collect()
    }

    /// Whether the lookup replaces the filter at `place`.
    pub(crate) fn stands_for_filter(&self, place: usize) -> bool {
        self.filters.contains(&place)
    }

    /// Whether the lookup replaces the list of keys of that number.
    pub(crate) fn stands_for_tuples(&self, number: usize) -> bool {
        self.tuples == Some(number)
    }

    /// The lookup for `predicates`, if they restrict every column of the key to so few values that a scan would cost more.
    pub(crate) fn find(
        table: &Table,
        snapshot: &Snapshot,
        predicates: &KeyPredicates<'_>,
    ) -> Option<Self> {
        let key = &table.spec().primary_key;
        if key.is_empty() {
            return None;
        }
        let most = usize::try_from(snapshot.rows() / ROWS_PER_LOOKUP).ok()?;
        let most = most.max(1);
        let schema = table.schema();
        let arrays = |columns: &[Vec<Value>]| {
            let arrays = key.iter().zip(columns);
            let arrays = arrays
                .map(|(&column, values)| values::array(logical_type(&schema, column), values));
            arrays.collect::<Result<Vec<_>>>().ok()
        };
        if let Some((columns, filters)) = columns_fixed(key, predicates.filters, most) {
            return Some(Self {
                keys: arrays(&columns)?,
                filters,
                tuples: None,
            });
        }
        let lists = predicates.tuples.iter();
        let (number, list) = lists
            .filter(|(_, list)| list.len() <= most)
            .min_by_key(|(_, list)| list.len())?;
        let columns: Vec<Vec<Value>> = (0..key.len())
            .map(|part| list.iter().map(|key| key[part].clone()).collect())
            .collect();
        Some(Self {
            keys: arrays(&columns)?,
            filters: Vec::new(),
            tuples: Some(*number),
        })
    }
}

/// The values that filters on single columns leave, by key column, and the indices of these filters.
fn columns_fixed(
    key: &[usize],
    filters: &[(usize, Filter)],
    most: usize,
) -> Option<(Vec<Vec<Value>>, Vec<usize>)> {
    // One list per key column, with one entry per key.
    let mut columns: Vec<Vec<Value>> = Vec::with_capacity(key.len());
    let mut used = Vec::with_capacity(key.len());
    let mut keys = 1;
    for column in key {
        let fixing = filters.iter().enumerate();
        let fixing = fixing.filter(|(_, (other, _))| other == column);
        let (place, values) = fixing
            .filter_map(|(place, (_, filter))| Some((place, points(filter, most)?)))
            .min_by_key(|(_, values)| values.len())?;
        if values.len().saturating_mul(keys) > most {
            return None;
        }
        // The cross product of the keys so far and this column's values.
        for known in &mut columns {
            *known = values.iter().flat_map(|_| known.iter().cloned()).collect();
        }
        let column = values.iter();
        let column = column.flat_map(|value| std::iter::repeat_n(value.clone(), keys));
        columns.push(column.collect());
        keys *= values.len();
        used.push(place);
    }
    Some((columns, used))
}

/// The values that a filter lists, each once, if there are at most `most`.
fn points(filter: &Filter, most: usize) -> Option<Vec<Value>> {
    if filter.matches_null {
        return None;
    }
    match &filter.kind {
        FilterKind::Ranges(ranges) if ranges.len() <= most => ranges
            .iter()
            .map(|range| match range {
                (Bound::Included(low), Bound::Included(high)) if low == high => Some(low.clone()),
                _ => None,
            })
            .collect(),
        FilterKind::Set {
            values,
            negated: false,
        } if values.len() <= most => Some(values.values()),
        _ => None,
    }
}

/// The rows that have one of `keys`, in the table's order, each once.
pub(crate) fn find_rows(
    snapshot: &Snapshot,
    keys: &[ArrayRef],
    lookups: &mut Lookups,
) -> Result<Vec<RowId>, LookupError> {
    let mut rows: Vec<RowId> = snapshot
        .rows_by_key(keys, lookups)?
        .into_iter()
        .flatten()
        .collect();
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}
