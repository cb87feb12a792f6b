//! The heads of a segment's chunks in near memory: where their blocks lie, which checksums and what least and greatest values
//! these have.
//!
//! Copied when the segment is opened, and believed only as far as the checksums in the copies hold. From then on no head is read
//! in far memory: looking for a block costs no far miss, no damaged head misleads a query, and one that is damaged or
//! lost there, in all copies even, is repaired from here. They take 128 bytes a chunk and 32 a block, and no budget limits them.
//!
//! Invariant: the heads are those that were written, as long as the segment's chunks are open.

use arrow::buffer::MutableBuffer;
use tierra_column::Chunk;

/// Of all columns, one behind the other: chunks of as many rows have heads of the same length, in whole lines.
pub(crate) struct ChunkHeaders {
    /// Begins on a line, so that no entry of a directory straddles one.
    bytes: MutableBuffer,
    bytes_each: usize,
}

impl ChunkHeaders {
    /// Copies of the heads of these chunks, which have so many rows. What is too short for a head ends in zeros, as opening it
    /// tells.
    pub(crate) fn read<'a>(rows: usize, chunks: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let bytes_each = Chunk::header_bytes_of(rows);
        let mut bytes = MutableBuffer::with_capacity(bytes_each * chunks.len());
        for (column, chunk) in chunks.enumerate() {
            bytes.extend_from_slice(&chunk[..chunk.len().min(bytes_each)]);
            bytes.resize(bytes_each * (column + 1), 0);
        }
        Self { bytes, bytes_each }
    }

    /// The head of a column's chunk.
    pub(crate) fn of(&self, column: usize) -> &[u8] {
        &self.bytes[column * self.bytes_each..][..self.bytes_each]
    }

    /// What they take.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_its_own_on_lines_of_its_own() {
        let long = vec![7; 1000];
        let short = vec![9; 130];
        let chunk_headers = ChunkHeaders::read(2000, [&long[..], &short, &long].into_iter());
        let bytes_each = Chunk::header_bytes_of(2000);
        assert_eq!(chunk_headers.len_bytes() as usize, 3 * bytes_each);
        for (column, chunk) in [&long, &short, &long].into_iter().enumerate() {
            let head = chunk_headers.of(column);
            assert_eq!(head.as_ptr().addr() % 64, 0);
            let (kept, zeros) = head.split_at(chunk.len().min(bytes_each));
            assert_eq!(kept, &chunk[..kept.len()]);
            assert!(zeros.iter().all(|byte| *byte == 0));
        }
    }
}
