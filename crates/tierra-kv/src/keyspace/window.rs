//! The window: between a request's arrival and its execution its key is looked up, together with all others
//! that have arrived.
//!
//! A lookup reads the group of its key and the first line of the record that it finds there, and has asked for the
//! rest of the record when it reads that line; where the record is goes along as a [`Found`]. Lookups of a window
//! take turns at each of these, so their misses overlap, whichever tier they go to, and nobody waits for what comes
//! behind a first line before the request is executed that wants it: far records arrive while requests before theirs are
//! executed.
//!
//! Records beyond [`WINDOW_BYTES`] in one window are found but not fetched: they would evict each other before
//! they are used.

use std::cell::{Cell, RefCell};

use tierra_index::{Carried, RecordTable, Records};
use tierra_interleave::{Cx, Execution, Interleaved, Lookups, Mode, Scheduling, for_each};
use tierra_memory::emulation::{self, Fetch};
use tierra_memory::{LINE_BYTES, MemoryGate, Speed, in_mode};

use super::heap::Heap;
use super::{Db, Found, WINDOW_KEYS};

/// Bytes of records that one window fetches: a quarter of a common second-level cache.
pub(super) const WINDOW_BYTES: usize = 256 << 10;

/// A record of at most as many bytes is waited for as a whole: it is two lines, rarely three.
const SMALL_BYTES: usize = 2 * LINE_BYTES;

/// What windows have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Windows of more than one key.
    pub windows: u64,
    /// Keys looked up in them.
    pub keys: u64,
    /// Records fetched ahead from near memory.
    pub fetched_near: u64,
    /// Records fetched ahead from far memory.
    pub fetched_far: u64,
}

/// Records of emulated far memory that have been asked for and not yet been used: whoever uses one waits until it
/// would have arrived. (The processor knows by itself what is under way.)
#[derive(Debug, Default)]
pub(super) struct Arriving(Vec<(u64, Fetch)>);

impl Arriving {
    /// A record is used now.
    #[inline(always)]
    pub(super) fn wait_for(&mut self, record: u64) {
        if !self.0.is_empty() {
            self.wait(record);
        }
    }

    /// All of them are used now.
    pub(super) fn wait_for_all(self) {
        self.0.into_iter().for_each(|(_, fetch)| fetch.wait());
    }

    #[cold]
    fn wait(&mut self, record: u64) {
        if let Some(at) = self.0.iter().position(|&(number, _)| number == record) {
            self.0.swap_remove(at).1.wait();
        }
    }
}

/// What lies behind the first line of an object.
#[inline(always)]
fn rest(bytes: &[u8]) -> Option<&[u8]> {
    let in_line = LINE_BYTES - bytes.as_ptr().addr() % LINE_BYTES;
    bytes.get(in_line..).filter(|rest| !rest.is_empty())
}

/// The records of a heap, fetched whole as soon as an entry names one: a record's size class is known near, so
/// there is no need to wait for its header first.
pub(super) struct Fetching<'a> {
    heap: &'a Heap,
    left_bytes: Cell<usize>,
    at_once: bool,
    arriving: RefCell<Arriving>,
    /// Records, by `Speed`.
    fetched: [Cell<u64>; 2],
}

impl<'a> Fetching<'a> {
    /// For one lookup, which waits for all of its record: there is nothing else to do.
    pub(super) fn at_once(heap: &'a Heap) -> Fetching<'a> {
        Fetching {
            heap,
            left_bytes: Cell::new(0),
            at_once: true,
            arriving: RefCell::default(),
            fetched: Default::default(),
        }
    }

    /// For a window that fetches at most as many bytes of records, and does not wait for them.
    pub(super) fn at_most(bytes: usize, heap: &'a Heap) -> Fetching<'a> {
        Fetching {
            left_bytes: Cell::new(bytes),
            at_once: false,
            ..Fetching::at_once(heap)
        }
    }

    /// How many records of each tier, by `Speed`, were fetched, and which of them are still to come.
    pub(super) fn end(self) -> ([u64; 2], Arriving) {
        (
            self.fetched.map(Cell::into_inner),
            self.arriving.into_inner(),
        )
    }
}

impl Records for Fetching<'_> {
    #[inline(always)]
    fn head(&self, record: u64) -> &[u8] {
        let bytes = self.heap.fetched(record);
        if self.at_once || bytes.len() <= SMALL_BYTES {
            bytes
        } else {
            self.heap.head(record)
        }
    }

    #[inline(always)]
    fn ask(&self, record: u64) {
        let bytes = self.heap.fetched(record);
        let Some(left) = self.left_bytes.get().checked_sub(bytes.len()) else {
            return;
        };
        self.left_bytes.set(left);
        let speed = self.heap.speed(record);
        self.fetched[speed as usize].update(|fetched| fetched + 1);
        if bytes.len() <= SMALL_BYTES {
            return;
        }
        let Some(rest) = rest(bytes) else { return };
        Interleaved.issue(rest.as_ptr(), rest.len());
        if speed == Speed::Far {
            let fetch = emulation::begin_fetch(rest);
            let arriving = fetch.map(|fetch| (record, fetch));
            self.arriving.borrow_mut().0.extend(arriving);
        }
    }

    #[inline(always)]
    fn has_key(&self, record: u64, key: &[u8]) -> bool {
        self.heap.has_key(record, key)
    }

    fn hash(&self, record: u64) -> u64 {
        self.heap.hash(record)
    }
}

impl Windows {
    /// A window of as many keys has fetched as many records of each tier.
    pub(super) fn note(&mut self, keys: usize, [near, far]: [u64; 2]) {
        self.windows += 1;
        self.keys += keys as u64;
        self.fetched_near += near;
        self.fetched_far += far;
    }
}

impl Db {
    /// Looks up at most [`WINDOW_KEYS`](super::WINDOW_KEYS) keys as one group, fetches their records, and pushes
    /// what it found of each.
    pub fn find_many(&mut self, keys: &[&[u8]], found: &mut Vec<Found>) {
        assert!(
            keys.len() <= WINDOW_KEYS,
            "a window takes {WINDOW_KEYS} keys"
        );
        self.step(keys.len());
        let first = found.len();
        found.resize(first + keys.len(), Found::UNKNOWN);
        if keys.len() < 2 || !self.has_window {
            self.migration.go_on_fetching(&self.heap);
            return;
        }
        let mut hashes = [0; WINDOW_KEYS];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.heap.hash_of(key);
        }
        // What nobody has used by now nobody will.
        self.arriving.0.clear();
        let fetching = Fetching {
            arriving: RefCell::new(std::mem::take(&mut self.arriving)),
            ..Fetching::at_most(WINDOW_BYTES, &self.heap)
        };
        let table = &self.table().records;
        let found = &mut found[first..];
        look_up_many(
            table,
            &self.gate,
            &fetching,
            &hashes,
            keys,
            |at, carried| {
                found[at] = self.found(carried);
            },
        );
        let fetched;
        (fetched, self.arriving) = fetching.end();
        self.windows.note(keys.len(), fetched);
        self.migration.go_on_fetching(&self.heap);
    }
}

/// Looks keys with these hashes up in a table as one group, and tells where each was found, in any order.
pub(super) fn look_up_many(
    table: &RecordTable,
    gate: &MemoryGate,
    fetching: &Fetching<'_>,
    hashes: &[u64; WINDOW_KEYS],
    keys: &[&[u8]],
    mut tell: impl FnMut(usize, Carried),
) {
    let mut lookups = Lookups::new(Scheduling::Fixed(Execution::Interleaved));
    lookups.run(gate.now(), keys.len(), |execution, size, part| {
        let first = part.start;
        let inputs = part.map(|at| (hashes[at], keys[at]));
        in_mode!(execution, M => for_each(
            size,
            inputs,
            |cx: Cx<M>, (hash, key)| table.find(cx, hash, key, fetching),
            |at, carried| tell(first + at, carried),
        ))
    });
}
