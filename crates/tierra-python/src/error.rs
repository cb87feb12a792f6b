//! The exceptions of PEP 249, and which of them an error of Tierra becomes.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tierra::sql::{ErrorKind, SqlError};

create_exception!(
    tierra,
    Warning,
    PyException,
    "Something important that is no error."
);
create_exception!(
    tierra,
    Error,
    PyException,
    "The base of all errors of Tierra."
);
create_exception!(
    tierra,
    InterfaceError,
    Error,
    "A call that cannot be right."
);
create_exception!(tierra, DatabaseError, Error, "An error of the database.");
create_exception!(
    tierra,
    DataError,
    DatabaseError,
    "A value that is none of its type."
);
create_exception!(
    tierra,
    OperationalError,
    DatabaseError,
    "An error of the machine or of its use: memory, files, a statement that was cancelled."
);
create_exception!(
    tierra,
    IntegrityError,
    DatabaseError,
    "A key that is there already, or NULL where there may be none."
);
create_exception!(tierra, InternalError, DatabaseError, "A defect of Tierra.");
create_exception!(
    tierra,
    ProgrammingError,
    DatabaseError,
    "Wrong SQL, or names that do not exist."
);
create_exception!(
    tierra,
    NotSupportedError,
    DatabaseError,
    "Something that Tierra does not have."
);

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Warning", py.get_type::<Warning>())?;
    module.add("Error", py.get_type::<Error>())?;
    module.add("InterfaceError", py.get_type::<InterfaceError>())?;
    module.add("DatabaseError", py.get_type::<DatabaseError>())?;
    module.add("DataError", py.get_type::<DataError>())?;
    module.add("OperationalError", py.get_type::<OperationalError>())?;
    module.add("IntegrityError", py.get_type::<IntegrityError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("ProgrammingError", py.get_type::<ProgrammingError>())?;
    module.add("NotSupportedError", py.get_type::<NotSupportedError>())
}

/// The exception for an error of a statement.
pub(crate) fn of_sql(error: SqlError) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Syntax
        | ErrorKind::NoTable
        | ErrorKind::NoColumn
        | ErrorKind::AmbiguousColumn
        | ErrorKind::NoFunction
        | ErrorKind::TableExists
        | ErrorKind::Definition
        | ErrorKind::Setting
        | ErrorKind::Type
        | ErrorKind::Prepared
        | ErrorKind::PlanOutOfDate
        | ErrorKind::RowTwice
        | ErrorKind::Transaction
        | ErrorKind::NoSavepoint
        | ErrorKind::Denied
        | ErrorKind::Query => ProgrammingError::new_err(text),
        ErrorKind::Value | ErrorKind::OutOfRange | ErrorKind::DivisionByZero => {
            DataError::new_err(text)
        }
        ErrorKind::DuplicateKey | ErrorKind::Null => IntegrityError::new_err(text),
        ErrorKind::Unsupported | ErrorKind::Limit => NotSupportedError::new_err(text),
        ErrorKind::Memory
        | ErrorKind::ReadOnly
        | ErrorKind::Cancelled
        | ErrorKind::Conflict
        | ErrorKind::TransactionFailed
        | ErrorKind::Storage
        | ErrorKind::DiskFull => OperationalError::new_err(text),
        ErrorKind::Defect => InternalError::new_err(text),
        // A kind that this module does not know yet.
        _ => DatabaseError::new_err(text),
    }
}

/// The exception for an error of opening a database.
pub(crate) fn of_database(error: tierra::Error) -> PyErr {
    match error {
        tierra::Error::Sql(error) => of_sql(error),
        tierra::Error::Config(_) | tierra::Error::Emulation(_) | tierra::Error::Shared { .. } => {
            ProgrammingError::new_err(error.to_string())
        }
        tierra::Error::Forked => InterfaceError::new_err(error.to_string()),
        other => OperationalError::new_err(other.to_string()),
    }
}
