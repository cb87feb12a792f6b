//! What kind of error a statement ended with, for interfaces that have a code or a class for each kind.

use std::error::Error;
use std::{io, iter};

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use tierra_engine::{
    AppendError, BackupError, CommitError, DuplicateKeyError, InputError,
    LoadError as EngineLoadError, StorageError, TableError,
};
use tierra_memory::PoolError;

use super::{ChangeError, DefinitionError, InsertError, PreparedError, SqlError};
use crate::load::LoadError;

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not SQL.
    Syntax,
    /// There is no such table.
    NoTable,
    /// There is no such column.
    NoColumn,
    /// A name means several columns.
    AmbiguousColumn,
    /// There is no such function, or none that takes such arguments.
    NoFunction,
    /// There is a table of that name.
    TableExists,
    /// A table cannot be defined so.
    Definition,
    /// There is no such setting, or it cannot have that value.
    Setting,
    /// A value of the wrong type, or types that do not go together.
    Type,
    /// A text that is no value of the type.
    Value,
    /// A number beyond its type.
    OutOfRange,
    /// Division by zero.
    DivisionByZero,
    /// The primary key is there already.
    DuplicateKey,
    /// NULL in a NOT NULL column.
    Null,
    /// Another session changed a row first: the statement or transaction can be run again.
    Conflict,
    /// The statement would change a row twice.
    RowTwice,
    /// There is a transaction, or there is none.
    Transaction,
    /// An earlier statement of the transaction failed.
    TransactionFailed,
    /// There is no such savepoint.
    NoSavepoint,
    /// There is no such prepared statement, or it takes other arguments.
    Prepared,
    /// A table of a prepared statement was dropped since.
    PlanOutOfDate,
    /// The query needs more memory than it may use.
    Memory,
    /// The database can only be read.
    ReadOnly,
    /// The user may only read.
    Denied,
    /// The statement was cancelled.
    Cancelled,
    /// Tierra does not have it.
    Unsupported,
    /// The statement is beyond the planner's limits.
    Limit,
    /// A file or a device could not be read or written.
    Storage,
    /// A file system, a quota or a pool is full.
    DiskFull,
    /// Any other failure of a query.
    Query,
    /// A defect of Tierra or of a library.
    Defect,
}

impl SqlError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax(_) => ErrorKind::Syntax,
            Self::Definition(error) => of_definition(error),
            Self::Prepared(error) => of_prepared(error),
            Self::Insert(error) => match error {
                InsertError::Mismatch { .. } => ErrorKind::Type,
                InsertError::Value { .. } => ErrorKind::Value,
                InsertError::Null { .. } => ErrorKind::Null,
            },
            Self::Change(error) => of_change(error),
            Self::Denied { .. } => ErrorKind::Denied,
            Self::Load(error) => of_load(error),
            Self::Copy(error) => of_files(error),
            Self::Limit(_) => ErrorKind::Limit,
            Self::NoTable { .. } => ErrorKind::NoTable,
            Self::Ambiguous(_) => ErrorKind::AmbiguousColumn,
            Self::Query { message, source } => of_query(message, source.as_ref()),
            Self::Defect(_) => ErrorKind::Defect,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Engine(source) => of_engine(source.as_ref()),
            Self::InStatement { source, .. } => source.kind(),
        }
    }
}

fn of_definition(error: &DefinitionError) -> ErrorKind {
    match error {
        DefinitionError::NoSuchTable(_) => ErrorKind::NoTable,
        DefinitionError::Exists(_) => ErrorKind::TableExists,
        DefinitionError::UnknownColumn { .. } => ErrorKind::NoColumn,
        DefinitionError::Unsupported(_) | DefinitionError::UnsupportedFor { .. } => {
            ErrorKind::Unsupported
        }
        DefinitionError::FixedSetting { .. } => ErrorKind::Setting,
        _ => ErrorKind::Definition,
    }
}

fn of_prepared(error: &PreparedError) -> ErrorKind {
    match error {
        PreparedError::Argument { .. } | PreparedError::NotConstant { .. } => ErrorKind::Value,
        PreparedError::TableGone { .. } => ErrorKind::PlanOutOfDate,
        PreparedError::NoParameters => ErrorKind::Unsupported,
        _ => ErrorKind::Prepared,
    }
}

fn of_change(error: &ChangeError) -> ErrorKind {
    match error {
        ChangeError::Repeated { .. } | ChangeError::Twice { .. } => ErrorKind::RowTwice,
        ChangeError::Conflict { .. } | ChangeError::Newer { .. } | ChangeError::Dropped { .. } => {
            ErrorKind::Conflict
        }
        ChangeError::Nested | ChangeError::NoTransaction => ErrorKind::Transaction,
        ChangeError::Aborted => ErrorKind::TransactionFailed,
        ChangeError::ReadOnly { .. } => ErrorKind::ReadOnly,
        ChangeError::NoSavepoint(_) => ErrorKind::NoSavepoint,
        ChangeError::TooManyRows { .. } => ErrorKind::Limit,
    }
}

fn of_load(error: &LoadError) -> ErrorKind {
    match error {
        LoadError::MissingColumn { .. } => ErrorKind::NoColumn,
        LoadError::Null { .. } => ErrorKind::Null,
        LoadError::Value { .. } | LoadError::Field { .. } | LoadError::FieldCount { .. } => {
            ErrorKind::Value
        }
        LoadError::Definition { source, .. } => of_definition(source),
        LoadError::Table { source, .. } => of_engine(source.as_ref()),
        LoadError::Cancelled { .. } => ErrorKind::Cancelled,
        _ => ErrorKind::Storage,
    }
}

/// The kind of an error of the engine: that of the first known one in the chain of causes. A transparent error passes its cause's
/// cause on as its own, so each of the engine's is asked for what it holds.
fn of_engine(error: &(dyn Error + 'static)) -> ErrorKind {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(kind) = of_cause(error) {
            return kind;
        }
        next = error.source();
    }
    ErrorKind::Storage
}

fn of_cause(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    if error.is::<DuplicateKeyError>() {
        return Some(ErrorKind::DuplicateKey);
    }
    if let Some(error) = error.downcast_ref() {
        return Some(of_storage(error));
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            AppendError::DuplicateKey(_) => ErrorKind::DuplicateKey,
            AppendError::Storage(error) => of_storage(error),
            AppendError::Input(error) => of_input(error),
            _ => ErrorKind::Storage,
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            CommitError::DuplicateKey(_) => ErrorKind::DuplicateKey,
            CommitError::Conflict { .. } => ErrorKind::Conflict,
            CommitError::Storage(error) => of_storage(error),
            CommitError::Input(error) => of_input(error),
            _ => ErrorKind::Storage,
        });
    }
    if error.is::<BackupError>() {
        return Some(of_files(error));
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            EngineLoadError::DuplicateKey(_) => ErrorKind::DuplicateKey,
            EngineLoadError::Storage(error) => of_storage(error),
            EngineLoadError::Input(error) => of_input(error),
            _ => ErrorKind::Storage,
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            TableError::Exists { .. } => ErrorKind::TableExists,
            TableError::Unknown { .. } => ErrorKind::NoTable,
            TableError::Storage(error) => of_storage(error),
            _ => ErrorKind::Definition,
        });
    }
    error.downcast_ref().map(of_datafusion)
}

fn of_input(error: &InputError) -> ErrorKind {
    match error {
        InputError::Null { .. } => ErrorKind::Null,
        _ => ErrorKind::Value,
    }
}

fn of_storage(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::ReadOnly { .. } => ErrorKind::ReadOnly,
        StorageError::Dropped { .. } => ErrorKind::NoTable,
        StorageError::Pool(PoolError::Full { .. }) => ErrorKind::DiskFull,
        other => of_files(other),
    }
}

/// The kind of an error of reading or writing files.
fn of_files(error: &(dyn Error + 'static)) -> ErrorKind {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    let io = causes.find_map(|cause| cause.downcast_ref());
    io.map_or(ErrorKind::Storage, of_io)
}

fn of_io(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
        _ => ErrorKind::Storage,
    }
}

fn of_query(message: &str, source: &(dyn Error + Send + Sync + 'static)) -> ErrorKind {
    if message.starts_with("setting ") {
        return ErrorKind::Setting;
    }
    match source.downcast_ref::<DataFusionError>() {
        Some(error) => of_datafusion(error),
        None => ErrorKind::Query,
    }
}

fn of_datafusion(error: &DataFusionError) -> ErrorKind {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { .. } => ErrorKind::NoColumn,
            SchemaError::AmbiguousReference { .. } => ErrorKind::AmbiguousColumn,
            _ => ErrorKind::Query,
        },
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::DivideByZero => ErrorKind::DivisionByZero,
            ArrowError::ArithmeticOverflow(_) => ErrorKind::OutOfRange,
            ArrowError::CastError(text) | ArrowError::ParseError(text) => of_text(text),
            other => of_text(&other.to_string()),
        },
        DataFusionError::ResourcesExhausted(_) => ErrorKind::Memory,
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::Configuration(_) => ErrorKind::Setting,
        DataFusionError::SQL(..) => ErrorKind::Syntax,
        DataFusionError::Internal(_) => ErrorKind::Defect,
        DataFusionError::IoError(error) => of_io(error),
        DataFusionError::ObjectStore(error) => of_files(error.as_ref()),
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => of_text(text),
        _ => ErrorKind::Query,
    }
}

/// The kind of an error that only its text tells.
fn of_text(text: &str) -> ErrorKind {
    let text = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["invalid function '", "no function matches"]) {
        ErrorKind::NoFunction
    } else if says(&["divide by zero", "division by zero"]) {
        ErrorKind::DivisionByZero
    } else if says(&["overflow", "out of range", "too large", "beyond"]) {
        ErrorKind::OutOfRange
    } else if says(&[
        "cannot cast string",
        "cannot parse",
        "error parsing",
        "is no ",
    ]) {
        ErrorKind::Value
    } else if says(&["coerce", "signature", "type mismatch", "does not support"]) {
        ErrorKind::Type
    } else {
        ErrorKind::Query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_engine_is_known_by_what_it_holds() {
        let closed = || StorageError::Closed;
        let exists = TableError::Exists {
            table: "t".to_owned(),
        };
        let full = PoolError::Full {
            path: "far.pool".into(),
            wanted_bytes: 2,
            used_bytes: 9,
            capacity_bytes: 10,
        };
        for (error, kind) in [
            (SqlError::engine(closed()), ErrorKind::Storage),
            (
                SqlError::engine(AppendError::Storage(closed())),
                ErrorKind::Storage,
            ),
            (SqlError::engine(exists), ErrorKind::TableExists),
            (
                SqlError::engine(CommitError::Storage(full.into())),
                ErrorKind::DiskFull,
            ),
            (SqlError::Cancelled, ErrorKind::Cancelled),
        ] {
            let numbered = SqlError::InStatement {
                number: 2,
                statement: "..".to_owned(),
                source: Box::new(error),
            };
            assert_eq!(numbered.kind(), kind, "{numbered}");
        }
    }
}
