//! Many cells, level by level.
//!
//! ```text
//! codes of batch 1     ask   look
//! entries of batch 1          ask     look        look: what is it, or where in the dictionary,
//! texts of batch 1                     ask  look        or where is the text? ask for that
//! codes of batch 2              ask      look
//! entries of batch 2                      ask ..
//! ```
//!
//! Cells that are found by arithmetic and a dictionary take the same few steps, so nothing has to be
//! kept for each of them but its place: a level is a loop of its own, shorter than the turn of a
//! group, and while one batch is looked at the next is on its way. All other cells, and a few cells of
//! any kind, take turns in a group ([`Chunk::value`]). In a plain mode cells are read one after the other.
//!
//! Invariant: every cell is answered once, by the same rules as [`Chunk::value`].

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tierra_interleave::{Chain, Cx, GroupReport, GroupSize, Mode, for_each};

use crate::bits::{BLOCK_LEN, Kernels};
use crate::chunk::Chunk;
use crate::chunk::lookup::Decoded;
use crate::dictionary::Decoder;
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

/// Cells of a level. Two batches are under way at a time, so that all their lines lie in the nearest
/// cache.
const TOGETHER: usize = 64;

/// Cells that wait for a group to be made of them: enough to hide the group's end, few enough to stay
/// cached.
const OTHERS_TOGETHER: usize = 1024;

/// Reads cells and calls `done` with each one's tag and value, in no particular order. `size` is the
/// group size of those that need a group.
///
/// The value is an error where a block cannot be what was written, or the chunk's dictionary is
/// missing or another generation.
///
/// # Panics
/// If a chunk has no such row.
pub fn read_cells<'c, 'a: 'c, M: Mode, T: Copy>(
    size: GroupSize,
    mut cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    mut done: impl FnMut(T, Result<Cell<'a>, Box<FormatError>>),
) -> GroupReport {
    if !M::INTERLEAVED {
        return one_by_one::<M, T>(cells, done);
    }
    if cells.size_hint().0 < TOGETHER {
        // Levels of few cells would end before they hide anything.
        return in_turns::<M, T>(size, cells, &mut done);
    }
    let (mut codes, mut entries, mut texts) = (
        Asked::<M, _>::new(),
        Asked::<M, _>::new(),
        Asked::<M, _>::new(),
    );
    let mut others = Vec::new();
    let mut report = GroupReport::default();
    loop {
        codes.look(
            |words, (tag, cell): (T, CellAt<'c, 'a>)| match cell.at_code(words) {
                OfCode::Value(value) => done(tag, value),
                OfCode::Entry(entry, strings) => entries.ask(entry, (tag, strings)),
            },
        );
        texts.look(|text, tag| done(tag, Ok(Cell::Bytes(text))));
        if others.len() >= OTHERS_TOGETHER {
            report += in_turns::<M, T>(size, others.drain(..), &mut done);
        }
        while codes.len() < TOGETHER {
            let Some((tag, cell)) = cells.next() else {
                break;
            };
            match cell.words() {
                Some(words) => codes.ask(words, (tag, cell)),
                None => others.push((tag, cell)),
            }
            if others.len() >= OTHERS_TOGETHER {
                break;
            }
        }
        report.lookups += codes.len() as u64;
        report.suspensions += (codes.len() + entries.len()) as u64;
        entries.look(|entry, (tag, strings)| match at_entry(entry, strings) {
            OfEntry::Value(value) => done(tag, value),
            OfEntry::Text(text) => texts.ask(text, tag),
        });
        report.suspensions += texts.len() as u64;
        if codes.is_empty() && texts.is_empty() && others.len() < OTHERS_TOGETHER {
            break;
        }
    }
    report += in_turns::<M, T>(size, others.drain(..), &mut done);
    report
}

/// Reads cells as a group.
fn in_turns<'c, 'a: 'c, M: Mode, T: Copy>(
    size: GroupSize,
    cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    mut done: impl FnMut(T, Result<Cell<'a>, Box<FormatError>>),
) -> GroupReport {
    for_each(
        size,
        cells,
        |cx: Cx<M>, (tag, cell)| {
            let value = cell.chunk.value(cx, cell.row, cell.decoder);
            value.map(move |value| (tag, value))
        },
        |_, (tag, value)| done(tag, value),
    )
}

/// Reads cells one after the other.
fn one_by_one<'c, 'a: 'c, M: Mode, T>(
    cells: impl Iterator<Item = (T, CellAt<'c, 'a>)>,
    mut done: impl FnMut(T, Result<Cell<'a>, Box<FormatError>>),
) -> GroupReport {
    let mode = M::default();
    let wait = |place: &[u8]| mode.arrive(mode.issue(place.as_ptr(), place.len()));
    let mut report = GroupReport::default();
    for (tag, cell) in cells {
        report.lookups += 1;
        let Some(words) = cell.words() else {
            done(tag, cell.alone::<M>());
            continue;
        };
        wait(words);
        match cell.at_code(words) {
            OfCode::Value(value) => done(tag, value),
            OfCode::Entry(entry, strings) => {
                wait(entry);
                match at_entry(entry, strings) {
                    OfEntry::Value(value) => done(tag, value),
                    OfEntry::Text(text) => {
                        wait(text);
                        done(tag, Ok(Cell::Bytes(text)));
                    }
                }
            }
        }
    }
    report
}

/// What a code says: the value, or where in the dictionary it is.
enum OfCode<'c, 'a> {
    Value(Result<Cell<'a>, Box<FormatError>>),
    Entry(&'a [u8], Strings<'c, 'a>),
}

/// What an entry of a dictionary says: the value, or where its text is.
enum OfEntry<'a> {
    Value(Result<Cell<'a>, Box<FormatError>>),
    Text(&'a [u8]),
}

/// The decoder of a dictionary of strings; `None` of one of ordinals.
type Strings<'c, 'a> = Option<&'c Decoder<'a>>;

impl<'c, 'a> CellAt<'c, 'a> {
    /// The place of a code that is found by arithmetic alone.
    #[inline(always)]
    fn words(&self) -> Option<&'a [u8]> {
        let (row, rows) = (self.row, self.chunk.rows());
        assert!(row < rows, "row {row} of a chunk of {rows}");
        self.chunk.code_words(row)
    }

    #[inline(always)]
    fn at_code(&self, words: &[u8]) -> OfCode<'c, 'a> {
        let CellAt {
            chunk,
            decoder,
            row,
        } = *self;
        let code = Kernels::code_in(words, chunk.descriptor.width, row % BLOCK_LEN);
        OfCode::Value(match chunk.decode(code, chunk.descriptor.base, decoder) {
            Decoded::Null => Ok(Cell::Null),
            Decoded::Ordinal(ordinal) => Ok(Cell::Ordinal(ordinal)),
            Decoded::Entry { entry, is_string } => {
                return OfCode::Entry(entry, decoder.filter(|_| is_string));
            }
            Decoded::Unknown(code) => Err(Box::new(chunk.unknown(code, decoder))),
        })
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

#[inline(always)]
fn at_entry<'a>(entry: &'a [u8], strings: Strings<'_, 'a>) -> OfEntry<'a> {
    OfEntry::Value(match strings {
        None => Ok(Cell::Ordinal(Decoder::ordinal(entry))),
        Some(decoder) => match (Decoder::short_text(entry), decoder.long_text(entry)) {
            (Some(text), _) => Ok(Cell::Bytes(text)),
            (None, Some(text)) => return OfEntry::Text(text),
            (None, None) => Err(Box::new(Decoder::no_text())),
        },
    })
}

/// Places that were asked for and not looked at yet.
struct Asked<'a, M: Mode, T> {
    places: Vec<(&'a [u8], M::Ticket, T)>,
    mode: M,
}

impl<'a, M: Mode, T> Asked<'a, M, T> {
    fn new() -> Self {
        Asked {
            places: Vec::with_capacity(TOGETHER),
            mode: M::default(),
        }
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Asks for a place, which is not empty.
    #[inline(always)]
    fn ask(&mut self, place: &'a [u8], tag: T) {
        let ticket = self.mode.issue(place.as_ptr(), place.len());
        self.places.push((place, ticket, tag));
    }

    /// Looks at all places, in the order in which they were asked for.
    #[inline(always)]
    fn look(&mut self, mut look: impl FnMut(&'a [u8], T)) {
        for (place, ticket, tag) in self.places.drain(..) {
            self.mode.arrive(ticket);
            look(place, tag);
        }
    }
}
