//! Many cells, level by level.
//!
//! ```text
//! ask for codes > 120 wait > look at the oldest, ask for their entries > 120 wait > look at the oldest ..
//! ```
//!
//! Cells that are found by arithmetic and a dictionary take the same few steps, so nothing has to be
//! kept for each of them but its place: at each level cells wait in a queue, and a few at a time move on
//! to the next. All other cells, and a few cells of any kind, take turns in a group ([`Chunk::value`]).
//! In a plain mode cells are read one after the other.
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

/// Cells that wait at a level. Random lines came faster on Zen 5 when they were asked for 80 ahead than 48, and within
/// large pages faster still up to 160; those of two levels wait here, and all of them lie in the nearest cache. A
/// choice: not swept on cells.
const WAITING: usize = 120;

/// Cells that move on at a time: few, so that asking and computing take turns. A choice, not swept.
const STEP: usize = 8;

/// Fewer cells than this take turns in a group, which needs no preparation.
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
    let mut codes = Asked::<M, &[u8], (T, CellAt<'c, 'a>)>::new();
    let mut ordinals = Asked::<M, &u64, T>::new();
    let mut views = Asked::<M, &[u8], (T, &Decoder<'a>)>::new();
    let mut texts = Asked::<M, &[u8], T>::new();
    let mut others = Vec::new();
    let mut report = GroupReport::default();
    let mut waiting = WAITING;
    loop {
        // The last level first: what moves on finds room.
        for _ in waiting..texts.waiting() {
            let Some((text, tag)) = texts.next() else {
                break;
            };
            sink.take(tag, Cell::Bytes(text));
        }
        for _ in waiting..views.waiting() {
            let Some((view, (tag, decoder))) = views.next() else {
                break;
            };
            match at_view(view, decoder) {
                OfView::Short(text) => sink.take(tag, Cell::Bytes(text)),
                OfView::Long(text) => texts.ask(text, tag),
                OfView::Neither => sink.fail(tag, Box::new(Decoder::no_text())),
            }
        }
        for _ in waiting..ordinals.waiting() {
            let Some((ordinal, tag)) = ordinals.next() else {
                break;
            };
            sink.take(tag, Cell::Ordinal(*ordinal));
        }
        for _ in waiting..codes.waiting() {
            let Some((words, (tag, cell))) = codes.next() else {
                break;
            };
            match (cell.at_code(words), cell.decoder) {
                (Decoded::Entry(Entry::Ordinal(ordinal)), _) => ordinals.ask(ordinal, tag),
                (Decoded::Entry(Entry::View(view)), Some(it)) => views.ask(view, (tag, it)),
                (decoded, _) => cell.finish(decoded, tag, sink),
            }
        }
        if others.len() >= OTHERS_TOGETHER {
            report += in_turns::<M, T>(size, others.drain(..), sink);
        }
        if waiting == 0 {
            if ordinals.waiting() + views.waiting() + texts.waiting() == 0 {
                break;
            }
            continue;
        }
        for _ in 0..STEP {
            let Some((tag, cell)) = cells.next() else {
                // Nobody comes behind: everything moves on.
                waiting = 0;
                break;
            };
            match cell.words() {
                Some(words) => codes.ask(words, (tag, cell)),
                None => others.push((tag, cell)),
            }
        }
    }
    report.lookups += codes.asked as u64;
    let suspensions = codes.asked + ordinals.asked + views.asked + texts.asked;
    report.suspensions += suspensions as u64;
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

/// Places that were asked for and not looked at yet, first in, first out.
struct Asked<M: Mode, P, T> {
    /// A ring.
    places: [Option<(P, M::Ticket, T)>; RING],
    /// How many were asked for, and looked at.
    asked: usize,
    seen: usize,
}

/// As many as ever wait.
const RING: usize = WAITING + STEP;

impl<M: Mode, P: Place, T: Copy> Asked<M, P, T> {
    fn new() -> Self {
        Asked {
            places: [None; RING],
            asked: 0,
            seen: 0,
        }
    }

    #[inline(always)]
    fn waiting(&self) -> usize {
        self.asked - self.seen
    }

    /// Asks for a place, which is not empty.
    #[inline(always)]
    fn ask(&mut self, place: P, tag: T) {
        debug_assert!(self.waiting() < RING, "a level is full");
        self.places[self.asked % RING] = Some((place, place.issue::<M>(), tag));
        self.asked += 1;
    }

    /// The place that was asked for first, when it has arrived.
    #[inline(always)]
    fn next(&mut self) -> Option<(P, T)> {
        let (place, ticket, tag) = self.places[self.seen % RING]?;
        self.seen += 1;
        M::default().arrive(ticket);
        Some((place, tag))
    }
}
