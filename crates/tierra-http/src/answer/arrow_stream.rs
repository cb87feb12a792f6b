//! Rows in the streaming format of Arrow IPC: `pyarrow.ipc.open_stream(response)` reads columns without a driver.
//!
//! Large columns are sent from where they are, and what is between them as copies: the format's heads, its padding, small columns.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamEncoder;
use bytes::Bytes;

use super::parts::Parts;
use crate::fault::Fault;
use crate::source::Source;

/// A shorter column is copied: a part of an answer costs more.
const SHARED_BYTES: usize = 16 << 10;
/// Texts of fewer bytes are sent as they are.
const TEXTS_BYTES: usize = 64 << 10;

/// Rows in Arrow's format.
pub(super) struct ArrowStream {
    source: Source,
    /// `None` once the end is encoded.
    encoder: Option<StreamEncoder>,
    /// What is encoded and not sent.
    parts: VecDeque<Bytes>,
}

impl ArrowStream {
    pub(super) fn new(source: Source) -> Result<Self, Fault> {
        let encoder = StreamEncoder::try_new(source.schema()).map_err(unwritable)?;
        Ok(Self {
            source,
            encoder: Some(encoder),
            parts: VecDeque::new(),
        })
    }
}

impl Parts for ArrowStream {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.parts.is_empty()
            && let Some(encoder) = &mut self.encoder
        {
            let encoded = match self.source.next().await? {
                Some(batch) => encoder.encode(&without_unused_texts(batch)?),
                None => self
                    .encoder
                    .take()
                    .map_or(Ok(Vec::new()), StreamEncoder::finish),
            };
            self.parts = joined(encoded.map_err(unwritable)?);
        }
        Ok(self.parts.pop_front())
    }
}

/// The same bytes in fewer parts.
fn joined(buffers: Vec<Buffer>) -> VecDeque<Bytes> {
    let (mut parts, mut small) = (VecDeque::new(), Vec::new());
    let put = |small: &mut Vec<u8>, parts: &mut VecDeque<Bytes>| {
        if !small.is_empty() {
            parts.push_back(Bytes::from(std::mem::take(small)));
        }
    };
    for buffer in buffers {
        if buffer.len() < SHARED_BYTES {
            small.extend_from_slice(&buffer);
        } else {
            put(&mut small, &mut parts);
            parts.push_back(Bytes::from_owner(Shared(buffer)));
        }
    }
    put(&mut small, &mut parts);
    parts
}

/// A column's bytes where they are.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The same rows, whose columns hold few texts but their own. The batches of an aggregation hold the texts of all groups, each.
fn without_unused_texts(batch: RecordBatch) -> Result<RecordBatch, Fault> {
    let columns = batch.columns().iter().map(|column| {
        let compact = match column.data_type() {
            DataType::Utf8View => compact(column.as_string_view()),
            DataType::BinaryView => compact(column.as_binary_view()),
            _ => None,
        };
        compact.unwrap_or_else(|| Arc::clone(column))
    });
    let columns = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(unwritable)
}

/// The column in memory of its own if less than half of what it holds is of its rows.
fn compact<T: ByteViewType>(column: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = column.data_buffers().iter().map(Buffer::len).sum();
    let is_sparse = held >= TEXTS_BYTES && held / 2 > column.total_buffer_bytes_used();
    is_sparse.then(|| Arc::new(column.gc()) as ArrayRef)
}

fn unwritable(error: ArrowError) -> Fault {
    Fault::of_statement(
        "0A000",
        format!("the rows cannot be written as an Arrow stream: {error}"),
    )
}
