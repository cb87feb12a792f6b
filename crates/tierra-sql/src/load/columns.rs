//! Maps the columns of a file to the columns of a table.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::error::LoadError;
use super::source::STREAM;
use crate::types;

/// For each column of `table`, its index in a file with columns `names`: the column with exactly its name, else the one
/// whose name differs only in case.
pub(super) fn matched(
    file: &Path,
    names: &[String],
    table: &str,
    schema: &Schema,
) -> Result<Vec<usize>, LoadError> {
    let places = schema.fields().iter().map(|field| {
        let exact = names.iter().position(|name| name == field.name());
        let place = exact.or_else(|| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(field.name()))
        });
        place.ok_or_else(|| LoadError::MissingColumn {
            file: file.to_path_buf(),
            column: field.name().clone(),
            table: table.to_string(),
            columns: names.join(", "),
        })
    });
    places.collect()
}

/// `batch` as rows of the table, with the columns at `places`.
pub(super) fn converted(
    file: &Path,
    batch: &RecordBatch,
    schema: &SchemaRef,
    places: &[usize],
) -> Result<RecordBatch, LoadError> {
    if let Some(field) = types::null_column(batch, schema, places) {
        return Err(LoadError::Null {
            file: file.to_path_buf(),
            column: field.name().clone(),
        });
    }
    types::conform(batch, schema, places).map_err(|error| LoadError::Value {
        file: file.to_path_buf(),
        column: error.column,
        message: error.message,
    })
}

/// Whether a load puts values of type `from` into a column of type `to`. It does what INSERT does.
pub fn is_assigned(from: &DataType, to: &DataType) -> bool {
    types::is_assigned(from, to)
}

/// `batch` of a stream as rows of a table of `schema`, as [`load_streams`](super::load_streams) makes them: column `i` is the one at
/// `places[i]`.
///
/// # Errors
/// If a value does not fit its column.
pub fn assigned(
    batch: &RecordBatch,
    schema: &SchemaRef,
    places: &[usize],
) -> Result<RecordBatch, LoadError> {
    converted(Path::new(STREAM), batch, schema, places)
}
