//! FSST (Boncz, Neumann and Leis, 2020): strings as codes of a byte, each of which stands for a symbol of up to eight bytes.
//!
//! ```text
//! symbols   | how many of 1 byte, of 2, .. of 8: 8 x u8 | those of 1 byte | those of 2 bytes | .. | those of 8 bytes |
//! code      symbol of that number;    255: the byte behind it
//! ```
//!
//! The block is drawn in [`coded`]. Symbols are chosen for the chunk, from a sample of its strings, and stored with each block,
//! which so is read without any other. Each string is coded by itself: a row costs its codes and the symbols.
//!
//! Symbols are chosen, and strings coded, by the crate `fsst-rs`. What it makes is decoded before it is believed, and decoded here,
//! because a chunk's bytes may be anything.

use fsst::Compressor;

use crate::encoding::coded::{self, CodedBlock, Texts};
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, sampled};
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "fsst",
    aliases: &[],
    blocks: |physical| (physical == Physical::Bytes).then_some(BlockKind::Fsst),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(25.0, 235.0, 2.0),
    // Used where it is asked for, as LZ4 is: scans decode every string that they compare.
    estimate: |_, _| None,
    plan: |values| {
        let coder = Coder::new(values);
        coded::plan(values, |texts, out| coder.code(texts, out))
    },
    write: encoded::write,
};

/// Bytes of the numbers of symbols.
pub(crate) const COUNTS_BYTES: usize = SYMBOL_BYTES_MAX;
/// The longest symbol.
const SYMBOL_BYTES_MAX: usize = 8;
/// Codes of symbols are below it.
const ESCAPE: u8 = fsst::ESCAPE_CODE;

/// What strings are coded with.
struct Coder {
    compressor: Compressor,
    /// Codes of symbols in the order in which they are stored, by the crate's codes.
    codes: [u8; 256],
    /// As they are stored.
    symbols: Vec<u8>,
}

impl Coder {
    fn new(values: &ChunkValues) -> Coder {
        let mut sample = Vec::new();
        for block in sampled(values.blocks()) {
            let mut texts = Texts::default();
            texts.fill(values, block);
            sample.push(texts);
        }
        let compressor = Compressor::train(&sample.iter().flat_map(|texts| texts.iter()).collect());
        let table = compressor.symbol_table().iter();
        let mut by_len: Vec<_> = table.zip(compressor.symbol_lengths()).enumerate().collect();
        by_len.sort_by_key(|(_, (_, len))| **len);
        let mut codes = [ESCAPE; 256];
        let mut symbols = vec![0; COUNTS_BYTES];
        for (stored, (code, (symbol, &len))) in by_len.into_iter().enumerate() {
            codes[code] = stored as u8;
            symbols[usize::from(len) - 1] += 1;
            symbols.extend_from_slice(&symbol.to_u64().to_le_bytes()[..len.into()]);
        }
        Coder {
            compressor,
            codes,
            symbols,
        }
    }

    /// Whether the strings became codes that they can be decoded from.
    fn code(&self, texts: &Texts, out: &mut CodedBlock) -> bool {
        out.symbols.extend_from_slice(&self.symbols);
        let texts: Vec<&[u8]> = texts.iter().collect();
        self.compressor
            .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(
                &texts,
                &mut out.bytes,
                &mut out.ends,
            );
        let mut codes = out.bytes.iter_mut();
        while let Some(code) = codes.next() {
            *code = self.codes[usize::from(*code)];
            if *code == ESCAPE {
                // A byte as it is.
                codes.next();
            }
        }
        self.is_right(&texts, out)
    }

    fn is_right(&self, texts: &[&[u8]], coded: &CodedBlock) -> bool {
        let Ok((table, _)) = SymbolTable::split(&self.symbols) else {
            return false;
        };
        let (table, mut decoded) = (table.unfolded(), Vec::new());
        let mut start = 0;
        let mut are_same = texts.len() == coded.ends.len();
        for (text, &end) in texts.iter().zip(&coded.ends) {
            let codes = coded.bytes.get(start..end as usize);
            let len = codes.and_then(|codes| table.decode(codes, &mut decoded).ok());
            are_same &= len.is_some_and(|len| decoded[..len] == **text);
            start = end as usize;
        }
        are_same
    }
}

/// The symbols of a block, as they are stored: all of them lie in the block.
#[derive(Clone, Copy)]
pub(crate) struct SymbolTable<'a> {
    bytes: &'a [u8],
    /// How many there are of each length less one.
    counts: [u8; SYMBOL_BYTES_MAX],
}

fn corrupt(why: &str) -> FormatError {
    FormatError::corrupt("a block of FSST strings", why)
}

/// Where the symbols of a length are.
struct Stretch {
    len: usize,
    first_code: usize,
    count: usize,
    /// In the table.
    at: usize,
}

impl<'a> SymbolTable<'a> {
    /// The table that `bytes` begin with, and what follows it.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(SymbolTable<'a>, &'a [u8]), FormatError> {
        let counts = *bytes
            .first_chunk()
            .ok_or_else(|| corrupt("its symbols are missing"))?;
        let table = SymbolTable { bytes, counts };
        let (codes, len) = table.stretches().fold((0, COUNTS_BYTES), |_, it| {
            (it.first_code + it.count, it.at + it.count * it.len)
        });
        if codes > usize::from(ESCAPE) {
            return Err(corrupt("it has more symbols than there are codes"));
        }
        let (bytes, rest) = bytes
            .split_at_checked(len)
            .ok_or_else(|| corrupt("its symbols lie outside it"))?;
        Ok((SymbolTable { bytes, counts }, rest))
    }

    /// As they are stored.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let (mut first_code, mut at) = (0, COUNTS_BYTES);
        self.counts.into_iter().zip(1..).map(move |(count, len)| {
            let count = usize::from(count);
            let stretch = Stretch {
                len,
                first_code,
                count,
                at,
            };
            first_code += count;
            at += count * len;
            stretch
        })
    }

    /// The symbol of a code.
    fn symbol(&self, code: u8) -> Option<&'a [u8]> {
        let code = usize::from(code);
        let stretch = self
            .stretches()
            .find(|it| code < it.first_code + it.count)?;
        let at = stretch.at + (code - stretch.first_code) * stretch.len;
        self.bytes.get(at..at + stretch.len)
    }

    /// Appends the string of these codes.
    pub(crate) fn decode(&self, codes: &[u8], text: &mut Vec<u8>) -> Result<(), FormatError> {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                let byte = codes
                    .next()
                    .ok_or_else(|| corrupt("a string ends in the middle"))?;
                text.push(*byte);
            } else {
                let symbol = self.symbol(code);
                text.extend_from_slice(symbol.ok_or_else(|| corrupt("a code has no symbol"))?);
            }
        }
        Ok(())
    }

    /// The same with a place for every code: for many strings.
    pub(crate) fn unfolded(&self) -> UnfoldedTable {
        let mut table = UnfoldedTable {
            symbols: [0; 256],
            lens: [0; 256],
        };
        for stretch in self.stretches() {
            let symbols = self.bytes[stretch.at..].chunks_exact(stretch.len);
            for (number, symbol) in symbols.take(stretch.count).enumerate() {
                let mut bytes = [0; SYMBOL_BYTES_MAX];
                bytes[..stretch.len].copy_from_slice(symbol);
                table.symbols[stretch.first_code + number] = u64::from_le_bytes(bytes);
                table.lens[stretch.first_code + number] = stretch.len as u8;
            }
        }
        table
    }
}

/// Symbols by their codes.
pub(crate) struct UnfoldedTable {
    symbols: [u64; 256],
    /// 0 where there is none.
    lens: [u8; 256],
}

impl UnfoldedTable {
    /// Writes the string of these codes to the beginning of `text`, which is made longer if need be, and returns its length.
    pub(crate) fn decode(&self, codes: &[u8], text: &mut Vec<u8>) -> Result<usize, FormatError> {
        // Each code writes eight bytes, of which those behind its symbol are overwritten.
        let places = (codes.len() + 1) * SYMBOL_BYTES_MAX;
        if text.len() < places {
            text.resize(places, 0);
        }
        let mut len = 0;
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            let (symbol, symbol_len) = match code {
                ESCAPE => {
                    let byte = codes
                        .next()
                        .ok_or_else(|| corrupt("a string ends in the middle"))?;
                    (u64::from(*byte), 1)
                }
                _ => {
                    let at = usize::from(code);
                    (self.symbols[at], usize::from(self.lens[at]))
                }
            };
            if symbol_len == 0 {
                return Err(corrupt("a code has no symbol"));
            }
            text[len..len + SYMBOL_BYTES_MAX].copy_from_slice(&symbol.to_le_bytes());
            len += symbol_len;
        }
        Ok(len)
    }
}
