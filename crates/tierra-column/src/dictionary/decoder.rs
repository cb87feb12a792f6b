//! A dictionary as look-ups of single codes see it.
//!
//! A row of 1,000 columns asks 1,000 dictionaries for one value each. What that takes is gathered
//! here, 40 bytes a column, so that the dictionaries of neighbouring columns share lines and nothing
//! else of them is touched on the way to the value.

use arrow::buffer::Buffer;
use arrow::datatypes::ToByteSlice;

use super::{Dictionary, Values};
use crate::error::FormatError;
use crate::reader::INLINE_BYTES;

/// Leads from codes to values. Made by [`Dictionary::decoder`], for
/// [`Chunk::value`](crate::Chunk::value).
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    generation: u64,
    /// Ordinals, or views of strings.
    entries: &'a [u8],
    /// Where strings lie that are longer than a view holds; of a dictionary of strings only.
    buffers: Option<&'a [Buffer]>,
}

impl Dictionary {
    /// What look-ups of single codes need of it.
    pub fn decoder(&self) -> Decoder<'_> {
        let (entries, buffers) = match &self.values {
            Values::Ordinals(values) => (values.to_byte_slice(), None),
            Values::Strings(values) => {
                (values.views().to_byte_slice(), Some(values.data_buffers()))
            }
        };
        Decoder {
            generation: self.generation,
            entries,
            buffers,
        }
    }
}

impl<'a> Decoder<'a> {
    /// The generation its codes belong to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    #[inline(always)]
    pub(crate) fn has_strings(&self) -> bool {
        self.buffers.is_some()
    }

    #[inline(always)]
    fn entry_bytes(&self) -> usize {
        if self.has_strings() { 16 } else { 8 }
    }

    /// The entry of a code, `None` where there is no such code. Codes have 32 bits at most.
    #[inline(always)]
    pub(crate) fn entry(&self, code: u64) -> Option<&'a [u8]> {
        debug_assert!(code <= u64::from(u32::MAX));
        let start = code as usize * self.entry_bytes();
        self.entries.get(start..start + self.entry_bytes())
    }

    #[cold]
    pub(crate) fn beyond(&self, code: u64) -> FormatError {
        let len = self.entries.len() / self.entry_bytes();
        let why = format!("code {code} in a dictionary of {len} values");
        FormatError::corrupt("a dictionary chunk", why)
    }

    /// The ordinal that an entry of a dictionary without strings is.
    #[inline(always)]
    pub(crate) fn ordinal(entry: &[u8]) -> u64 {
        entry
            .first_chunk()
            .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// A string that its view holds whole.
    #[inline(always)]
    pub(crate) fn short_text(view: &[u8]) -> Option<&[u8]> {
        let len = read_u32(view, 0)?;
        (len <= INLINE_BYTES).then(|| view.get(4..4 + len))?
    }

    /// A string that its view names the place of.
    #[inline(always)]
    pub(crate) fn long_text(&self, view: &[u8]) -> Option<&'a [u8]> {
        let (len, buffer, offset) = (read_u32(view, 0)?, read_u32(view, 8)?, read_u32(view, 12)?);
        self.buffers?.get(buffer)?.get(offset..)?.get(..len)
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
