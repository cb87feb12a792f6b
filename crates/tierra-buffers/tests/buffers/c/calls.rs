//! The interface for C, called from Rust: texts, handles and statuses.

use std::ffi::{CStr, CString, c_int};
use std::path::Path;

use ::tierra_buffers::c::*;

pub(super) fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

pub(super) fn message() -> String {
    // SAFETY: it is a text of this thread's, which makes no other call meanwhile.
    unsafe { CStr::from_ptr(tierra_message()) }
        .to_str()
        .unwrap()
        .to_owned()
}

/// A status with its message.
pub(super) fn fails(status: c_int, expected: Status, part: &str) {
    assert_eq!(status, expected as c_int, "{}", message());
    assert!(message().contains(part), "{part} is not in {}", message());
}

pub(super) fn works(status: c_int) {
    assert_eq!(status, 0, "{}", message());
}

pub(super) const NONE: tierra_buffers = tierra_buffers { number: 0 };

pub(super) fn open(dir: &Path) -> tierra_buffers {
    let (db, name, pool) = (
        text(dir.join("db").to_str().unwrap()),
        text("b"),
        text(dir.join("b.pool").to_str().unwrap()),
    );
    let tier = tierra_tier {
        name: name.as_ptr(),
        pool: pool.as_ptr(),
    };
    let options = tierra_options {
        tiers: &tier,
        tiers_count: 1,
        near_bytes: 1 << 20,
        far_bytes: 0,
    };
    let mut set = NONE;
    // SAFETY: all of it lives.
    works(unsafe { tierra_buffers_open(db.as_ptr(), &options, &mut set) });
    set
}

pub(super) fn allocate(set: tierra_buffers, name: &str, replicas: &str) -> (c_int, tierra_buffer) {
    let (name, replicas) = (text(name), text(replicas));
    let mut buffer = tierra_buffer { number: 0 };
    // SAFETY: all of it lives.
    let status =
        unsafe { tierra_buffers_allocate(set, name.as_ptr(), replicas.as_ptr(), 2, &mut buffer) };
    (status, buffer)
}

pub(super) fn append(buffer: tierra_buffer, values: &[i64]) -> c_int {
    // SAFETY: they live.
    unsafe { tierra_buffer_append(buffer, values.as_ptr(), values.len()) }
}

pub(super) fn read(buffer: tierra_buffer, pattern: c_int, share: f64) -> (c_int, tierra_reader) {
    let mut reader = tierra_reader { number: 0 };
    // SAFETY: it lives.
    let status = unsafe { tierra_buffer_read(buffer, pattern, share, &mut reader) };
    (status, reader)
}
