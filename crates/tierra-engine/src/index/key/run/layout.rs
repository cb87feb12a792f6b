//! The bytes of a run: header, directory, leaves. All integers are little-endian.
//!
//! ```text
//! 0        64                                           leaves_at
//! ┌────────┬─────────────────────────────────────────┬────────┬──────┬──────┬─────┬────────┐
//! │ header │ first normalized key, rows, CRC, widths │ pad 64 │ leaf │ leaf │  …  │ pad 64 │   leaf: 2048 bytes,
//! │        │ of each leaf, 24 bytes                  │        │      │      │     │        │   packed entries
//! └────────┴─────────────────────────────────────────┴────────┴──────┴──────┴─────┴────────┘
//!
//! header   0  magic "TKEY"                    directory   0  normalized key of the first entry, u64
//!          4  format version                              8  rows: see below, i64
//!          5  0, 3 bytes                                 16  CRC32C of the leaf
//!          8  entries                                    20  entries, u16
//!         16  leaves                                     22  width of a normalized key in bits
//!         24  greatest normalized key                    23  width of a row in bits
//!         32  length in bytes
//!         40  0, 16 bytes                     entry of place i: normalized key - first normalized key, above it
//!         56  CRC32C of the directory             row - rows - i
//!         60  CRC32C of bytes 0 to 60
//! ```
//!
//! Entries ascend in normalized key, then row. Leaves have a fixed size, so a leaf's number gives its offset. A lookup that knows
//! the leaf touches the line of one entry, because normalized key and row lie side by side. Rows are stored as the distance from
//! their place, so rows in the order of their keys take no bits.
//!
//! Invariant: after [`Directory::read`] every leaf and every entry of it lies inside the bytes. The content of leaves is not
//! trusted.

use std::ops::Range;

use tierra_column::FormatError;
use tierra_column::bits::{PAD_BYTES, max_code};
use tierra_memory::LINE_BYTES;

/// Bytes of a leaf.
pub(super) const LEAF_BYTES: usize = 2048;
/// The most entries of a leaf, regardless of their bits.
pub(super) const LEAF_ENTRIES_MOST: usize = 2048;
/// The most bits of a row's distance: a segment's number and a row in it.
const ROW_BITS_MOST: u8 = 53;
/// Bytes read at a time; never from two lines if the entry lies in one.
const WORD_BYTES: usize = 16;
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"TKEY";
const VERSION: u8 = 1;
const WHAT: &str = "an index of keys";

/// A normalized key, and a row whose key has it.
pub(crate) type Entry = (u64, u64);

/// What the directory holds of a leaf besides its first normalized key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) rows: i64,
    pub(super) crc: u32,
    pub(super) entries: u16,
    pub(super) key_width: u8,
    pub(super) row_width: u8,
}

/// The leaves of a run, as held in near memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// First normalized keys, ascending.
    pub(super) firsts: Vec<u64>,
    pub(super) leaves: Vec<Leaf>,
    /// The greatest normalized key.
    pub(super) last: u64,
    pub(super) entries: u64,
}

pub(super) fn corrupt(why: impl Into<String>) -> FormatError {
    FormatError::Corrupt {
        what: WHAT,
        why: why.into(),
    }
}

impl Leaf {
    /// Bits of an entry.
    #[inline]
    pub(super) fn width(&self) -> usize {
        usize::from(self.key_width) + usize::from(self.row_width)
    }

    fn is_possible(&self) -> bool {
        let entries = usize::from(self.entries);
        (1..=LEAF_ENTRIES_MOST).contains(&entries)
            && self.key_width <= 64
            && self.row_width <= ROW_BITS_MOST
            && entries * self.width() <= LEAF_BYTES * 8
    }

    /// The entry at a place: the distance of its normalized key from the leaf's first, and its row. `bytes` are the leaf's.
    #[inline]
    pub(super) fn entry(&self, bytes: &[u8], place: usize) -> Entry {
        debug_assert!(place < usize::from(self.entries));
        let (word, shift) = self.word(bytes, place);
        let distance = (word >> shift) as u64 & max_code(self.key_width);
        let row = (word >> shift >> self.key_width) as u64 & max_code(self.row_width);
        (distance, self.row(place, row))
    }

    /// The distance of the normalized key at a place from the leaf's first.
    #[inline]
    pub(super) fn distance(&self, bytes: &[u8], place: usize) -> u64 {
        let (word, shift) = self.word(bytes, place);
        (word >> shift) as u64 & max_code(self.key_width)
    }

    #[inline]
    fn word(&self, bytes: &[u8], place: usize) -> (u128, usize) {
        let width = self.width();
        let bit = place * width;
        let line_end = (bit + width).div_ceil(8).next_multiple_of(LINE_BYTES);
        let start = (bit / 8).min(line_end.saturating_sub(WORD_BYTES));
        let word = bytes[start..start + WORD_BYTES].try_into();
        let word = u128::from_le_bytes(word.expect("sixteen bytes"));
        (word, bit - start * 8)
    }

    #[inline]
    fn row(&self, place: usize, packed: u64) -> u64 {
        (self.rows as u64)
            .wrapping_add(place as u64)
            .wrapping_add(packed)
    }

    /// The bytes of the leaf in which an entry lies.
    #[inline]
    pub(super) fn bytes_of(&self, place: usize) -> Range<usize> {
        let bit = place * self.width();
        bit / 8..(bit + self.width()).div_ceil(8)
    }

    /// The entries in the line in which the entry at `place` begins, and that entry, which may extend into the next line.
    #[inline]
    pub(super) fn line_of(&self, place: usize) -> Range<usize> {
        let width = self.width();
        if width == 0 {
            return 0..usize::from(self.entries);
        }
        let line_bits = LINE_BYTES * 8;
        let line = place * width / line_bits * line_bits;
        let first = line.div_ceil(width);
        let end = ((line + line_bits) / width).min(usize::from(self.entries));
        first..end.max(place + 1)
    }

    /// The row of a normalized key, given by its distance, if it is at one of these places.
    #[inline]
    pub(super) fn row_between(
        &self,
        bytes: &[u8],
        places: Range<usize>,
        wanted: u64,
    ) -> Option<u64> {
        let (mut from, mut count) = (places.start, places.len());
        while count > 1 {
            let half = count / 2;
            let is_behind = self.distance(bytes, from + half) <= wanted;
            from = std::hint::select_unpredictable(is_behind, from + half, from);
            count -= half;
        }
        let (distance, row) = (count > 0).then(|| self.entry(bytes, from))?;
        (distance == wanted).then_some(row)
    }
}

/// Offset of the leaves after a directory of this many.
pub(super) fn leaves_at(leaves: usize) -> usize {
    HEADER_BYTES + (leaves * ENTRY_BYTES).next_multiple_of(LINE_BYTES)
}

/// Bytes of a run of this many leaves.
pub(super) fn len_bytes(leaves: usize) -> usize {
    leaves_at(leaves) + leaves * LEAF_BYTES + PAD_BYTES
}

impl Directory {
    /// The number of leaves.
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Writes header and directory to their offsets; `bytes` are the run's.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let (header, rest) = bytes.split_at_mut(HEADER_BYTES);
        let directory = &mut rest[..leaves_at(self.len()) - HEADER_BYTES];
        directory.fill(0);
        let entries = directory.chunks_exact_mut(ENTRY_BYTES);
        for (out, (first, leaf)) in entries.zip(self.firsts.iter().zip(&self.leaves)) {
            out[..8].copy_from_slice(&first.to_le_bytes());
            out[8..16].copy_from_slice(&leaf.rows.to_le_bytes());
            out[16..20].copy_from_slice(&leaf.crc.to_le_bytes());
            out[20..22].copy_from_slice(&leaf.entries.to_le_bytes());
            out[22] = leaf.key_width;
            out[23] = leaf.row_width;
        }
        header.fill(0);
        header[..4].copy_from_slice(&MAGIC);
        header[4] = VERSION;
        let len = len_bytes(self.len()) as u64;
        let numbers = [self.entries, self.len() as u64, self.last, len];
        for (out, number) in header[8..].chunks_exact_mut(8).zip(numbers) {
            out.copy_from_slice(&number.to_le_bytes());
        }
        header[56..60].copy_from_slice(&crc32c::crc32c(directory).to_le_bytes());
        let crc = crc32c::crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Length of header and directory at the start of `bytes`, according to the header.
    pub(super) fn stored_bytes(bytes: &[u8]) -> Option<usize> {
        let leaves = usize::try_from(read_u64(bytes.get(..HEADER_BYTES)?, 16)).ok()?;
        let is_possible = leaves <= bytes.len() / LEAF_BYTES;
        is_possible.then(|| leaves_at(leaves))
    }

    /// Checks and reads header and directory at the start of `bytes`, which may extend beyond the run.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, FormatError> {
        let Some(header) = bytes.get(..HEADER_BYTES) else {
            return Err(truncated(HEADER_BYTES as u64, bytes));
        };
        if header[..4] != MAGIC {
            let found = [header[0], header[1], header[2], header[3]];
            return Err(FormatError::Magic { what: WHAT, found });
        }
        if header[4] != VERSION {
            return Err(FormatError::Version {
                what: WHAT,
                found: header[4],
                supported: VERSION,
            });
        }
        check_crc(&header[..60], read_u32(header, 60))?;
        let [entries, leaves, last, len] = [8, 16, 24, 32].map(|at| read_u64(header, at));
        let is_possible = |leaves: &usize| {
            *leaves > 0 && *leaves <= bytes.len() / LEAF_BYTES && len == len_bytes(*leaves) as u64
        };
        let found = usize::try_from(leaves).ok().filter(is_possible);
        let found = found.ok_or_else(|| corrupt(format!("{leaves} leaves in {len} bytes")))?;
        if (bytes.len() as u64) < len {
            return Err(truncated(len, bytes));
        }
        let stored = &bytes[HEADER_BYTES..leaves_at(found)];
        check_crc(stored, read_u32(header, 56))?;
        let mut directory = Directory {
            firsts: Vec::with_capacity(found),
            leaves: Vec::with_capacity(found),
            last,
            entries,
        };
        for stored in stored.chunks_exact(ENTRY_BYTES).take(found) {
            directory.firsts.push(read_u64(stored, 0));
            directory.leaves.push(Leaf {
                rows: read_u64(stored, 8) as i64,
                crc: read_u32(stored, 16),
                entries: u16::from_le_bytes([stored[20], stored[21]]),
                key_width: stored[22],
                row_width: stored[23],
            });
        }
        let listed = directory.leaves.iter().map(|leaf| u64::from(leaf.entries));
        let ascends = directory.firsts.is_sorted() && directory.firsts.last() <= Some(&last);
        if !ascends
            || !directory.leaves.iter().all(Leaf::is_possible)
            || listed.sum::<u64>() != entries
        {
            return Err(corrupt("its directory contradicts itself"));
        }
        Ok(directory)
    }
}

fn truncated(needed: u64, bytes: &[u8]) -> FormatError {
    FormatError::Truncated {
        what: WHAT,
        needed,
        found: bytes.len() as u64,
    }
}

fn check_crc(bytes: &[u8], stored: u32) -> Result<(), FormatError> {
    match crc32c::crc32c(bytes) {
        computed if computed == stored => Ok(()),
        computed => Err(FormatError::Checksum {
            what: WHAT,
            stored,
            computed,
        }),
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
