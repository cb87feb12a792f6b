//! The window: between a request's arrival and its execution its key is looked up, together with all others
//! that have arrived.
//!
//! A lookup reads the group of its key, prefetches the record of a matching tag, and does not wait for it: its location
//! is passed on as a [`Found`](super::Found). Lookups of a window take turns, so the misses of their groups overlap, and
//! records arrive, from either tier, while others are looked up and earlier requests are executed. The record's key is
//! compared when the request is executed, which reads the record anyway; once in some thousand times it is another key's,
//! and the key is looked up by itself.
//!
//! Records beyond [`WINDOW_BYTES`] in one window are found but not prefetched: they would evict each other before
//! they are used.

use std::cell::{Cell, RefCell};

use tierra_index::{EntryHandle, RecordTable};
use tierra_interleave::{Cx, Execution, Interleaved, Lookups, Mode, Scheduling, for_each};
use tierra_memory::emulation::{self, Fetch};
use tierra_memory::{LINE_BYTES, MemoryGate, Speed, in_mode};

use super::heap::Heap;

/// How many keys one group of lookups takes at most.
pub const WINDOW_KEYS: usize = 128;

/// Bytes of records that one window fetches: a quarter of a common second-level cache.
pub(super) const WINDOW_BYTES: usize = 256 << 10;

/// Counters of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowStats {
    /// Windows of more than one key.
    pub windows: u64,
    /// Keys looked up in them.
    pub keys: u64,
    /// Records fetched ahead from near memory.
    pub fetched_near: u64,
    /// Records fetched ahead from far memory.
    pub fetched_far: u64,
}

/// Prefetched records of emulated far memory that have not yet been used: the first use waits until the record would
/// have arrived. (Real misses are tracked by the processor.)
#[derive(Debug, Default)]
pub(super) struct InFlightRecords(Vec<(u64, Fetch)>);

impl InFlightRecords {
    /// A record is used now.
    #[inline(always)]
    pub(super) fn wait_for(&mut self, record: u64) {
        if !self.0.is_empty() {
            self.wait(record);
        }
    }

    /// Drops them: they will not be used.
    pub(super) fn discard(&mut self) {
        self.0.clear();
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

/// Prefetches records of a heap as soon as their entries are found: their sizes are known near, so there is no need to wait
/// for a header first.
pub(super) struct Prefetcher<'a> {
    heap: &'a Heap,
    left_bytes: Cell<usize>,
    in_flight: RefCell<InFlightRecords>,
    /// Records, by `Speed`.
    fetched: [Cell<u64>; 2],
}

impl<'a> Prefetcher<'a> {
    /// For a window; its records in flight join `in_flight`.
    pub(super) fn new(heap: &'a Heap, in_flight: InFlightRecords) -> Prefetcher<'a> {
        Prefetcher {
            heap,
            left_bytes: Cell::new(WINDOW_BYTES),
            in_flight: RefCell::new(in_flight),
            fetched: Default::default(),
        }
    }

    /// Fetches a record, or its first line if the window has fetched enough.
    #[inline(always)]
    fn prefetch(&self, record: u64) {
        let mut bytes = self.heap.fetched(record);
        let speed = self.heap.speed(record);
        if let Some(left) = self.left_bytes.get().checked_sub(bytes.len()) {
            self.left_bytes.set(left);
            self.fetched[speed as usize].update(|fetched| fetched + 1);
        } else {
            bytes = &bytes[..bytes.len().min(LINE_BYTES)];
        }
        Interleaved.issue(bytes.as_ptr(), bytes.len());
        if speed == Speed::Far
            && let Some(fetch) = emulation::begin_fetch(bytes)
        {
            self.in_flight.borrow_mut().0.push((record, fetch));
        }
    }

    /// The number of records fetched from each tier, by `Speed`, and those still in flight.
    pub(super) fn end(self) -> ([u64; 2], InFlightRecords) {
        (
            self.fetched.map(Cell::into_inner),
            self.in_flight.into_inner(),
        )
    }
}

impl WindowStats {
    /// A window of as many keys has fetched as many records of each tier.
    pub(super) fn note(&mut self, keys: usize, [near, far]: [u64; 2]) {
        self.windows += 1;
        self.keys += keys as u64;
        self.fetched_near += near;
        self.fetched_far += far;
    }
}

/// Looks keys with these hashes up in a table as one group, and reports the entry whose tag matches
/// ([`RecordTable::find_by_tag`]), in any order.
pub(super) fn look_up_many(
    table: &RecordTable,
    gate: &MemoryGate,
    prefetcher: &Prefetcher<'_>,
    hashes: &[u64],
    mut tell: impl FnMut(usize, EntryHandle),
) {
    let mut lookups = Lookups::new(Scheduling::Fixed(Execution::Interleaved));
    lookups.run(gate.now(), hashes.len(), |execution, size, part| {
        let first = part.start;
        in_mode!(execution, M => for_each(
            size,
            &hashes[part],
            |cx: Cx<M>, &hash| table.find_by_tag(cx, hash, |record| prefetcher.prefetch(record)),
            |at, handle| tell(first + at, handle),
        ))
    });
}
