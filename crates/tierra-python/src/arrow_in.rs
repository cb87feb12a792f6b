//! Arrow data of other libraries, taken over without a copy.
//!
//! Lengths, offsets and texts are checked before they are believed: a producer may be wrong, and a text that is not UTF-8 must not
//! become a string of Rust.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::error::{DataError, ProgrammingError};

/// Whether `object` offers rows by the Arrow PyCapsule interface.
pub(crate) fn is_rows(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__arrow_c_stream__")? || object.hasattr("__arrow_c_array__")?)
}

/// A reader of the rows of `object`, which checks them.
pub(crate) fn reader(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if !is_rows(object)? {
        let class = object.get_type().name()?;
        return Err(ProgrammingError::new_err(format!(
            "{class} has neither __arrow_c_stream__ nor __arrow_c_array__: give a frame of pandas (2.2 or newer) or polars, or \
             a table of pyarrow"
        )));
    }
    let stream = match object.hasattr("__arrow_c_stream__")? {
        true => AnyRecordBatch::Stream(object.extract()?),
        false => AnyRecordBatch::RecordBatch(object.extract()?),
    };
    let stream = stream.into_reader()?;
    let schema = plain(&stream.schema());
    let under = schema.clone();
    let batches = stream.map(move |batch| checked(&batch?, &under));
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// All rows of `object`.
pub(crate) fn rows(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let reader = reader(object)?;
    let schema = reader.schema();
    // The producer attaches itself if it has to.
    let batches = py.detach(|| reader.collect::<Result<Vec<_>, _>>());
    let batches = batches.map_err(|error| DataError::new_err(error.to_string()))?;
    Ok((schema, batches))
}

/// `schema` without what libraries note in it for themselves.
fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_metadata(Default::default()));
    Schema::new(fields.collect::<Vec<_>>()).into()
}

fn checked(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    batch.columns().iter().try_for_each(check)?;
    RecordBatch::try_new(schema.clone(), batch.columns().to_vec())
}

/// Fails if the array's buffers cannot be what its type says.
pub(crate) fn check(array: &ArrayRef) -> Result<(), ArrowError> {
    match array.data_type() {
        // Any bytes of the right length are numbers.
        ty if ty.is_primitive() || *ty == DataType::Boolean => array.to_data().validate(),
        _ => array.to_data().validate_full(),
    }
}
