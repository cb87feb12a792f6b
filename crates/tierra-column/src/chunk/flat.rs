//! The codes of a chunk that are found by arithmetic alone.
//!
//! Where all blocks are packed alike, with nothing before their codes, the blocks follow each other
//! without a gap: 1,024 codes of any width fill whole lines. Code `row` of the chunk then begins at bit
//! `row * width`, and a lookup needs nothing but the few words kept here, half a line of memory that
//! is read instead of the chunk's descriptor.
//!
//! ```text
//! static, plain      value = code + number, the chunk's base
//! dictionary         value = entry (code - null_codes) of the dictionary of generation number
//! ```

use crate::bits::{BLOCK_LEN, Kernels, packed_bytes};
use crate::bytes::LINE_BYTES;
use crate::chunk::layout::Descriptor;
use crate::dictionary::{Decoder, ValueRef};

const _: () = assert!(packed_bytes(BLOCK_LEN, 1).is_multiple_of(LINE_BYTES));

/// What a lookup of a cell has to know of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlatCodes<'a> {
    /// All blocks, and what follows them.
    packed: &'a [u8],
    number: u64,
    rows: u32,
    width: u8,
    /// 1 where code 0 is NULL.
    null_codes: u8,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Codes are ordinals but for their base.
    Ordinal,
    /// Codes are numbers of values.
    DictionaryCode,
    /// The codes are not flat.
    Other,
}

/// The meaning of a code.
pub(super) enum Decoded<'a> {
    Null,
    Ordinal(u64),
    /// Look in the dictionary.
    InDictionary(ValueRef<'a>),
    /// The dictionary at hand has no such code.
    Unknown(u64),
}

impl<'a> FlatCodes<'a> {
    pub(super) fn of(descriptor: &Descriptor, bytes: &'a [u8]) -> FlatCodes<'a> {
        let has_codes_only = descriptor.bitmap_bytes() == 0 && descriptor.has_one_base();
        // Codes of width 0 occupy no bytes.
        let is_flat = has_codes_only && descriptor.width > 0;
        let meaning = match descriptor.encoding.uses_dictionary() {
            _ if !is_flat => Meaning::Other,
            true => Meaning::DictionaryCode,
            false => Meaning::Ordinal,
        };
        FlatCodes {
            packed: &bytes[descriptor.data_offset as usize..],
            number: match meaning {
                Meaning::DictionaryCode => descriptor.generation,
                _ => descriptor.base,
            },
            rows: descriptor.rows,
            width: descriptor.width,
            null_codes: descriptor.null_codes() as u8,
            meaning,
        }
    }

    /// Of a chunk of so many rows whose codes are not found by arithmetic alone.
    pub(super) fn none(rows: u32) -> FlatCodes<'a> {
        FlatCodes {
            packed: &[],
            number: 0,
            rows,
            width: 0,
            null_codes: 0,
            meaning: Meaning::Other,
        }
    }

    #[inline(always)]
    pub(super) fn is_flat(&self) -> bool {
        self.meaning != Meaning::Other
    }

    /// The words that a row's code lies in; `None` where codes are not flat.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub(super) fn words(&self, row: usize) -> Option<&'a [u8]> {
        let rows = self.rows as usize;
        assert!(row < rows, "row {row} of a chunk of {rows}");
        self.is_flat()
            .then(|| Kernels::words(self.packed, self.width, row))
    }

    /// What a row's code stands for, out of its [`FlatCodes::words`].
    #[inline(always)]
    pub(super) fn decode(
        &self,
        words: &[u8],
        row: usize,
        decoder: Option<&Decoder<'a>>,
    ) -> Decoded<'a> {
        let code = Kernels::code_in(words, self.width, row);
        if code < u64::from(self.null_codes) {
            return Decoded::Null;
        }
        if self.meaning == Meaning::Ordinal {
            return Decoded::Ordinal(code.wrapping_add(self.number));
        }
        Decoded::of_dictionary(code - u64::from(self.null_codes), self.number, decoder)
    }
}

impl<'a> Decoded<'a> {
    /// What a code of a dictionary of this generation stands for.
    #[inline(always)]
    pub(super) fn of_dictionary(
        code: u64,
        generation: u64,
        decoder: Option<&Decoder<'a>>,
    ) -> Decoded<'a> {
        let Some(decoder) = decoder.filter(|it| it.generation() == generation) else {
            return Decoded::Unknown(code);
        };
        match decoder.value_ref(code) {
            Some(value) => Decoded::InDictionary(value),
            None => Decoded::Unknown(code),
        }
    }
}
