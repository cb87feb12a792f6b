//! A dictionary as it is stored: one piece of its main part, and one for each part of its delta.
//!
//! ```text
//! 0         4  5     6         8            16           24       32           40    44     48
//! ┌─────────┬──┬─────┬─────────┬────────────┬────────────┬────────┬────────────┬─────┬──────┬────────┐
//! │ "TDIC"  │v │ 0/1 │ physical│ generation │ first code │ values │ bytes of   │ CRC │ CRC  │ values │
//! │         │  │ part│ 0/1, 0  │            │            │        │ all strings│ body│ head │        │
//! └─────────┴──┴─────┴─────────┴────────────┴────────────┴────────┴────────────┴─────┴──────┴────────┘
//!
//! values: ordinals, 8 bytes each; or the strings' lengths, 4 bytes each, then all their bytes
//! ```
//!
//! Part 0 is the main part, 1 a piece of delta; "CRC head" covers bytes 0 to 44. Pieces are written
//! in order and each names the code it begins with, so a missing one is noticed. Integers are
//! little-endian.

use std::sync::Arc;

use arrow::array::{StringViewArray, make_view};
use arrow::buffer::{Buffer, ScalarBuffer};

use super::{Dictionary, DictionaryValues};
use crate::bytes::{read_u32, read_u64};
use crate::error::FormatError;
use crate::limits::NULL_CODE;
use crate::logical_type::{LogicalType, Physical};
use crate::view::INLINE_BYTES;

const MAGIC: [u8; 4] = *b"TDIC";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 48;
/// Strings are split over buffers of at most this size: views hold 32-bit offsets.
const BUFFER_BYTES_MAX: usize = 1 << 30;

fn corrupt(why: &str) -> FormatError {
    FormatError::corrupt("a dictionary piece", why)
}

impl Dictionary {
    /// The piece of the main part. Written once per generation.
    pub fn main_piece(&self) -> Vec<u8> {
        self.piece(0, 0, self.main_len())
    }

    /// The piece of the delta from code `from` on: what was added since the last one.
    ///
    /// # Panics
    /// If `from` lies in the main part or beyond [`Dictionary::len`].
    pub fn delta_piece(&self, from: usize) -> Vec<u8> {
        assert!(
            self.main_len() <= from && from <= self.len(),
            "code {from} is no delta's first"
        );
        self.piece(1, from, self.len())
    }

    /// Bytes of [`Dictionary::main_piece`], without making it.
    pub fn main_piece_bytes(&self) -> usize {
        self.piece_bytes(0, self.main_len())
    }

    /// Bytes of [`Dictionary::delta_piece`], without making it.
    ///
    /// # Panics
    /// If `from` lies beyond [`Dictionary::len`].
    pub fn delta_piece_bytes(&self, from: usize) -> usize {
        self.piece_bytes(from, self.len())
    }

    fn piece_bytes(&self, from: usize, to: usize) -> usize {
        HEADER_BYTES
            + match &self.values {
                DictionaryValues::Ordinals(values) => size_of_val(&values[from..to]),
                // The lower half of a view is the string's length.
                DictionaryValues::Strings(values) => values.views()[from..to]
                    .iter()
                    .map(|view| size_of::<u32>() + *view as u32 as usize)
                    .sum(),
            }
    }

    fn piece(&self, part: u8, from: usize, to: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.piece_bytes(from, to));
        out.resize(HEADER_BYTES, 0);
        let mut string_bytes = 0;
        match &self.values {
            DictionaryValues::Ordinals(values) => {
                values[from..to]
                    .iter()
                    .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
            }
            DictionaryValues::Strings(values) => {
                let strings = || (from..to).map(|code| values.value(code).as_bytes());
                for string in strings() {
                    string_bytes += string.len() as u64;
                    // Views measure strings in 32 bits too.
                    out.extend_from_slice(&(string.len() as u32).to_le_bytes());
                }
                strings().for_each(|string| out.extend_from_slice(string));
            }
        }
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = part;
        out[6] = u8::from(matches!(self.values, DictionaryValues::Strings(_)));
        out[8..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..24].copy_from_slice(&(from as u64).to_le_bytes());
        out[24..32].copy_from_slice(&((to - from) as u64).to_le_bytes());
        out[32..40].copy_from_slice(&string_bytes.to_le_bytes());
        let body = crc32c::crc32c(&out[HEADER_BYTES..]);
        out[40..44].copy_from_slice(&body.to_le_bytes());
        let header = crc32c::crc32c(&out[..44]);
        out[44..48].copy_from_slice(&header.to_le_bytes());
        out
    }

    /// Reads a generation back from the piece of its main part and those of its delta, in order.
    /// Each may be followed by other bytes.
    ///
    /// # Errors
    /// [`FormatError`] where a piece is damaged, of another generation or type, or out of turn.
    pub fn open(
        ty: LogicalType,
        generation: u64,
        main: &[u8],
        deltas: &[&[u8]],
    ) -> Result<Dictionary, FormatError> {
        let mut values = ValuesReader::new(ty)?;
        values.read(generation, 0, main)?;
        let main_len = values.len();
        for delta in deltas {
            values.read(generation, 1, delta)?;
        }
        let values = values.finish()?;
        if !ascends(&values, main_len) {
            return Err(corrupt("its values are not in order"));
        }
        Ok(Dictionary::new(
            ty,
            generation,
            values,
            main_len,
            Arc::default(),
        ))
    }
}

fn ascends(values: &DictionaryValues, len: usize) -> bool {
    match values {
        DictionaryValues::Ordinals(values) => values[..len].is_sorted_by(|a, b| a < b),
        DictionaryValues::Strings(values) => {
            (1..len).all(|code| values.value(code - 1) < values.value(code))
        }
    }
}

/// Values read so far.
enum ValuesReader {
    Ordinals(Vec<u64>),
    Strings {
        views: Vec<u128>,
        buffers: Vec<Buffer>,
    },
}

impl ValuesReader {
    fn new(ty: LogicalType) -> Result<ValuesReader, FormatError> {
        match ty.physical() {
            Physical::Ordinal => Ok(ValuesReader::Ordinals(Vec::new())),
            Physical::Bytes => Ok(ValuesReader::Strings {
                views: Vec::new(),
                buffers: Vec::new(),
            }),
            Physical::Wide => Err(corrupt("its column cannot have one")),
        }
    }

    fn len(&self) -> usize {
        match self {
            ValuesReader::Ordinals(values) => values.len(),
            ValuesReader::Strings { views, .. } => views.len(),
        }
    }

    fn read(&mut self, generation: u64, part: u8, piece: &[u8]) -> Result<(), FormatError> {
        let truncated = |needed: u64| FormatError::Truncated {
            what: "a dictionary piece",
            needed,
            found: piece.len() as u64,
        };
        let Some((header, body)) = piece.split_first_chunk::<HEADER_BYTES>() else {
            return Err(truncated(HEADER_BYTES as u64));
        };
        if header[..4] != MAGIC {
            return Err(FormatError::Magic {
                what: "dictionary",
                found: [header[0], header[1], header[2], header[3]],
            });
        }
        if header[4] != VERSION {
            return Err(FormatError::Version {
                what: "a dictionary",
                found: header[4],
                supported: VERSION,
            });
        }
        FormatError::check_crc("a dictionary piece", &header[..44], read_u32(header, 44))?;
        let is_strings = matches!(self, ValuesReader::Strings { .. });
        if header[5] != part || header[6] != u8::from(is_strings) {
            return Err(corrupt("it is another part, or of another type"));
        }
        let found = read_u64(header, 8);
        if found != generation {
            return Err(FormatError::Generation {
                needed: generation,
                given: Some(found),
            });
        }
        if read_u64(header, 16) != self.len() as u64 {
            return Err(corrupt("a piece before it is missing"));
        }
        let (count, string_bytes) = (read_u64(header, 24), read_u64(header, 32));
        let each = if is_strings { 4 } else { 8 };
        let len = count
            .checked_mul(each)
            .and_then(|fixed| fixed.checked_add(string_bytes))
            .filter(|_| self.len() as u64 + count < u64::from(NULL_CODE))
            .ok_or_else(|| corrupt("it has more values than there are codes"))?;
        let body = usize::try_from(len)
            .ok()
            .and_then(|len| body.get(..len))
            .ok_or_else(|| truncated(len.saturating_add(HEADER_BYTES as u64)))?;
        FormatError::check_crc("a dictionary piece", body, read_u32(header, 40))?;
        match self {
            ValuesReader::Ordinals(values) => {
                if string_bytes != 0 {
                    return Err(corrupt("ordinals have no bytes of strings"));
                }
                let (ordinals, _) = body.as_chunks::<8>();
                values.extend(ordinals.iter().map(|bytes| u64::from_le_bytes(*bytes)));
            }
            ValuesReader::Strings { views, buffers } => {
                let (lengths, text) = body.split_at(count as usize * 4);
                read_strings(lengths, text, views, buffers)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<DictionaryValues, FormatError> {
        Ok(match self {
            ValuesReader::Ordinals(values) => DictionaryValues::Ordinals(Arc::new(values)),
            ValuesReader::Strings { views, buffers } => DictionaryValues::Strings(
                // Checks every string to be UTF-8.
                StringViewArray::try_new(ScalarBuffer::from(views), buffers, None)
                    .map_err(|error| corrupt(&error.to_string()))?,
            ),
        })
    }
}

fn read_strings(
    lengths: &[u8],
    mut text: &[u8],
    views: &mut Vec<u128>,
    buffers: &mut Vec<Buffer>,
) -> Result<(), FormatError> {
    let mut open = Vec::new();
    for len in lengths.as_chunks::<4>().0 {
        let len = u32::from_le_bytes(*len) as usize;
        let (string, rest) = text
            .split_at_checked(len)
            .ok_or_else(|| corrupt("its strings are longer than its bytes"))?;
        text = rest;
        if len > INLINE_BYTES {
            if open.len() + len > BUFFER_BYTES_MAX {
                buffers.push(Buffer::from_vec(std::mem::take(&mut open)));
            }
            views.push(make_view(string, buffers.len() as u32, open.len() as u32));
            open.extend_from_slice(string);
        } else {
            views.push(make_view(string, 0, 0));
        }
    }
    if !text.is_empty() {
        return Err(corrupt("its strings are shorter than its bytes"));
    }
    if !open.is_empty() {
        buffers.push(Buffer::from_vec(open));
    }
    Ok(())
}
