//! Postings: where the codes of a dictionary occur, the stored part of an inverted index.
//!
//! [`Postings`] cover some dictionary chunks of one column. For each code they list the rows that
//! hold it, as *positions*: the chunk's number among those covered, and the row in it. A lookup
//! touches one line of the directory, rarely two, and then the lines of the list; where no code
//! comes twice one line is all. NULL is in no list.
//!
//! Like a chunk, postings are a view of borrowed bytes, near or far: opening them checks
//! the header ([`layout`]), a page's checksum is compared on request, and positions read from a page
//! are bounds-checked.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//! use arrow::array::{ArrayRef, Int32Array};
//! use tierra_column::{
//!     Chunk, ChunkPlan, DictionaryBuilder, Encoding, LogicalType, Postings, PostingsPlan,
//! };
//!
//! let (ty, mut builder) = (LogicalType::Integer, DictionaryBuilder::new(LogicalType::Integer, 1));
//! let values: ArrayRef = Arc::new(Int32Array::from(vec![7, 9, 7, 7]));
//! let plan = ChunkPlan::new(ty, &[values], Some(Encoding::Dictionary), Some(&mut builder))?;
//! let mut chunk = vec![0; plan.len_bytes()];
//! plan.write(&mut chunk);
//!
//! let (chunks, dictionary) = (vec![Chunk::open(&chunk, ty)?], builder.finish());
//! let go_on = AtomicBool::new(false);
//! let plan = PostingsPlan::new(chunks, &dictionary, NonZeroUsize::MIN, &go_on)?;
//! let mut bytes = vec![0; plan.len_bytes()];
//! plan.write(&mut bytes, &go_on)?;
//!
//! let (postings, mut rows) = (Postings::open(&bytes)?, Vec::new());
//! postings.positions(0, |position| rows.push(position.row()))?; // code 0 is 7
//! assert_eq!(rows, [0, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod error;
mod layout;
mod threads;

use std::ops::Range;

use tierra_interleave::{Chain, Cx, Mode};

pub use build::PostingsPlan;
pub use error::PostingsError;
pub use layout::{POSTINGS_CHUNKS_MAX, PostingsLayout};

use crate::bits::{Kernels, max_code};
use crate::bytes::read_u32;
use crate::error::FormatError;
use layout::{PAGE_BYTES, PostingsKind, ROW_BITS};

/// Entries that are fetched together: a few lines. The hardware prefetcher fetches the following ones.
const FETCHED_ENTRIES: u64 = 128;

/// A row of one of the covered chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u32);

impl Position {
    /// The chunk, counted in the order in which chunks were given.
    #[inline]
    pub fn chunk(self) -> usize {
        (self.0 >> ROW_BITS) as usize
    }

    /// The row in the chunk.
    #[inline]
    pub fn row(self) -> u32 {
        self.0 & ((1 << ROW_BITS) - 1)
    }
}

/// A code's rows, as the directory lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingList {
    /// No row has the code.
    Empty,
    /// One row has it.
    Single(Position),
    /// The rows are among these entries.
    Entries(EntryRange),
}

/// Neighbouring entries, among which are those of one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRange {
    first: u32,
    end: u32,
    /// Bits of the code that an entry repeats.
    low: u32,
}

impl EntryRange {
    /// Entries, and so rows at most.
    pub fn len(&self) -> usize {
        (self.end - self.first) as usize
    }

    /// Whether there is no entry. Never so for a range that [`Postings::list`] returned.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The same entries in parts of some lines, each fetched at once.
    pub fn parts(self) -> impl Iterator<Item = EntryRange> {
        (self.first..self.end)
            .step_by(FETCHED_ENTRIES as usize)
            .map(move |first| EntryRange {
                first,
                end: self.end.min(first.saturating_add(FETCHED_ENTRIES as u32)),
                low: self.low,
            })
    }
}

/// Postings, read where they lie.
#[derive(Debug, Clone, Copy)]
pub struct Postings<'a> {
    layout: PostingsLayout,
    checksums: &'a [u8],
    /// Exactly the data, pad included.
    data: &'a [u8],
}

impl<'a> Postings<'a> {
    /// Opens the postings at the start of `bytes`, which may go on behind them. Checks the header and
    /// the page checksums, but no page.
    ///
    /// # Errors
    /// [`FormatError`] where these are damaged.
    pub fn open(bytes: &'a [u8]) -> Result<Postings<'a>, FormatError> {
        let layout = PostingsLayout::read(bytes)?;
        Ok(Self::at(bytes, &layout))
    }

    /// Opens postings again, whose layout was kept from the first time, without reading any of
    /// them. Bytes that have changed since lead to wrong answers or errors.
    ///
    /// # Panics
    /// If `bytes` are fewer than there were.
    #[inline]
    pub fn reopen(bytes: &'a [u8], layout: &PostingsLayout) -> Postings<'a> {
        assert!(
            bytes.len() >= layout.len_bytes(),
            "postings of {} bytes in {}",
            layout.len_bytes(),
            bytes.len()
        );
        Self::at(bytes, layout)
    }

    fn at(bytes: &'a [u8], layout: &PostingsLayout) -> Postings<'a> {
        Postings {
            layout: *layout,
            checksums: &bytes[layout.checksums()],
            data: &bytes[layout.data_offset()..layout.len_bytes()],
        }
    }

    /// What [`Postings::reopen`] needs.
    pub fn layout(&self) -> PostingsLayout {
        self.layout
    }

    /// The generation of the dictionary whose codes are listed.
    pub fn generation(&self) -> u64 {
        self.layout.generation
    }

    /// Chunks that are covered.
    pub fn chunks(&self) -> usize {
        self.layout.chunks as usize
    }

    /// Codes that can be listed: those that the dictionary had.
    pub fn codes(&self) -> u64 {
        self.layout.codes
    }

    /// Rows that are listed: all but NULLs.
    pub fn entries(&self) -> u64 {
        self.layout.entries
    }

    /// Pages, the unit of checksums.
    pub fn pages(&self) -> usize {
        self.layout.pages()
    }

    fn page(&self, page: usize) -> &'a [u8] {
        let bytes = &self.data[page * PAGE_BYTES..];
        &bytes[..bytes.len().min(PAGE_BYTES)]
    }

    /// The byte range of a page in the postings, the same in every copy.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn page_range(&self, page: usize) -> Range<usize> {
        let start = self.layout.data_offset() + page * PAGE_BYTES;
        start..start + self.page(page).len()
    }

    /// The CRC32C that a page should have.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn page_crc(&self, page: usize) -> u32 {
        read_u32(self.checksums, page * 4)
    }

    /// Checks a page's checksum.
    ///
    /// # Errors
    /// [`FormatError::Checksum`] where it does not match.
    ///
    /// # Panics
    /// If there is no such page.
    #[doc(hidden)]
    pub fn verify_page(&self, page: usize) -> Result<(), FormatError> {
        let bytes = self.page(page);
        FormatError::check_crc("a page of an inverted index", bytes, self.page_crc(page))
    }

    /// The pages that [`Postings::list`] reads for a code.
    #[inline]
    pub fn pages_of_list(&self, code: u32) -> Range<usize> {
        pages(self.list_bytes(code))
    }

    /// The pages that [`Postings::load_range`] reads.
    #[inline]
    pub fn pages_of_range(&self, range: &EntryRange) -> Range<usize> {
        pages(self.range_bytes(range))
    }

    /// Looks a code up in the directory: returns its range of entries, or its only row. Reads one line, rarely two.
    ///
    /// # Errors
    /// [`FormatError`] where the directory cannot be what was written.
    #[inline]
    pub fn list<M: Mode>(
        &self,
        cx: Cx<M>,
        code: u32,
    ) -> impl Future<Output = Result<PostingList, FormatError>> {
        cx.load_bytes(&self.data[self.list_bytes(code)])
            .map(move |_| self.listed(code))
    }

    /// Fetches the lines of a range of entries, to be read by [`Postings::positions_in`].
    #[inline]
    pub fn load_range<M: Mode>(
        &self,
        cx: Cx<M>,
        range: EntryRange,
    ) -> impl Future<Output = EntryRange> {
        cx.load_bytes(&self.data[self.range_bytes(&range)])
            .map(move |_| range)
    }

    /// Calls `found` with the position of each row that a range of entries lists for its code.
    #[inline]
    pub fn positions_in(&self, range: &EntryRange, mut found: impl FnMut(Position)) {
        let layout = &self.layout;
        let entries = &self.data[layout.entries_at()..];
        let mask = max_code(layout.position_width);
        for entry in range.first..range.end {
            let entry = Kernels::get(entries, layout.entry_width(), entry as usize);
            if entry >> layout.position_width == u64::from(range.low) {
                found(Position((entry & mask) as u32));
            }
        }
    }

    /// Calls `found` with the position of each row that holds `code`, one lookup alone.
    ///
    /// # Errors
    /// As [`Postings::list`].
    pub fn positions(&self, code: u32, mut found: impl FnMut(Position)) -> Result<(), FormatError> {
        match self.listed(code)? {
            PostingList::Empty => {}
            PostingList::Single(position) => found(position),
            PostingList::Entries(range) => self.positions_in(&range, found),
        }
        Ok(())
    }

    /// Where in the data a code is looked up; nowhere if it is newer than the postings.
    #[inline]
    fn list_bytes(&self, code: u32) -> Range<usize> {
        let layout = &self.layout;
        if u64::from(code) >= layout.codes {
            return 0..0;
        }
        match layout.kind {
            PostingsKind::Lists => {
                let width = usize::from(layout.offset_width);
                let bit = (u64::from(code) >> layout.shift) as usize * width;
                bit / 8..(bit + 2 * width).div_ceil(8)
            }
            PostingsKind::Rows => {
                let width = usize::from(layout.position_width);
                let bit = code as usize * width;
                bit / 8..(bit + width).div_ceil(8)
            }
        }
    }

    #[inline]
    fn range_bytes(&self, range: &EntryRange) -> Range<usize> {
        let at = self.layout.entries_at();
        let width = usize::from(self.layout.entry_width());
        let (first, end) = (range.first as usize * width, range.end as usize * width);
        at + first / 8..at + end.div_ceil(8)
    }

    #[inline]
    fn listed(&self, code: u32) -> Result<PostingList, FormatError> {
        let layout = &self.layout;
        if u64::from(code) >= layout.codes {
            return Ok(PostingList::Empty);
        }
        if layout.kind == PostingsKind::Rows {
            let entry = Kernels::get(self.data, layout.position_width, code as usize) as u32;
            let position = entry.checked_sub(1).map(Position);
            return Ok(position.map_or(PostingList::Empty, PostingList::Single));
        }
        let bucket = (u64::from(code) >> layout.shift) as usize;
        let first = Kernels::get(self.data, layout.offset_width, bucket);
        let end = Kernels::get(self.data, layout.offset_width, bucket + 1);
        if first > end || end > layout.entries {
            return Err(corrupt_list(code, first, end));
        }
        if first == end {
            return Ok(PostingList::Empty);
        }
        Ok(PostingList::Entries(EntryRange {
            first: first as u32,
            end: end as u32,
            low: (u64::from(code) & max_code(layout.shift)) as u32,
        }))
    }
}

#[cold]
fn corrupt_list(code: u32, first: u64, end: u64) -> FormatError {
    let why = format!("the list of code {code} goes from entry {first} to {end}");
    FormatError::corrupt("an inverted index", why)
}

#[inline]
fn pages(place: Range<usize>) -> Range<usize> {
    place.start / PAGE_BYTES..place.end.div_ceil(PAGE_BYTES)
}
