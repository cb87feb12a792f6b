//! Arrow data of other libraries, taken over without a copy.
//!
//! They are checked before they are believed, as those that the driver of ADBC is given.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use tierra_adbc::foreign;

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
    Ok(foreign::checked(stream))
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
