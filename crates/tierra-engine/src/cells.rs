//! Single cells: out of unpacked rows, compared with each other, and gathered into arrays.
//!
//! Gathering is made for few rows of many columns: all fixed-width columns of a result share one
//! buffer, so a row of 1,000 columns costs a thousand small array headers and two allocations of
//! values, not thousands.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringViewBuilder,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, SchemaRef,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use tierra_column::{Cell, LogicalType, Physical, Value, ordinal};

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
                _ => Cell::Ordinal(ordinal::of_i64(value as i64)),
            }
        }
        LogicalType::Varchar => Cell::Bytes(values.as_string_view().value(row).as_bytes()),
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &ArrayRef, row: usize) -> T::Native {
    values.as_primitive::<T>().value(row)
}

/// Whether a cell holds this value.
pub(crate) fn holds(cell: Cell<'_>, value: &Value) -> bool {
    match (cell, value) {
        (Cell::Ordinal(cell), Value::Ordinal(value)) => cell == *value,
        (Cell::Wide(cell), Value::Wide(value)) => cell == *value,
        (Cell::Bytes(cell), Value::Bytes(value)) => cell == &**value,
        _ => false,
    }
}

/// A cell on its own; `None` for NULL.
pub(crate) fn value_of(cell: Cell<'_>) -> Option<Value> {
    match cell {
        Cell::Null => None,
        Cell::Ordinal(ordinal) => Some(Value::Ordinal(ordinal)),
        Cell::Wide(value) => Some(Value::Wide(value)),
        Cell::Bytes(bytes) => Some(Value::Bytes(bytes.into())),
    }
}

/// The batch whose column `c` consists of `cells[c * rows..][..rows]`.
pub(crate) fn gather(
    schema: &SchemaRef,
    types: &[LogicalType],
    cells: &[Cell<'_>],
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    debug_assert_eq!(cells.len(), types.len() * rows);
    let cells_of = |column: usize| &cells[column * rows..][..rows];
    let mut values = MutableBuffer::new(types.len() * rows * 8);
    for (column, ty) in types.iter().enumerate() {
        values.extend_zeros(aligned(values.len(), *ty) - values.len());
        write_values(*ty, cells_of(column), &mut values);
    }
    let values = Buffer::from(values);
    let mut at = 0;
    let mut arrays = Vec::with_capacity(types.len());
    for (column, ty) in types.iter().enumerate() {
        at = aligned(at, *ty);
        let len = rows * width(*ty);
        arrays.push(array_of(
            *ty,
            cells_of(column),
            values.slice_with_length(at, len),
        )?);
        at += len;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
}

/// Bytes of a value in the shared buffer; none where a type needs buffers of its own.
fn width(ty: LogicalType) -> usize {
    match ty {
        LogicalType::Boolean | LogicalType::Varchar => 0,
        LogicalType::Integer | LogicalType::Date => 4,
        LogicalType::BigInt | LogicalType::Timestamp | LogicalType::Double => 8,
        LogicalType::Decimal { .. } => 16,
    }
}

/// The first place from `at` on where values of the type may lie.
fn aligned(at: usize, ty: LogicalType) -> usize {
    at.next_multiple_of(width(ty).max(1))
}

/// Appends the values of a fixed-width column; zeros stand where there is NULL.
fn write_values(ty: LogicalType, cells: &[Cell<'_>], out: &mut MutableBuffer) {
    let ordinals = cells.iter().map(|cell| match cell {
        Cell::Ordinal(ordinal) => Some(*ordinal),
        _ => None,
    });
    match ty {
        LogicalType::Boolean | LogicalType::Varchar => {}
        LogicalType::Integer | LogicalType::Date => {
            ordinals.for_each(|value| out.push(value.map_or(0, ordinal::to_i32)));
        }
        LogicalType::BigInt | LogicalType::Timestamp => {
            ordinals.for_each(|value| out.push(value.map_or(0, ordinal::to_i64)));
        }
        LogicalType::Double => {
            ordinals.for_each(|value| out.push(value.map_or(0.0, ordinal::to_f64)));
        }
        LogicalType::Decimal { .. } => cells.iter().for_each(|cell| {
            out.push(match cell {
                Cell::Ordinal(value) => i128::from(ordinal::to_i64(*value)),
                Cell::Wide(value) => *value,
                _ => 0,
            });
        }),
    }
}

fn array_of(ty: LogicalType, cells: &[Cell<'_>], values: Buffer) -> Result<ArrayRef, ArrowError> {
    let is_null = |cell: &Cell<'_>| matches!(cell, Cell::Null);
    let nulls = if cells.iter().any(is_null) {
        Some(
            cells
                .iter()
                .map(|cell| !is_null(cell))
                .collect::<NullBuffer>(),
        )
    } else {
        None
    };
    Ok(match ty {
        LogicalType::Integer => primitive_of::<Int32Type>(values, nulls),
        LogicalType::Date => primitive_of::<Date32Type>(values, nulls),
        LogicalType::BigInt => primitive_of::<Int64Type>(values, nulls),
        LogicalType::Timestamp => primitive_of::<TimestampMicrosecondType>(values, nulls),
        LogicalType::Double => primitive_of::<Float64Type>(values, nulls),
        LogicalType::Decimal { .. } => {
            let decimals = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
            Arc::new(decimals.with_data_type(ty.arrow()))
        }
        LogicalType::Boolean => {
            let bits =
                BooleanBuffer::collect_bool(cells.len(), |row| cells[row] == Cell::Ordinal(1));
            Arc::new(BooleanArray::new(bits, nulls))
        }
        LogicalType::Varchar => {
            let mut strings = StringViewBuilder::with_capacity(cells.len());
            for cell in cells {
                match cell {
                    Cell::Bytes(bytes) => strings.append_value(std::str::from_utf8(bytes)?),
                    _ => strings.append_null(),
                }
            }
            Arc::new(strings.finish())
        }
    })
}

fn primitive_of<T: ArrowPrimitiveType>(values: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}
