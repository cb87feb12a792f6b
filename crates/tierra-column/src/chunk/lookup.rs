//! One cell of a chunk: what tuple reconstruction is made of.
//!
//! A cell is a chain of one to four loads, each found by the one before:
//!
//! ```text
//! static, plain      [validity] > code
//! dictionary         code > ordinal                     code > view > text, if longer than 12 bytes
//! frame of reference entry > code
//! dynamic            entry > widths > code
//! delta              entry > the block up to the row
//! fastpfor, rle      entry > the block
//! lz4, snappy        entry > the block
//! plain strings      entry > [validity] > ends > text
//! front              entry > [validity] > ends > coded bytes of the row's group
//! fsst, prefix       entry > [validity] > ends > coded bytes > symbols, prefixes
//! ```
//!
//! The chain is a hand-written state machine instead of an `async fn`: its state between two loads is
//! half a line, and cells of all encodings share one group. The loads before a code are found by
//! arithmetic from the descriptor alone, a code lies in one line, rarely two, and no line is
//! touched that was not prefetched.

use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::Pin;
use std::slice::from_ref;
use std::task::{Context, Poll};

use arrow::datatypes::ToByteSlice;
use tierra_interleave::{Cx, Load, Mode};

use crate::bits::{BLOCK_LEN, Kernels, packed_bytes};
use crate::cell::Cell;
use crate::chunk::Chunk;
use crate::chunk::block_data::Payload;
use crate::chunk::flat::Decoded;
use crate::chunk::layout::BlockEntry;
use crate::dictionary::{Decoder, ValueRef};
use crate::encoding::coded_strings::CodedStrings;
use crate::encoding::delta::HEADER_BYTES;
use crate::encoding::format::BlockKind;
use crate::encoding::plain_wide::{self, WIDE_BYTES};
use crate::encoding::validity::BITMAP_BYTES;
use crate::error::FormatError;

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
        let (first, state) = match self.flat.words(row) {
            Some(words) => (words, CellState::Code),
            None => self.first_load(row),
        };
        CellWalk {
            load: cx.load(first),
            cx,
            reader: CellReader {
                chunk: self,
                decoder,
                base: self.descriptor.base,
                row: row as u32,
                width,
                state,
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

    /// The first load of a cell whose code is not found by arithmetic alone.
    #[inline(never)]
    fn first_load(&self, row: usize) -> (&'a [u8], CellState) {
        let (block, row) = (row / BLOCK_LEN, row % BLOCK_LEN);
        let descriptor = &self.descriptor;
        let Some(stride) = descriptor.stride_bytes() else {
            return (self.entry_bytes(block), CellState::DirectoryEntry);
        };
        let bytes = self.blocks_from(block * stride);
        match descriptor.bitmap_bytes() {
            0 => self.value_location(bytes, row),
            _ => (
                &bytes[row / 8..][..1],
                CellState::Rare(RareState::ValueValidity),
            ),
        }
    }

    /// Where the value of a block's row lies among its values, if these are all alike.
    fn value_location(&self, values: &'a [u8], row: usize) -> (&'a [u8], CellState) {
        match self.descriptor.kind {
            BlockKind::Wide => {
                let wide = &values[row * WIDE_BYTES..][..WIDE_BYTES];
                (wide, CellState::Rare(RareState::Wide))
            }
            BlockKind::Packed
            | BlockKind::MiniBlocks(_)
            | BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => {
                let code = Kernels::words(values, self.descriptor.width, row);
                (code, CellState::Code)
            }
        }
    }
}

/// The lookup of a cell. Made by [`Chunk::value`].
#[must_use = "a lookup does nothing unless it is awaited"]
pub struct CellWalk<'c, 'a, M: Mode> {
    load: Load<'a, [u8], M>,
    cx: Cx<M>,
    reader: CellReader<'c, 'a>,
}

impl<'a, M: Mode> Future for CellWalk<'_, 'a, M> {
    type Output = Result<Cell<'a>, Box<FormatError>>;

    // [`Cx::walk`] in full: its steps are closures, which cannot insist on being inlined, and called
    // they would hand every cell over in memory.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let walk = &mut *self;
        loop {
            let Poll::Ready(bytes) = Pin::new(&mut walk.load).poll(task) else {
                return Poll::Pending;
            };
            match walk.reader.step(bytes) {
                Continue(next) => walk.load = walk.cx.load(next),
                Break(cell) => return Poll::Ready(cell),
            }
        }
    }
}

// Nothing in it refers to itself, whatever the mode holds.
impl<M: Mode> Unpin for CellWalk<'_, '_, M> {}

/// The state between two loads.
struct CellReader<'c, 'a> {
    chunk: &'c Chunk<'a>,
    decoder: Option<&'c Decoder<'a>>,
    /// Of the codes in the row's block.
    base: u64,
    /// The row in the chunk or, if the codes do not start with the block, among the codes that hold it.
    row: u32,
    width: u8,
    /// What is being loaded.
    state: CellState,
}

#[derive(Clone, Copy)]
enum CellState {
    /// The words that hold the code.
    Code,
    /// An ordinal of the dictionary.
    Ordinal,
    /// A string's view in the dictionary.
    View,
    /// The string itself.
    Text,
    /// The block's entry in the directory.
    DirectoryEntry,
    /// Loads that most cells do not need.
    Rare(RareState),
}

#[derive(Clone, Copy)]
enum RareState {
    /// The validity bit before a value at a known position.
    ValueValidity,
    /// Sixteen bytes of a wide DECIMAL.
    Wide,
    /// Widths of mini-blocks.
    Widths,
    /// Header and codes up to the row.
    Differences,
    /// All of a block.
    Block,
    /// The validity bit before strings.
    StringValidity,
    /// Where a string ends, and the one before it.
    Ends,
    /// What a string is decoded from.
    Coded,
    /// What its codes stand for.
    Symbols,
}

/// The next load, or the cell.
type Next<'a> = ControlFlow<Result<Cell<'a>, Box<FormatError>>, &'a [u8]>;

fn failed<'a>(error: FormatError) -> Next<'a> {
    Break(Err(Box::new(error)))
}

/// The states of most cells: small, so that they are inlined into the loop around them.
impl<'a> CellReader<'_, 'a> {
    #[inline(always)]
    fn row_in_block(&self) -> usize {
        self.row as usize % BLOCK_LEN
    }

    #[inline(always)]
    fn step(&mut self, bytes: &'a [u8]) -> Next<'a> {
        match self.state {
            CellState::Code => self.code(bytes),
            CellState::Ordinal => self.ordinal(bytes),
            CellState::View => self.view(bytes),
            CellState::Text => Break(Ok(Cell::Bytes(bytes))),
            CellState::DirectoryEntry => self.entry(bytes),
            CellState::Rare(inner) => self.inner(inner, bytes),
        }
    }

    #[inline(always)]
    fn code(&mut self, words: &'a [u8]) -> Next<'a> {
        let code = Kernels::code_in(words, self.width, self.row_in_block());
        match self.chunk.decode(code, self.base, self.decoder) {
            Decoded::Null => Break(Ok(Cell::Null)),
            Decoded::Ordinal(ordinal) => Break(Ok(Cell::Ordinal(ordinal))),
            Decoded::InDictionary(entry) => {
                let (bytes, next) = match entry {
                    ValueRef::Ordinal(ordinal) => {
                        (from_ref(ordinal).to_byte_slice(), CellState::Ordinal)
                    }
                    ValueRef::View(view) => (view, CellState::View),
                };
                self.state = next;
                Continue(bytes)
            }
            Decoded::Unknown(code) => failed(self.chunk.unknown(code, self.decoder)),
        }
    }

    #[inline(always)]
    fn ordinal(&self, bytes: &[u8]) -> Next<'a> {
        let bytes = bytes.first_chunk();
        Break(Ok(Cell::Ordinal(
            bytes.map_or(0, |it| u64::from_ne_bytes(*it)),
        )))
    }

    /// A short string lies in its view.
    #[inline(always)]
    fn view(&mut self, view: &'a [u8]) -> Next<'a> {
        self.state = CellState::Text;
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
        match self.chunk.descriptor.kind {
            BlockKind::Packed => {}
            BlockKind::MiniBlocks(_)
            | BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Wide
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => {
                return self.irregular(bytes);
            }
        }
        let entry = BlockEntry::read(bytes);
        (self.base, self.width) = (self.chunk.descriptor.block_base(&entry), entry.width);
        self.state = CellState::Code;
        let block = self.chunk.block_and_beyond(&entry);
        Continue(Kernels::words(block, self.width, self.row_in_block()))
    }
}

/// The rest.
impl<'a> CellReader<'_, 'a> {
    /// The next load after the directory entry of a block that is not packed.
    #[inline(never)]
    fn irregular(&mut self, entry: &'a [u8]) -> Next<'a> {
        let entry = BlockEntry::read(entry);
        let (block, row) = (self.chunk.block_and_beyond(&entry), self.row_in_block());
        let (inner, bytes) = match self.chunk.descriptor.kind {
            BlockKind::MiniBlocks(_) => (RareState::Widths, &block[..1]),
            BlockKind::Runs | BlockKind::Patched | BlockKind::Lz4 | BlockKind::Snappy => {
                (RareState::Block, &block[..entry.len_bytes as usize])
            }
            BlockKind::Differences => {
                let codes = packed_bytes(row + 1, entry.width);
                (RareState::Differences, &block[..HEADER_BYTES + codes])
            }
            BlockKind::Strings | BlockKind::Front | BlockKind::Fsst | BlockKind::Prefix
                if self.chunk.descriptor.bitmap_bytes() > 0 =>
            {
                (RareState::StringValidity, &block[row / 8..][..1])
            }
            BlockKind::Strings | BlockKind::Front | BlockKind::Fsst | BlockKind::Prefix => {
                return self.ends();
            }
            BlockKind::Packed | BlockKind::Wide => return self.unexpected_kind(),
        };
        self.state = CellState::Rare(inner);
        Continue(bytes)
    }

    #[inline(never)]
    fn inner(&mut self, inner: RareState, bytes: &'a [u8]) -> Next<'a> {
        let (block, row) = (self.row as usize / BLOCK_LEN, self.row_in_block());
        let is_valid = || bytes[0] >> (row % 8) & 1 == 1;
        match inner {
            RareState::ValueValidity if is_valid() => {
                let stride = self.chunk.descriptor.stride_bytes().unwrap_or(0);
                let values = &self.chunk.blocks_from(block * stride)[BITMAP_BYTES..];
                let (value, state) = self.chunk.value_location(values, row);
                self.state = state;
                return Continue(value);
            }
            RareState::StringValidity if is_valid() => return self.ends(),
            RareState::ValueValidity | RareState::StringValidity => return Break(Ok(Cell::Null)),
            RareState::Wide => return Break(Ok(Cell::Wide(plain_wide::read_wide(bytes, 0)))),
            RareState::Widths
            | RareState::Differences
            | RareState::Block
            | RareState::Ends
            | RareState::Coded
            | RareState::Symbols => {}
        }
        let data = match self.chunk.block(block) {
            Ok(data) => data,
            Err(error) => return failed(error),
        };
        match data.payload {
            Payload::MiniBlocks(minis) => {
                let run = minis.run_of(row);
                (self.base, self.width) = (data.base, run.width);
                (self.row, self.state) = ((row - run.first_row) as u32, CellState::Code);
                Continue(Kernels::words(run.packed, run.width, row - run.first_row))
            }
            Payload::Differences(frame, run) => {
                let kernels = Kernels::best();
                let value = frame.value(kernels, run.packed, run.width, row, data.null_codes);
                Break(Ok(value.map_or(Cell::Null, Cell::Ordinal)))
            }
            Payload::Runs(_) | Payload::Patched(_) | Payload::Compressed(_) => {
                if data.is_null(row) {
                    return Break(Ok(Cell::Null));
                }
                match data.ordinal(row) {
                    Ok(ordinal) => Break(Ok(Cell::Ordinal(ordinal))),
                    Err(error) => failed(error),
                }
            }
            Payload::Strings(strings) => match strings.get(row) {
                Ok(text) => {
                    self.state = CellState::Text;
                    Continue(text)
                }
                Err(error) => failed(error),
            },
            Payload::Coded(strings) => {
                let (next, bytes) = match inner {
                    RareState::Ends => (RareState::Coded, strings.coded(row)),
                    RareState::Coded if !strings.symbols().is_empty() => {
                        (RareState::Symbols, Ok(strings.symbols()))
                    }
                    _ => return Break(Ok(Cell::Coded(strings.text(row)))),
                };
                self.state = CellState::Rare(next);
                match bytes {
                    Ok(bytes) => Continue(bytes),
                    Err(error) => failed(error),
                }
            }
            Payload::Packed(_) | Payload::Wide(_) => self.unexpected_kind(),
        }
    }

    /// The end of a string.
    fn ends(&mut self) -> Next<'a> {
        let row = self.row_in_block();
        match self.chunk.block(self.row as usize / BLOCK_LEN) {
            Ok(data) => match data.payload {
                Payload::Strings(strings) | Payload::Coded(CodedStrings { strings, .. }) => {
                    self.state = CellState::Rare(RareState::Ends);
                    Continue(Kernels::words(strings.ends, strings.width, row))
                }
                Payload::Packed(_)
                | Payload::MiniBlocks(_)
                | Payload::Runs(_)
                | Payload::Patched(_)
                | Payload::Compressed(_)
                | Payload::Differences(..)
                | Payload::Wide(_) => self.unexpected_kind(),
            },
            Err(error) => failed(error),
        }
    }

    #[cold]
    fn unexpected_kind(&self) -> Next<'a> {
        debug_assert!(false, "what is awaited follows from the encoding");
        failed(FormatError::corrupt(
            "a block",
            "it is not what its chunk's encoding says",
        ))
    }
}
