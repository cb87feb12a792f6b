//! Many cells, level by level.
//!
//! ```text
//! turn n      read entries of n-2, find entries of n-1, find codes of n | ask for all of them, in one go
//! turn n+1    read entries of n-1, find entries of n, find codes of n+1 | ..
//! ```
//!
//! Cells that are found by arithmetic and a dictionary take the same few steps, so nothing has to be
//! kept for each of them but its place: a turn takes every cell under way one level further, and then asks
//! for all the places it found. All other cells take turns in a group ([`Chunk::value`]). In a plain mode
//! cells are read one after the other.
//!
//! Places are asked for in one go, with nothing in between, because a prefetch leaves the processor's
//! reorder buffer only when its address is translated: whatever is computed between two of them keeps the
//! second from being seen. On Zen 5, with the next prefetch 64 instructions away a random line of 4 GiB on large
//! pages took 9 ns, 256 away 70 ns, and 4 ns when it followed at once.
//!
//! Invariant: every cell is answered once, by the same rules as [`Chunk::value`].

use std::pin::pin;
use std::slice::from_ref;
use std::task::{Context, Poll, Waker};

use arrow::datatypes::ToByteSlice;
use tierra_interleave::{Chain, Cx, GroupReport, GroupSize, Mode, for_each};

use crate::chunk::Chunk;
use crate::chunk::flat::Decoded;
use crate::dictionary::{Decoder, Entry};
use crate::error::FormatError;
use crate::value::Cell;

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

/// Cells that enter in a turn. Rows of 1,000 columns took the same with 64 to 256, and 15 % longer with 16 (near
/// memory, Zen 5).
const TURN: usize = 64;

/// Fewer cells than this take turns in a group, which needs no preparation: rows of 10 columns took 0.8 of the
/// time that levels took, rows of 30 columns as long either way.
const FEW: usize = 32;

/// Cells that wait for a group to be made of them: enough to hide the group's end, few enough to stay
/// cached.
const OTHERS_TOGETHER: usize = 1024;

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
        return one_by_one::<M, T>(cells, sink);
    }
    if cells.size_hint().0 < FEW {
        return in_turns::<M, T>(size, cells, sink);
    }
    let mut codes = Level::<M, &[u8], (T, CellAt<'c, 'a>)>::default();
    let mut ordinals = Level::<M, &u64, T>::default();
    let mut views = Level::<M, &[u8], (T, &Decoder<'a>)>::default();
    let mut texts = Level::<M, &[u8], T>::default();
    let mut others = Vec::new();
    let mut report = GroupReport::default();
    loop {
        // The last level first: what moves on finds its level empty.
        for (text, tag) in texts.arrived() {
            sink.take(tag, Cell::Bytes(text));
        }
        for (view, (tag, decoder)) in views.arrived() {
            match at_view(view, decoder) {
                OfView::Short(text) => sink.take(tag, Cell::Bytes(text)),
                OfView::Long(text) => texts.places.push((text, tag)),
                OfView::Neither => sink.fail(tag, Box::new(Decoder::no_text())),
            }
        }
        for (ordinal, tag) in ordinals.arrived() {
            sink.take(tag, Cell::Ordinal(*ordinal));
        }
        for (words, (tag, cell)) in codes.arrived() {
            match (cell.at_code(words), cell.decoder) {
                (Decoded::Entry(Entry::Ordinal(ordinal)), _) => {
                    ordinals.places.push((ordinal, tag))
                }
                (Decoded::Entry(Entry::View(view)), Some(it)) => {
                    views.places.push((view, (tag, it)))
                }
                (decoded, _) => cell.finish(decoded, tag, sink),
            }
        }
        let mut entered = 0;
        for (tag, cell) in cells.by_ref().take(TURN) {
            entered += 1;
            match cell.words() {
                Some(words) => codes.places.push((words, (tag, cell))),
                None => others.push((tag, cell)),
            }
        }
        report.lookups += codes.places.len() as u64;
        let asked = [texts.ask(), views.ask(), ordinals.ask(), codes.ask()];
        report.suspensions += asked.iter().sum::<usize>() as u64;
        if others.len() >= OTHERS_TOGETHER {
            report += in_turns::<M, T>(size, others.drain(..), sink);
        }
        if asked == [0; 4] && entered == 0 {
            break;
        }
    }
    report += in_turns::<M, T>(size, others.drain(..), sink);
    report
}

/// Reads cells as a group.
#[inline(never)]
fn in_turns<'c, 'a: 'c, M: Mode, T: Copy>(
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
        |_, (tag, value)| give(tag, value, sink),
    )
}

/// Reads cells one after the other.
fn one_by_one<'c, 'a: 'c, M: Mode, T: Copy>(
    cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    sink: &mut impl CellSink<'a, T>,
) -> GroupReport {
    let mode = M::default();
    let wait = |place: &[u8]| mode.arrive(mode.issue(place.as_ptr(), place.len()));
    let mut report = GroupReport::default();
    for (tag, cell) in cells {
        report.lookups += 1;
        let Some(words) = cell.words() else {
            give(tag, cell.alone::<M>(), sink);
            continue;
        };
        wait(words);
        match (cell.at_code(words), cell.decoder) {
            (Decoded::Entry(Entry::Ordinal(ordinal)), _) => {
                wait(from_ref(ordinal).to_byte_slice());
                sink.take(tag, Cell::Ordinal(*ordinal));
            }
            (Decoded::Entry(Entry::View(view)), Some(decoder)) => {
                wait(view);
                match at_view(view, decoder) {
                    OfView::Short(text) => sink.take(tag, Cell::Bytes(text)),
                    OfView::Long(text) => {
                        wait(text);
                        sink.take(tag, Cell::Bytes(text));
                    }
                    OfView::Neither => sink.fail(tag, Box::new(Decoder::no_text())),
                }
            }
            (decoded, _) => cell.finish(decoded, tag, sink),
        }
    }
    report
}

#[inline(always)]
fn give<'a, T>(tag: T, cell: Result<Cell<'a>, Box<FormatError>>, sink: &mut impl CellSink<'a, T>) {
    match cell {
        Ok(cell) => sink.take(tag, cell),
        Err(error) => sink.fail(tag, error),
    }
}

impl<'a> CellAt<'_, 'a> {
    /// The place of a code that is found by arithmetic alone.
    #[inline(always)]
    fn words(&self) -> Option<&'a [u8]> {
        self.chunk.flat.words(self.row)
    }

    #[inline(always)]
    fn at_code(&self, words: &[u8]) -> Decoded<'a> {
        self.chunk.flat.decode(words, self.row, self.decoder)
    }

    /// Hands over what needs no look into a dictionary.
    #[inline(always)]
    fn finish<T>(&self, decoded: Decoded<'a>, tag: T, sink: &mut impl CellSink<'a, T>) {
        match decoded {
            Decoded::Null => sink.take(tag, Cell::Null),
            Decoded::Ordinal(ordinal) => sink.take(tag, Cell::Ordinal(ordinal)),
            Decoded::Entry(_) => debug_assert!(false, "an entry is looked at first"),
            Decoded::Unknown(code) => {
                sink.fail(tag, Box::new(self.chunk.unknown(code, self.decoder)));
            }
        }
    }

    /// The value, by a look-up with nobody to take turns with.
    #[inline(never)]
    fn alone<M: Mode>(&self) -> Result<Cell<'a>, Box<FormatError>> {
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
enum OfView<'a> {
    /// In its view.
    Short(&'a [u8]),
    /// Elsewhere.
    Long(&'a [u8]),
    /// Outside the dictionary.
    Neither,
}

#[inline(always)]
fn at_view<'a>(view: &'a [u8], decoder: &Decoder<'a>) -> OfView<'a> {
    match Decoder::short_text(view) {
        Some(text) => OfView::Short(text),
        None => decoder
            .long_text(view)
            .map_or(OfView::Neither, OfView::Long),
    }
}

/// A place in memory that can be asked for.
trait Place: Copy {
    fn issue<M: Mode>(self) -> M::Ticket;
}

impl Place for &[u8] {
    #[inline(always)]
    fn issue<M: Mode>(self) -> M::Ticket {
        M::default().issue(self.as_ptr(), self.len())
    }
}

impl Place for &u64 {
    #[inline(always)]
    fn issue<M: Mode>(self) -> M::Ticket {
        // It lies in one line, as its first byte does.
        M::default().issue(std::ptr::from_ref(self).cast(), 1)
    }
}

/// Places on one level of all cells that are there.
struct Level<M: Mode, P, T> {
    places: Vec<(P, T)>,
    /// Of those that were asked for. Natively there is nothing in them.
    tickets: Vec<M::Ticket>,
}

impl<M: Mode, P, T> Default for Level<M, P, T> {
    fn default() -> Self {
        Level {
            places: Vec::new(),
            tickets: Vec::new(),
        }
    }
}

impl<M: Mode, P: Place, T> Level<M, P, T> {
    /// Asks for all places, and says how many there are.
    #[inline(always)]
    fn ask(&mut self) -> usize {
        let tickets = self.places.iter().map(|(place, _)| place.issue::<M>());
        self.tickets.extend(tickets);
        self.places.len()
    }

    /// The places that were asked for, each as soon as it has arrived.
    #[inline(always)]
    fn arrived(&mut self) -> impl Iterator<Item = (P, T)> {
        let mode = M::default();
        let asked = self.places.drain(..).zip(self.tickets.drain(..));
        asked.map(move |(place, ticket)| {
            mode.arrive(ticket);
            place
        })
    }
}
