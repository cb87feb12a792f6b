//! The length of an option. `adbc.h` lets a caller ask for it without a place for the option, and `adbc_ffi` wants one.

use std::ffi::c_char;

use adbc_core::error::AdbcStatusCode;
use adbc_ffi::{FFI_AdbcConnection, FFI_AdbcDatabase, FFI_AdbcError, FFI_AdbcStatement, FFIDriver};

use super::fail;
use crate::TierraDriver;
use crate::error::not_implemented;

type Get<T> = unsafe extern "C" fn(
    *mut T,
    *const c_char,
    *mut c_char,
    *mut usize,
    *mut FFI_AdbcError,
) -> AdbcStatusCode;

/// Calls `get`, with a place for the option if only its length is asked for.
///
/// # Safety
/// Each pointer is null, or what `adbc.h` says.
unsafe fn with_place<T>(
    get: Option<Get<T>>,
    object: *mut T,
    key: *const c_char,
    value: *mut c_char,
    length: *mut usize,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let Some(get) = get else {
        // SAFETY: as the caller promises.
        return unsafe { fail(error, not_implemented("options that can be read")) };
    };
    let mut place = 0;
    // SAFETY: it is null or a length, as the caller promises.
    let has_no_place = unsafe { length.as_ref() } == Some(&0);
    let value = match value.is_null() && has_no_place {
        true => &raw mut place,
        false => value,
    };
    // SAFETY: as the caller promises. At a length of zero nothing is written to the place.
    unsafe { get(object, key, value, length, error) }
}

macro_rules! getter {
    ($name:ident, $object:ty, $of_table:ident) => {
        /// Gets an option, or its length.
        ///
        /// # Safety
        /// Each is null, or what `adbc.h` says.
        pub(super) unsafe extern "C" fn $name(
            object: *mut $object,
            key: *const c_char,
            value: *mut c_char,
            length: *mut usize,
            error: *mut FFI_AdbcError,
        ) -> AdbcStatusCode {
            let get = TierraDriver::ffi_driver().$of_table;
            // SAFETY: as the caller promises.
            unsafe { with_place(get, object, key, value, length, error) }
        }
    };
}

getter!(of_database, FFI_AdbcDatabase, DatabaseGetOption);
getter!(of_connection, FFI_AdbcConnection, ConnectionGetOption);
getter!(of_statement, FFI_AdbcStatement, StatementGetOption);

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    /// As those of `adbc_ffi`, of an option of five letters.
    unsafe extern "C" fn five(
        _: *mut u8,
        _: *const c_char,
        value: *mut c_char,
        length: *mut usize,
        _: *mut FFI_AdbcError,
    ) -> AdbcStatusCode {
        if value.is_null() {
            return 5;
        }
        // SAFETY: it is the length below.
        unsafe { length.write(5) };
        0
    }

    #[test]
    fn a_length_needs_no_place() {
        for (given, status, found) in [(0, 0, 5), (3, 5, 3)] {
            let mut length = given;
            let none = ptr::null_mut();
            // SAFETY: the length is one, and the rest is not looked at.
            let told = unsafe {
                with_place(
                    Some(five),
                    ptr::null_mut(),
                    ptr::null(),
                    none,
                    &mut length,
                    ptr::null_mut(),
                )
            };
            assert_eq!((told, length), (status, found));
        }
    }
}
