//! Looks on while pools are used: writes down what is stored, flushed and fenced, or what is read.
//!
//! Invariant: what memory holds is known exactly, store by store: a copy of it is kept, a store is
//! written down with the words that it changes, and a slice that was handed out for writing is compared
//! with the copy when it comes back. [`Recorder::unseen`] finds a store that took another way.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::files::{Content, FileStep, Variant};
use super::power::{Power, words_at};
use super::trace::{Event, LineOf, LineRange, Order, Store, Trace, Words};
use crate::LINE_BYTES;
use crate::persist::{Instructions, Lines};
use crate::pool::{Durability, Pool};

/// The most pools of one recording.
pub(super) const POOLS_MOST: usize = 64;

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

#[derive(Debug)]
enum State {
    Writes(Box<Writes>),
    Reads(Reads),
}

/// What recovery does with an image.
#[derive(Debug, Default)]
struct Reads {
    /// By pool.
    pools: Vec<Touched>,
    names: Names,
}

/// Which pool's file has which name. Numbers are given once.
#[derive(Debug, Default)]
struct Names {
    pools: HashMap<String, u8>,
    next: u8,
}

impl Names {
    fn pool(&mut self, name: &str) -> u8 {
        if let Some(pool) = self.pools.get(name) {
            return *pool;
        }
        let pool = self.next;
        assert!(
            usize::from(pool) < POOLS_MOST,
            "{POOLS_MOST} pools are recorded at most"
        );
        self.next += 1;
        self.pools.insert(name.to_owned(), pool);
        pool
    }

    fn apply(&mut self, step: &FileStep) {
        match step {
            FileStep::Removed { name } => drop(self.pools.remove(name)),
            FileStep::Renamed { from, to } => {
                let pool = self.pools.remove(from);
                self.pools.remove(to);
                self.pools.extend(pool.map(|pool| (to.clone(), pool)));
            }
            _ => {}
        }
    }

    /// Those of a directory. Other pools get numbers from `next` on.
    fn of(files: &Variant, next: u8) -> Names {
        let pools = files.iter().filter_map(|(name, content)| match content {
            Content::Pool(pool) => Some((name.clone(), *pool)),
            Content::Bytes(_) => None,
        });
        let pools = pools.collect();
        Names { pools, next }
    }
}

/// What was written, to be explored later.
#[derive(Debug, Default)]
struct Writes {
    pools: Vec<Memory>,
    events: Vec<Event>,
    threads: Vec<ThreadId>,
    names: Names,
}

/// A pool as it is in memory.
#[derive(Debug, Default)]
struct Memory {
    /// Where it lies; zero before it does.
    base: usize,
    /// What it holds.
    latest: Vec<u8>,
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
        Recorder::new(durability, State::Reads(Reads::default()))
    }

    /// The same recording, for another pool of it: the first is 0. One handle, or its clones, goes to one
    /// pool.
    ///
    /// # Panics
    /// From 64 on.
    pub fn of_pool(&self, index: usize) -> Recorder {
        assert!(
            index < POOLS_MOST,
            "{POOLS_MOST} pools are recorded at most"
        );
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

    /// This recording, for a process that goes on with what another one left that was killed after `events` events
    /// ([`Trace::directory_killed_after`]): its pools keep their numbers.
    pub fn going_on(self, trace: &Trace, events: usize) -> Recorder {
        let mut power = Power::new();
        trace.events[..events]
            .iter()
            .for_each(|event| power.apply(event));
        let names = Names::of(&power.files().now(), trace.pools());
        self.with_writes(|writes| writes.names = names);
        self
    }

    fn new(durability: Durability, state: State) -> Recorder {
        Recorder {
            durability,
            pool: 0,
            name: None,
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
            events: Vec::new(),
        };
        self.with_writes(|writes| trace.events.clone_from(&writes.events));
        trace
    }

    /// Offsets of lines of the pool that are not what was recorded: stores that nobody saw. Called while
    /// nobody writes.
    pub fn unseen(&self, pool: &Pool) -> Vec<u64> {
        let mut unseen = Vec::new();
        let base = pool.raw_bytes(0, 0).as_ptr().addr();
        self.with_writes(|writes| {
            let memory = writes.pools.iter().find(|memory| memory.base == base);
            let latest = memory.map_or(&[][..], |memory| &memory.latest);
            let lines = latest.chunks_exact(LINE_BYTES).enumerate();
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

    /// What was touched of this pool since this was last asked.
    pub(super) fn take_touched(&self) -> Touched {
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

    /// Recovery is run on such a directory next, of a trace of so many pools.
    pub(super) fn finds(&self, files: &Variant, pools: u8) {
        if let State::Reads(reads) = &mut *self.lock() {
            reads.names = Names::of(files, pools);
        }
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
    pub(crate) fn lend(&self, offset: u64, len_bytes: u64) -> Lent {
        match &mut *self.lock() {
            State::Reads(reads) => {
                let touched = self.touched(reads);
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

    /// Recovery, or anybody else, reads a range.
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
        let page_bytes = rustix::param::page_size();
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

impl Writes {
    fn memory(&mut self, pool: u8) -> &mut Memory {
        let index = usize::from(pool);
        if self.pools.len() <= index {
            self.pools.resize_with(index + 1, Memory::default);
        }
        &mut self.pools[index]
    }

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
        pool: u8,
        at: usize,
        bytes: &[u8],
        order: Order,
        mut found: impl FnMut(&mut Vec<Event>, Store),
    ) {
        // Made when it was mapped.
        let latest = &mut self.pools[usize::from(pool)].latest;
        let mut from = at;
        while from < at + bytes.len() {
            let line = from / LINE_BYTES;
            let to = ((line + 1) * LINE_BYTES).min(at + bytes.len());
            let new = &bytes[from - at..to - at];
            if latest[from..to] != *new {
                let index = line as u32;
                let before = words_at(latest, index);
                latest[from..to].copy_from_slice(new);
                let words = words_at(latest, index);
                let store = Store {
                    line: LineOf { pool, index },
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
