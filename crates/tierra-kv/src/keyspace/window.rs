//! The window: between a request's arrival and its execution its key is looked up, together with all others
//! that have arrived.
//!
//! A look-up reads the group of its key and the record that it finds there: everything that the command will need is in the cache when it runs, and where it is goes along as a [`Found`]. Look-ups of a
//! window take turns at each of these, so their misses overlap, whichever tier they go to.
//!
//! Records beyond [`WINDOW_BYTES`] in one window are found but not fetched: they would evict each other before
//! they are used.

use std::cell::Cell;

use tierra_index::{Carried, RecordTable, Records};
use tierra_interleave::{Cx, Execution, Lookups, Scheduling, for_each};
use tierra_memory::{MemoryGate, in_mode};

use super::heap::Heap;
use super::{Db, Found, WINDOW_KEYS};

/// Bytes of records that one window fetches: a quarter of a common second-level cache.
pub(super) const WINDOW_BYTES: usize = 256 << 10;

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

/// The records of a heap, fetched whole as soon as an entry names one: a record's size class is known near, so
/// there is no need to wait for its header first.
pub(super) struct Fetching<'a> {
    heap: &'a Heap,
    left_bytes: Cell<usize>,
    /// Records, by `Speed`.
    fetched: [Cell<u64>; 2],
}

impl<'a> Fetching<'a> {
    /// Fetches at most as many bytes of records.
    pub(super) fn at_most(bytes: usize, heap: &'a Heap) -> Fetching<'a> {
        Fetching {
            heap,
            left_bytes: Cell::new(bytes),
            fetched: Default::default(),
        }
    }

    /// How many records of each tier, by `Speed`, were fetched.
    pub(super) fn end(self) -> [u64; 2] {
        self.fetched.map(Cell::into_inner)
    }
}

impl Records for Fetching<'_> {
    #[inline(always)]
    fn head(&self, record: u64) -> &[u8] {
        let bytes = self.heap.fetched(record);
        match self.left_bytes.get().checked_sub(bytes.len()) {
            Some(left) => {
                self.left_bytes.set(left);
                self.fetched[self.heap.speed(record) as usize].update(|fetched| fetched + 1);
                bytes
            }
            None => self.heap.head(record),
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
        self.step();
        let first = found.len();
        found.resize(first + keys.len(), Found::UNKNOWN);
        if keys.len() < 2 || !self.has_window {
            return;
        }
        let mut hashes = [0; WINDOW_KEYS];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.heap.hash_of(key);
        }
        let table = &self.table().records;
        let fetching = Fetching::at_most(WINDOW_BYTES, &self.heap);
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
        let fetched = fetching.end();
        self.windows.note(keys.len(), fetched);
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
