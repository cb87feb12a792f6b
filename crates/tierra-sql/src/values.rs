//! Tierra's values as values of Arrow and DataFusion.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int32Array, Int64Array, StringViewBuilder, new_empty_array,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use tierra_column::{LogicalType, Value, ordinal};

/// Values of one column as an array of its type.
pub(crate) fn array(ty: LogicalType, values: &[Value]) -> Result<ArrayRef> {
    let ordinals = || {
        values.iter().filter_map(|value| {
            if let Value::Ordinal(value) = value {
                Some(*value)
            } else {
                None
            }
        })
    };
    Ok(match ty {
        // The usual types of keys are not boxed value by value.
        LogicalType::Integer => Arc::new(Int32Array::from_iter_values(
            ordinals().map(ordinal::to_i32),
        )),
        LogicalType::Date => Arc::new(Date32Array::from_iter_values(
            ordinals().map(ordinal::to_i32),
        )),
        LogicalType::BigInt => Arc::new(Int64Array::from_iter_values(
            ordinals().map(ordinal::to_i64),
        )),
        LogicalType::Varchar => {
            let mut strings = StringViewBuilder::with_capacity(values.len());
            for value in values {
                match value {
                    Value::Bytes(text) => strings.append_value(String::from_utf8_lossy(text)),
                    _ => {
                        return Err(internal_datafusion_err!(
                            "a VARCHAR key is compared with {value:?}"
                        ));
                    }
                }
            }
            Arc::new(strings.finish())
        }
        _ if values.is_empty() => new_empty_array(&ty.arrow()),
        _ => {
            let scalars: Option<Vec<ScalarValue>> =
                values.iter().map(|value| scalar(ty, value)).collect();
            let scalars = scalars.ok_or_else(|| {
                internal_datafusion_err!("a value is not of its column's type {ty}")
            })?;
            ScalarValue::iter_to_array(scalars)?
        }
    })
}

/// A value of a column as DataFusion's scalar.
pub(crate) fn scalar(ty: LogicalType, value: &Value) -> Option<ScalarValue> {
    Some(match (ty, value) {
        (LogicalType::Boolean, Value::Ordinal(value)) => ScalarValue::Boolean(Some(*value != 0)),
        (LogicalType::Integer, Value::Ordinal(value)) => {
            ScalarValue::Int32(Some(ordinal::to_i32(*value)))
        }
        (LogicalType::BigInt, Value::Ordinal(value)) => {
            ScalarValue::Int64(Some(ordinal::to_i64(*value)))
        }
        (LogicalType::Double, Value::Ordinal(value)) => {
            ScalarValue::Float64(Some(ordinal::to_f64(*value)))
        }
        (LogicalType::Date, Value::Ordinal(value)) => {
            ScalarValue::Date32(Some(ordinal::to_i32(*value)))
        }
        (LogicalType::Timestamp, Value::Ordinal(value)) => {
            ScalarValue::TimestampMicrosecond(Some(ordinal::to_i64(*value)), None)
        }
        (LogicalType::Decimal { precision, scale }, value) => {
            let value = match value {
                Value::Ordinal(value) => i128::from(ordinal::to_i64(*value)),
                Value::Wide(value) => *value,
                Value::Bytes(_) => return None,
            };
            ScalarValue::Decimal128(Some(value), precision, i8::try_from(scale).ok()?)
        }
        (LogicalType::Varchar, Value::Bytes(text)) => {
            ScalarValue::Utf8View(Some(std::str::from_utf8(text).ok()?.to_string()))
        }
        _ => return None,
    })
}
