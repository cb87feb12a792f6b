//! Errors as ADBC has them: a status, SQLSTATE, a message.

use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use tierra::engine::OpenError;
use tierra::sql::{ErrorKind, SqlError};
use tierra_postgres::sqlstate;

/// An error that has a code.
pub(crate) fn new(status: Status, code: &str, message: impl Into<String>) -> Error {
    let mut error = Error::with_message_and_status(without_zeros(message.into()), status);
    for (place, letter) in error.sqlstate.iter_mut().zip(code.bytes()) {
        *place = letter as c_char;
    }
    error
}

/// Something that ADBC has and Tierra does not.
pub(crate) fn not_implemented(message: impl Into<String>) -> Error {
    new(Status::NotImplemented, "0A000", message)
}

/// An option that has no value to be read.
pub(crate) fn no_option(key: &str) -> Error {
    new(
        Status::NotFound,
        "22023",
        format!("there is no option '{key}' to read here"),
    )
}

/// An argument that makes no sense.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    new(Status::InvalidArguments, "22023", message)
}

/// A call at the wrong time.
pub(crate) fn state(message: impl Into<String>) -> Error {
    new(Status::InvalidState, "55000", message)
}

/// A zero would end the text in C.
fn without_zeros(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\\0"),
        false => text,
    }
}

/// The error for one of a statement.
pub(crate) fn of_sql(error: &SqlError) -> Error {
    let status = match error.kind() {
        ErrorKind::NoTable => Status::NotFound,
        ErrorKind::TableExists => Status::AlreadyExists,
        ErrorKind::Syntax
        | ErrorKind::NoColumn
        | ErrorKind::AmbiguousColumn
        | ErrorKind::NoFunction
        | ErrorKind::Definition
        | ErrorKind::Setting
        | ErrorKind::Type
        | ErrorKind::Prepared
        | ErrorKind::Query => Status::InvalidArguments,
        ErrorKind::Value
        | ErrorKind::OutOfRange
        | ErrorKind::DivisionByZero
        | ErrorKind::RowTwice => Status::InvalidData,
        ErrorKind::DuplicateKey | ErrorKind::Null => Status::Integrity,
        ErrorKind::Conflict
        | ErrorKind::Transaction
        | ErrorKind::TransactionFailed
        | ErrorKind::NoSavepoint
        | ErrorKind::PlanOutOfDate
        | ErrorKind::ReadOnly => Status::InvalidState,
        ErrorKind::Unsupported | ErrorKind::Limit => Status::NotImplemented,
        ErrorKind::Denied => Status::Unauthorized,
        ErrorKind::Cancelled => Status::Cancelled,
        ErrorKind::Memory | ErrorKind::Storage | ErrorKind::DiskFull => Status::IO,
        ErrorKind::Defect => Status::Internal,
        // A kind that this crate does not know yet.
        _ => Status::Unknown,
    };
    new(status, sqlstate(error), error.to_string())
}

/// The error for one of opening a database.
pub(crate) fn of_database(error: &tierra::Error) -> Error {
    let (status, code) = match error {
        tierra::Error::Sql(error) => return of_sql(error),
        tierra::Error::Open(OpenError::Missing { .. }) => (Status::NotFound, "3D000"),
        tierra::Error::Open(OpenError::NotADatabase { .. } | OpenError::Exists { .. }) => {
            (Status::InvalidArguments, "3D000")
        }
        tierra::Error::Open(OpenError::Locked { .. }) => (Status::IO, "55006"),
        tierra::Error::Config(_) | tierra::Error::Emulation(_) | tierra::Error::Shared { .. } => {
            (Status::InvalidArguments, "22023")
        }
        tierra::Error::Forked => (Status::InvalidState, "55000"),
        _ => (Status::IO, "58030"),
    };
    new(status, code, error.to_string())
}

/// SQLSTATE of an error; `None` if it has none.
pub(crate) fn code(error: &Error) -> Option<String> {
    let letters = error.sqlstate.iter().map(|letter| *letter as u8 as char);
    let code: String = letters.collect();
    code.bytes()
        .all(|letter| letter.is_ascii_alphanumeric())
        .then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_be_cut_short() {
        let error = new(Status::InvalidData, "22P02", "a\0b");
        assert_eq!(error.message, "a\\0b");
        assert_eq!(code(&error).as_deref(), Some("22P02"));
        let without = Error::with_message_and_status("x", Status::Unknown);
        assert_eq!(code(&without), None);
    }
}
