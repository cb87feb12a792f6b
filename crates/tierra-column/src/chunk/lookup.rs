//! One cell of a chunk: what tuple reconstruction is made of.
//!
//! A cell is a chain of one to four places, each found in the one before:
//!
//! ```text
//! static, plain      [validity] > code
//! dictionary         code > ordinal                     code > view > text, if longer than 12 bytes
//! frame of reference entry > code
//! dynamic            entry > widths > code
//! delta              entry > the block up to the row
//! plain strings      entry > [validity] > ends > text
//! ```
//!
//! The chain is walked by hand instead of by an `async fn`: what lives from one place to the next is
//! half a line, and cells of all encodings share one group. The places before a code are found by
//! arithmetic from the descriptor alone, a code lies in one line, rarely two, and no line is
//! touched that was not asked for.

use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::Pin;
use std::slice::from_ref;
use std::task::{Context, Poll};

use arrow::datatypes::ToByteSlice;
use tierra_interleave::{Cx, Load, Mode};

use crate::bits::{BLOCK_LEN, Kernels, packed_bytes};
use crate::chunk::Chunk;
use crate::chunk::block_data::Payload;
use crate::chunk::flat::Decoded;
use crate::chunk::layout::Entry;
use crate::dictionary::{Decoder, Entry as DictionaryEntry};
use crate::encoding::delta::HEADER_BYTES;
use crate::encoding::format::Kind;
use crate::encoding::plain_wide::{self, WIDE_BYTES};
use crate::encoding::validity::BITMAP_BYTES;
use crate::error::FormatError;
use crate::value::Cell;

impl<'a> Chunk<'a> {
    /// The value in row `row`. `decoder` is that of the column's dictionary; only dictionary chunks
    /// look at it.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written, or the chunk's dictionary is
    /// missing or another generation.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub fn value<'c, M: Mode>(
        &'c self,
        cx: Cx<M>,
        row: usize,
        decoder: Option<&'c Decoder<'a>>,
    ) -> CellWalk<'c, 'a, M> {
        let width = self.descriptor.width;
        let (first, place) = match self.flat.words(row) {
            Some(words) => (words, Place::Code),
            None => self.first_place(row),
        };
        CellWalk {
            load: cx.load(first),
            cx,
            reading: Reading {
                chunk: self,
                decoder,
                base: self.descriptor.base,
                row: row as u32,
                width,
                place,
            },
        }
    }

    /// What a code of a block with this base stands for.
    #[inline(always)]
    fn decode(&self, code: u64, base: u64, decoder: Option<&Decoder<'a>>) -> Decoded<'a> {
        let descriptor = &self.descriptor;
        if code < descriptor.null_codes() {
            return Decoded::Null;
        }
        let ordinal = code.wrapping_add(base);
        if !descriptor.encoding.uses_dictionary() {
            return Decoded::Ordinal(ordinal);
        }
        Decoded::of_dictionary(ordinal, descriptor.generation, decoder)
    }

    /// Why a code has no entry.
    #[cold]
    #[inline(never)]
    pub(super) fn unknown(&self, code: u64, decoder: Option<&Decoder<'a>>) -> FormatError {
        let needed = self.descriptor.generation;
        match decoder {
            Some(decoder) if decoder.generation() == needed => decoder.beyond(code),
            decoder => FormatError::Generation {
                needed,
                given: decoder.map(Decoder::generation),
            },
        }
    }

    /// Where a cell begins whose code is not found by arithmetic alone.
    #[inline(never)]
    fn first_place(&self, row: usize) -> (&'a [u8], Place) {
        let (block, row) = (row / BLOCK_LEN, row % BLOCK_LEN);
        let descriptor = &self.descriptor;
        let Some(stride) = descriptor.stride_bytes() else {
            return (self.entry_bytes(block), Place::Entry);
        };
        let bytes = self.blocks_from(block * stride);
        match descriptor.bitmap_bytes() {
            0 => self.value_place(bytes, row),
            _ => (&bytes[row / 8..][..1], Place::Inner(Inner::ValueValidity)),
        }
    }

    /// Where the value of a block's row lies among its values, if these are all alike.
    fn value_place(&self, values: &'a [u8], row: usize) -> (&'a [u8], Place) {
        if self.descriptor.kind == Kind::Wide {
            let wide = &values[row * WIDE_BYTES..][..WIDE_BYTES];
            return (wide, Place::Inner(Inner::Wide));
        }
        let code = Kernels::words(values, self.descriptor.width, row);
        (code, Place::Code)
    }
}

/// The lookup of a cell. Made by [`Chunk::value`].
#[must_use = "a lookup does nothing unless it is awaited"]
pub struct CellWalk<'c, 'a, M: Mode> {
    load: Load<'a, [u8], M>,
    cx: Cx<M>,
    reading: Reading<'c, 'a>,
}

impl<'a, M: Mode> Future for CellWalk<'_, 'a, M> {
    type Output = Result<Cell<'a>, Box<FormatError>>;

    // [`Cx::walk`] in full: its steps are closures, which cannot insist on being inlined, and called
    // they would hand every cell over in memory.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let walk = &mut *self;
        loop {
            let Poll::Ready(place) = Pin::new(&mut walk.load).poll(task) else {
                return Poll::Pending;
            };
            match walk.reading.step(place) {
                Continue(next) => walk.load = walk.cx.load(next),
                Break(cell) => return Poll::Ready(cell),
            }
        }
    }
}

// Nothing in it refers to itself, whatever the mode holds.
impl<M: Mode> Unpin for CellWalk<'_, '_, M> {}

/// What lives from one place to the next.
struct Reading<'c, 'a> {
    chunk: &'c Chunk<'a>,
    decoder: Option<&'c Decoder<'a>>,
    /// Of the codes in the row's block.
    base: u64,
    /// Of the chunk; where the codes do not start with the block, of those that hold it.
    row: u32,
    width: u8,
    /// What is being waited for.
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    /// The words that hold the code.
    Code,
    /// An ordinal of the dictionary.
    Ordinal,
    /// A string's view in the dictionary.
    View,
    /// The string itself.
    Text,
    /// The block's entry in the directory.
    Entry,
    /// Anything that is not on the way of most cells.
    Inner(Inner),
}

#[derive(Clone, Copy)]
enum Inner {
    /// The validity bit before a value at a known place.
    ValueValidity,
    /// Sixteen bytes of a wide DECIMAL.
    Wide,
    /// Widths of mini-blocks.
    Widths,
    /// Header and codes up to the row.
    Differences,
    /// The validity bit before strings.
    StringValidity,
    /// Where a string ends, and the one before it.
    Ends,
}

/// The next place, or the cell.
type Next<'a> = ControlFlow<Result<Cell<'a>, Box<FormatError>>, &'a [u8]>;

fn failed<'a>(error: FormatError) -> Next<'a> {
    Break(Err(Box::new(error)))
}

/// What most cells go through: small, so that it becomes part of the loop around it.
impl<'a> Reading<'_, 'a> {
    #[inline(always)]
    fn row_in_block(&self) -> usize {
        self.row as usize % BLOCK_LEN
    }

    #[inline(always)]
    fn step(&mut self, place: &'a [u8]) -> Next<'a> {
        match self.place {
            Place::Code => self.code(place),
            Place::Ordinal => self.ordinal(place),
            Place::View => self.view(place),
            Place::Text => Break(Ok(Cell::Bytes(place))),
            Place::Entry => self.entry(place),
            Place::Inner(inner) => self.inner(inner, place),
        }
    }

    #[inline(always)]
    fn code(&mut self, words: &'a [u8]) -> Next<'a> {
        let code = Kernels::code_in(words, self.width, self.row_in_block());
        match self.chunk.decode(code, self.base, self.decoder) {
            Decoded::Null => Break(Ok(Cell::Null)),
            Decoded::Ordinal(ordinal) => Break(Ok(Cell::Ordinal(ordinal))),
            Decoded::Entry(entry) => {
                let (place, next) = match entry {
                    DictionaryEntry::Ordinal(ordinal) => {
                        (from_ref(ordinal).to_byte_slice(), Place::Ordinal)
                    }
                    DictionaryEntry::View(view) => (view, Place::View),
                };
                self.place = next;
                Continue(place)
            }
            Decoded::Unknown(code) => failed(self.chunk.unknown(code, self.decoder)),
        }
    }

    #[inline(always)]
    fn ordinal(&self, place: &[u8]) -> Next<'a> {
        let bytes = place.first_chunk();
        Break(Ok(Cell::Ordinal(
            bytes.map_or(0, |it| u64::from_ne_bytes(*it)),
        )))
    }

    /// A short string lies in its view.
    #[inline(always)]
    fn view(&mut self, view: &'a [u8]) -> Next<'a> {
        self.place = Place::Text;
        match Decoder::short_text(view) {
            Some(text) => Break(Ok(Cell::Bytes(text))),
            None => match self.decoder.and_then(|decoder| decoder.long_text(view)) {
                Some(text) => Continue(text),
                None => failed(Decoder::no_text()),
            },
        }
    }

    /// Of every encoding whose blocks are not all alike.
    #[inline(always)]
    fn entry(&mut self, bytes: &'a [u8]) -> Next<'a> {
        if self.chunk.descriptor.kind != Kind::Packed {
            return self.irregular(bytes);
        }
        let entry = Entry::read(bytes);
        (self.base, self.width) = (self.chunk.descriptor.block_base(&entry), entry.width);
        self.place = Place::Code;
        let block = self.chunk.block_and_beyond(&entry);
        Continue(Kernels::words(block, self.width, self.row_in_block()))
    }
}

/// The rest.
impl<'a> Reading<'_, 'a> {
    /// What to wait for behind the entry of a block that has to be taken apart.
    #[inline(never)]
    fn irregular(&mut self, entry: &'a [u8]) -> Next<'a> {
        let entry = Entry::read(entry);
        let (block, row) = (self.chunk.block_and_beyond(&entry), self.row_in_block());
        let (inner, place) = match self.chunk.descriptor.kind {
            Kind::MiniBlocks => (Inner::Widths, &block[..1]),
            Kind::Differences => {
                let codes = packed_bytes(row + 1, entry.width);
                (Inner::Differences, &block[..HEADER_BYTES + codes])
            }
            Kind::Strings if self.chunk.descriptor.bitmap_bytes() > 0 => {
                (Inner::StringValidity, &block[row / 8..][..1])
            }
            Kind::Strings => return self.ends(),
            Kind::Packed | Kind::Wide => return self.mistaken(),
        };
        self.place = Place::Inner(inner);
        Continue(place)
    }

    #[inline(never)]
    fn inner(&mut self, inner: Inner, place: &'a [u8]) -> Next<'a> {
        let (block, row) = (self.row as usize / BLOCK_LEN, self.row_in_block());
        let is_valid = || place[0] >> (row % 8) & 1 == 1;
        match inner {
            Inner::ValueValidity if is_valid() => {
                let stride = self.chunk.descriptor.stride_bytes().unwrap_or(0);
                let values = &self.chunk.blocks_from(block * stride)[BITMAP_BYTES..];
                let (value, place) = self.chunk.value_place(values, row);
                self.place = place;
                return Continue(value);
            }
            Inner::StringValidity if is_valid() => return self.ends(),
            Inner::ValueValidity | Inner::StringValidity => return Break(Ok(Cell::Null)),
            Inner::Wide => return Break(Ok(Cell::Wide(plain_wide::read_wide(place, 0)))),
            Inner::Widths | Inner::Differences | Inner::Ends => {}
        }
        let data = match self.chunk.block(block) {
            Ok(data) => data,
            Err(error) => return failed(error),
        };
        match data.payload {
            Payload::MiniBlocks(minis) => {
                let run = minis.place(row);
                (self.base, self.width) = (data.base, run.width);
                (self.row, self.place) = ((row - run.first_row) as u32, Place::Code);
                Continue(Kernels::words(run.packed, run.width, row - run.first_row))
            }
            Payload::Differences(frame, run) => {
                let kernels = Kernels::best();
                let value = frame.value(kernels, run.packed, run.width, row, data.null_codes);
                Break(Ok(value.map_or(Cell::Null, Cell::Ordinal)))
            }
            Payload::Strings(strings) => match strings.get(row) {
                Ok(text) => {
                    self.place = Place::Text;
                    Continue(text)
                }
                Err(error) => failed(error),
            },
            Payload::Packed(_) | Payload::Wide(_) => self.mistaken(),
        }
    }

    /// The end of a plain string.
    fn ends(&mut self) -> Next<'a> {
        let row = self.row_in_block();
        match self.chunk.block(self.row as usize / BLOCK_LEN) {
            Ok(data) => match data.payload {
                Payload::Strings(strings) => {
                    self.place = Place::Inner(Inner::Ends);
                    Continue(Kernels::words(strings.ends, strings.width, row))
                }
                Payload::Packed(_)
                | Payload::MiniBlocks(_)
                | Payload::Differences(..)
                | Payload::Wide(_) => self.mistaken(),
            },
            Err(error) => failed(error),
        }
    }

    #[cold]
    fn mistaken(&self) -> Next<'a> {
        debug_assert!(false, "what is awaited follows from the encoding");
        failed(FormatError::corrupt(
            "a block",
            "it is not what its chunk's encoding says",
        ))
    }
}
