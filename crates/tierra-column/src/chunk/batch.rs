//! Many cells, level by level.
//!
//! ```text
//! turn 0     read entries, find entries, find codes of its next cells | ask for all of these, in one go
//! turn 1     the same, while what turn 0 asked for is on its way      | ask
//! turn 0     ..
//! ```
//!
//! Cells that are found by arithmetic and a dictionary take the same few steps, so nothing has to be
//! kept for each of them but its place: a turn takes every cell of its own one level further, and then asks
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

/// Cells that enter in a turn; there are two turns. Rows of 1,000 columns took 0.92 to 0.99 of what their replay and
/// their computing take one after the other, and 1.03 to 1.05 with 16 or 64 (near memory, Zen 5).
const TURN: usize = 32;

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
    // While what one turn asked for is on its way, the other one goes on.
    let mut turns = [Turn::<M, T>::default(), Turn::default()];
    let mut others = Vec::new();
    let mut report = GroupReport::default();
    let mut is_idle = false;
    for at in 0.. {
        let turn = &mut turns[at % 2];
        turn.advance(sink);
        let entered;
        (cells, entered) = turn.enter(cells, &mut others);
        report.lookups += turn.codes.len as u64;
        let asked = turn.ask();
        report.suspensions += asked as u64;
        if others.len() >= OTHERS_TOGETHER {
            report += in_turns::<M, T>(size, others.drain(..), sink);
        }
        // Neither has anything on its way.
        let was_idle = std::mem::replace(&mut is_idle, asked + entered == 0);
        if is_idle && was_idle {
            break;
        }
    }
    report += in_turns::<M, T>(size, others.drain(..), sink);
    report
}

/// Cells that are under way together, by what they wait for.
struct Turn<'c, 'a, M: Mode, T> {
    codes: Level<M, &'a [u8], (T, CellAt<'c, 'a>)>,
    ordinals: Level<M, &'a u64, T>,
    views: Level<M, &'a [u8], (T, &'c Decoder<'a>)>,
    texts: Level<M, &'a [u8], T>,
}

impl<M: Mode, T: Copy> Default for Turn<'_, '_, M, T> {
    fn default() -> Self {
        Turn {
            codes: Level::default(),
            ordinals: Level::default(),
            views: Level::default(),
            texts: Level::default(),
        }
    }
}

// Each step is a function of its own: in one with all others its loop would have no registers left.
impl<'c, 'a: 'c, M: Mode, T: Copy> Turn<'c, 'a, M, T> {
    /// Takes every cell as far as what has arrived takes it. The last level first: what moves on finds its
    /// level empty.
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
            match at_view(view, decoder) {
                OfView::Short(text) => sink.take(tag, Cell::Bytes(text)),
                OfView::Long(text) => self.texts.push(text, tag),
                OfView::Neither => sink.fail(tag, Box::new(Decoder::no_text())),
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
            match (cell.at_code(words), cell.decoder) {
                (Decoded::Entry(Entry::Ordinal(ordinal)), _) => self.ordinals.push(ordinal, tag),
                (Decoded::Entry(Entry::View(view)), Some(it)) => self.views.push(view, (tag, it)),
                (decoded, _) => cell.finish(decoded, tag, sink),
            }
        }
        self.codes.len = 0;
    }

    /// Finds the codes of the next cells, returns those behind them, and says how many came in. `others` are
    /// those whose codes are not found by arithmetic.
    #[inline(never)]
    fn enter<I: Iterator<Item = (T, CellAt<'c, 'a>)>>(
        &mut self,
        mut cells: I,
        others: &mut Vec<(T, CellAt<'c, 'a>)>,
    ) -> (I, usize) {
        let mut entered = 0;
        while entered < TURN {
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

    /// Asks for all that was found, and says how many places that is.
    #[inline(never)]
    fn ask(&mut self) -> usize {
        self.texts.ask() + self.views.ask() + self.ordinals.ask() + self.codes.ask()
    }
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

    /// The value, by a lookup with nobody to take turns with.
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
    places: [Option<(P, T)>; TURN],
    len: usize,
    /// Of those that were asked for. Natively there is nothing in them.
    tickets: Vec<M::Ticket>,
}

impl<M: Mode, P: Copy, T: Copy> Default for Level<M, P, T> {
    fn default() -> Self {
        Level {
            places: [None; TURN],
            len: 0,
            tickets: Vec::new(),
        }
    }
}

impl<M: Mode, P: Place, T: Copy> Level<M, P, T> {
    /// There is a level's room for every cell of a turn.
    #[inline(always)]
    fn push(&mut self, place: P, tag: T) {
        self.places[self.len] = Some((place, tag));
        self.len += 1;
    }

    /// Asks for all places, and says how many there are.
    #[inline(always)]
    fn ask(&mut self) -> usize {
        let places = self.places[..self.len].iter().flatten();
        self.tickets.clear();
        self.tickets
            .extend(places.map(|(place, _)| place.issue::<M>()));
        self.len
    }

    /// The places that were asked for, each as soon as it has arrived. They stay until the level is emptied.
    #[inline(always)]
    fn arrived(&self) -> impl Iterator<Item = (P, T)> {
        let mode = M::default();
        let asked = self.places[..self.len].iter().zip(&self.tickets);
        asked.filter_map(move |(place, ticket)| {
            mode.arrive(*ticket);
            *place
        })
    }
}
