//! Looks on while pools are used: writes down what is stored, flushed and fenced, or what is read.
//!
//! Invariant: what memory holds is known exactly, store by store: a copy of it is kept, a store is
//! written down with the words that it changes, and a slice that was handed out for writing is compared
//! with the copy when it comes back.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{Event, LineRange, Order};
use super::file_step::FileStep;
use super::state::{MAX_POOLS, Names, Reads, State, Touched, Writes};
use crate::LINE_BYTES;
use crate::durability::Durability;
use crate::persist::{Instructions, Lines};

/// Handed to a pool in [`PoolOptions::recorder`](crate::PoolOptions::recorder). It stands for the first pool of a recording, its
/// clones for the same one; [`Recorder::of_pool`] stands for others of the same recording, on which the
/// power is cut at the same moment.
#[derive(Clone, Debug)]
pub struct Recorder {
    durability: Durability,
    /// The number of the pool.
    pool: u8,
    /// What its file is called, if it lies in the directory that is recorded.
    name: Option<Arc<str>>,
    state: Arc<Mutex<State>>,
}

/// A slice that was handed out for writing.
#[derive(Debug)]
pub(crate) struct LentSlice {
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
    pub(crate) fn of_reads(durability: Durability) -> Recorder {
        Recorder::new(durability, State::Reads(Reads::default()))
    }

    /// The same recording, for another pool of it: the first is 0. One handle, or its clones, goes to one
    /// pool.
    ///
    /// # Panics
    /// From 64 on.
    pub fn of_pool(&self, index: usize) -> Recorder {
        assert!(index < MAX_POOLS, "{MAX_POOLS} pools are recorded at most");
        Recorder {
            pool: index as u8,
            name: None,
            ..self.clone()
        }
    }

    /// The same recording, for the pool whose file has this name in the directory that is recorded.
    pub(crate) fn of_file(&self, name: &str) -> Recorder {
        let pool = match &mut *self.lock() {
            State::Writes(writes) => writes.names.pool(name),
            State::Reads(reads) => reads.names.pool(name),
        };
        Recorder {
            pool,
            name: Some(name.into()),
            ..self.clone()
        }
    }

    fn new(durability: Durability, state: State) -> Recorder {
        Recorder {
            durability,
            pool: 0,
            name: None,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Notes an acknowledgement to the program: everything up to its step `done` has been done, so it has to be
    /// there after a power cut from now on.
    pub fn acknowledge(&self, done: u64) {
        self.with_writes(|writes| writes.events.push(Event::Acknowledged(done)));
    }

    /// What was recorded so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        self.with_writes(|writes| events.clone_from(&writes.events));
        events
    }

    /// Offsets of lines that are not what was recorded of the pool that lies where `bytes` do.
    pub(crate) fn differences(&self, bytes: &[u8]) -> Vec<u64> {
        let mut different = Vec::new();
        let base = bytes.as_ptr().addr();
        self.with_writes(|writes| {
            let memory = writes.pools.iter().find(|memory| memory.base == base);
            let latest = memory.map_or(&[][..], |memory| &memory.latest);
            let lines = latest.chunks_exact(LINE_BYTES).enumerate();
            for (line, latest) in lines {
                let at = line * LINE_BYTES;
                if bytes[at..at + LINE_BYTES] != *latest {
                    different.push(at as u64);
                }
            }
        });
        different
    }

    /// The pools whose files have these names have these numbers. Others get numbers from `next` on.
    pub(crate) fn name_pools(&self, pools: impl Iterator<Item = (String, u8)>, next: u8) {
        let pools = pools.collect();
        let names = Names { pools, next };
        match &mut *self.lock() {
            State::Writes(writes) => writes.names = names,
            State::Reads(reads) => reads.names = names,
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// What was touched of this pool since this was last asked.
    pub(crate) fn take_touched(&self) -> Touched {
        let mut taken = Touched::default();
        if let State::Reads(reads) = &mut *self.lock() {
            let touched = self.touched(reads);
            std::mem::swap(touched, &mut taken);
            touched.base = taken.base;
        }
        taken
    }

    /// The pool begins at `base` and holds `bytes`, all of them durable; but one that was recorded before
    /// and is opened again holds what it did, as uncertain as it was.
    pub(crate) fn mapped(&self, base: *const u8, bytes: &[u8]) {
        match &mut *self.lock() {
            State::Reads(reads) => self.touched(reads).base = base.addr(),
            State::Writes(writes) => {
                let memory = writes.memory(self.pool);
                let is_known = memory.base != 0 && memory.latest == bytes;
                memory.base = base.addr();
                if !is_known {
                    memory.latest = bytes.to_vec();
                    writes.events.push(Event::Made {
                        pool: self.pool,
                        bytes: bytes.to_vec(),
                    });
                }
            }
        }
    }

    /// A step on the directory was done.
    pub(crate) fn file_step(&self, step: FileStep) {
        self.with_writes(|writes| {
            writes.names.apply(&step);
            writes.events.push(Event::File(step));
        });
    }

    /// A step on the file of this pool was done before the pool is made, if its directory is recorded.
    pub(crate) fn pool_step(&self, step: impl FnOnce(&str) -> FileStep) {
        if let Some(name) = &self.name {
            let step = match step(name) {
                FileStep::Created { name, .. } => {
                    let pool = Some(self.pool);
                    FileStep::Created { name, pool }
                }
                step => step,
            };
            self.file_step(step);
        }
    }

    /// A range was given back to the file system: it holds zeros, or after a power cut what it did.
    pub(crate) fn given_back(&self, offset: u64, len_bytes: u64) {
        let zeros = vec![0; len_bytes as usize];
        let lent = self.lend(offset, len_bytes);
        self.returned(&lent, offset, &zeros);
    }

    /// The file has grown, with zeros.
    pub(crate) fn grown(&self, len_bytes: u64) {
        let pool = self.pool;
        self.with_writes(|writes| {
            writes.memory(pool).latest.resize(len_bytes as usize, 0);
            writes.events.push(Event::Grown { pool, len_bytes });
        });
    }

    /// What was touched of this pool.
    fn touched<'a>(&self, reads: &'a mut Reads) -> &'a mut Touched {
        let (index, pools) = (usize::from(self.pool), &mut reads.pools);
        if pools.len() <= index {
            pools.resize_with(index + 1, Touched::default);
        }
        &mut pools[index]
    }

    /// `bytes` are stored at `to`, just before they are.
    pub(crate) fn stored(&self, to: *const u8, bytes: &[u8], order: Order) {
        match &mut *self.lock() {
            State::Reads(reads) => {
                let touched = self.touched(reads);
                let at = (to.addr() - touched.base) as u64;
                touched.written.push(at..at + bytes.len() as u64);
            }
            State::Writes(writes) => {
                let at = to.addr() - writes.memory(self.pool).base;
                let thread = writes.thread();
                writes.changes(self.pool, at, bytes, order, |events, store| {
                    events.push(match order {
                        Order::Stream => Event::Streamed { thread, store },
                        Order::Program | Order::None => Event::Store(store),
                    });
                });
            }
        }
    }

    /// A range is handed out for writing through a slice.
    pub(crate) fn lend(&self, offset: u64, len_bytes: u64) -> LentSlice {
        match &mut *self.lock() {
            State::Reads(reads) => {
                let touched = self.touched(reads);
                touched.written.push(offset..offset + len_bytes);
                LentSlice { event: 0 }
            }
            State::Writes(writes) => {
                writes.events.push(Event::Scribbled(Vec::new()));
                LentSlice {
                    event: writes.events.len() - 1,
                }
            }
        }
    }

    /// The slice is back, and the range holds `bytes`.
    pub(crate) fn returned(&self, lent: &LentSlice, offset: u64, bytes: &[u8]) {
        let pool = self.pool;
        self.with_writes(|writes| {
            let mut scribbled = Vec::new();
            writes.changes(pool, offset as usize, bytes, Order::None, |_, store| {
                scribbled.push(store);
            });
            if let Some(Event::Scribbled(stores)) = writes.events.get_mut(lent.event) {
                stores.extend(scribbled);
            }
        });
    }

    /// Recovery, or any reader, reads a range.
    pub(crate) fn read(&self, offset: u64, len_bytes: u64) {
        if let State::Reads(reads) = &mut *self.lock() {
            let touched = self.touched(reads);
            touched.read.push(offset..offset + len_bytes);
        }
    }

    /// All of the file was written back.
    pub(crate) fn file_synced(&self) {
        let pool = self.pool;
        self.with_writes(|writes| writes.events.push(Event::FileSynced { pool }));
    }

    /// The pages of a range were written back.
    pub(crate) fn range_synced(&self, start: *const u8, len_bytes: usize) {
        let page_bytes = crate::base_page_bytes();
        let pool = self.pool;
        self.with_writes(|writes| {
            let at = start.addr() - writes.memory(pool).base;
            let lines = |bytes: usize| (bytes / LINE_BYTES) as u32;
            writes.events.push(Event::RangeSynced(LineRange {
                pool,
                first: lines(at / page_bytes * page_bytes),
                end: lines((at + len_bytes).next_multiple_of(page_bytes)),
            }));
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
        let pool = self.pool;
        self.with_writes(|writes| {
            let thread = writes.thread();
            let first = ((lines.first.addr() - writes.memory(pool).base) / LINE_BYTES) as u32;
            let end = first + lines.count as u32;
            let lines = LineRange { pool, first, end };
            writes.events.push(Event::Flush { thread, lines });
        });
    }

    fn fence(&self) {
        self.with_writes(|writes| {
            let thread = writes.thread();
            writes.events.push(Event::Fence { thread });
        });
    }

    fn sync_length(&self, _: &File) -> io::Result<()> {
        let pool = self.pool;
        self.with_writes(|writes| writes.events.push(Event::LengthSynced { pool }));
        Ok(())
    }
}
