//! Filters on arrow arrays: for rows that are not in chunks yet.

use arrow::array::{Array, ArrowPrimitiveType, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};

use super::{Filter, ResolvedFilter};
use crate::error::FilterError;
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal::OrdinalType;

/// The rows of `array` that pass `filter`.
///
/// # Errors
/// [`FilterError`] where the array's type is no column's, the filter is on another type's values,
/// or it is on dictionary codes, which arrays do not have.
pub fn evaluate(filter: &Filter, array: &dyn Array) -> Result<BooleanBuffer, FilterError> {
    let mismatch = || FilterError::Type {
        filter: "column",
        column: array.data_type().to_string(),
    };
    let ty = LogicalType::of_arrow(array.data_type()).ok_or_else(mismatch)?;
    let resolved = ResolvedFilter::new(filter, ty)?;
    let values = match &resolved {
        ResolvedFilter::Nothing => BooleanBuffer::new_unset(array.len()),
        ResolvedFilter::Everything => BooleanBuffer::new_set(array.len()),
        ResolvedFilter::Codes { generation, .. } => {
            return Err(FilterError::Codes {
                filter: *generation,
                column: "an array".to_owned(),
            });
        }
        _ => match ty {
            LogicalType::Boolean => {
                let values = array.as_boolean().values();
                BooleanBuffer::collect_bool(array.len(), |i| {
                    resolved.ordinal_passes(u64::from(values.value(i)))
                })
            }
            LogicalType::Integer => ordinals::<Int32Type>(&resolved, array),
            LogicalType::Date => ordinals::<Date32Type>(&resolved, array),
            LogicalType::BigInt => ordinals::<Int64Type>(&resolved, array),
            LogicalType::Timestamp => ordinals::<TimestampMicrosecondType>(&resolved, array),
            LogicalType::Double => ordinals::<Float64Type>(&resolved, array),
            LogicalType::Decimal { .. } if ty.physical() == Physical::Ordinal => {
                ordinals::<Decimal128Type>(&resolved, array)
            }
            LogicalType::Decimal { .. } => {
                let values = array.as_primitive::<Decimal128Type>().values();
                BooleanBuffer::collect_bool(values.len(), |i| resolved.wide_passes(values[i]))
            }
            LogicalType::Varchar => {
                debug_assert_eq!(array.data_type(), &DataType::Utf8View);
                let values = array.as_string_view();
                BooleanBuffer::collect_bool(values.len(), |i| {
                    resolved.bytes_pass(values.value(i).as_bytes())
                })
            }
        },
    };
    Ok(match array.nulls() {
        None => values,
        Some(nulls) if filter.matches_null => &values | &!nulls.inner(),
        Some(nulls) => &values & nulls.inner(),
    })
}

fn ordinals<T: OrdinalType + ArrowPrimitiveType>(
    resolved: &ResolvedFilter,
    array: &dyn Array,
) -> BooleanBuffer {
    let values = array.as_primitive::<T>().values();
    match resolved {
        // The common case without a loop inside the loop.
        ResolvedFilter::Ordinals(ranges) if ranges.len() == 1 => {
            let (low, high) = ranges[0];
            BooleanBuffer::collect_bool(values.len(), |i| {
                T::to_ordinal(values[i]).wrapping_sub(low) <= high - low
            })
        }
        _ => BooleanBuffer::collect_bool(values.len(), |i| {
            resolved.ordinal_passes(T::to_ordinal(values[i]))
        }),
    }
}
