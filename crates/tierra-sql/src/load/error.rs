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
        /// The system's error.
        source: std::io::Error,
    },
    /// A file of unknown format.
    #[error("{}: neither Parquet nor Arrow IPC, and not named .csv or .tsv; convert it to one of these", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// The file's bytes do not match its format.
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
        /// The missing column.
        column: String,
        /// The table.
        table: String,
        /// The columns of the file.
        columns: String,
    },
    /// A value does not fit its column.
    #[error("{}: column '{column}': {message}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// Why it does not fit.
        message: String,
    },
    /// NULL where none may be.
    #[error("{}: column '{column}': NULL in a NOT NULL column", file.display())]
    Null {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
    },
    /// A field of a CSV file is not a value of its column.
    #[error("{}:{line}: column '{column}': {message}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What is wrong, and the beginning of the field.
        message: String,
    },
    /// A record of a CSV file has too many or too few fields.
    #[error("{}:{line}: {found} fields, expected {expected} as in the header", file.display())]
    FieldCount {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// Fields of the record.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A CSV file whose header is one name that contains another separator.
    #[error(
        "{}:1: the header is one name, '{name}', with {other:?} in it: fields are separated by {expected} (by commas in .csv, by tabs in .tsv); put the name in quotes if it is one",
        file.display()
    )]
    Separator {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The separator that it contains.
        other: char,
        /// The separator expected from the file's name.
        expected: &'static str,
    },
    /// Several CSV files, but only one can be read.
    #[error("'{}': CSV is read from one local file; name it, or load the files: tierra load TABLE FILE.. --db DIR", file.display())]
    SeveralCsv {
        /// The name given.
        file: PathBuf,
    },
    /// A CSV file without a header.
    #[error("{}: empty; a CSV file begins with a header that names its columns", file.display())]
    NoHeader {
        /// The file.
        file: PathBuf,
    },
    /// The file's columns do not make a valid table.
    #[error("{}: {source}", file.display())]
    Definition {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: DefinitionError,
    },
    /// The table refused the rows.
    #[error("{}: {source}", file.display())]
    Table {
        /// The file, or the first of several and the number of the others.
        file: PathBuf,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The load was cancelled.
    #[error("{}: cancelled, nothing loaded", file.display())]
    Cancelled {
        /// The file that was being read.
        file: PathBuf,
    },
}
