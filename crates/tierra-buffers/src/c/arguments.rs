//! Arguments from C, checked as far as they can be.
//!
//! Nothing here can tell whether a pointer that is not NULL points where the caller says: that is the caller's promise.

use std::ffi::{CStr, c_char};
use std::slice;

use super::status::{Result, Status, fail};

/// A text.
///
/// # Safety
/// It is NULL, or a text that ends with a zero and does not change during the call.
pub(super) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    check(what, text)?;
    // SAFETY: it is not NULL, and so a text, as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(text),
        Err(_) => fail(Status::Invalid, format!("{what} is not UTF-8")),
    }
}

/// `count` things.
///
/// # Safety
/// `first` is NULL, or points to so many of them, which do not change during the call.
pub(super) unsafe fn slice<'a, T>(what: &str, first: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(what, first)?;
    check_count::<T>(what, count)?;
    // SAFETY: it is aligned, not NULL and not too long, and so points to as many, as the caller promises.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Places for `count` things.
///
/// # Safety
/// `first` is NULL, or points to room for so many, which no other thread uses during the call. The room may be uninitialized.
pub(super) unsafe fn places<'a, T: Copy>(
    what: &str,
    first: *mut T,
    count: usize,
    zero: T,
) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(what, first)?;
    check_count::<T>(what, count)?;
    for at in 0..count {
        // SAFETY: there are as many places, as the caller promises.
        unsafe { first.add(at).write(zero) };
    }
    // SAFETY: it is aligned, not NULL and not too long, all of it is initialized now, and no other thread uses it, as the caller promises.
    Ok(unsafe { slice::from_raw_parts_mut(first, count) })
}

/// Puts a result where the caller wants it.
///
/// # Safety
/// `to` is NULL, or points to a place for it.
pub(super) unsafe fn put<T>(what: &str, to: *mut T, value: T) -> Result<()> {
    check(what, to)?;
    // SAFETY: it is aligned and not NULL, and so a place, as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

/// Fails if a pointer cannot be one to `T`.
pub(super) fn check<T>(what: &str, pointer: *const T) -> Result<()> {
    match (pointer.is_null(), pointer.is_aligned()) {
        (true, _) => fail(Status::Invalid, format!("{what} is NULL")),
        (_, false) => fail(
            Status::Invalid,
            format!("{what} is not aligned to {} bytes", align_of::<T>()),
        ),
        _ => Ok(()),
    }
}

fn check_count<T>(what: &str, count: usize) -> Result<()> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => fail(
            Status::Invalid,
            format!("{what}: no memory has {count} of them"),
        ),
    }
}

/// A text in an array, with a zero at its end.
pub(super) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let places = array[..N - 1].iter_mut();
    places
        .zip(text.bytes())
        .for_each(|(to, byte)| *to = byte as c_char);
    array
}
