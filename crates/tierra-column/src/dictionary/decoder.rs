//! The part of a dictionary that lookups of single codes need.
//!
//! A row of 1,000 columns asks 1,000 dictionaries for one value each. What that takes is gathered
//! here, half a line a column, so that the dictionaries of neighbouring columns share lines and nothing
//! else of them is touched on the way to the value.

use arrow::array::{Array, StringViewArray};
use arrow::datatypes::ToByteSlice;

use super::{Dictionary, DictionaryValues};
use crate::error::FormatError;
use crate::view::INLINE_BYTES;

/// Leads from codes to values. Made by [`Dictionary::decoder`], for
/// [`Chunk::value`](crate::Chunk::value).
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub struct Decoder<'a> {
    generation: u64,
    /// Ordinals, or views of strings, two words each.
    words: &'a [u64],
    /// Whose views these are, of a dictionary of strings.
    strings: Option<&'a StringViewArray>,
}

const _: () = assert!(size_of::<Option<Decoder<'_>>>() == 32);

/// A dictionary's value: an ordinal, or the view of a string.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueRef<'a> {
    Ordinal(&'a u64),
    /// Sixteen bytes that hold a string, or its location.
    View(&'a [u8]),
}

impl Dictionary {
    /// What lookups of single codes need of it.
    pub fn decoder(&self) -> Decoder<'_> {
        let (words, strings) = match &self.values {
            DictionaryValues::Ordinals(values) => (&values[..], None),
            DictionaryValues::Strings(values) => {
                (values.views().inner().typed_data(), Some(values))
            }
        };
        Decoder {
            generation: self.generation,
            words,
            strings,
        }
    }
}

impl<'a> Decoder<'a> {
    /// The generation its codes belong to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The entry of a code, `None` where there is no such code. Codes have 32 bits at most.
    #[inline(always)]
    pub(crate) fn value_ref(&self, code: u64) -> Option<ValueRef<'a>> {
        debug_assert!(code <= u64::from(u32::MAX));
        let code = code as usize;
        match self.strings {
            None => self.words.get(code).map(ValueRef::Ordinal),
            Some(_) => {
                let view = self.words.get(2 * code..2 * code + 2);
                view.map(|view| ValueRef::View(view.to_byte_slice()))
            }
        }
    }

    #[cold]
    pub(crate) fn beyond(&self, code: u64) -> FormatError {
        let len = match self.strings {
            None => self.words.len(),
            Some(strings) => strings.len(),
        };
        let why = format!("code {code} in a dictionary of {len} values");
        FormatError::corrupt("a dictionary chunk", why)
    }

    /// A string that its view holds inline.
    #[inline(always)]
    pub(crate) fn short_text(view: &[u8]) -> Option<&[u8]> {
        let len = read_u32(view, 0)?;
        (len <= INLINE_BYTES).then(|| view.get(4..4 + len))?
    }

    /// A string that its view locates in a buffer.
    #[inline(always)]
    pub(crate) fn long_text(&self, view: &[u8]) -> Option<&'a [u8]> {
        let (len, buffer, offset) = (read_u32(view, 0)?, read_u32(view, 8)?, read_u32(view, 12)?);
        let buffers = self.strings?.data_buffers();
        buffers.get(buffer)?.get(offset..)?.get(..len)
    }

    /// The error where there is no such string.
    #[cold]
    pub(crate) fn no_text() -> FormatError {
        FormatError::corrupt("a dictionary", "a string lies outside it")
    }
}

#[inline(always)]
fn read_u32(view: &[u8], at: usize) -> Option<usize> {
    let bytes = view.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes) as usize)
}
