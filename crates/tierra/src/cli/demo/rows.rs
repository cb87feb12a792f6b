//! Result batches as the plain values of the oracles.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Int32Type, Int64Type},
};
use tierra_data::ssb::Datum;

/// The rows of `batches`; an error names a type that no query of the demo yields.
pub(super) fn of_batches(batches: &[RecordBatch]) -> Result<Vec<Vec<Datum>>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let fields = batch.columns().iter().map(|column| datum(column, row));
            rows.push(fields.collect::<Result<_, _>>()?);
        }
    }
    Ok(rows)
}

fn datum(column: &dyn Array, row: usize) -> Result<Datum, String> {
    if column.is_null(row) {
        return Ok(Datum::Null);
    }
    Ok(match column.data_type() {
        DataType::Int32 => Datum::Int(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Datum::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::Utf8View => Datum::Text(column.as_string_view().value(row).to_owned()),
        DataType::Utf8 => Datum::Text(column.as_string::<i32>().value(row).to_owned()),
        other => return Err(format!("a column of type {other}")),
    })
}
