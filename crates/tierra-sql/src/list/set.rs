//! A list as the set of values of a column's filter.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::error::{DataFusionError, Result};
use tierra_column::{LogicalType, Physical, ValueSet, ordinal};

use super::items::{Items, List};

/// A list as a set of values.
#[derive(Debug, Clone)]
pub(crate) struct ListSet {
    /// The values that a value of the column can equal.
    pub(crate) values: Arc<ValueSet>,
    /// Whether the list has no items.
    pub(crate) is_empty: bool,
    pub(crate) has_null: bool,
}

impl List {
    /// The list as a set of values of a column of type `ty`.
    pub(crate) fn set(&self, ty: &DataType) -> Result<ListSet> {
        let Items { values, has_null } = self.items(ty)?;
        Ok(ListSet {
            values: Arc::new(value_set(&values)?),
            is_empty: self.len() == 0,
            has_null,
        })
    }
}

/// The set of values without NULL. Nearly all lists have types whose values need not be boxed one by one.
fn value_set(values: &ArrayRef) -> Result<ValueSet> {
    let ty = LogicalType::of_arrow(values.data_type());
    let ordinals = match values.data_type() {
        DataType::Int32 => ordinals(values.as_primitive::<Int32Type>().values(), ordinal::of_i32),
        DataType::Date32 => ordinals(
            values.as_primitive::<Date32Type>().values(),
            ordinal::of_i32,
        ),
        DataType::Int64 => ordinals(values.as_primitive::<Int64Type>().values(), ordinal::of_i64),
        DataType::Timestamp(_, _) if ty.is_some() => {
            let values = values.as_primitive::<TimestampMicrosecondType>();
            ordinals(values.values(), ordinal::of_i64)
        }
        DataType::Float64 => ordinals(
            values.as_primitive::<Float64Type>().values(),
            ordinal::of_f64,
        ),
        DataType::Decimal128(_, _) if ty.is_some_and(|ty| ty.physical() == Physical::Ordinal) => {
            let values = values.as_primitive::<Decimal128Type>();
            ordinals(values.values(), |value| ordinal::of_i64(value as i64))
        }
        _ => {
            let set = ValueSet::of_array(values.as_ref());
            let (set, _) = set.map_err(|error| DataFusionError::External(Box::new(error)))?;
            return Ok(set);
        }
    };
    Ok(ValueSet::ordinals(ordinals))
}

fn ordinals<T: Copy>(values: &[T], ordinal: impl Fn(T) -> u64) -> Vec<u64> {
    values.iter().map(|value| ordinal(*value)).collect()
}
