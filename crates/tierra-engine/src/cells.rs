//! Single cells: reading them from unpacked rows, and comparing them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use tierra_column::{Cell, CodedText, FormatError, LogicalType, Physical, Value, ordinal};

/// The cell in row `row` of a column of type `ty`.
pub(crate) fn cell_of(ty: LogicalType, values: &ArrayRef, row: usize) -> Cell<'_> {
    if values.is_null(row) {
        return Cell::Null;
    }
    match ty {
        LogicalType::Boolean => Cell::Ordinal(u64::from(values.as_boolean().value(row))),
        LogicalType::Integer => Cell::Ordinal(ordinal::of_i32(primitive::<Int32Type>(values, row))),
        LogicalType::Date => Cell::Ordinal(ordinal::of_i32(primitive::<Date32Type>(values, row))),
        LogicalType::BigInt => Cell::Ordinal(ordinal::of_i64(primitive::<Int64Type>(values, row))),
        LogicalType::Timestamp => Cell::Ordinal(ordinal::of_i64(primitive::<
            TimestampMicrosecondType,
        >(values, row))),
        LogicalType::Double => {
            Cell::Ordinal(ordinal::of_f64(primitive::<Float64Type>(values, row)))
        }
        LogicalType::Decimal { .. } => {
            let value = primitive::<Decimal128Type>(values, row);
            match ty.physical() {
                Physical::Wide => Cell::Wide(value),
                Physical::Ordinal | Physical::Bytes => Cell::Ordinal(ordinal::of_i64(value as i64)),
            }
        }
        LogicalType::Varchar => Cell::Bytes(values.as_string_view().value(row).as_bytes()),
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &ArrayRef, row: usize) -> T::Native {
    values.as_primitive::<T>().value(row)
}

/// Whether a cell holds this value. Fails only where a chunk's string cannot be decoded.
pub(crate) fn holds(cell: Cell<'_>, value: &Value) -> Result<bool, FormatError> {
    Ok(match (cell, value) {
        (Cell::Ordinal(cell), Value::Ordinal(value)) => cell == *value,
        (Cell::Wide(cell), Value::Wide(value)) => cell == *value,
        (Cell::Bytes(cell), Value::Bytes(value)) => cell == &**value,
        (Cell::Coded(cell), Value::Bytes(value)) => decoded(cell)? == **value,
        _ => false,
    })
}

/// A cell as an owned value; `None` for NULL. Fails only where a chunk's string cannot be decoded.
pub(crate) fn value_of(cell: Cell<'_>) -> Result<Option<Value>, FormatError> {
    Ok(match cell {
        Cell::Null => None,
        Cell::Ordinal(ordinal) => Some(Value::Ordinal(ordinal)),
        Cell::Wide(value) => Some(Value::Wide(value)),
        Cell::Bytes(bytes) => Some(Value::Bytes(bytes.into())),
        Cell::Coded(text) => Some(Value::Bytes(decoded(text)?.into())),
    })
}

fn decoded(text: CodedText<'_>) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    text.decode(&mut bytes)?;
    Ok(bytes)
}
