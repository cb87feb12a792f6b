//! Rows as the payload of a log record: an arrow IPC record batch without its schema, which is the table's.
//!
//! ```text
//! offset 0   length of the message, u32
//!        4   zero, u32
//!        8   length of the body, u64
//!       16   message: flatbuffer with one node per column, two or more buffers each
//!        .   zeros up to a multiple of 16
//!        .   body: the buffers, each aligned to 16 bytes
//! ```
//!
//! Invariant: `decode` never panics: every range is checked before arrow sees it, and arrow validates the content (UTF-8, views,
//! lengths).

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{self, MetadataVersion, root_as_message};

const HEADER_BYTES: usize = 16;
const ALIGN: usize = 16;

/// Appends the rows to `out`, whose length is a multiple of 16.
pub(crate) fn encode(rows: &RecordBatch, out: &mut MutableBuffer) -> Result<(), ArrowError> {
    debug_assert_eq!(out.len() % ALIGN, 0);
    let options = IpcWriteOptions::try_new(ALIGN, false, MetadataVersion::V5)?;
    let mut tracker = DictionaryTracker::new(true);
    let (_, encoded) = IpcDataGenerator::default().encode(
        rows,
        &mut tracker,
        &options,
        &mut IpcWriteContext::default(),
    )?;
    let message_len = u32::try_from(encoded.ipc_message.len())
        .map_err(|_| ArrowError::IpcError("the message is longer than 4 GiB".to_owned()))?;
    out.extend_from_slice(&message_len.to_le_bytes());
    out.extend_from_slice(&[0_u8; 4]);
    out.extend_from_slice(&(encoded.arrow_data.len() as u64).to_le_bytes());
    out.extend_from_slice(&encoded.ipc_message);
    out.extend_zeros(out.len().next_multiple_of(ALIGN) - out.len());
    out.extend_from_slice(&encoded.arrow_data);
    Ok(())
}

/// The rows; their arrays are slices of `bytes`, which should be aligned to 16 bytes. If they are not, arrow copies.
pub(crate) fn decode(schema: &SchemaRef, bytes: &Buffer) -> Result<RecordBatch, ArrowError> {
    let short = || ArrowError::IpcError("the record is shorter than it says".to_owned());
    let header = bytes.get(..HEADER_BYTES).ok_or_else(short)?;
    let message_len = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
    let body_len = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
    let message_end = HEADER_BYTES.checked_add(message_len).ok_or_else(short)?;
    let message = bytes.get(HEADER_BYTES..message_end).ok_or_else(short)?;
    let body_at = message_end.next_multiple_of(ALIGN);
    let body_len = usize::try_from(body_len).map_err(|_| short())?;
    if bytes
        .len()
        .checked_sub(body_at)
        .is_none_or(|left| left < body_len)
    {
        return Err(short());
    }
    let body = bytes.slice_with_length(body_at, body_len);
    let message =
        root_as_message(message).map_err(|error| ArrowError::IpcError(error.to_string()))?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| ArrowError::IpcError("the record holds no rows".to_owned()))?;
    if let Some(what) = fault(&batch, schema, body_len) {
        return Err(ArrowError::IpcError(what.to_owned()));
    }
    read_record_batch(
        &body,
        batch,
        schema.clone(),
        &HashMap::new(),
        None,
        &message.version(),
    )
}

/// Checks what arrow assumes and would panic on: the columns have as many buffers as the schema requires, and these lie inside
/// the body. Arrow validates their content itself.
fn fault(
    batch: &ipc::RecordBatch<'_>,
    schema: &SchemaRef,
    body_len: usize,
) -> Option<&'static str> {
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Some("the record has no columns");
    };
    let rows = batch.length();
    if rows < 0 || batch.compression().is_some() {
        return Some("the record is not written as Tierra writes one");
    }
    let holds_views = |field: &FieldRef| *field.data_type() == DataType::Utf8View;
    let views = schema
        .fields()
        .iter()
        .filter(|field| holds_views(field))
        .count();
    let strings: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let possible = 0..=buffers.len() as i64;
    if nodes.len() != schema.fields().len()
        || strings.len() != views
        || !strings.iter().all(|count| possible.contains(count))
    {
        return Some("the record has another number of columns");
    }
    let mut strings = strings.into_iter();
    let mut first = 0;
    for (field, node) in schema.fields().iter().zip(nodes) {
        if node.length() != rows || !(0..=rows).contains(&node.null_count()) {
            return Some("a column has another number of rows");
        }
        let more = if holds_views(field) {
            strings.next()
        } else {
            None
        };
        let end = first + 2 + more.unwrap_or(0) as usize;
        if end > buffers.len() {
            return Some("a column has too few buffers");
        }
        for buffer in (first..end).map(|at| buffers.get(at)) {
            let place = usize::try_from(buffer.offset()).ok();
            let place = place.zip(usize::try_from(buffer.length()).ok());
            let end = place.and_then(|(offset, len)| offset.checked_add(len));
            let aligned = (buffer.offset() as usize).is_multiple_of(ALIGN);
            if !aligned || end.is_none_or(|end| end > body_len) {
                return Some("a column lies outside the record");
            }
        }
        let width = match field.data_type() {
            DataType::Utf8View => size_of::<u128>(),
            other => other.primitive_width().unwrap_or(1),
        };
        if !(buffers.get(first + 1).length() as usize).is_multiple_of(width) {
            return Some("a column ends inside a value");
        }
        let valid_bits = buffers.get(first).length().saturating_mul(8);
        if node.null_count() > 0 && valid_bits < rows {
            return Some("a column has too few validity bits");
        }
        first = end;
    }
    (first != buffers.len()).then_some("the record has buffers of no column")
}
