//! A piece that some member has read: which of its blocks, and its columns unpacked.
//!
//! Invariant: values are those of all rows of the piece, were validated before they got here, and never change.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;

use super::pieces::PIECE_BLOCKS;
use crate::segment::Segment;
use crate::slice_bytes::slice_bytes;

const _: () = assert!(PIECE_BLOCKS <= u32::BITS as usize, "a bit for each block");

/// A piece in the window of a pass.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Whose bytes were read first. A member's own may lie elsewhere, with the same values.
    segment: OnceLock<Arc<Segment>>,
    /// Whether others may take it: its first reader unpacks no more of it.
    is_ready: AtomicBool,
    columns: Box<[Column]>,
    /// What it keeps in a cache.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Column {
    column: usize,
    /// A bit for each block that was read.
    read: AtomicU32,
    values: OnceLock<ArrayRef>,
}

impl Piece {
    /// A piece of which nothing was read, to be shared in these columns.
    pub(super) fn new(columns: &[usize]) -> Self {
        let columns = columns.iter().map(|column| Column {
            column: *column,
            read: AtomicU32::new(0),
            values: OnceLock::new(),
        });
        Self {
            segment: OnceLock::new(),
            is_ready: AtomicBool::new(false),
            columns: columns.collect(),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn column(&self, column: usize) -> Option<&Column> {
        self.columns.iter().find(|it| it.column == column)
    }
}

/// A thread's hold of a piece. The first reader's keeps others from taking it until it is dropped or [opened](Share::open).
#[derive(Debug)]
pub(crate) struct Share {
    piece: Arc<Piece>,
    is_first: bool,
}

impl Share {
    pub(super) fn of(piece: Arc<Piece>, is_first: bool) -> Self {
        Self { piece, is_first }
    }

    /// Called before blocks of the piece are read; returns whose were first.
    pub(crate) fn begin(&self, segment: &Arc<Segment>) -> &Arc<Segment> {
        self.piece.segment.get_or_init(|| segment.clone())
    }

    /// Notes that a block is read now; returns whether another member has read the same bytes before.
    pub(crate) fn note_read(&self, segment: &Segment, column: usize, block: usize) -> bool {
        let Some(shared) = self.piece.column(column) else {
            return false;
        };
        let is_same = self.piece.segment.get().is_some_and(|first| {
            std::ptr::eq(&**first, segment)
                || first.place(column) == segment.place(column)
                    && first.tier(column) == segment.tier(column)
        });
        if !is_same {
            return false;
        }
        let bit = 1 << (block % PIECE_BLOCKS);
        // Relaxed, here and below: a count. Asked first: a write would take the line from the other members' cores.
        if shared.read.load(Ordering::Relaxed) & bit != 0
            || shared.read.fetch_or(bit, Ordering::Relaxed) & bit != 0
        {
            return true;
        }
        let bytes = segment.chunk(column).stored_block(block).len();
        self.piece.bytes.fetch_add(bytes, Ordering::Relaxed);
        false
    }

    /// A column's values of all rows of the piece, if somebody has unpacked them.
    pub(crate) fn values(&self, column: usize) -> Option<&ArrayRef> {
        self.piece.column(column)?.values.get()
    }

    /// Leaves a column's values to the others. They were validated.
    pub(crate) fn give(&self, column: usize, values: &ArrayRef) {
        if let Some(shared) = self.piece.column(column)
            && shared.values.set(values.clone()).is_ok()
        {
            let bytes = slice_bytes(values);
            self.piece.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Lets others take the piece.
    pub(crate) fn open(&self) {
        self.piece.is_ready.store(true, Ordering::Release);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.is_first {
            self.open();
        }
    }
}
