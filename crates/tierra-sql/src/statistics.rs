//! A scan's statistics for the planner: rows, bounds, distinct values.
//!
//! Without filters the numbers are exact for the snapshot, so that `count(*)`, `min` and `max` need no scan. With filters
//! they are estimates, from the width of a range within the column's bounds.

use std::ops::Bound;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use tierra_column::{Filter, FilterKind, LogicalType, Value};
use tierra_engine::Snapshot;

use crate::types::logical_type;
use crate::values::scalar;

/// The assumed selectivity of a filter without better knowledge, as in DataFusion.
const DEFAULT_SELECTIVITY: f64 = 0.2;
/// Bytes of a string's view and an estimate of its text.
pub(crate) const STRING_BYTES: usize = 32;

/// Statistics of `projection` after `filters`.
pub(crate) fn of_scan(
    snapshot: &Snapshot,
    schema: &SchemaRef,
    projection: &[usize],
    filters: &[(usize, Filter)],
) -> Statistics {
    let rows = usize::try_from(snapshot.rows()).unwrap_or(usize::MAX);
    let selectivity: f64 = filters
        .iter()
        .map(|(column, filter)| selectivity(snapshot, schema, *column, filter))
        .product();
    let passing = if filters.is_empty() {
        rows
    } else {
        ((rows as f64 * selectivity).ceil() as usize).min(rows)
    };
    let exact = filters.is_empty();
    let row_bytes: usize = projection
        .iter()
        .map(|&column| value_bytes(logical_type(schema, column)))
        .sum();
    Statistics {
        num_rows: precision(passing, exact),
        total_byte_size: Precision::Inexact(passing.saturating_mul(row_bytes)),
        column_statistics: projection
            .iter()
            .map(|&column| of_column(snapshot, schema, column, passing, exact))
            .collect(),
    }
}

fn precision<T: std::fmt::Debug + Clone + PartialEq + Eq + PartialOrd>(
    value: T,
    exact: bool,
) -> Precision<T> {
    if exact {
        Precision::Exact(value)
    } else {
        Precision::Inexact(value)
    }
}

fn of_column(
    snapshot: &Snapshot,
    schema: &SchemaRef,
    column: usize,
    rows: usize,
    exact: bool,
) -> ColumnStatistics {
    let ty = logical_type(schema, column);
    let known = snapshot.statistics(column);
    let exact = exact && !known.lacks_rows && !known.counts_deleted;
    let bound = |value: &Option<Value>| match value.as_ref().and_then(|value| scalar(ty, value)) {
        Some(value) => precision(value, exact),
        None => Precision::Absent,
    };
    let distinct = distinct(snapshot, column, &known, ty).map(|distinct| distinct.min(rows as u64));
    ColumnStatistics {
        null_count: precision(
            usize::try_from(known.null_count)
                .unwrap_or(usize::MAX)
                .min(rows),
            exact,
        ),
        min_value: bound(&known.min),
        max_value: bound(&known.max),
        distinct_count: match distinct.and_then(|distinct| usize::try_from(distinct).ok()) {
            Some(distinct) => Precision::Inexact(distinct),
            None => Precision::Absent,
        },
        byte_size: Precision::Inexact(rows.saturating_mul(value_bytes(ty))),
        ..ColumnStatistics::new_unknown()
    }
}

/// About how many distinct values a column has: no more than integers between its bounds.
fn distinct(
    snapshot: &Snapshot,
    column: usize,
    known: &tierra_engine::ColumnStatistics,
    ty: LogicalType,
) -> Option<u64> {
    let span = match (&known.min, &known.max) {
        (Some(Value::Ordinal(min)), Some(Value::Ordinal(max))) if ty != LogicalType::Double => {
            max.checked_sub(*min).and_then(|span| span.checked_add(1))
        }
        _ => None,
    };
    match (span, snapshot.distinct_values(column)) {
        (Some(span), Some(counted)) => Some(span.min(counted)),
        (span, counted) => span.or(counted),
    }
}

/// The approximate bytes of a value in a batch.
pub(crate) fn value_bytes(ty: LogicalType) -> usize {
    match ty {
        LogicalType::Varchar => STRING_BYTES,
        ty => ty.arrow().primitive_width().unwrap_or(1),
    }
}

/// The part of all rows that `filter` passes, from 0 to 1.
fn selectivity(snapshot: &Snapshot, schema: &SchemaRef, column: usize, filter: &Filter) -> f64 {
    let known = snapshot.statistics(column);
    let distinct = distinct(snapshot, column, &known, logical_type(schema, column));
    let part = match &filter.kind {
        FilterKind::Nothing => 0.0,
        FilterKind::Everything => 1.0,
        FilterKind::Ranges(ranges) => match (&known.min, &known.max) {
            (Some(Value::Ordinal(min)), Some(Value::Ordinal(max))) => {
                let span = (max - min) as f64 + 1.0;
                // A value that is there is one of the distinct ones; an interval has its part of the span.
                let each = distinct.map_or(1.0 / span, |distinct| 1.0 / distinct.max(1) as f64);
                let part = |(low, high): &(Bound<Value>, Bound<Value>)| {
                    let covered = overlap(low, high, *min, *max);
                    if low == high && covered > 0.0 {
                        each
                    } else {
                        covered / span
                    }
                };
                ranges.iter().map(part).sum()
            }
            _ if ranges.iter().all(|(low, high)| low == high) => distinct
                .map_or(DEFAULT_SELECTIVITY, |distinct| {
                    ranges.len() as f64 / distinct.max(1) as f64
                }),
            _ => DEFAULT_SELECTIVITY,
        },
        FilterKind::Set { values, negated } => {
            let part = match distinct {
                Some(distinct) => (values.len() as f64 / distinct.max(1) as f64).min(1.0),
                None => DEFAULT_SELECTIVITY,
            };
            if *negated { 1.0 - part } else { part }
        }
        FilterKind::Codes { bitmap, .. } => {
            let passing: u32 = bitmap.iter().map(|word| word.count_ones()).sum();
            f64::from(passing) / distinct.unwrap_or(bitmap.len() as u64 * 64).max(1) as f64
        }
    };
    part.clamp(0.0, 1.0)
}

/// The number of ordinals from `min` to `max` that lie between the bounds.
fn overlap(low: &Bound<Value>, high: &Bound<Value>, min: u64, max: u64) -> f64 {
    let low = match low {
        Bound::Included(Value::Ordinal(low)) => (*low).max(min),
        Bound::Excluded(Value::Ordinal(low)) => low.saturating_add(1).max(min),
        _ => min,
    };
    let high = match high {
        Bound::Included(Value::Ordinal(high)) => (*high).min(max),
        Bound::Excluded(Value::Ordinal(high)) if *high == 0 => return 0.0,
        Bound::Excluded(Value::Ordinal(high)) => (high - 1).min(max),
        _ => max,
    };
    if low > high {
        0.0
    } else {
        (high - low) as f64 + 1.0
    }
}
