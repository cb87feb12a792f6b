//! Looks on while a pool is used: writes down what is stored, flushed and fenced, or what is read.
//!
//! Invariant: what memory holds is known exactly, store by store: a copy of it is kept, a store is
//! written down with the words that it changes, and a slice that was handed out for writing is compared
//! with the copy when it comes back. [`Recorder::unseen`] finds a store that took another way.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::power::words_at;
use super::trace::{Event, Order, Store, Trace, Words};
use crate::LINE_BYTES;
use crate::persist::{Instructions, Lines};
use crate::pool::{Durability, Pool};

/// Handed to a pool in [`PoolOptions::recorder`](crate::PoolOptions::recorder). One records one pool; its clones share what is
/// recorded.
#[derive(Clone, Debug)]
pub struct Recorder {
    durability: Durability,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    Writes(Box<Writes>),
    Reads(Touched),
}

/// What was written, to be explored later.
#[derive(Debug, Default)]
struct Writes {
    /// Where the pool lies in memory.
    base: usize,
    initial: Vec<u8>,
    /// What memory holds.
    latest: Vec<u8>,
    events: Vec<Event>,
    threads: Vec<ThreadId>,
}

/// What recovery touched, as ranges of offsets in their order.
#[derive(Debug, Default)]
pub(super) struct Touched {
    base: usize,
    pub(super) read: Vec<Range<u64>>,
    pub(super) written: Vec<Range<u64>>,
}

/// A slice that was handed out for writing.
#[derive(Debug)]
pub(crate) struct Lent {
    event: usize,
}

impl Recorder {
    /// Records a pool's writes. Whatever its file lies on, the pool takes itself for one on a DAX file
    /// system, durable by cache line.
    pub fn by_line() -> Recorder {
        Recorder::new(Durability::CacheLine, State::Writes(Box::default()))
    }

    /// As [`Recorder::by_line`], for a pool on a file system that writes pages back.
    pub fn by_page() -> Recorder {
        Recorder::new(Durability::Page, State::Writes(Box::default()))
    }

    /// Records what a pool reads, on a medium of this durability.
    pub(super) fn of_reads(durability: Durability) -> Recorder {
        Recorder::new(durability, State::Reads(Touched::default()))
    }

    fn new(durability: Durability, state: State) -> Recorder {
        Recorder {
            durability,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Notes that the program was told: everything up to its step `done` has been done, so it has to be
    /// there after a power cut from now on.
    pub fn acknowledge(&self, done: u64) {
        self.with_writes(|writes| writes.events.push(Event::Acknowledged(done)));
    }

    /// What was recorded so far.
    pub fn trace(&self) -> Trace {
        let mut trace = Trace {
            durability: self.durability,
            initial: Vec::new(),
            events: Vec::new(),
        };
        self.with_writes(|writes| {
            trace.initial.clone_from(&writes.initial);
            trace.events.clone_from(&writes.events);
        });
        trace
    }

    /// Offsets of lines of the pool that are not what was recorded: stores that nobody saw. Called while
    /// nobody writes.
    pub fn unseen(&self, pool: &Pool) -> Vec<u64> {
        let mut unseen = Vec::new();
        self.with_writes(|writes| {
            let lines = writes.latest.chunks_exact(LINE_BYTES).enumerate();
            for (line, latest) in lines {
                let at = line * LINE_BYTES;
                if pool.raw_bytes(at as u64, LINE_BYTES as u64) != latest {
                    unseen.push(at as u64);
                }
            }
        });
        unseen
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// What was touched since this was last asked.
    pub(super) fn take_touched(&self) -> Touched {
        match &mut *self.lock() {
            State::Writes(_) => Touched::default(),
            State::Reads(touched) => std::mem::replace(
                touched,
                Touched {
                    base: touched.base,
                    ..Touched::default()
                },
            ),
        }
    }

    /// The pool begins at `base` and holds `bytes`, all of them durable.
    pub(crate) fn mapped(&self, base: *const u8, bytes: &[u8]) {
        match &mut *self.lock() {
            State::Reads(touched) => touched.base = base.addr(),
            State::Writes(writes) => {
                writes.base = base.addr();
                writes.initial = bytes.to_vec();
                writes.latest = bytes.to_vec();
            }
        }
    }

    /// The file has grown, with zeros.
    pub(crate) fn grown(&self, len_bytes: u64) {
        self.with_writes(|writes| {
            writes.latest.resize(len_bytes as usize, 0);
            writes.events.push(Event::Grown { len_bytes });
        });
    }

    /// `bytes` are stored at `to`, just before they are.
    pub(crate) fn stored(&self, to: *const u8, bytes: &[u8], order: Order) {
        match &mut *self.lock() {
            State::Reads(touched) => {
                let at = (to.addr() - touched.base) as u64;
                touched.written.push(at..at + bytes.len() as u64);
            }
            State::Writes(writes) => {
                let at = to.addr() - writes.base;
                let thread = writes.thread();
                writes.changes(at, bytes, order, |events, store| {
                    events.push(match order {
                        Order::Stream => Event::Streamed { thread, store },
                        Order::Program | Order::None => Event::Store(store),
                    });
                });
            }
        }
    }

    /// A range is handed out for writing through a slice.
    pub(crate) fn lend(&self, offset: u64, len_bytes: u64) -> Lent {
        match &mut *self.lock() {
            State::Reads(touched) => {
                touched.written.push(offset..offset + len_bytes);
                Lent { event: 0 }
            }
            State::Writes(writes) => {
                writes.events.push(Event::Scribbled(Vec::new()));
                Lent {
                    event: writes.events.len() - 1,
                }
            }
        }
    }

    /// The slice is back, and the range holds `bytes`.
    pub(crate) fn returned(&self, lent: &Lent, offset: u64, bytes: &[u8]) {
        self.with_writes(|writes| {
            let mut scribbled = Vec::new();
            writes.changes(offset as usize, bytes, Order::None, |_, store| {
                scribbled.push(store);
            });
            if let Some(Event::Scribbled(stores)) = writes.events.get_mut(lent.event) {
                stores.extend(scribbled);
            }
        });
    }

    /// Recovery, or anybody else, reads a range.
    pub(crate) fn read(&self, offset: u64, len_bytes: u64) {
        if let State::Reads(touched) = &mut *self.lock() {
            touched.read.push(offset..offset + len_bytes);
        }
    }

    /// All of the file was written back.
    pub(crate) fn file_synced(&self) {
        self.with_writes(|writes| writes.events.push(Event::FileSynced));
    }

    /// The pages of a range were written back.
    pub(crate) fn range_synced(&self, start: *const u8, len_bytes: usize) {
        let page_bytes = rustix::param::page_size();
        self.with_writes(|writes| {
            let at = start.addr() - writes.base;
            let lines = |bytes: usize| (bytes / LINE_BYTES) as u32;
            writes.events.push(Event::RangeSynced {
                first: lines(at / page_bytes * page_bytes),
                end: lines((at + len_bytes).next_multiple_of(page_bytes)),
            });
        });
    }

    fn with_writes(&self, work: impl FnOnce(&mut Writes)) {
        if let State::Writes(writes) = &mut *self.lock() {
            work(writes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What a panicking test leaves is explored no further.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instructions for Recorder {
    unsafe fn flush(&self, lines: Lines) {
        self.with_writes(|writes| {
            let thread = writes.thread();
            let first = ((lines.first.addr() - writes.base) / LINE_BYTES) as u32;
            let end = first + lines.count as u32;
            writes.events.push(Event::Flush { thread, first, end });
        });
    }

    fn fence(&self) {
        self.with_writes(|writes| {
            let thread = writes.thread();
            writes.events.push(Event::Fence { thread });
        });
    }

    fn sync_length(&self, _: &File) -> io::Result<()> {
        self.with_writes(|writes| writes.events.push(Event::LengthSynced));
        Ok(())
    }
}

impl Writes {
    fn thread(&mut self) -> u32 {
        let this = std::thread::current().id();
        let known = self.threads.iter().position(|thread| *thread == this);
        let index = known.unwrap_or_else(|| {
            self.threads.push(this);
            self.threads.len() - 1
        });
        index as u32
    }

    /// Takes note of `bytes` at `at`, line by line, where they differ from what is there.
    fn changes(
        &mut self,
        at: usize,
        bytes: &[u8],
        order: Order,
        mut found: impl FnMut(&mut Vec<Event>, Store),
    ) {
        let mut from = at;
        while from < at + bytes.len() {
            let line = from / LINE_BYTES;
            let to = ((line + 1) * LINE_BYTES).min(at + bytes.len());
            let new = &bytes[from - at..to - at];
            if self.latest[from..to] != *new {
                let before = words_at(&self.latest, line as u32);
                self.latest[from..to].copy_from_slice(new);
                let words = words_at(&self.latest, line as u32);
                let store = Store {
                    line: line as u32,
                    mask: changed_words(&before, &words),
                    words,
                    order,
                };
                found(&mut self.events, store);
            }
            from = to;
        }
    }
}

fn changed_words(before: &Words, after: &Words) -> u8 {
    let words = before.iter().zip(after).enumerate();
    words.fold(0, |mask, (index, (before, after))| {
        mask | u8::from(before != after) << index
    })
}
