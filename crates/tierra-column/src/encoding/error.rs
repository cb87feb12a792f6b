//! What keeps values from being encoded.

use arrow::datatypes::DataType;

use super::Encoding;
use crate::limits::{CHUNK_ROWS, DATA_BYTES_MAX};
use crate::logical_type::LogicalType;

/// Values cannot be encoded as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The arrays hold another type than the column.
    #[error("a {expected} column takes {} arrays, not {found}: cast them first", expected.arrow())]
    Type {
        /// The column's type.
        expected: LogicalType,
        /// The array's type.
        found: DataType,
    },
    /// The encoding does not exist for this type.
    #[error("{ty} cannot be stored with encoding {encoding}: {remedy}")]
    Unsupported {
        /// The column's type.
        ty: LogicalType,
        /// The encoding asked for.
        encoding: Encoding,
        /// What would work.
        remedy: &'static str,
    },
    /// More rows than a chunk holds.
    #[error("{rows} rows do not fit a chunk of at most {}: split them", CHUNK_ROWS)]
    TooManyRows {
        /// Rows given.
        rows: usize,
    },
    /// 1,024 strings of a block together pass the format's limit.
    #[error(
        "the strings of rows {first_row}.. hold {bytes} bytes, a block at most {}",
        u32::MAX
    )]
    StringsTooLong {
        /// First row of the block, within the chunk.
        first_row: usize,
        /// Bytes of its strings.
        bytes: u64,
    },
    /// The blocks of a chunk together pass what its directory can address.
    #[error(
        "{rows} rows hold {bytes} bytes of strings, a chunk at most {}: store fewer rows at a time",
        DATA_BYTES_MAX
    )]
    ChunkTooLong {
        /// Rows given.
        rows: usize,
        /// Bytes they would take.
        bytes: u64,
    },
    /// The dictionary has no codes left.
    #[error("the dictionary is full at {0} values: store the column with encoding plain")]
    DictionaryFull(usize),
    /// A DECIMAL value has more digits than its type.
    #[error("{value} does not fit {ty}")]
    DecimalOverflow {
        /// The unscaled value.
        value: i128,
        /// The column's type.
        ty: LogicalType,
    },
}
