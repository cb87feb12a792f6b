//! The two functions by which a driver manager finds the driver. They fill in a table of functions, which `adbc_ffi` makes.
//!
//! Some of them are replaced. `adbc_ffi` makes a batch of a bound struct, and reads the schema of a bound stream, before the driver sees
//! them. Both panic for what a producer does wrong, and after a panic `adbc_ffi` refuses every call of the process. Here a bound struct
//! takes the way of a stream, whose batches are made within a call of the driver, and the schema of a stream is read once before.
//! `option_length.rs` has the others.

mod option_length;

use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use adbc_core::constants::{ADBC_STATUS_OK, ADBC_VERSION_1_1_0};
use adbc_core::error::{AdbcStatusCode, Error, Result};
use adbc_ffi::{FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement, FFIDriver};
use arrow::array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;

use crate::TierraDriver;
use crate::bound::of_arrow;
use crate::error::{invalid, not_implemented};
use crate::guard::panic_text;

/// Fills in the table of the driver's functions, for ADBC 1.1.0.
///
/// # Safety
/// `driver` is null, or a place for a driver of ADBC 1.1.0; `error` is null, or an error that the caller has initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TierraDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let refused = match version {
        ADBC_VERSION_1_1_0 if driver.is_null() => invalid("there is no place for the driver"),
        ADBC_VERSION_1_1_0 => {
            let mut table = TierraDriver::ffi_driver();
            table.StatementBind = Some(bind);
            table.StatementBindStream = Some(bind_stream);
            table.DatabaseGetOption = Some(option_length::of_database);
            table.ConnectionGetOption = Some(option_length::of_connection);
            table.StatementGetOption = Some(option_length::of_statement);
            // SAFETY: it is not null, so it is a place for a driver, as the caller promises.
            unsafe { driver.cast::<FFI_AdbcDriver>().write_unaligned(table) };
            return ADBC_STATUS_OK;
        }
        other => not_implemented(format!(
            "version {other} of ADBC: the driver has {ADBC_VERSION_1_1_0}"
        )),
    };
    // SAFETY: as the caller promises.
    unsafe { fail(error, refused) }
}

/// As [`TierraDriverInit`], under the name for which driver managers look where none is told.
///
/// # Safety
/// That of [`TierraDriverInit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AdbcDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: as the caller promises.
    unsafe { TierraDriverInit(version, driver, error) }
}

/// Tells the caller.
///
/// # Safety
/// `error` is null, or an error that the caller has initialized.
unsafe fn fail(error: *mut FFI_AdbcError, told: Error) -> AdbcStatusCode {
    let status = told.status.into();
    // SAFETY: as the caller promises.
    unsafe { adbc_ffi::export_error(error, told) };
    status
}

/// Reads what a producer describes, which panics for names and formats that are not UTF-8.
fn reading<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|panic| {
        let text = panic_text(panic.as_ref());
        Err(of_arrow(&ArrowError::CDataInterface(text)))
    })
}

/// Binds the rows of a struct.
///
/// # Safety
/// Each is null, or what `adbc.h` says; `values` is this function's from now on.
unsafe extern "C" fn bind(
    statement: *mut FFI_AdbcStatement,
    values: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: as the caller promises.
    let rows = reading(|| unsafe { Rows::of(values, schema) });
    let rows = match rows {
        Ok(rows) => rows,
        // SAFETY: as the caller promises.
        Err(refused) => return unsafe { fail(error, refused) },
    };
    let mut stream = FFI_ArrowArrayStream::new(Box::new(rows));
    // SAFETY: the stream is one of this process, and the rest is as the caller promises.
    unsafe { bind_checked(statement, &mut stream, error) }
}

/// Binds the rows of a stream whose schema can be read.
///
/// # Safety
/// Each is null, or what `adbc.h` says; what `stream` holds is this function's from now on.
unsafe extern "C" fn bind_stream(
    statement: *mut FFI_AdbcStatement,
    stream: *mut FFI_ArrowArrayStream,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: as the caller promises.
    match reading(|| unsafe { check_schema(stream) }) {
        // SAFETY: as the caller promises.
        Ok(()) => unsafe { bind_checked(statement, stream, error) },
        Err(refused) => {
            if !stream.is_null() {
                // SAFETY: it is not null, and as the caller promises. Its end releases it.
                drop(unsafe { FFI_ArrowArrayStream::from_raw(stream) });
            }
            // SAFETY: as the caller promises.
            unsafe { fail(error, refused) }
        }
    }
}

/// Binds the rows of a stream.
///
/// # Safety
/// That of [`bind_stream`]; the schema of the stream can be read.
unsafe fn bind_checked(
    statement: *mut FFI_AdbcStatement,
    stream: *mut FFI_ArrowArrayStream,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    match TierraDriver::ffi_driver().StatementBindStream {
        // SAFETY: as the caller promises.
        Some(bind_stream) => unsafe { bind_stream(statement, stream, error) },
        // SAFETY: as the caller promises.
        None => unsafe { fail(error, not_implemented("streams of rows")) },
    }
}

/// Fails if the schema of a stream cannot be read, or is none that Arrow has. A stream may be asked for it twice.
///
/// # Safety
/// `stream` is null, or a stream as the Arrow C data interface has them.
unsafe fn check_schema(stream: *mut FFI_ArrowArrayStream) -> Result<()> {
    // SAFETY: it is null or a stream, as the caller promises.
    let given = unsafe { stream.as_ref() };
    let given = given.filter(|stream| stream.release.is_some());
    let read = given.and_then(|stream| stream.get_schema.zip(stream.get_next));
    let Some((get_schema, _)) = read else {
        return Err(invalid("there are no rows to bind: the stream is released"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, as was checked; the place for the schema is empty.
    let status = unsafe { get_schema(stream, &mut schema) };
    let read = match status {
        0 => Schema::try_from(&schema).map(drop),
        // SAFETY: the last call of the stream failed.
        _ => Err(ArrowError::CDataInterface(unsafe {
            last_error(stream, status)
        })),
    };
    read.map_err(|error| of_arrow(&error))
}

/// What the producer says about a call that failed with `status`.
///
/// # Safety
/// `stream` is a stream that is not released, whose last call failed.
unsafe fn last_error(stream: *mut FFI_ArrowArrayStream, status: c_int) -> String {
    // SAFETY: as the caller promises.
    let get_last_error = unsafe { (*stream).get_last_error };
    // SAFETY: as the caller promises.
    let told = get_last_error.map(|get| unsafe { get(stream) });
    match told.filter(|told| !told.is_null()) {
        // SAFETY: it is not null, so it is a text that the stream keeps until its next call.
        Some(told) => unsafe { CStr::from_ptr(told) }
            .to_string_lossy()
            .into_owned(),
        None => std::io::Error::from_raw_os_error(status).to_string(),
    }
}

/// The rows of a struct, as a stream of one batch.
struct Rows {
    schema: SchemaRef,
    rows: Option<StructArray>,
}

impl Rows {
    /// # Safety
    /// Both are null, or a struct and its type as the Arrow C data interface has them.
    unsafe fn of(values: *mut FFI_ArrowArray, schema: *mut FFI_ArrowSchema) -> Result<Self> {
        if values.is_null() || schema.is_null() {
            return Err(invalid("there are no rows to bind"));
        }
        // SAFETY: they are not null, and as the caller promises; the array is taken over, its type is not.
        let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(values), &*schema) };
        let data = data.map_err(|error| of_arrow(&error))?;
        let DataType::Struct(fields) = data.data_type() else {
            return Err(invalid(
                "rows are bound as a struct, with a field for each column",
            ));
        };
        Ok(Self {
            schema: Schema::new(fields.clone()).into(),
            rows: Some(StructArray::from(data)),
        })
    }
}

impl Iterator for Rows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.take()?;
        Some(match rows.null_count() {
            0 => Ok(RecordBatch::from(rows)),
            nulls => Err(ArrowError::InvalidArgumentError(format!(
                "{nulls} of the bound rows are NULL as a whole: bind NULL in their columns"
            ))),
        })
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adbc_core::error::Status;
    use arrow::array::RecordBatchIterator;
    use std::ptr;

    /// Describes rows with a list of nothing.
    unsafe extern "C" fn no_items(
        _: *mut FFI_ArrowArrayStream,
        schema: *mut FFI_ArrowSchema,
    ) -> c_int {
        let list = FFI_ArrowSchema::try_new("+l", Vec::new(), None).unwrap();
        let rows = FFI_ArrowSchema::try_new("+s", vec![list], None).unwrap();
        // SAFETY: it is the caller's place for a schema.
        unsafe { schema.write(rows) };
        0
    }

    /// Fails.
    unsafe extern "C" fn failing(_: *mut FFI_ArrowArrayStream, _: *mut FFI_ArrowSchema) -> c_int {
        22
    }

    /// What binding the stream to no statement answers.
    fn bound(stream: &mut FFI_ArrowArrayStream) -> Status {
        // SAFETY: the stream is one, and null is allowed for the rest.
        let status = unsafe { bind_stream(ptr::null_mut(), stream, ptr::null_mut()) };
        Status::try_from(status).unwrap()
    }

    fn stream() -> FFI_ArrowArrayStream {
        let schema = SchemaRef::new(Schema::empty());
        FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([], schema)))
    }

    #[test]
    fn a_schema_that_is_none_is_the_producers_error() {
        let mut bad = stream();
        bad.get_schema = Some(no_items);
        assert_eq!(bound(&mut bad), Status::InvalidData);
        assert!(bad.release.is_none(), "it was not released");
        let mut bad = stream();
        bad.get_schema = Some(failing);
        // SAFETY: it is a stream.
        let error = unsafe { check_schema(&mut bad) }.unwrap_err();
        assert!(error.message.contains("Invalid argument"), "{error}");
        assert_eq!(bound(&mut bad), Status::InvalidData);
        // That one is released.
        assert_eq!(bound(&mut bad), Status::InvalidArguments);
        // SAFETY: null is allowed.
        unsafe { check_schema(ptr::null_mut()) }.unwrap_err();
        // No panic reached `adbc_ffi`: it misses the statement, and nothing else.
        assert_eq!(bound(&mut stream()), Status::InvalidArguments);
    }
}
