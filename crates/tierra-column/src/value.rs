//! One value at a time: scalars of filters and keys.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};

use crate::logical_type::NARROW_DECIMAL_DIGITS;
use crate::ordinal;

/// A scalar in the order of its column. Two values compare meaningfully only where both come from
/// the same logical type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Of any type that maps to an ordinal.
    Ordinal(u64),
    /// A DECIMAL beyond 18 digits, unscaled.
    Wide(i128),
    /// A string's bytes.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The value in row `row` of `array`, `None` where it is NULL or the array's type is none of
    /// [`LogicalType::arrow`](crate::LogicalType::arrow)'s (plain `Utf8` is understood too).
    ///
    /// # Panics
    /// If `row` is not a row of `array`.
    pub fn of_array(array: &dyn Array, row: usize) -> Option<Value> {
        assert!(
            row < array.len(),
            "row {row} of an array of {}",
            array.len()
        );
        if array.is_null(row) {
            return None;
        }
        Some(match array.data_type() {
            DataType::Boolean => Value::Ordinal(u64::from(array.as_boolean().value(row))),
            DataType::Int32 => Value::Ordinal(ordinal::of_i32(
                array.as_primitive::<Int32Type>().value(row),
            )),
            DataType::Date32 => Value::Ordinal(ordinal::of_i32(
                array.as_primitive::<Date32Type>().value(row),
            )),
            DataType::Int64 => Value::Ordinal(ordinal::of_i64(
                array.as_primitive::<Int64Type>().value(row),
            )),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Value::Ordinal(ordinal::of_i64(
                array.as_primitive::<TimestampMicrosecondType>().value(row),
            )),
            DataType::Float64 => Value::Ordinal(ordinal::of_f64(
                array.as_primitive::<Float64Type>().value(row),
            )),
            DataType::Decimal128(precision, _) => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                if *precision > NARROW_DECIMAL_DIGITS {
                    Value::Wide(value)
                } else {
                    Value::Ordinal(ordinal::of_i64(value as i64))
                }
            }
            DataType::Utf8View => Value::Bytes(array.as_string_view().value(row).as_bytes().into()),
            DataType::Utf8 => Value::Bytes(array.as_string::<i32>().value(row).as_bytes().into()),
            _ => return None,
        })
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Ordinal(_) => "64-bit",
            Value::Wide(_) => "DECIMAL",
            Value::Bytes(_) => "VARCHAR",
        }
    }
}
