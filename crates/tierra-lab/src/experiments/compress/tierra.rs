//! Tierra's encodings as contenders: chunks of a column, as a table has them, statistics and checksums included.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::Int32Type;
use tierra_column::bits::Mask;
use tierra_column::{CHUNK_ROWS, Chunk, ChunkPlan, ColumnReader, Encoding, LogicalType, Scratch};

use crate::error::{Context, LabError};
use crate::peers::codecs::{BATCH, Take};

/// Values of the largest piece, which is a chunk.
pub(super) const PIECE: usize = CHUNK_ROWS;
/// Blocks decoded into one array, as a scan does.
const BLOCKS_PER_BATCH: usize = BATCH / tierra_column::bits::BLOCK_LEN;
const TYPE: LogicalType = LogicalType::Integer;

pub(super) fn name(encoding: Encoding) -> String {
    format!("Tierra {encoding}")
}

/// Encodes values to the front of `out`, and returns the bytes that they take.
pub(super) fn encode(
    encoding: Encoding,
    values: ScalarBuffer<i32>,
    out: &mut [u8],
) -> Result<usize, LabError> {
    let array: ArrayRef = Arc::new(Int32Array::new(values, None));
    let plan = ChunkPlan::new(TYPE, &[array], Some(encoding), None)
        .by("Tierra", format!("planning {encoding}"))?;
    plan.write(&mut out[..plan.len_bytes()]);
    Ok(plan.len_bytes())
}

/// Decodes a chunk into arrow arrays.
pub(super) fn decode(bytes: &[u8], take: Take<'_>) -> Result<(), LabError> {
    let chunk = Chunk::open(bytes, TYPE).by("Tierra", "opening a chunk")?;
    let (mut scratch, mut reader) = (Scratch::new(), ColumnReader::new(TYPE, BATCH));
    for first in (0..chunk.blocks()).step_by(BLOCKS_PER_BATCH) {
        for block in first..chunk.blocks().min(first + BLOCKS_PER_BATCH) {
            reader
                .append(&chunk, block, &Mask::all(), None, &mut scratch)
                .by("Tierra", "decoding")?;
        }
        take(reader.finish().as_primitive::<Int32Type>().values())?;
    }
    Ok(())
}
