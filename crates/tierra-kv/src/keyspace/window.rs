//! The window: between a request's arrival and its execution its key is looked up, together with all others
//! that have arrived.
//!
//! A lookup reads the group of its key, asks for all of the record that the key's hash leads to, and waits for none of it: where
//! the record is goes along as a [`Found`](super::Found). Lookups of a window take turns, so the misses of their groups overlap, and
//! records arrive, from whichever tier, while others are looked up and requests before theirs are executed. Whether a record is
//! the key's is seen when the request is executed, which reads it anyway; once in some thousand times it is not, and the key
//! is looked up by itself.
//!
//! Records beyond [`WINDOW_BYTES`] in one window are found but not fetched: they would evict each other before
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

    /// Nobody will use them.
    pub(super) fn forget(&mut self) {
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

/// The records of a heap, fetched as soon as an entry names one: its size is known near, so there is no need to wait for
/// its header first.
pub(super) struct Fetching<'a> {
    heap: &'a Heap,
    left_bytes: Cell<usize>,
    arriving: RefCell<Arriving>,
    /// Records, by `Speed`.
    fetched: [Cell<u64>; 2],
}

impl<'a> Fetching<'a> {
    /// For a window; what is still to come joins `arriving`.
    pub(super) fn new(heap: &'a Heap, arriving: Arriving) -> Fetching<'a> {
        Fetching {
            heap,
            left_bytes: Cell::new(WINDOW_BYTES),
            arriving: RefCell::new(arriving),
            fetched: Default::default(),
        }
    }

    /// Fetches a record, or its first line if the window has fetched enough.
    #[inline(always)]
    fn ask(&self, record: u64) {
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
            self.arriving.borrow_mut().0.push((record, fetch));
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

impl Windows {
    /// A window of as many keys has fetched as many records of each tier.
    pub(super) fn note(&mut self, keys: usize, [near, far]: [u64; 2]) {
        self.windows += 1;
        self.keys += keys as u64;
        self.fetched_near += near;
        self.fetched_far += far;
    }
}

/// Looks keys with these hashes up in a table as one group, and tells where each is likely to be
/// ([`RecordTable::find_by_tag`]), in any order.
pub(super) fn look_up_many(
    table: &RecordTable,
    gate: &MemoryGate,
    fetching: &Fetching<'_>,
    hashes: &[u64],
    mut tell: impl FnMut(usize, EntryHandle),
) {
    let mut lookups = Lookups::new(Scheduling::Fixed(Execution::Interleaved));
    lookups.run(gate.now(), hashes.len(), |execution, size, part| {
        let first = part.start;
        in_mode!(execution, M => for_each(
            size,
            &hashes[part],
            |cx: Cx<M>, &hash| table.find_by_tag(cx, hash, |record| fetching.ask(record)),
            |at, handle| tell(first + at, handle),
        ))
    });
}
