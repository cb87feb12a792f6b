//! The errors of statements, in the user's words.
//!
//! Errors of the engine pass through DataFusion's operators as boxed sources. [`SqlError`] unpacks them, so that a
//! duplicate key reads the same after INSERT as after a load.

mod change;
mod definition;
mod kind;

use std::any::Any;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use arrow::datatypes::Field;
use datafusion::error::DataFusionError;
use tierra_engine::CommitError;
use tokio::task::JoinError;

pub use self::change::ChangeError;
pub use self::definition::DefinitionError;
pub use self::kind::ErrorKind;
use crate::duplicate_names::invisible;
use crate::limits::LimitError;
use crate::load::LoadError;

/// Why a statement failed. After every variant the tables are as they were before the statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The text is not SQL.
    #[error("syntax error: {0}")]
    Syntax(String),
    /// An invalid CREATE TABLE, ALTER TABLE or DROP TABLE.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// An invalid PREPARE, EXECUTE or DEALLOCATE.
    #[error(transparent)]
    Prepared(#[from] PreparedError),
    /// INSERT of values that do not fit their columns.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// Rows that cannot be changed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A statement that changes something, for a user who may only read.
    #[error("permission denied for {what}: this user may only read")]
    Denied {
        /// What was refused.
        what: String,
    },
    /// A file could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A file could not be written.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A statement beyond the planner's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A query names a table that does not exist.
    #[error("table '{table}' not found{hint}")]
    NoTable {
        /// The name.
        table: String,
        /// A similar name, or nothing.
        hint: String,
    },
    /// A reference that matches several columns.
    #[error("column '{0}' is ambiguous: there are several")]
    Ambiguous(String),
    /// A query that cannot be planned, or that failed while it ran.
    #[error("{message}")]
    Query {
        /// The message, without the planner's internal prefixes.
        message: String,
        /// The error as it was raised.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A panic: a defect of Tierra or of a library. It ended this statement alone.
    #[error(
        "this statement ended because of a defect in Tierra or one of its libraries: {0}. Please report it. The session continues."
    )]
    Defect(String),
    /// The statement was cancelled, from outside of it.
    #[error("the statement was cancelled")]
    Cancelled,
    /// An error of the table's storage: duplicate key, full memory, damaged data.
    #[error(transparent)]
    Engine(Box<dyn Error + Send + Sync>),
    /// One of several statements failed. Those before it have taken effect, unless it is not SQL: then none has run.
    #[error("statement {number} (`{statement}`): {source}")]
    InStatement {
        /// Its position in the text, from 1.
        number: usize,
        /// Its first characters.
        statement: String,
        /// What went wrong.
        source: Box<SqlError>,
    },
}

/// Why COPY could not write a file. A file that had the name is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", file.display())]
pub struct CopyError {
    file: PathBuf,
    source: io::Error,
}

impl CopyError {
    pub(crate) fn new(file: &Path, source: io::Error) -> Self {
        Self {
            file: file.to_path_buf(),
            source,
        }
    }
}

/// Why a value cannot go into a column.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// A value of a type that cannot be assigned to the column's type.
    #[error("column '{column}' is {expected} but the value is {found}: cast it")]
    Mismatch {
        /// The column.
        column: String,
        /// Its type.
        expected: String,
        /// The value's type.
        found: String,
    },
    /// A value that its column cannot hold.
    #[error("column '{column}': '{value}' is no {expected}")]
    Value {
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The column's type.
        expected: String,
    },
    /// No value for a NOT NULL column.
    #[error("column '{column}' of table '{table}' is NOT NULL, but {}", given(row))]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Which row of VALUES, from 1; `None` if the NULL is computed, or the column not in the list of columns.
        row: Option<usize>,
    },
}

impl InsertError {
    /// NULL that a statement has computed for a column of `table`.
    pub(crate) fn null_in(table: &str, column: &Field) -> Self {
        Self::Null {
            table: table.to_string(),
            column: column.name().clone(),
            row: None,
        }
    }
}

impl From<InsertError> for DataFusionError {
    fn from(error: InsertError) -> Self {
        DataFusionError::External(Box::new(SqlError::Insert(error)))
    }
}

fn given(row: &Option<usize>) -> String {
    match row {
        Some(row) => format!("row {row} has NULL for it"),
        None => "the statement gives it no value".to_string(),
    }
}

/// Why a prepared statement cannot be stored or executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreparedError {
    /// The name is taken.
    #[error("a prepared statement '{0}' already exists; DEALLOCATE it first")]
    Exists(String),
    /// No point query has that name.
    #[error(
        "there is no prepared point query '{0}'; PREPARE it AS SELECT .. FROM table WHERE key = $1"
    )]
    Unknown(String),
    /// No prepared statement has that name.
    #[error("there is no prepared statement '{0}'; PREPARE {0} AS .. makes one, for this session")]
    NotThere(String),
    /// The wrong number of arguments.
    #[error("prepared statement '{name}' takes {expected} argument(s), not {given}")]
    Arguments {
        /// The statement.
        name: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments given.
        given: usize,
    },
    /// An argument that is not a value of the key's type.
    #[error("prepared statement '{name}': argument ${parameter} is {value}, expected {expected}")]
    Argument {
        /// The statement.
        name: String,
        /// Which parameter, from 1.
        parameter: usize,
        /// The argument as written.
        value: String,
        /// The expected type.
        expected: String,
    },
    /// An argument that is not known before the statement runs.
    #[error("prepared statement '{name}': argument ${parameter} is {value}, expected a constant")]
    NotConstant {
        /// The statement.
        name: String,
        /// Which parameter, from 1.
        parameter: usize,
        /// The argument as written.
        value: String,
    },
    /// EXPLAIN of a prepared point query, which is looked up without a plan.
    #[error(
        "prepared statement '{0}' is a point query, which is looked up without a plan; EXPLAIN its SELECT"
    )]
    Point(String),
    /// A statement prepared by another session.
    #[error("the statement was prepared by another session: prepare it in the one that runs it")]
    OtherSession,
    /// Parameters in a statement that has none.
    #[error("a statement of this kind has no parameters: write the values into it")]
    NoParameters,
    /// The table was dropped since.
    #[error("prepared statement '{name}': table '{table}' was dropped since; prepare it again")]
    TableGone {
        /// The statement.
        name: String,
        /// The table.
        table: String,
    },
}

impl SqlError {
    /// Wraps an error of the engine.
    pub(crate) fn engine(error: impl Error + Send + Sync + 'static) -> Self {
        SqlError::Engine(Box::new(error))
    }

    /// Wraps an error of the engine's commit; `what` is to be run again after a conflict.
    pub(crate) fn of_commit(error: CommitError, what: &'static str) -> Self {
        match error {
            CommitError::Conflict { table, .. } => ChangeError::Conflict { table, what }.into(),
            error => SqlError::engine(error),
        }
    }

    /// The error for a panic with this payload.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Defect(text.unwrap_or_else(|| "a panic that says nothing".to_string()))
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        match unwrap(error) {
            DataFusionError::External(source) => match source.downcast::<SqlError>() {
                Ok(own) => *own,
                Err(source) => of_task(source),
            },
            DataFusionError::ExecutionJoin(source) => of_task(source),
            DataFusionError::SQL(error, _) => SqlError::Syntax(parser_message(&error.to_string())),
            error => {
                let message = message_of(&error);
                SqlError::Query {
                    message,
                    source: Box::new(error),
                }
            }
        }
    }
}

/// The panic of a task, or another error of the engine.
fn of_task(source: Box<dyn Error + Send + Sync>) -> SqlError {
    match source
        .downcast::<JoinError>()
        .map(|join| join.try_into_panic())
    {
        Ok(Ok(panic)) => SqlError::of_panic(panic.as_ref()),
        Ok(Err(join)) => SqlError::Engine(Box::new(join)),
        Err(source) => SqlError::Engine(source),
    }
}

/// Removes the layers that say where in the executor an error occurred.
fn unwrap(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            unwrap(*inner)
        }
        DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
            Ok(inner) => unwrap(inner),
            Err(shared) => DataFusionError::Shared(shared),
        },
        DataFusionError::ArrowError(inner, backtrace) => match *inner {
            arrow::error::ArrowError::ExternalError(source) => DataFusionError::External(source),
            other => DataFusionError::ArrowError(Box::new(other), backtrace),
        },
        other => other,
    }
}

fn parser_message(message: &str) -> String {
    message
        .strip_prefix("sql parser error: ")
        .unwrap_or(message)
        .to_string()
}

/// What `text` says in Arrow's types, in those of SQL.
fn overflow_of_abs(text: &str) -> Option<String> {
    let (ty, call) = text.split_once("Array overflow on ")?;
    let (ty, wider) = match ty {
        "Int64" => ("BIGINT", "DECIMAL(38, 0)"),
        "Int32" => ("INTEGER", "BIGINT"),
        "Int16" => ("SMALLINT", "BIGINT"),
        _ => return None,
    };
    Some(format!(
        "{ty} overflow in {call}: cast the argument to {wider}"
    ))
}

/// The message for a user: the root cause without the planner's prefixes.
fn message_of(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::NotImplemented(text)
        | DataFusionError::Configuration(text) => text.clone(),
        DataFusionError::ResourcesExhausted(text) => format!("out of memory: {text}"),
        DataFusionError::SchemaError(error, _) => match invisible::of_reference(error) {
            Some(name) => SqlError::Ambiguous(name.to_string()).to_string(),
            None => error.to_string(),
        },
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            arrow::error::ArrowError::CastError(text)
            | arrow::error::ArrowError::ParseError(text)
            | arrow::error::ArrowError::ComputeError(text)
            | arrow::error::ArrowError::InvalidArgumentError(text)
            | arrow::error::ArrowError::ArithmeticOverflow(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.strip_backtrace(),
    };
    let text = text
        .split_once("\n\nbacktrace:")
        .map_or(&*text, |(head, _)| head);
    if let Some(message) = overflow_of_abs(text) {
        return message;
    }
    if let Some(key) = text.strip_prefix("could not find config namespace for key ") {
        return format!("there is no setting {key}; SHOW ALL lists them");
    }
    if text.starts_with("Physical plan does not support logical expression") {
        return "a subquery refers to the row outside in a way that is not supported: compare columns with = in its \
                WHERE, or write a join"
            .to_string();
    }
    // If some functions are given wrong types, the planner first says that this is a bug to report.
    let fault = text.starts_with("Internal error: Function");
    let signature = fault.then(|| text.find("No function matches the given name"));
    text[signature.flatten().unwrap_or(0)..].to_string()
}
