//! The lengths stated in an Arrow IPC file or stream: of its footer, its messages and their buffers.

use std::io::{Read, Seek, SeekFrom};

use arrow::ipc::reader::FileReader;
use arrow::ipc::{self, CompressionType, MessageHeader};
use parquet::file::reader::Length;

use super::fault::{Fault, LZ4_RATIO, UNPACKED_LEAST, ZSTD_RATIO, damaged};
use crate::load::shared_file::SharedFile;

const MAGIC: &[u8; 6] = b"ARROW1";
/// The footer's length and the magic.
const TAIL_BYTES: u64 = 10;
/// Begins a message, unless the message begins with its length.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The length before a compressed buffer to which it unpacks.
const PREFIX_BYTES: i64 = 8;

/// Values that a batch may have, however few bytes it has.
const VALUES_LEAST: u64 = 1 << 16;

/// Whether the file is read as a file with a footer; otherwise it is a stream. Read as a stream, a file's first bytes are
/// the length of a message of 1.3 GB.
pub(in crate::load) fn is_file(file: &SharedFile) -> bool {
    let mut head = [0; MAGIC.len()];
    let is_long = file.len() >= TAIL_BYTES;
    is_long && file.clone().read_exact(&mut head).is_ok() && head == *MAGIC
}

pub(super) fn check(file: &SharedFile) -> Result<(), Fault> {
    match is_file(file) {
        true => check_file(file),
        false => check_stream(file),
    }
}

fn check_file(file: &SharedFile) -> Result<(), Fault> {
    let end = file.len() - TAIL_BYTES;
    let mut reader = file.from(end);
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let mut magic = [0; MAGIC.len()];
    reader.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return damaged("it does not end as an Arrow file does; it may be cut short");
    }
    let length = i64::from(i32::from_le_bytes(length));
    let start = u64::try_from(length)
        .ok()
        .and_then(|length| end.checked_sub(length));
    let Some(start) = start else {
        return damaged(format!(
            "its footer has {length} bytes, the file {}",
            file.len()
        ));
    };
    let footer = read(file, start, end - start)?;
    let footer = ipc::root_as_footer(&footer).map_err(|error| Fault::Damaged(error.to_string()))?;
    let blocks = footer
        .dictionaries()
        .into_iter()
        .chain(footer.recordBatches());
    for block in blocks.flatten() {
        let message = u64::try_from(block.offset())
            .ok()
            .zip(u64::try_from(block.metaDataLength()).ok())
            .zip(u64::try_from(block.bodyLength()).ok());
        let Some(((at, metadata), body)) = message else {
            return damaged("its footer names a block of negative length");
        };
        let body_at = at.checked_add(metadata);
        let Some(body_at) = body_at.filter(|body_at| within(file, *body_at, body)) else {
            return damaged("its footer names a block that lies behind its end");
        };
        let bytes = read(file, at, metadata)?;
        let skipped = match bytes.get(..4) {
            Some(start) if start == CONTINUATION => 8,
            _ => 4,
        };
        let Some(message) = bytes.get(skipped..) else {
            return damaged("a message of it is too short");
        };
        check_message(file, message, body_at, body)?;
    }
    // Some callers try as a stream what `FileReader` refuses.
    FileReader::try_new_buffered(file.clone(), None)
        .map(drop)
        .map_err(|error| Fault::Damaged(error.to_string()))
}

fn check_stream(file: &SharedFile) -> Result<(), Fault> {
    let mut at = 0;
    while file.len() - at >= 4 {
        let mut length = [0; 4];
        let mut reader = file.from(at);
        reader.read_exact(&mut length)?;
        at += 4;
        if length == CONTINUATION {
            if file.len() - at < 4 {
                return damaged("it is cut short");
            }
            reader.read_exact(&mut length)?;
            at += 4;
        }
        let Ok(metadata) = u64::try_from(i32::from_le_bytes(length)) else {
            return damaged("a message has a negative length");
        };
        if metadata == 0 {
            return Ok(());
        }
        if !within(file, at, metadata) {
            return damaged("a message extends beyond the end of the file");
        }
        let message = read(file, at, metadata)?;
        at += metadata;
        let body = root(&message)?.bodyLength();
        let body = u64::try_from(body)
            .ok()
            .filter(|body| within(file, at, *body));
        let Some(body) = body else {
            return damaged("the body of a message extends beyond the end of the file");
        };
        check_message(file, &message, at, body)?;
        at += body;
    }
    Ok(())
}

fn root(message: &[u8]) -> Result<ipc::Message<'_>, Fault> {
    ipc::root_as_message(message).map_err(|error| Fault::Damaged(error.to_string()))
}

/// A message whose body is `body` bytes at `body_at`, in the file.
fn check_message(file: &SharedFile, message: &[u8], body_at: u64, body: u64) -> Result<(), Fault> {
    let message = root(message)?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data()),
        _ => None,
    };
    let Some(batch) = batch else { return Ok(()) };
    let ratio = match batch.compression().map(|compression| compression.codec()) {
        None => None,
        Some(CompressionType::LZ4_FRAME) => Some(LZ4_RATIO),
        Some(_) => Some(ZSTD_RATIO),
    };
    let mut unpacked_bytes = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let end = buffer.offset().checked_add(buffer.length());
        let is_there = buffer.offset() >= 0
            && buffer.length() >= 0
            && end
                .and_then(|end| u64::try_from(end).ok())
                .is_some_and(|end| end <= body);
        if !is_there {
            return damaged("a buffer of it lies outside of its message");
        }
        if let Some(ratio) = ratio
            && buffer.length() >= PREFIX_BYTES
        {
            let mut unpacked = [0; PREFIX_BYTES as usize];
            file.from(body_at + buffer.offset() as u64)
                .read_exact(&mut unpacked)?;
            let unpacked = i64::from_le_bytes(unpacked);
            let packed = (buffer.length() - PREFIX_BYTES) as u64;
            let most = packed.saturating_mul(ratio).saturating_add(UNPACKED_LEAST);
            // -1 means that it is not compressed.
            if unpacked < -1 || u64::try_from(unpacked).is_ok_and(|unpacked| unpacked > most) {
                return damaged(format!("a buffer of it has {packed} bytes for {unpacked}"));
            }
            unpacked_bytes =
                unpacked_bytes.saturating_add(u64::try_from(unpacked).unwrap_or(packed));
        } else {
            unpacked_bytes = unpacked_bytes.saturating_add(buffer.length() as u64);
        }
    }
    // A value takes at least one bit, except in columns of type Null.
    let most = unpacked_bytes
        .saturating_mul(8)
        .saturating_add(VALUES_LEAST);
    let lengths = batch
        .nodes()
        .into_iter()
        .flatten()
        .map(|node| node.length());
    for length in lengths.chain([batch.length()]) {
        if !u64::try_from(length).is_ok_and(|length| length <= most) {
            return damaged(format!(
                "a batch of it has {unpacked_bytes} bytes for {length} values"
            ));
        }
    }
    Ok(())
}

fn within(file: &SharedFile, at: u64, bytes: u64) -> bool {
    at.checked_add(bytes).is_some_and(|end| end <= file.len())
}

/// Reads bytes that are within the file.
fn read(file: &SharedFile, at: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
    let mut found = vec![0; bytes as usize];
    let mut reader = file.clone();
    reader.seek(SeekFrom::Start(at))?;
    reader.read_exact(&mut found)?;
    Ok(found)
}
