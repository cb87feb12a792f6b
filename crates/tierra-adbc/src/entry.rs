//! The two functions by which a driver manager finds the driver. They fill in a table of functions, which `adbc_ffi` makes.
//!
//! One of them is replaced. `adbc_ffi` makes a batch of a bound struct before the driver sees it, which panics where a row of the struct
//! is NULL, and after a panic it refuses every call of the process. Here a bound struct takes the way of a stream, whose batches are made
//! within a call of the driver.

use std::ffi::{c_int, c_void};
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
use crate::guard::of_panic;

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
    let rows = catch_unwind(AssertUnwindSafe(|| unsafe { Rows::of(values, schema) }));
    let rows = rows.unwrap_or_else(|panic| Err(of_panic(panic.as_ref())));
    let rows = match rows {
        Ok(rows) => rows,
        // SAFETY: as the caller promises.
        Err(refused) => return unsafe { fail(error, refused) },
    };
    let mut stream = FFI_ArrowArrayStream::new(Box::new(rows));
    match TierraDriver::ffi_driver().StatementBindStream {
        // SAFETY: the stream is one of this process, and the rest is as the caller promises.
        Some(bind_stream) => unsafe { bind_stream(statement, &mut stream, error) },
        // SAFETY: as the caller promises.
        None => unsafe { fail(error, not_implemented("streams of rows")) },
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
