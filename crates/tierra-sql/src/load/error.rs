//! Why a file was not loaded.

use std::path::PathBuf;

use crate::error::DefinitionError;

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of no known kind.
    #[error("{}: neither Parquet nor Arrow IPC, and not named .csv or .tsv; convert it to one of these", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// The file's bytes are not what its kind promises.
    #[error("{}: {message}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The table has columns that the file lacks.
    #[error("{}: has no column '{column}', which table '{table}' needs; its columns are {columns}", file.display())]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column it lacks.
        column: String,
        /// The table.
        table: String,
        /// The columns it has.
        columns: String,
    },
    /// A value does not fit its column.
    #[error("{}: column '{column}': {message}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// What does not fit.
        message: String,
    },
    /// A field of a CSV file is not what its column holds.
    #[error("{}:{line}: column '{column}': {message}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What is wrong, with the field's beginning.
        message: String,
    },
    /// A record of a CSV file has too many or too few fields.
    #[error("{}:{line}: {found} fields, expected {expected} as in the header", file.display())]
    FieldCount {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// Fields it has.
        found: usize,
        /// Fields the header has.
        expected: usize,
    },
    /// A CSV file whose header is one name that looks like several.
    #[error(
        "{}:1: the header is one name, '{name}', with {other:?} in it: fields are separated by {expected} (by commas in .csv, by tabs in .tsv); put the name in quotes if it is one",
        file.display()
    )]
    Separator {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// What may separate the fields.
        other: char,
        /// What does separate them in a file of that name.
        expected: &'static str,
    },
    /// Several CSV files where one is read.
    #[error("'{}': CSV is read from one local file; name it, or load the files: tierra load TABLE FILE.. --db DIR", file.display())]
    SeveralCsv {
        /// What was named.
        file: PathBuf,
    },
    /// A CSV file without a header.
    #[error("{}: empty; a CSV file begins with a header that names its columns", file.display())]
    NoHeader {
        /// The file.
        file: PathBuf,
    },
    /// No table can be made of the file's columns.
    #[error("{}: {source}", file.display())]
    Definition {
        /// The file.
        file: PathBuf,
        /// Why.
        source: DefinitionError,
    },
    /// The table refused the rows.
    #[error("{}: {source}", file.display())]
    Table {
        /// The file, or the first of several and how many more.
        file: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The load was cancelled.
    #[error("{}: cancelled, nothing loaded", file.display())]
    Cancelled {
        /// The file that was being read.
        file: PathBuf,
    },
}
