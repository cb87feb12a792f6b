//! Statistics of a column for the planner.
//!
//! Invariant: minimum, maximum and NULL count are exact for the rows that they were computed from; unknown values are absent.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{max, max_boolean, max_string_view, min, min_boolean, min_string_view};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType,
};
use tierra_column::{LogicalType, Physical, Value, ordinal};

/// Exact bounds of a column's values in one snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStatistics {
    /// Smallest value; `None` if all values are NULL, or it is unknown.
    pub min: Option<Value>,
    /// Largest value.
    pub max: Option<Value>,
    /// Rows that are NULL.
    pub null_count: u64,
    /// Whether deleted rows count, too: then the least and the greatest value are bounds that perhaps no row reaches, and the NULLs
    /// are at most so many.
    pub counts_deleted: bool,
    /// Whether some rows are unreadable and nothing is known of them: the NULLs are those of the others.
    pub lacks_rows: bool,
}

impl ColumnStatistics {
    /// Statistics of unpacked rows.
    pub(crate) fn of_array(values: &ArrayRef) -> Self {
        let bytes = |text: &str| Value::Bytes(text.as_bytes().into());
        let bounds = match values.data_type() {
            DataType::Boolean => {
                let values = values.as_boolean();
                min_boolean(values)
                    .zip(max_boolean(values))
                    .map(|(low, high)| {
                        (
                            Value::Ordinal(u64::from(low)),
                            Value::Ordinal(u64::from(high)),
                        )
                    })
            }
            DataType::Int32 => {
                bounds::<Int32Type>(values, |value| Value::Ordinal(ordinal::of_i32(value)))
            }
            DataType::Date32 => {
                bounds::<Date32Type>(values, |value| Value::Ordinal(ordinal::of_i32(value)))
            }
            DataType::Int64 => {
                bounds::<Int64Type>(values, |value| Value::Ordinal(ordinal::of_i64(value)))
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                bounds::<TimestampMicrosecondType>(values, |value| {
                    Value::Ordinal(ordinal::of_i64(value))
                })
            }
            DataType::Float64 => {
                bounds::<Float64Type>(values, |value| Value::Ordinal(ordinal::of_f64(value)))
            }
            DataType::Decimal128(precision, scale) => {
                let (precision, scale) = (*precision, u8::try_from(*scale).unwrap_or(0));
                match (LogicalType::Decimal { precision, scale }).physical() {
                    Physical::Wide => bounds::<Decimal128Type>(values, Value::Wide),
                    Physical::Ordinal | Physical::Bytes => {
                        bounds::<Decimal128Type>(values, |value| {
                            Value::Ordinal(ordinal::of_i64(value as i64))
                        })
                    }
                }
            }
            DataType::Utf8View => {
                let values = values.as_string_view();
                let bounds = min_string_view(values).zip(max_string_view(values));
                bounds.map(|(low, high)| (bytes(low), bytes(high)))
            }
            _ => None,
        };
        let (min, max) = bounds.unzip();
        Self {
            counts_deleted: false,
            lacks_rows: false,
            min,
            max,
            null_count: values.null_count() as u64,
        }
    }

    /// Adds the rows of another part of the table.
    pub(crate) fn extend(&mut self, min: Option<&Value>, max: Option<&Value>, null_count: u64) {
        if let Some(min) = min
            && self.min.as_ref().is_none_or(|least| min < least)
        {
            self.min = Some(min.clone());
        }
        if let Some(max) = max
            && self.max.as_ref().is_none_or(|most| max > most)
        {
            self.max = Some(max.clone());
        }
        self.null_count += null_count;
    }
}

fn bounds<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    value: impl Fn(T::Native) -> Value,
) -> Option<(Value, Value)> {
    let values = values.as_primitive::<T>();
    min(values)
        .zip(max(values))
        .map(|(low, high)| (value(low), value(high)))
}
