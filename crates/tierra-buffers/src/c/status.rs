//! What a call from C returns, and the message that goes with it.
//!
//! Invariant: no panic leaves a call, and a thread's message is about its last call that failed.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::OnceLock;

use tierra_engine::{AppendError, LookupError, OpenError, ReplicasError, StorageError, TableError};
use tierra_memory::PoolError;

use crate::error::Error;

/// What a call returns: 0, or why it failed. The numbers are those of `enum tierra_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It did what it was asked for.
    Ok = 0,
    /// An argument is wrong.
    Invalid = 1,
    /// The handle is none, was closed, or is of another kind.
    Handle = 2,
    /// There is no such buffer, tier or encoding.
    NotFound = 3,
    /// The name is taken.
    Exists = 4,
    /// The buffer was deleted by another handle.
    Deleted = 5,
    /// There is no such position or block.
    Range = 6,
    /// The sum, or a block, does not fit into the place for it.
    Room = 7,
    /// A tier is full.
    Full = 8,
    /// Stored bytes are damaged in all copies, or lie in missing tiers.
    Unreadable = 9,
    /// Whether it was stored is known when the directory is opened again.
    Unknown = 10,
    /// A file, a device or memory failed, or the set was closed.
    Storage = 11,
    /// A mistake of Tierra's.
    Defect = 12,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 13] = [
        Status::Ok,
        Status::Invalid,
        Status::Handle,
        Status::NotFound,
        Status::Exists,
        Status::Deleted,
        Status::Range,
        Status::Room,
        Status::Full,
        Status::Unreadable,
        Status::Unknown,
        Status::Storage,
        Status::Defect,
    ];
}

/// Why a call failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: Status,
    pub(super) message: String,
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

pub(super) fn fail<T>(status: Status, message: impl Into<String>) -> Result<T> {
    let message = message.into();
    Err(Failure { status, message })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::Unknown { .. } => Status::NotFound,
            Error::NotABuffer { .. } | Error::Positions { .. } | Error::Forked => Status::Invalid,
            Error::Deleted { .. } => Status::Deleted,
            Error::Position { .. } | Error::Block { .. } => Status::Range,
            Error::Order { .. } => Status::Unreadable,
            Error::Open(error) => of_opening(error),
            Error::Table(TableError::Exists { .. }) => Status::Exists,
            Error::Table(TableError::Spec(_)) => Status::Invalid,
            Error::Table(TableError::Replicas(error)) => match error {
                ReplicasError::Tier { .. } | ReplicasError::Encoding { .. } => Status::NotFound,
                ReplicasError::Missing { .. } => Status::Storage,
                _ => Status::Invalid,
            },
            Error::Table(TableError::Storage(error))
            | Error::Append(AppendError::Storage(error)) => of_storage(error),
            Error::Table(_) | Error::Tier(_) | Error::Append(_) => Status::Storage,
            Error::Scan(_) | Error::Lookup(LookupError::Scan(_)) => Status::Unreadable,
            Error::Lookup(_) => Status::Storage,
        };
        Failure {
            status,
            message: error.to_string(),
        }
    }
}

fn of_opening(error: &OpenError) -> Status {
    match error {
        OpenError::Pool(PoolError::Full { .. }) => Status::Full,
        _ => Status::Storage,
    }
}

fn of_storage(error: &StorageError) -> Status {
    match error {
        StorageError::Pool(PoolError::Full { .. }) => Status::Full,
        StorageError::Dropped { .. } => Status::Deleted,
        StorageError::Unknown { .. } => Status::Unknown,
        StorageError::Scan(_) | StorageError::Damage(_) | StorageError::Unavailable(_) => {
            Status::Unreadable
        }
        _ => Status::Storage,
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Does the work of a call. It fails in a fork of the process that made the first call, and if the work panics.
pub(super) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    let done = match *PROCESS.get_or_init(process::id) == process::id() {
        true => catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| of_panic(&*panic)),
        false => Err(Error::Forked.into()),
    };
    let Err(Failure { status, message }) = done else {
        return Status::Ok as c_int;
    };
    // A text with a zero in it ends there.
    let mut text = message.into_bytes();
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(text.len()));
    let text = CString::new(text).unwrap_or_default();
    // If the thread is ending, no call can read the message.
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = text);
    status as c_int
}

fn of_panic<T>(panic: &(dyn Any + Send)) -> Result<T> {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "a panic that says nothing".to_owned());
    fail(
        Status::Defect,
        format!("a defect of Tierra, please report it: {text}"),
    )
}

/// The message of this thread.
pub(super) fn message() -> *const c_char {
    let empty: &CStr = c"";
    let text = MESSAGE.try_with(|message| message.borrow().as_ptr());
    text.unwrap_or(empty.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let status = call(|| panic!("on \0 purpose"));
        assert_eq!(status, Status::Defect as c_int);
        let text = MESSAGE.with(|message| message.borrow().to_str().unwrap().to_owned());
        assert!(text.ends_with("please report it: on "), "{text}");
    }
}
