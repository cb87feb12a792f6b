//! Why rows do not fit their table.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Rows that do not fit their table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Another number of columns.
    #[error("table {table:?} has {expected} columns, the rows have {found}")]
    ColumnCount {
        /// The table.
        table: String,
        /// Columns of the table.
        expected: usize,
        /// Columns of the batch.
        found: usize,
    },
    /// A column of another type.
    #[error(
        "table {table:?}, column {column:?} is {expected}, the rows have {found}: cast them first"
    )]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// SQL type of the column.
        expected: String,
        /// Arrow type of the batch.
        found: DataType,
    },
    /// NULL in a NOT NULL column.
    #[error("table {table:?}, column {column:?} is NOT NULL, row {row} is NULL")]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// First such row of the batch, or of the source of columns.
        row: usize,
    },
    /// A source of columns returned more or fewer values than it has rows.
    #[error("table {table:?}, column {column:?}: {found} values for {expected} rows")]
    RowCount {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Rows requested.
        expected: u64,
        /// Values returned.
        found: u64,
    },
    /// A number with too many digits.
    #[error(
        "table {table:?}, column {column:?} is {expected}, row {row} is {value}: too many digits"
    )]
    DecimalOverflow {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// SQL type of the column.
        expected: String,
        /// First such row of the batch, or of the source of columns.
        row: usize,
        /// The number.
        value: String,
    },
    /// An append too large for a log record.
    #[error("table {table:?}: {bytes} bytes are too many for one append: use a load")]
    TooLarge {
        /// The table.
        table: String,
        /// Bytes of the rows.
        bytes: usize,
    },
    /// Arrow could not encode the rows.
    #[error("table {table:?}: {source}")]
    Arrow {
        /// The table.
        table: String,
        /// What is wrong.
        source: ArrowError,
    },
}
