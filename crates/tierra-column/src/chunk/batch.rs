//! Many cells, level by level.
//!
//! ```text
//! batch 0    read entries, find entries, find codes of its next cells | prefetch all of these, in one go
//! batch 1    the same, while the prefetches of batch 0 are in flight  | prefetch
//! batch 0    ..
//! ```
//!
//! Cells that are found by arithmetic and a dictionary take the same few steps, so only their current location
//! is kept: a batch takes each of its cells one level further, and then prefetches all the locations found.
//! All other cells take turns in a group ([`Chunk::value`]). In a plain mode cells are read one after the
//! other.
//!
//! Prefetches are issued in one go, with nothing in between, because a prefetch leaves the processor's
//! reorder buffer only when its address is translated: instructions between two of them delay the second.
//! On Zen 5, with the next prefetch 64 instructions away a random line of 4 GiB on large
//! pages took 9 ns, 256 away 70 ns, and 4 ns when it followed at once.
//!
//! Invariant: every cell is answered once, by the same rules as [`Chunk::value`].

use std::pin::pin;
use std::slice::from_ref;
use std::task::{Context, Poll, Waker};

use arrow::datatypes::ToByteSlice;
use tierra_interleave::{Chain, Cx, GroupReport, GroupSize, Mode, for_each};

use crate::cell::Cell;
use crate::chunk::Chunk;
use crate::chunk::flat::Decoded;
use crate::dictionary::{Decoder, ValueRef};
use crate::error::FormatError;

/// Which cell to read.
#[derive(Clone, Copy, Debug)]
pub struct CellAt<'c, 'a> {
    /// The chunk that holds it.
    pub chunk: &'c Chunk<'a>,
    /// Its row there.
    pub row: usize,
    /// Of the column's dictionary, if it has one.
    pub decoder: Option<&'c Decoder<'a>>,
}

/// Takes what [`read_cells`] reads. A closure is one; methods of a type can insist on being inlined,
/// without which a cell is handed over in memory.
pub trait CellSink<'a, T> {
    /// A cell.
    fn take(&mut self, tag: T, cell: Cell<'a>);

    /// A cell that could not be read: its block cannot be what was written, or its chunk's dictionary
    /// is missing or another generation.
    fn fail(&mut self, tag: T, error: Box<FormatError>);
}

impl<'a, T, F: FnMut(T, Result<Cell<'a>, Box<FormatError>>)> CellSink<'a, T> for F {
    fn take(&mut self, tag: T, cell: Cell<'a>) {
        self(tag, Ok(cell));
    }

    fn fail(&mut self, tag: T, error: Box<FormatError>) {
        self(tag, Err(error));
    }
}

/// Cells that join a batch at a time; there are two batches. Rows of 1,000 columns took 0.92 to 0.99 of what their
/// replay and their computing take one after the other, and 1.03 to 1.05 with 16 or 64 (near memory, Zen 5).
const BATCH_CELLS: usize = 32;

/// Fewer cells than this take turns in a group, which needs no preparation: rows of 10 columns took 0.8 of the
/// time that levels took, rows of 30 columns as long either way.
const MIN_BATCHED: usize = 32;

/// Cells collected before they run as a group: enough to hide the group's end, few enough to stay cached.
const MAX_WAITING: usize = 1024;

/// Reads cells, whose tags tell them apart, into `sink`, in no particular order. `size` is the group
/// size of those that need a group.
///
/// # Panics
/// If a chunk has no such row.
pub fn read_cells<'c, 'a: 'c, M: Mode, T: Copy>(
    size: GroupSize,
    mut cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    sink: &mut impl CellSink<'a, T>,
) -> GroupReport {
    if !M::INTERLEAVED {
        return sequentially::<M, T>(cells, sink);
    }
    if cells.size_hint().0 < MIN_BATCHED {
        return in_group::<M, T>(size, cells, sink);
    }
    // While the prefetches of one batch are in flight, the other one advances.
    let mut batches = [CellBatch::<M, T>::default(), CellBatch::default()];
    let mut others = Vec::new();
    let mut report = GroupReport::default();
    let mut is_idle = false;
    for at in 0.. {
        let batch = &mut batches[at % 2];
        batch.advance(sink);
        let entered;
        (cells, entered) = batch.enter(cells, &mut others);
        report.lookups += batch.codes.len as u64;
        let prefetched = batch.prefetch();
        report.suspensions += prefetched as u64;
        if others.len() >= MAX_WAITING {
            report += in_group::<M, T>(size, others.drain(..), sink);
        }
        // Neither batch has a prefetch in flight.
        let was_idle = std::mem::replace(&mut is_idle, prefetched + entered == 0);
        if is_idle && was_idle {
            break;
        }
    }
    report += in_group::<M, T>(size, others.drain(..), sink);
    report
}

/// Cells that are under way together, by what they wait for.
struct CellBatch<'c, 'a, M: Mode, T> {
    codes: Level<M, &'a [u8], (T, CellAt<'c, 'a>)>,
    ordinals: Level<M, &'a u64, T>,
    views: Level<M, &'a [u8], (T, &'c Decoder<'a>)>,
    texts: Level<M, &'a [u8], T>,
}

impl<M: Mode, T: Copy> Default for CellBatch<'_, '_, M, T> {
    fn default() -> Self {
        CellBatch {
            codes: Level::default(),
            ordinals: Level::default(),
            views: Level::default(),
            texts: Level::default(),
        }
    }
}

// Each step is a function of its own: in one with all others its loop would have no registers left.
impl<'c, 'a: 'c, M: Mode, T: Copy> CellBatch<'c, 'a, M, T> {
    /// Takes every cell one level further. The last level goes first, so that each cell finds its next level
    /// empty.
    #[inline(always)]
    fn advance(&mut self, sink: &mut impl CellSink<'a, T>) {
        if self.texts.len + self.views.len > 0 {
            self.advance_texts(sink);
        }
        self.advance_ordinals(sink);
        self.advance_codes(sink);
    }

    #[inline(never)]
    fn advance_texts(&mut self, sink: &mut impl CellSink<'a, T>) {
        for (text, tag) in self.texts.arrived() {
            sink.take(tag, Cell::Bytes(text));
        }
        self.texts.len = 0;
        for (view, (tag, decoder)) in self.views.arrived() {
            match locate_string(view, decoder) {
                StringLocation::Inline(text) => sink.take(tag, Cell::Bytes(text)),
                StringLocation::InBuffer(text) => self.texts.push(text, tag),
                StringLocation::Outside => sink.fail(tag, Box::new(Decoder::no_text())),
            }
        }
        self.views.len = 0;
    }

    #[inline(never)]
    fn advance_ordinals(&mut self, sink: &mut impl CellSink<'a, T>) {
        for (ordinal, tag) in self.ordinals.arrived() {
            sink.take(tag, Cell::Ordinal(*ordinal));
        }
        self.ordinals.len = 0;
    }

    #[inline(never)]
    fn advance_codes(&mut self, sink: &mut impl CellSink<'a, T>) {
        for (words, (tag, cell)) in self.codes.arrived() {
            match (cell.decode(words), cell.decoder) {
                (Decoded::InDictionary(ValueRef::Ordinal(ordinal)), _) => {
                    self.ordinals.push(ordinal, tag)
                }
                (Decoded::InDictionary(ValueRef::View(view)), Some(it)) => {
                    self.views.push(view, (tag, it))
                }
                (decoded, _) => cell.finish(decoded, tag, sink),
            }
        }
        self.codes.len = 0;
    }

    /// Finds the codes of the next cells. Returns the remaining cells and how many were taken. Cells whose codes are
    /// not found by arithmetic go to `others`.
    #[inline(never)]
    fn enter<I: Iterator<Item = (T, CellAt<'c, 'a>)>>(
        &mut self,
        mut cells: I,
        others: &mut Vec<(T, CellAt<'c, 'a>)>,
    ) -> (I, usize) {
        let mut entered = 0;
        while entered < BATCH_CELLS {
            let Some((tag, cell)) = cells.next() else {
                break;
            };
            entered += 1;
            match cell.words() {
                Some(words) => self.codes.push(words, (tag, cell)),
                None => others.push((tag, cell)),
            }
        }
        (cells, entered)
    }

    /// Prefetches all locations found, and returns their number.
    #[inline(never)]
    fn prefetch(&mut self) -> usize {
        self.texts.prefetch()
            + self.views.prefetch()
            + self.ordinals.prefetch()
            + self.codes.prefetch()
    }
}

/// Reads cells as a group.
#[inline(never)]
fn in_group<'c, 'a: 'c, M: Mode, T: Copy>(
    size: GroupSize,
    cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    sink: &mut impl CellSink<'a, T>,
) -> GroupReport {
    for_each(
        size,
        cells,
        |cx: Cx<M>, (tag, cell)| {
            let value = cell.chunk.value(cx, cell.row, cell.decoder);
            value.map(move |value| (tag, value))
        },
        |_, (tag, value)| deliver(tag, value, sink),
    )
}

/// Reads cells one after the other.
fn sequentially<'c, 'a: 'c, M: Mode, T: Copy>(
    cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    sink: &mut impl CellSink<'a, T>,
) -> GroupReport {
    let mode = M::default();
    let wait = |location: &[u8]| mode.arrive(mode.issue(location.as_ptr(), location.len()));
    let mut report = GroupReport::default();
    for (tag, cell) in cells {
        report.lookups += 1;
        let Some(words) = cell.words() else {
            deliver(tag, cell.value::<M>(), sink);
            continue;
        };
        wait(words);
        match (cell.decode(words), cell.decoder) {
            (Decoded::InDictionary(ValueRef::Ordinal(ordinal)), _) => {
                wait(from_ref(ordinal).to_byte_slice());
                sink.take(tag, Cell::Ordinal(*ordinal));
            }
            (Decoded::InDictionary(ValueRef::View(view)), Some(decoder)) => {
                wait(view);
                match locate_string(view, decoder) {
                    StringLocation::Inline(text) => sink.take(tag, Cell::Bytes(text)),
                    StringLocation::InBuffer(text) => {
                        wait(text);
                        sink.take(tag, Cell::Bytes(text));
                    }
                    StringLocation::Outside => sink.fail(tag, Box::new(Decoder::no_text())),
                }
            }
            (decoded, _) => cell.finish(decoded, tag, sink),
        }
    }
    report
}

#[inline(always)]
fn deliver<'a, T>(
    tag: T,
    cell: Result<Cell<'a>, Box<FormatError>>,
    sink: &mut impl CellSink<'a, T>,
) {
    match cell {
        Ok(cell) => sink.take(tag, cell),
        Err(error) => sink.fail(tag, error),
    }
}

impl<'a> CellAt<'_, 'a> {
    /// The words of a code that is found by arithmetic alone.
    #[inline(always)]
    fn words(&self) -> Option<&'a [u8]> {
        self.chunk.flat.words(self.row)
    }

    #[inline(always)]
    fn decode(&self, words: &[u8]) -> Decoded<'a> {
        self.chunk.flat.decode(words, self.row, self.decoder)
    }

    /// Delivers a cell that needs no dictionary lookup.
    #[inline(always)]
    fn finish<T>(&self, decoded: Decoded<'a>, tag: T, sink: &mut impl CellSink<'a, T>) {
        match decoded {
            Decoded::Null => sink.take(tag, Cell::Null),
            Decoded::Ordinal(ordinal) => sink.take(tag, Cell::Ordinal(ordinal)),
            Decoded::InDictionary(_) => debug_assert!(false, "an entry is looked at first"),
            Decoded::Unknown(code) => {
                sink.fail(tag, Box::new(self.chunk.unknown(code, self.decoder)));
            }
        }
    }

    /// The value, by a lookup that runs alone.
    #[inline(never)]
    fn value<M: Mode>(&self) -> Result<Cell<'a>, Box<FormatError>> {
        let mut value = pin!(self.chunk.value(Cx::<M>::new(), self.row, self.decoder));
        let mut task = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = value.as_mut().poll(&mut task) {
                return value;
            }
        }
    }
}

/// Where a string is.
enum StringLocation<'a> {
    /// In its view.
    Inline(&'a [u8]),
    /// Elsewhere.
    InBuffer(&'a [u8]),
    /// Outside the dictionary.
    Outside,
}

#[inline(always)]
fn locate_string<'a>(view: &'a [u8], decoder: &Decoder<'a>) -> StringLocation<'a> {
    match Decoder::short_text(view) {
        Some(text) => StringLocation::Inline(text),
        None => decoder
            .long_text(view)
            .map_or(StringLocation::Outside, StringLocation::InBuffer),
    }
}

/// A location in memory that can be prefetched.
trait Prefetchable: Copy {
    fn issue<M: Mode>(self) -> M::Ticket;
}

impl Prefetchable for &[u8] {
    #[inline(always)]
    fn issue<M: Mode>(self) -> M::Ticket {
        M::default().issue(self.as_ptr(), self.len())
    }
}

impl Prefetchable for &u64 {
    #[inline(always)]
    fn issue<M: Mode>(self) -> M::Ticket {
        // It lies in one line, as its first byte does.
        M::default().issue(std::ptr::from_ref(self).cast(), 1)
    }
}

/// The locations of all cells on one level.
struct Level<M: Mode, P, T> {
    locations: [Option<(P, T)>; BATCH_CELLS],
    len: usize,
    /// Tickets of the locations prefetched. Of size zero in native modes.
    tickets: Vec<M::Ticket>,
}

impl<M: Mode, P: Copy, T: Copy> Default for Level<M, P, T> {
    fn default() -> Self {
        Level {
            locations: [None; BATCH_CELLS],
            len: 0,
            tickets: Vec::new(),
        }
    }
}

impl<M: Mode, P: Prefetchable, T: Copy> Level<M, P, T> {
    /// A level has room for every cell of a batch.
    #[inline(always)]
    fn push(&mut self, location: P, tag: T) {
        self.locations[self.len] = Some((location, tag));
        self.len += 1;
    }

    /// Prefetches all locations, and returns their number.
    #[inline(always)]
    fn prefetch(&mut self) -> usize {
        let locations = self.locations[..self.len].iter().flatten();
        self.tickets.clear();
        self.tickets
            .extend(locations.map(|(location, _)| location.issue::<M>()));
        self.len
    }

    /// The prefetched locations, each as soon as it has arrived. They stay until the level is emptied.
    #[inline(always)]
    fn arrived(&self) -> impl Iterator<Item = (P, T)> {
        let mode = M::default();
        let prefetched = self.locations[..self.len].iter().zip(&self.tickets);
        prefetched.filter_map(move |(location, ticket)| {
            mode.arrive(*ticket);
            *location
        })
    }
}
