//! How much a chunk holds.

use crate::bytes::LINE_BYTES;

/// Rows a chunk can have.
pub const CHUNK_ROWS: usize = 1 << 20;

/// Bytes that the blocks of a chunk may have together: their places are numbers of lines, in 32 bits.
pub(crate) const DATA_BYTES_MAX: u64 = u32::MAX as u64 * LINE_BYTES as u64;

/// Stands for NULL among dictionary codes; no value ever has it.
pub const NULL_CODE: u32 = u32::MAX;

/// A chunk of fewer rows has no sketch of its distinct values: it would be as long as the rows.
pub(crate) const SKETCHED_ROWS: usize = 1024;
