//! The headers of a segment's chunks in near memory: the offsets, checksums, minima and maxima of their blocks.
//!
//! Copied when the segment is opened, and verified by the checksums in the copies. From then on no header is read in far memory:
//! finding a block costs no far miss, a damaged header misleads no query, and a header that is damaged or lost, even in all
//! copies, is repaired from here. They take 128 bytes per chunk, 32 per block, 4 per block of a chunk with replicas in several
//! encodings, and 1,024 for the sketch of a chunk's distinct values; no budget limits them.
//!
//! Invariant: the headers are those that were written, as long as the segment's chunks are open.

use std::sync::Arc;

use arrow::buffer::MutableBuffer;
use tierra_column::Chunk;

/// Of all slots, one after the other. Chunks with the same number of rows get the same room, in whole lines; behind the header of one
/// without a sketch follow bytes of its blocks.
pub(crate) struct ChunkHeaders {
    /// Aligned to a line, so that no entry of a directory straddles one. The same chunks in other slots share it.
    bytes: Arc<MutableBuffer>,
    bytes_each: usize,
    /// Where the header of each slot's chunk is among them.
    places: Box<[usize]>,
}

impl ChunkHeaders {
    /// Copies the headers of these chunks, which have this many rows. A chunk too short for a header is padded with zeros, so
    /// that opening it fails.
    pub(crate) fn read<'a>(rows: usize, chunks: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let all = chunks.clone();
        let longest = all.map(|chunk| Chunk::header_bytes_at(chunk, rows)).max();
        let bytes_each = longest.unwrap_or(0);
        let mut bytes = MutableBuffer::with_capacity(0);
        let mut places = Vec::new();
        for (slot, chunk) in chunks.enumerate() {
            bytes.extend_from_slice(&chunk[..chunk.len().min(bytes_each)]);
            bytes.resize(bytes_each * (slot + 1), 0);
            places.push(slot);
        }
        Self {
            bytes: Arc::new(bytes),
            bytes_each,
            places: places.into(),
        }
    }

    /// The same headers in other slots: of each, the one in which the chunk is here.
    pub(crate) fn in_slots(&self, slots: impl Iterator<Item = usize>) -> Self {
        Self {
            bytes: self.bytes.clone(),
            bytes_each: self.bytes_each,
            places: slots.map(|slot| self.places[slot]).collect(),
        }
    }

    /// The header of a slot's chunk.
    pub(crate) fn of(&self, slot: usize) -> &[u8] {
        &self.bytes[self.places[slot] * self.bytes_each..][..self.bytes_each]
    }

    /// Their size.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_its_own_on_lines_of_its_own() {
        let long = vec![7; 5000];
        let short = vec![9; 130];
        let chunk_headers = ChunkHeaders::read(2000, [&long[..], &short, &long].into_iter());
        // What no chunk is looks as if it had logical checksums.
        let bytes_each = Chunk::header_bytes_max(2000);
        assert_eq!(chunk_headers.len_bytes() as usize, 3 * bytes_each);
        for (column, chunk) in [&long, &short, &long].into_iter().enumerate() {
            let head = chunk_headers.of(column);
            assert_eq!(head.as_ptr().addr() % 64, 0);
            let (kept, zeros) = head.split_at(chunk.len().min(bytes_each));
            assert_eq!(kept, &chunk[..kept.len()]);
            assert!(zeros.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn the_same_in_other_slots_take_no_room() {
        let chunks = [vec![7; 500], vec![8; 500], vec![9; 500]];
        let chunk_headers = ChunkHeaders::read(2000, chunks.iter().map(|chunk| &chunk[..]));
        let others = chunk_headers.in_slots([2, 0, 1].into_iter());
        let again = others.in_slots([2, 0, 1].into_iter());
        for (slot, (other, third)) in [(2, 1), (0, 2), (1, 0)].into_iter().enumerate() {
            assert!(std::ptr::eq(others.of(slot), chunk_headers.of(other)));
            assert!(std::ptr::eq(again.of(slot), chunk_headers.of(third)));
        }
    }
}
