//! Any predicate on one column, evaluated once per distinct value instead of once per row.
//!
//! A dictionary column is evaluated once per code. An integer column whose values are dense is evaluated once per integer
//! between the least and the greatest. So the opaque lookup of a hash join becomes a set of codes, and packed blocks are
//! tested against it.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Date32Array, Int32Array, Int64Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use tierra_column::{FilterKind, LogicalType, Value, ValueSet, ordinal};

use super::ColumnDomain;
use super::translate::is_true;

/// Up to this many distinct values are always evaluated.
const DOMAIN_ALWAYS: u64 = 1 << 14;
/// The most distinct values that are ever evaluated: their set is a bitmap of 1 MiB.
const DOMAIN_MAX: u64 = 1 << 23;
/// Rows per distinct value from which values are evaluated. Evaluating TPC-H's order keys (about one row each) made
/// queries 3, 4, 5 and 9 take 1.8 to 3.7 times as long as in DataFusion. SSB's part keys have 30 rows each. The ratios
/// between have not been measured.
const ROWS_PER_VALUE: u64 = 8;
/// Values evaluated per batch.
const STEP: u64 = 1 << 15;

/// The set of values of the column's domain for which `predicate` (on column 0) is true; `None` if there are too many
/// values to evaluate.
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

/// Evaluating a value costs as much as evaluating a row, and it happens before the first row is read, on one thread. Most
/// filters spare only part of the rows. So it pays only if there are far fewer values than rows.
fn is_worth(distinct: u64, rows: u64) -> bool {
    distinct < DOMAIN_ALWAYS || (distinct < DOMAIN_MAX && distinct <= rows / ROWS_PER_VALUE)
}

/// Types whose consecutive values have consecutive ordinals.
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
