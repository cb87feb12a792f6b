//! What can go wrong with a statement, said in the user's words.
//!
//! Errors of the engine travel through DataFusion's operators as boxed sources; [`SqlError`] unpacks
//! them again, so that a duplicate key reads the same whether it came from INSERT or from a load.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use arrow::datatypes::Field;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use tokio::task::JoinError;

use crate::limits::LimitError;
use crate::load::LoadError;
use crate::{defect, rules, twins};

/// Why a statement failed. Whatever the variant, the tables are as they were before the statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The text is no SQL.
    #[error("syntax error: {0}")]
    Syntax(String),
    /// A CREATE TABLE, ALTER TABLE or DROP TABLE that makes no sense.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// PREPARE, EXECUTE or DEALLOCATE of something unsuitable.
    #[error(transparent)]
    Prepared(#[from] PreparedError),
    /// INSERT of values that do not fit their columns.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// A file could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A file could not be written.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A statement beyond what is planned.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A query names a table that is not there.
    #[error("table '{table}' not found{hint}")]
    NoTable {
        /// The name.
        table: String,
        /// What may have been meant, or nothing.
        hint: String,
    },
    /// A reference that names several columns.
    #[error("column '{0}' is ambiguous: there are several")]
    Ambiguous(String),
    /// A query that cannot be planned or that failed while it ran.
    #[error("{message}")]
    Query {
        /// What went wrong, without the planner's internal prefixes.
        message: String,
        /// The error as it was raised.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A panic: a fault of Tierra's or of a library's, which ended this statement alone.
    #[error(
        "a defect of Tierra or of a library of its ended this statement: {0}. Please report it; the session goes on"
    )]
    Defect(String),
    /// The table's storage refused: duplicate key, full memory, damaged data.
    #[error(transparent)]
    Engine(Box<dyn Error + Send + Sync>),
    /// One of several statements failed; those before it have taken effect.
    #[error("statement {number} (`{statement}`): {source}")]
    InStatement {
        /// Its place in the text, from 1.
        number: usize,
        /// Its first characters.
        statement: String,
        /// What went wrong.
        source: Box<SqlError>,
    },
}

/// Why COPY could not write a file; what bore its name is as it was.
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

/// Why a table cannot be created, altered or dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A type Tierra has no column for.
    #[error(
        "column '{column}': type {ty} is not supported; use BOOLEAN, INTEGER, BIGINT, DECIMAL(p, s), \
         DOUBLE, DATE, TIMESTAMP or VARCHAR"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type as written.
        ty: String,
    },
    /// A type whose limit nobody would enforce.
    #[error("column '{column}': {ty} is not enforced; use {instead}")]
    UnenforcedType {
        /// The column.
        column: String,
        /// Its type as written.
        ty: String,
        /// The type without the limit.
        instead: tierra_column::LogicalType,
    },
    /// `DECIMAL(p, s)` outside what 16 bytes hold.
    #[error(
        "column '{column}': DECIMAL({precision}, {scale}) needs 1 <= precision <= 38 and 0 <= scale <= precision"
    )]
    DecimalBounds {
        /// The column.
        column: String,
        /// Digits in all.
        precision: i64,
        /// Digits after the point.
        scale: i64,
    },
    /// A key or option that names no column.
    #[error(
        "{what} names column '{column}', which table '{table}' does not have; its columns are {columns}"
    )]
    UnknownColumn {
        /// What names it: the primary key, or an option.
        what: String,
        /// The unknown name.
        column: String,
        /// The table.
        table: String,
        /// The names there are.
        columns: String,
    },
    /// `WITH (..)` with something unknown.
    #[error(
        "option '{option}' is unknown; write 'COLUMN.encoding' = 'plain|static|dynamic|for|delta|dictionary', 'COLUMN.tier' = 'near|far', 'COLUMN.index' = 'inverted', 'replicas' = 'TIER, ..' or 'COLUMN.replicas' = 'TIER, ..'"
    )]
    UnknownOption {
        /// The option as written.
        option: String,
    },
    /// A known option with a wrong value.
    #[error("option '{option}' cannot be '{value}'; valid are {valid}")]
    OptionValue {
        /// The option as written.
        option: String,
        /// Its value as written.
        value: String,
        /// What it could be.
        valid: &'static str,
    },
    /// ALTER TABLE of what is decided when the table is created.
    #[error(
        "option '{option}' of a table cannot be changed; 'replicas' and 'COLUMN.replicas' can be"
    )]
    Fixed {
        /// The option as written.
        option: String,
    },
    /// A clause Tierra does not have.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A statement Tierra does not have, and the way to do without it.
    #[error("{what} is not supported: {instead}")]
    UnsupportedFor {
        /// The statement.
        what: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// A setting of DataFusion's that Tierra decides.
    #[error("setting {setting} cannot be changed: {instead}")]
    FixedSetting {
        /// The setting.
        setting: String,
        /// Why, or what to set instead.
        instead: &'static str,
    },
    /// More than one PRIMARY KEY.
    #[error("table '{0}' has more than one PRIMARY KEY")]
    TwoKeys(String),
    /// CREATE TABLE AS of instants, whose zone no column keeps.
    #[error(
        "column '{0}': TIMESTAMP WITH TIME ZONE has no column; CAST(.. AS TIMESTAMP) keeps it in UTC"
    )]
    Zone(String),
    /// CREATE TABLE without columns.
    #[error("table '{0}' needs at least one column")]
    NoColumns(String),
    /// A name that belongs to the tables that describe the database.
    #[error("table '{0}': names that begin with 'tierra_' are the database's own; choose another")]
    Reserved(String),
    /// There is no such table.
    #[error("table '{0}' does not exist")]
    NoSuchTable(String),
}

/// Why a value cannot go into a column.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// A value of a type that is not assigned to the column's.
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
    /// No value for a column that must have one.
    #[error("column '{column}' of table '{table}' is NOT NULL, but {}", given(row))]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Which row of VALUES, from 1; `None` if the column is not in the list of columns.
        row: Option<usize>,
    },
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
    /// Nothing has that name.
    #[error("there is no prepared statement '{0}'; PREPARE {0} AS .. makes one, for this session")]
    NotThere(String),
    /// The wrong number of arguments.
    #[error("prepared statement '{name}' takes {expected} argument(s), not {given}")]
    Arguments {
        /// The statement.
        name: String,
        /// Parameters it has.
        expected: usize,
        /// Arguments it was given.
        given: usize,
    },
    /// An argument that is no value of the key's type.
    #[error("prepared statement '{name}': argument ${parameter} is {value}, expected {expected}")]
    Argument {
        /// The statement.
        name: String,
        /// Which parameter, from 1.
        parameter: usize,
        /// The argument as written.
        value: String,
        /// The type that fits.
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
    /// No planner sees it.
    #[error(
        "prepared statement '{0}' is a point query, which is looked up without a plan; EXPLAIN its SELECT"
    )]
    Point(String),
    /// The table has gone since.
    #[error("prepared statement '{name}': table '{table}' was dropped since; prepare it again")]
    TableGone {
        /// The statement.
        name: String,
        /// The table.
        table: String,
    },
}

impl PreparedError {
    /// That `given` is no value of the parameter `field`, which bears the name of what it goes into or is compared with.
    pub(crate) fn argument(statement: &str, parameter: usize, given: &Expr, field: &Field) -> Self {
        let expected = rules::name_of(field.data_type());
        Self::Argument {
            name: statement.to_string(),
            parameter,
            value: rules::shown(given),
            expected: match field.name().as_str() {
                // Of an expression the name is the planner's.
                name if name.is_empty() || name.contains('(') => expected,
                name => format!("{expected}, the type of '{name}'"),
            },
        }
    }
}

impl SqlError {
    /// Wrap an error of the engine.
    pub(crate) fn engine(error: impl Error + Send + Sync + 'static) -> Self {
        SqlError::Engine(Box::new(error))
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

/// The panic of a task, or another error of the engine's.
fn of_task(source: Box<dyn Error + Send + Sync>) -> SqlError {
    match source
        .downcast::<JoinError>()
        .map(|join| join.try_into_panic())
    {
        Ok(Ok(panic)) => defect::of_panic(panic.as_ref()),
        Ok(Err(join)) => SqlError::Engine(Box::new(join)),
        Err(source) => SqlError::Engine(source),
    }
}

/// Strip the layers that say where in the executor an error passed by.
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

/// The sentence a user needs: the root cause without the planner's prefixes.
fn message_of(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::NotImplemented(text)
        | DataFusionError::Configuration(text) => text.clone(),
        DataFusionError::ResourcesExhausted(text) => format!("out of memory: {text}"),
        DataFusionError::SchemaError(error, _) => match twins::of_reference(error) {
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
    if let Some(key) = text.strip_prefix("could not find config namespace for key ") {
        return format!("there is no setting {key}; SHOW ALL lists them");
    }
    if text.starts_with("Physical plan does not support logical expression") {
        return "a subquery refers to the row outside in a way that is not supported: compare columns with = in its \
                WHERE, or write a join"
            .to_string();
    }
    // Of some functions that are given other types the planner says first that this were a bug to report.
    let fault = text.starts_with("Internal error: Function");
    let signature = fault.then(|| text.find("No function matches the given name"));
    text[signature.flatten().unwrap_or(0)..].to_string()
}
