//! Reading strings that are not stored as they are ([`coded`](super::coded)).
//!
//! Invariant: coded bytes are trusted in nothing. Whatever they are, a string ends up in the buffer or an error comes back, and it is
//! no longer than eight bytes for each coded one and 255 more.

use crate::bits::{Kernels, Mask, PAD_BYTES};
use crate::encoding::coding::Coding;
use crate::encoding::plain_strings::Strings;
use crate::encoding::{front, fsst, prefix};
use crate::error::FormatError;

/// What reading coded strings needs: the ends of a block and a string.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    ends: Vec<u64>,
    text: Vec<u8>,
}

/// The coded strings of a stored block, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct CodedStrings<'a> {
    /// The block behind its bitmap, and the pad.
    block: &'a [u8],
    pub(crate) strings: Strings<'a>,
    symbols: Symbols<'a>,
    rows: usize,
}

/// What the strings of a block share.
#[derive(Clone, Copy)]
enum Symbols<'a> {
    Front,
    Fsst(fsst::SymbolTable<'a>),
    Prefix(prefix::Prefixes<'a>),
}

impl<'a> CodedStrings<'a> {
    /// `bytes` is the block of `len` bytes behind its bitmap, and what follows it, at least the pad; `len` has been checked to
    /// hold the ends.
    pub(crate) fn new(
        coding: Coding,
        bytes: &'a [u8],
        len: usize,
        rows: usize,
        width: u8,
    ) -> Result<CodedStrings<'a>, FormatError> {
        let mut strings = Strings::new(bytes, len, rows, width);
        let symbols = match coding {
            Coding::Front => Symbols::Front,
            Coding::Fsst => {
                let (table, rest) = fsst::SymbolTable::split(strings.bytes)?;
                strings.bytes = rest;
                Symbols::Fsst(table)
            }
            Coding::Prefix => {
                let (prefixes, rest) = prefix::Prefixes::split(strings.bytes)?;
                strings.bytes = rest;
                Symbols::Prefix(prefixes)
            }
        };
        Ok(CodedStrings {
            block: &bytes[..len + PAD_BYTES],
            strings,
            symbols,
            rows,
        })
    }

    /// The bytes that string `row` is decoded from, which lie in a row: its own, and before them those of its group.
    pub(crate) fn coded(&self, row: usize) -> Result<&'a [u8], FormatError> {
        let (mut start, end) = self.strings.bounds(row);
        if let Symbols::Front = self.symbols {
            (start, _) = self.strings.bounds(front::first_of_group(row));
        }
        self.strings.slice((start, end))
    }

    /// What its strings are made of besides their own bytes.
    pub(crate) fn symbols(&self) -> &'a [u8] {
        match self.symbols {
            Symbols::Front => &[],
            Symbols::Fsst(table) => table.bytes(),
            Symbols::Prefix(prefixes) => prefixes.bytes(),
        }
    }

    /// String `row`, to be decoded later.
    pub(crate) fn text(&self, row: usize) -> CodedText<'a> {
        debug_assert!(row < self.rows);
        CodedText {
            block: self.block,
            rows: self.rows as u16,
            row: row as u16,
            width: self.strings.width,
            coding: match self.symbols {
                Symbols::Front => Coding::Front,
                Symbols::Fsst(_) => Coding::Fsst,
                Symbols::Prefix(_) => Coding::Prefix,
            },
        }
    }

    /// Decodes string `row` into `text`, whatever that held.
    fn decode(&self, row: usize, text: &mut Vec<u8>) -> Result<(), FormatError> {
        text.clear();
        match self.symbols {
            Symbols::Fsst(table) => table.decode(self.strings.get(row)?, text),
            Symbols::Prefix(prefixes) => prefixes.decode(self.strings.get(row)?, text),
            Symbols::Front => {
                let mut is_empty = true;
                for row in front::first_of_group(row)..=row {
                    is_empty = !front::advance(self.strings.get(row)?, text)?;
                }
                if is_empty {
                    text.clear();
                }
                Ok(())
            }
        }
    }

    /// Calls `visit(row, string)` for each row that `mask` selects, in order.
    pub(crate) fn for_each(
        &self,
        kernels: Kernels,
        mask: &Mask,
        buffers: &mut Buffers,
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<(), FormatError> {
        let Buffers { ends, text } = buffers;
        ends.resize(self.rows, 0);
        kernels.unpack_u64(self.strings.ends, self.strings.width, ends);
        let coded = |row: usize| {
            let start = if row == 0 { 0 } else { ends[row - 1] };
            self.strings.slice((start, ends[row]))
        };
        let mut mask = *mask;
        mask.and(&Mask::first(self.rows));
        match self.symbols {
            Symbols::Fsst(table) => {
                let table = table.unfolded();
                for row in &mask {
                    let len = table.decode(coded(row)?, text)?;
                    visit(row, &text[..len]);
                }
            }
            Symbols::Prefix(prefixes) => {
                for row in &mask {
                    text.clear();
                    prefixes.decode(coded(row)?, text)?;
                    visit(row, text);
                }
            }
            Symbols::Front => {
                // The next row to be decoded.
                let mut next = 0;
                for row in &mask {
                    let first = front::first_of_group(row);
                    if first >= next {
                        next = first;
                        text.clear();
                    }
                    let mut is_empty = true;
                    for row in next..=row {
                        is_empty = !front::advance(coded(row)?, text)?;
                    }
                    next = row + 1;
                    visit(row, if is_empty { &[] } else { &text[..] });
                }
            }
        }
        Ok(())
    }
}

/// A string that is not stored as it is, where it lies in its chunk. Decoding it makes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedText<'a> {
    /// The block behind its bitmap, and the pad.
    block: &'a [u8],
    rows: u16,
    row: u16,
    width: u8,
    coding: Coding,
}

impl CodedText<'_> {
    /// Decodes it into `text`, whatever that held.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] where the bytes are not those that were written.
    pub fn decode(&self, text: &mut Vec<u8>) -> Result<(), FormatError> {
        let len = self.block.len() - PAD_BYTES;
        let rows = usize::from(self.rows);
        let strings = CodedStrings::new(self.coding, self.block, len, rows, self.width)?;
        strings.decode(self.row.into(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::lines;
    use crate::encoding::encoded;

    const WIDTH: u8 = 8;

    /// A block of strings whose coded bytes are these.
    fn block(symbols: &[u8], coded: &[&[u8]]) -> Vec<u8> {
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        for coded in coded {
            all.extend_from_slice(coded);
            ends.push(all.len() as u64);
        }
        let mut bytes = Vec::new();
        encoded::append_packed(Kernels::best(), &ends, WIDTH, &mut bytes);
        bytes.resize(lines(bytes.len()), 0);
        bytes.extend_from_slice(symbols);
        bytes.extend_from_slice(&all);
        bytes.resize(bytes.len() + PAD_BYTES, 0xFF);
        bytes
    }

    /// The strings of a block: all at once, each alone, and those of every third row.
    fn read(coding: Coding, bytes: &[u8], rows: usize) -> Result<Vec<Vec<u8>>, FormatError> {
        let strings = CodedStrings::new(coding, bytes, bytes.len() - PAD_BYTES, rows, WIDTH)?;
        let mut buffers = Buffers::default();
        let mut all = Vec::new();
        let of_all = strings.for_each(Kernels::best(), &Mask::all(), &mut buffers, |row, text| {
            assert_eq!(row, all.len());
            all.push(text.to_vec());
        });
        let mut alone = Vec::new();
        let of_each = (0..rows).try_for_each(|row| {
            let mut text = b"what was there".to_vec();
            strings.coded(row)?;
            strings.text(row).decode(&mut text)?;
            alone.push(text);
            Ok(())
        });
        assert_eq!((&of_all, &all), (&of_each, &alone));
        of_all?;
        let mut thirds = Mask::none();
        (0..rows).step_by(3).for_each(|row| thirds.set(row, true));
        strings.for_each(Kernels::best(), &thirds, &mut buffers, |row, text| {
            assert_eq!(text, all[row]);
        })?;
        Ok(all)
    }

    #[test]
    fn front_coded_strings_follow_the_last_that_is_not_empty() {
        let mut coded: Vec<&[u8]> = vec![b"\x00abc", b"", b"\x02d", b"\x03", b"\x00xyz"];
        coded.resize(16, b"");
        coded.push(b"\x00new");
        coded.push(b"\x01");
        let bytes = block(&[], &coded);
        let texts = read(Coding::Front, &bytes, coded.len()).unwrap();
        let firsts: [&[u8]; 5] = [b"abc", b"", b"abd", b"abd", b"xyz"];
        assert_eq!(texts[..5], firsts);
        assert!(texts[5..16].iter().all(Vec::is_empty));
        assert_eq!(texts[16..], [&b"new"[..], b"n"]);
        // The first of a group shares nothing.
        coded[16] = b"\x01new";
        let wrongs: [&[&[u8]]; 3] = [&coded, &[b"\x00abc", b"\x04"], &[b"\x01"]];
        for wrong in wrongs {
            assert!(read(Coding::Front, &block(&[], wrong), wrong.len()).is_err());
        }
    }

    #[test]
    fn codes_stand_for_symbols() {
        let table = b"\x01\x00\x01\x00\x00\x00\x00\x01-oneLongText";
        let coded: [&[u8]; 4] = [b"\x01\x00\x02", b"", b"\xff\x00\xff\xff", b"\x00"];
        let texts = read(Coding::Fsst, &block(table, &coded), 4).unwrap();
        assert_eq!(texts, [&b"one-LongText"[..], b"", b"\x00\xff", b"-"]);
        for wrong in [&b"\x03"[..], b"\xfe", b"\x00\xff", b"\xff"] {
            assert!(read(Coding::Fsst, &block(table, &[b"\x00", wrong]), 2).is_err());
        }
        let too_many = [[255, 1, 0, 0, 0, 0, 0, 0].to_vec(), vec![b'x'; 300]].concat();
        for table in [&too_many[..], &table[..table.len() - 3], &table[..5]] {
            let mut bytes = block(table, &[]);
            assert!(read(Coding::Fsst, &bytes, 0).is_err());
            bytes.truncate(PAD_BYTES);
            assert!(read(Coding::Fsst, &bytes, 0).is_err());
        }
    }

    #[test]
    fn prefixes_are_named_by_number() {
        let table = b"\x02\x02\x00\x05\x00ababc";
        let coded: [&[u8]; 4] = [b"\x01x", b"\x02", b"", b"\x00y"];
        let texts = read(Coding::Prefix, &block(table, &coded), 4).unwrap();
        assert_eq!(texts, [&b"abx"[..], b"abc", b"", b"y"]);
        assert!(read(Coding::Prefix, &block(table, &[b"\x03"]), 1).is_err());
        // Prefixes that do not ascend, or end outside.
        let crossed = b"\x02\x03\x00\x02\x00abc";
        assert!(read(Coding::Prefix, &block(crossed, &[b"\x02"]), 1).is_err());
        for table in [&b"\x02\x03\x00\x09\x00abc"[..], b"\x02\x03", b""] {
            assert!(read(Coding::Prefix, &block(table, &[]), 0).is_err());
        }
    }
}
