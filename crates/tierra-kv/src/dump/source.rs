//! What a payload is read from, and how lengths, strings and scores are written in it.
//!
//! ```text
//!  length: │ 00 │ 6 bits │   │ 01 │ 14 bits │   │ 80 │ 32 bits │   │ 81 │ 64 bits │   the highest first
//!  string: │ length │ bytes │
//!          │ c0 │ 8 bits │   │ c1 │ 16 bits │   │ c2 │ 32 bits │   a number, the lowest first
//!          │ c3 │ compressed length │ length │ compressed bytes │
//!  score:  │ 64 bits, the lowest first │
//!          │ bytes: 8 │ text │   │ fd │ NaN   │ fe │ inf   │ ff │ -inf      in type 3
//! ```

use std::borrow::Cow;

use super::lzf;
use crate::number::parse_bound;

/// The longest string, as in Redis: only what is compressed could be longer than the payload.
const STRING_BYTES_MAX: usize = 512 << 20;

const INTEGER_8: u64 = 0;
const INTEGER_16: u64 = 1;
const INTEGER_32: u64 = 2;
const COMPRESSED: u64 = 3;

/// It is not what Redis writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// An element of a packed value.
pub(super) type Element<'p> = Result<Cow<'p, [u8]>, Malformed>;

/// The rest of a payload.
pub(super) struct Source<'p>(&'p [u8]);

impl<'p> Source<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Source(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<&'p [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// A length; or, if true, how the string that follows is encoded.
    fn length(&mut self) -> Result<(u64, bool), Malformed> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Ok(match (first >> 6, first) {
            (0, _) => (low, false),
            (1, _) => (low << 8 | u64::from(self.byte()?), false),
            (3, _) => (low, true),
            (_, 0x80) => (u32::from_be_bytes(self.array()?).into(), false),
            (_, 0x81) => (u64::from_be_bytes(self.array()?), false),
            _ => return Err(Malformed),
        })
    }

    /// How many elements follow. It is a claim only: they are there once they have been read.
    pub(super) fn count(&mut self) -> Result<u64, Malformed> {
        // As Redis reads it, which does not ask what kind of length it is.
        self.length().map(|(count, _)| count)
    }

    /// How many bytes there are of something.
    fn bytes(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.count()?).map_err(|_| Malformed)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'p, [u8]>, Malformed> {
        let number = match self.length()? {
            (bytes, false) => {
                let bytes = usize::try_from(bytes).map_err(|_| Malformed)?;
                return Ok(Cow::Borrowed(self.take(bytes)?));
            }
            (INTEGER_8, true) => i8::from_le_bytes(self.array()?).into(),
            (INTEGER_16, true) => i16::from_le_bytes(self.array()?).into(),
            (INTEGER_32, true) => i32::from_le_bytes(self.array()?).into(),
            (COMPRESSED, true) => {
                let (compressed, bytes) = (self.bytes()?, self.bytes()?);
                let compressed = self.take(compressed)?;
                let fits = bytes <= STRING_BYTES_MAX;
                let string = fits.then(|| lzf::decompress(compressed, bytes)).flatten();
                return string.map(Cow::Owned).ok_or(Malformed);
            }
            _ => return Err(Malformed),
        };
        Ok(text(number))
    }

    /// The score of a member in a set of type 5.
    pub(super) fn score(&mut self) -> Result<f64, Malformed> {
        let score = f64::from_le_bytes(self.array()?);
        Some(score).filter(|score| !score.is_nan()).ok_or(Malformed)
    }

    /// The score of a member in a set of type 3.
    pub(super) fn score_text(&mut self) -> Result<f64, Malformed> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(Malformed),
            bytes => score(self.take(bytes.into())?),
        }
    }
}

/// A score as text: nothing but a number, which is not NaN.
pub(super) fn score(text: &[u8]) -> Result<f64, Malformed> {
    let text = Some(text).filter(|text| !text.is_empty());
    text.and_then(parse_bound).ok_or(Malformed)
}

/// A number that stands for the text that it is printed as.
pub(super) fn text<'t>(number: i64) -> Cow<'t, [u8]> {
    Cow::Owned(itoa::Buffer::new().format(number).into())
}

/// Appends a length.
pub(super) fn push_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => out.push(length as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.push(0x80);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

/// Appends a string, as a number where it is one of at most 32 bits.
pub(super) fn push_string(out: &mut Vec<u8>, string: &[u8]) {
    // "-2147483648"
    const DIGITS_MAX: usize = 11;
    let number = Some(string).filter(|string| string.len() <= DIGITS_MAX);
    let number = number.and_then(crate::number::parse_i64);
    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        let bytes = number.to_le_bytes();
        let (encoding, width) = match number {
            -0x80..=0x7f => (INTEGER_8, 1),
            -0x8000..=0x7fff => (INTEGER_16, 2),
            _ => (INTEGER_32, 4),
        };
        out.push(0xc0 | encoding as u8);
        return out.extend_from_slice(&bytes[..width]);
    }
    push_length(out, string.len());
    out.extend_from_slice(string);
}
