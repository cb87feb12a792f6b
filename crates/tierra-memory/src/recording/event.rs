//! The events of pools: stores, flushes, fences, steps on their files, and marks of an observer.

use std::ops::Range;

use super::file_step::FileStep;
use crate::LINE_BYTES;

/// The words of a line.
pub(crate) type Words = [u64; LINE_BYTES / 8];

/// A line of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineOf {
    pub(crate) pool: u8,
    pub(crate) index: u32,
}

/// Lines of a pool, from the first to before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    pub(crate) pool: u8,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl LineRange {
    /// As a range of the lines of all pools.
    pub(crate) fn bounds(self) -> Range<LineOf> {
        let line = |index| LineOf {
            pool: self.pool,
            index,
        };
        line(self.first)..line(self.end)
    }

    pub(crate) fn lines(self) -> impl Iterator<Item = LineOf> {
        let pool = self.pool;
        (self.first..self.end).map(move |index| LineOf { pool, index })
    }
}

/// How a store relates to others of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Reaches memory after those before it and before those behind it.
    Program,
    /// Its words reach memory in any order; stores before it have, once one of them has.
    None,
    /// Goes past the cache: its words reach memory in any order, whatever was stored before or is stored
    /// behind it, and certainly at the next fence of its thread, without a flush.
    Stream,
}

/// A store to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) line: LineOf,
    /// Which words it changes.
    pub(crate) mask: u8,
    /// Their values; the others are as before.
    pub(crate) words: Words,
    pub(crate) order: Order,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A pool is there, new or opened, and holds these bytes, all of them durable.
    Made {
        pool: u8,
        bytes: Vec<u8>,
    },
    /// A file grew, with zeros.
    Grown {
        pool: u8,
        len_bytes: u64,
    },
    /// A file's length is durable.
    LengthSynced {
        pool: u8,
    },
    Store(Store),
    /// A store past the cache by a thread.
    Streamed {
        thread: u32,
        store: Store,
    },
    /// Stores through a slice, seen when it was handed in and dated back to when it was handed out:
    /// they may have happened, and reached memory, at any moment between.
    Scribbled(Vec<Store>),
    /// The thread wrote lines back.
    Flush {
        thread: u32,
        lines: LineRange,
    },
    /// The thread waited for what it wrote back, of whatever pool.
    Fence {
        thread: u32,
    },
    /// All of a file is durable.
    FileSynced {
        pool: u8,
    },
    /// Lines, in whole pages, are durable.
    RangeSynced(LineRange),
    /// A step on the directory that the pools lie in.
    File(FileStep),
    /// An acknowledgement to the program: everything up to this step of it has been done.
    Acknowledged(u64),
}

impl Event {
    pub(crate) fn thread(&self) -> Option<u32> {
        match self {
            Event::Flush { thread, .. }
            | Event::Fence { thread }
            | Event::Streamed { thread, .. } => Some(*thread),
            _ => None,
        }
    }

    /// Whether something becomes certain here, so that the moment before it is the one with most
    /// images.
    pub(crate) fn is_barrier(&self) -> bool {
        match self {
            Event::File(step) => step.is_barrier(),
            _ => self.is_wait(),
        }
    }

    /// Whether lines of pools become certain here.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(
            self,
            Event::Fence { .. } | Event::FileSynced { .. } | Event::RangeSynced(_)
        )
    }
}

/// The words of a line in a pool's bytes.
pub(crate) fn words_at(bytes: &[u8], line: u32) -> Words {
    let mut words = Words::default();
    let line = &bytes[line as usize * LINE_BYTES..][..LINE_BYTES];
    for (word, bytes) in words.iter_mut().zip(line.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    words
}
