//! Counts what a cursor reads. A block of a segment counts once per column however often it is used, and is charged where far
//! memory is emulated, unless another scan of a batch has just read it; the tail counts once per batch and column. Reads of a chunk are reported once per segment, to find chunks
//! that are worth a near copy.

use std::sync::Arc;

use arrow::array::ArrayRef;
use tierra_memory::Speed;
use tierra_memory::emulation::{Transfer, begin_read};
use tierra_memory::placement::Uses;

use super::spec::ScanCounters;
use crate::read::batch::Share;
use crate::segment::Segment;
use crate::segment::framed::Copying;
use crate::segment::methods::Methods;
use crate::slice_bytes::slice_bytes;

/// A cursor's counters, and what was counted for the current block.
#[derive(Debug)]
pub(super) struct Counting {
    counters: ScanCounters,
    /// Number of the current block, from one.
    serial: u64,
    /// By column: the last block counted as read, and as decoded.
    last: Vec<(u64, u64)>,
    read: u64,
    /// Whether the current block is read elsewhere than was chosen when its segment was opened.
    is_elsewhere: bool,
    /// Of the current segment.
    uses: Arc<[Arc<Uses>]>,
    /// Bytes read of the current segment, by column.
    read_bytes: Vec<u64>,
}

impl Counting {
    pub(super) fn new(columns: usize) -> Self {
        Self {
            counters: ScanCounters::default(),
            serial: 0,
            last: vec![(0, 0); columns],
            read: 0,
            is_elsewhere: false,
            uses: Arc::default(),
            read_bytes: vec![0; columns],
        }
    }

    pub(super) fn counters(&self) -> ScanCounters {
        self.counters
    }

    pub(super) fn begin_block(&mut self, segment: &Segment, is_elsewhere: bool) {
        self.serial += 1;
        self.read = 0;
        self.is_elsewhere = is_elsewhere;
        if !Arc::ptr_eq(&self.uses, segment.uses()) {
            self.tell_uses();
            self.uses = segment.uses().clone();
        }
    }

    fn tell_uses(&mut self) {
        for (uses, bytes) in self.uses.iter().zip(&mut self.read_bytes) {
            if *bytes > 0 {
                uses.streamed(std::mem::take(bytes));
            }
        }
    }

    /// Called before a block is read; the result is held until it was read.
    pub(super) fn read(
        &mut self,
        segment: &Segment,
        column: usize,
        block: usize,
        methods: &Methods,
        share: Option<&Share>,
    ) -> Transfer {
        let last = &mut self.last[column].0;
        if *last == self.serial {
            // In a cache since it was read a moment ago.
            return begin_read(&[]);
        }
        *last = self.serial;
        self.read += 1;
        if share.is_some_and(|share| share.note_read(segment, column, block)) {
            self.counters.blocks_shared += 1;
            return begin_read(&[]);
        }
        self.counters.blocks_read += 1;
        self.counters.blocks_elsewhere += u64::from(self.is_elsewhere);
        let stored = segment.chunk(column).stored_block(block);
        let bytes = stored.len() as u64;
        self.read_bytes[column] += segment.stored_block_bytes(column, block);
        match segment.speed(column) {
            Speed::Near => self.counters.bytes_near += bytes,
            Speed::Far => self.counters.bytes_far += bytes,
        }
        // Copying into a frame waits for far memory, and reading a frame does not.
        begin_read(match segment.is_framed(methods, column) {
            true => &[],
            false => stored,
        })
    }

    /// Counts blocks that another scan has unpacked, of these columns of the current block.
    pub(super) fn given(&mut self, columns: usize) {
        self.read += columns as u64;
        self.given_blocks(columns);
    }

    /// Counts such blocks where no block is read.
    pub(super) fn given_blocks(&mut self, blocks: usize) {
        self.counters.blocks_shared += blocks as u64;
    }

    /// Counts blocks that a helper was asked for.
    pub(super) fn helped(&mut self, blocks: usize) {
        self.counters.blocks_helped += blocks as u64;
    }

    /// Counts what was copied into frames.
    pub(super) fn copied(&mut self, copying: &mut Copying) {
        self.counters.bytes_copied += std::mem::take(&mut copying.copied_bytes);
    }

    pub(super) fn decoded(&mut self, column: usize) {
        let last = &mut self.last[column].1;
        self.counters.blocks_decoded += u64::from(*last != self.serial);
        *last = self.serial;
    }

    /// Counts blocks that were skipped.
    pub(super) fn skipped(&mut self, blocks: usize) {
        self.counters.blocks_skipped += blocks as u64;
    }

    /// Counts those of the `needed` columns that were not read as skipped.
    pub(super) fn end_block(&mut self, needed: usize) {
        self.counters.blocks_skipped += (needed as u64).saturating_sub(self.read);
    }

    pub(super) fn tail_rows(&mut self, rows: usize) {
        self.counters.tail_rows += rows as u64;
    }

    /// Counts values of the tail, which is near.
    pub(super) fn tail_values(&mut self, values: &ArrayRef) {
        self.counters.bytes_near += slice_bytes(values) as u64;
    }

    pub(super) fn returned(&mut self, rows: usize) {
        self.counters.rows += rows as u64;
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.tell_uses();
    }
}
