//! Any predicate on one column, evaluated once per distinct value instead of once per row.
//!
//! For a dictionary column that is once per code; for an integer column whose values lie close
//! together, once per integer between the least and the greatest. A hash join's lookup, which is
//! opaque, becomes a set of codes that packed blocks are tested against.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Date32Array, Int32Array, Int64Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use tierra_column::{FilterKind, LogicalType, Value, ValueSet, ordinal};

use super::ColumnDomain;
use super::translate::is_true;

/// Distinct values that are always worth evaluating.
const DOMAIN_ALWAYS: u64 = 1 << 14;
/// The most distinct values ever evaluated: their set is a bitmap of 1 MiB.
const DOMAIN_MAX: u64 = 1 << 23;
/// Rows for each distinct value from which on values are evaluated. Evaluating TPC-H's order keys
/// (about one per row) made queries 3, 4, 5 and 9 1.8 to 3.7 times as slow as DataFusion; SSB's part
/// keys have 30 rows each. What lies between has not been swept.
const ROWS_PER_VALUE: u64 = 8;
/// Values evaluated at a time.
const STEP: u64 = 1 << 15;

/// Which values of the column's domain `predicate` (on column 0) is true for; `None` if there are
/// too many to try.
pub(super) fn evaluate(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    domain: &ColumnDomain,
) -> Result<Option<FilterKind>> {
    if let Some(dictionary) = &domain.dictionary {
        let values = dictionary.values_array();
        if !is_worth(values.len() as u64, domain.rows)
            || values.data_type() != schema.field(0).data_type()
        {
            return Ok(None);
        }
        let mut bitmap = vec![0_u64; values.len().div_ceil(64)];
        for (code, passes) in is_true(predicate, schema, values)?.into_iter().enumerate() {
            bitmap[code / 64] |= u64::from(passes) << (code % 64);
        }
        return Ok(Some(FilterKind::Codes {
            generation: dictionary.generation(),
            bitmap: bitmap.into(),
        }));
    }
    let Some((Value::Ordinal(low), Value::Ordinal(high))) = &domain.bounds else {
        return Ok(None);
    };
    if !is_integer(domain.ty) || high < low || !is_worth(high - low, domain.rows) {
        return Ok(None);
    }
    let mut passing = Vec::new();
    let mut from = *low;
    loop {
        let to = high.saturating_sub(from).min(STEP - 1) + from;
        let values = integers(domain.ty, from, to);
        let passes = is_true(predicate, schema, values)?;
        passing.extend(
            (from..=to)
                .zip(passes)
                .filter_map(|(value, passes)| passes.then_some(value)),
        );
        if to == *high {
            break;
        }
        from = to + 1;
    }
    Ok(Some(if passing.is_empty() {
        FilterKind::Nothing
    } else if passing.len() as u64 == high - low + 1 {
        FilterKind::Ranges(vec![(
            Bound::Included(Value::Ordinal(*low)),
            Bound::Included(Value::Ordinal(*high)),
        )])
    } else {
        FilterKind::Set {
            values: Arc::new(ValueSet::ordinals(passing)),
            negated: false,
        }
    }))
}

/// Evaluating a value costs what evaluating a row does, before the first row is read and on one
/// thread, while most filters spare only part of the rows: it pays where values are far fewer.
fn is_worth(distinct: u64, rows: u64) -> bool {
    distinct < DOMAIN_ALWAYS || (distinct < DOMAIN_MAX && distinct <= rows / ROWS_PER_VALUE)
}

/// Types whose ordinals are consecutive where their values are.
fn is_integer(ty: LogicalType) -> bool {
    matches!(
        ty,
        LogicalType::Integer | LogicalType::BigInt | LogicalType::Date
    )
}

/// The integers with ordinals `from..=to`.
fn integers(ty: LogicalType, from: u64, to: u64) -> ArrayRef {
    match ty {
        LogicalType::Integer => Arc::new(Int32Array::from_iter_values(
            (from..=to).map(ordinal::to_i32),
        )),
        LogicalType::Date => Arc::new(Date32Array::from_iter_values(
            (from..=to).map(ordinal::to_i32),
        )),
        _ => Arc::new(Int64Array::from_iter_values(
            (from..=to).map(ordinal::to_i64),
        )),
    }
}
