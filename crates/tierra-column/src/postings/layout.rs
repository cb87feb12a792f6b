//! The bytes of postings: header, page checksums, directory, entries. All integers are little-endian.
//!
//! ```text
//! 0        64               data_offset
//! ┌────────┬────────────────┬───────────┬─────────┬─────┐    header   0  magic "TINV"
//! │ header │ CRC32C of each │ directory │ entries │ pad │              4  format version
//! │        │ page of data   │           │         │ 64  │              5  kind
//! └────────┴────────────────┴───────────┴─────────┴─────┘              6  shift
//!                           \_ data: pages of 4096 bytes _/            7  width of an offset in bits
//!                                                                      8  width of a position in bits
//! position  chunk << 20 | row                                          9  0, 3 bytes
//!                                                                     12  chunks
//! kind 0, lists                                                       16  dictionary generation
//!   directory  of bucket b = code >> shift, and of one more:          24  codes
//!              the number of its first entry                          32  entries
//!   entry      low bits of the code << position width | position      40  length in bytes
//! kind 1, rows                                                        48  0, 8 bytes
//!   directory  none                                                   56  CRC32C of the page checksums
//!   entry      of each code: its position + 1, or 0 where it has none 60  CRC32C of bytes 0 to 60
//! ```
//!
//! Directory and entries are packed codes (`bits`), each begins on a line. The shift is the smallest
//! with which there is at most one bucket more than there are entries: few rows against a large dictionary take
//! space for few rows. Rows are kept by code where no code comes twice and most codes come once.
//!
//! Invariant: after [`PostingsLayout::read`] everything lies inside the bytes. The content of the data is
//! not trusted.

use crate::bits::{PAD_BYTES, packed_bytes, width_of};
use crate::bytes::{lines, read_u32, read_u64};
use crate::error::FormatError;
use crate::limits::CHUNK_ROWS;

/// Chunks that postings can cover: a position has 32 bits, and so has a position plus one.
pub const POSTINGS_CHUNKS_MAX: usize = 4095;
/// The unit of checksums.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bits of a row in a position.
pub(super) const ROW_BITS: u32 = CHUNK_ROWS.trailing_zeros();

const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"TINV";
const VERSION: u8 = 1;
const WHAT: &str = "an inverted index";

/// How entries are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostingsKind {
    Lists,
    Rows,
}

/// The validated header of postings. A few words: keep a copy to [`reopen`](super::Postings::reopen) the
/// same immutable bytes without checking again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingsLayout {
    pub(super) kind: PostingsKind,
    pub(super) shift: u8,
    pub(super) offset_width: u8,
    pub(super) position_width: u8,
    pub(super) chunks: u32,
    pub(super) generation: u64,
    pub(super) codes: u64,
    pub(super) entries: u64,
}

fn corrupt(why: impl Into<String>) -> FormatError {
    FormatError::corrupt(WHAT, why)
}

impl PostingsLayout {
    /// Of `entries` rows that lie in `chunks` chunks, none behind `last_position`; `unique` where no
    /// code comes twice.
    pub(super) fn new(
        generation: u64,
        codes: u64,
        entries: u64,
        chunks: u32,
        last_position: u64,
        unique: bool,
    ) -> Self {
        if unique {
            return PostingsLayout {
                kind: PostingsKind::Rows,
                shift: 0,
                offset_width: 0,
                position_width: width_of(last_position + 1),
                chunks,
                generation,
                codes,
                entries,
            };
        }
        let too_many = |shift: &u8| codes >> shift > entries;
        let shift = (0..64).find(|shift| !too_many(shift)).unwrap_or(64);
        PostingsLayout {
            kind: PostingsKind::Lists,
            shift,
            offset_width: width_of(entries).max(1),
            position_width: width_of(last_position).max(1),
            chunks,
            generation,
            codes,
            entries,
        }
    }

    /// Lists of the directory.
    pub(super) fn buckets(&self) -> u64 {
        match self.kind {
            PostingsKind::Rows => 0,
            PostingsKind::Lists => self.codes.div_ceil(1 << self.shift),
        }
    }

    fn offsets(&self) -> u64 {
        match self.kind {
            PostingsKind::Rows => 0,
            PostingsKind::Lists => self.buckets() + 1,
        }
    }

    /// Entries that are stored.
    pub(super) fn slots(&self) -> u64 {
        match self.kind {
            PostingsKind::Rows => self.codes,
            PostingsKind::Lists => self.entries,
        }
    }

    /// Bits of an entry.
    pub(super) fn entry_width(&self) -> u8 {
        self.shift + self.position_width
    }

    /// Where the entries begin in the data.
    pub(super) fn entries_at(&self) -> usize {
        lines(packed_bytes(self.offsets() as usize, self.offset_width))
    }

    /// Bytes of the data, pad included.
    pub(super) fn data_bytes(&self) -> usize {
        self.entries_at()
            + lines(packed_bytes(self.slots() as usize, self.entry_width()))
            + PAD_BYTES
    }

    /// Pages of the data; the last one may be short.
    pub(super) fn pages(&self) -> usize {
        self.data_bytes().div_ceil(PAGE_BYTES)
    }

    /// Where the data begins.
    pub(super) fn data_offset(&self) -> usize {
        HEADER_BYTES + lines(self.pages() * 4)
    }

    /// Bytes of all of it.
    pub(super) fn len_bytes(&self) -> usize {
        self.data_offset() + self.data_bytes()
    }

    /// Where the page checksums lie.
    pub(super) fn checksums(&self) -> std::ops::Range<usize> {
        HEADER_BYTES..HEADER_BYTES + self.pages() * 4
    }

    /// Fills in the checksums of the pages and the header, once the data is there.
    pub(super) fn seal(&self, out: &mut [u8]) {
        let (head, data) = out.split_at_mut(self.data_offset());
        head.fill(0);
        let pages = data[..self.data_bytes()].chunks(PAGE_BYTES);
        for (checksum, page) in head[HEADER_BYTES..]
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(pages)
        {
            *checksum = crc32c::crc32c(page).to_le_bytes();
        }
        let checksums = crc32c::crc32c(&head[self.checksums()]);
        head[0..4].copy_from_slice(&MAGIC);
        head[4] = VERSION;
        head[5] = match self.kind {
            PostingsKind::Lists => 0,
            PostingsKind::Rows => 1,
        };
        head[6] = self.shift;
        head[7] = self.offset_width;
        head[8] = self.position_width;
        head[12..16].copy_from_slice(&self.chunks.to_le_bytes());
        head[16..24].copy_from_slice(&self.generation.to_le_bytes());
        head[24..32].copy_from_slice(&self.codes.to_le_bytes());
        head[32..40].copy_from_slice(&self.entries.to_le_bytes());
        head[40..48].copy_from_slice(&(self.len_bytes() as u64).to_le_bytes());
        head[56..60].copy_from_slice(&checksums.to_le_bytes());
        let checksum = crc32c::crc32c(&head[..60]);
        head[60..64].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Checks and reads the header and the page checksums.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, FormatError> {
        let truncated = |needed: u64| FormatError::Truncated {
            what: WHAT,
            needed,
            found: bytes.len() as u64,
        };
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(truncated(HEADER_BYTES as u64));
        };
        if head[..4] != MAGIC {
            return Err(FormatError::Magic {
                what: "inverted index",
                found: [head[0], head[1], head[2], head[3]],
            });
        }
        if head[4] != VERSION {
            return Err(FormatError::Version {
                what: WHAT,
                found: head[4],
                supported: VERSION,
            });
        }
        FormatError::check_crc(WHAT, &head[..60], read_u32(head, 60))?;
        let kind = match head[5] {
            0 => PostingsKind::Lists,
            1 => PostingsKind::Rows,
            other => return Err(corrupt(format!("kind {other}"))),
        };
        let layout = PostingsLayout {
            kind,
            shift: head[6],
            offset_width: head[7],
            position_width: head[8],
            chunks: read_u32(head, 12),
            generation: read_u64(head, 16),
            codes: read_u64(head, 24),
            entries: read_u64(head, 32),
        };
        layout.check()?;
        let len = read_u64(head, 40);
        if len != layout.len_bytes() as u64 {
            return Err(corrupt(format!(
                "its length is {len}, its rows ask for {}",
                layout.len_bytes()
            )));
        }
        if (bytes.len() as u64) < len {
            return Err(truncated(len));
        }
        let checksums = &bytes[layout.checksums()];
        FormatError::check_crc(
            "an inverted index's checksums",
            checksums,
            read_u32(head, 56),
        )?;
        Ok(layout)
    }

    /// Bounds that keep all arithmetic on it far from overflow, and every read within 64 bits.
    fn check(&self) -> Result<(), FormatError> {
        let is_direct = self.kind == PostingsKind::Rows;
        let fits = self.codes <= u64::from(u32::MAX)
            && self.entries <= u64::from(u32::MAX)
            && self.chunks as usize <= POSTINGS_CHUNKS_MAX
            && self.shift <= 32
            && (1..=32).contains(&self.position_width)
            && if is_direct {
                self.shift == 0 && self.offset_width == 0
            } else {
                (1..=33).contains(&self.offset_width)
            };
        fits.then_some(())
            .ok_or_else(|| corrupt("its numbers are beyond what was ever written"))
    }
}
