//! A part of an inverted index: an extent with postings, far or copied near.
//!
//! Invariant: no byte of a page is used before its checksum matched once; a part that was written by this process or copied near
//! is known to be whole. A damaged page is repaired from another copy. A part without a whole copy, or that changes while it is
//! read, is given up: it is not used again, and the writer builds another one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tierra_column::{
    Dictionary, EntryRange, FormatError, Position, PostingList, Postings, PostingsLayout,
};
use tierra_interleave::{Cx, Lookups, for_each};
use tierra_memory::placement::{LineTimes, SAMPLED, Uses, sample};
use tierra_memory::{MemoryGate, NearCopy, NearMemory, Speed, in_mode};

use crate::calibration::{Calibration, LookupKind};
use crate::integrity::pages::{PageFormat, StoredPages};
use crate::manifest::PartEntry;
use crate::segment::Segments;
use crate::storage::extent::OwnedExtent;

/// A part that was opened or written.
pub(crate) struct InvertedPart {
    entry: Arc<PartEntry>,
    pages: StoredPages,
    /// Reads of the part, in any tier.
    uses: Arc<Uses>,
    layout: PostingsLayout,
    damaged: AtomicBool,
    gates: Arc<Gates>,
}

/// Gates for finding lists and for reading them: the two may lie in different tiers.
struct Gates {
    list: MemoryGate,
    stretch: MemoryGate,
}

impl Gates {
    fn of(calibration: &Calibration, speed: Speed) -> Arc<Self> {
        Arc::new(Self {
            list: calibration.gate(LookupKind::List, speed),
            stretch: calibration.gate(LookupKind::Stretch, speed),
        })
    }
}

/// The rows that some codes have in a part, as far as the first lookup tells.
#[derive(Debug, Default)]
pub(crate) struct PartRows {
    once: Vec<Position>,
    stretches: Vec<EntryRange>,
    among: u64,
}

impl PartRows {
    /// Upper bound of the rows.
    pub(crate) fn most(&self) -> u64 {
        self.once.len() as u64 + self.among
    }
}

impl InvertedPart {
    /// Opens a part that another process wrote, for a table with these segments and this dictionary of the column. Gates start
    /// from `calibration`.
    pub(crate) fn open(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
        segments: &Segments,
        dictionary: Option<&Dictionary>,
    ) -> Result<Arc<Self>, FormatError> {
        let part = Self::checked(entry, extent, calibration, false)?;
        part.compare(segments, dictionary)?;
        Ok(Arc::new(part))
    }

    /// Opens a part that was just written, whose pages need no check.
    pub(crate) fn written(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
    ) -> Result<Arc<Self>, FormatError> {
        Ok(Arc::new(Self::checked(entry, extent, calibration, true)?))
    }

    fn checked(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
        is_written: bool,
    ) -> Result<Self, FormatError> {
        let postings = Postings::open(extent.read())?;
        let (generation, segments) = (entry.generation, entry.segments.len());
        if (postings.generation(), postings.chunks()) != (generation, segments) {
            return Err(corrupt(format!(
                "it covers {} segments in generation {}, the manifest says {segments} in {generation}",
                postings.chunks(),
                postings.generation()
            )));
        }
        let (layout, pages) = (postings.layout(), postings.pages());
        Ok(Self {
            layout,
            entry,
            pages: StoredPages::new(extent, pages, is_written),
            uses: Arc::default(),
            damaged: AtomicBool::new(false),
            gates: Gates::of(calibration, Speed::Far),
        })
    }

    /// Whether all its pages match their checksums.
    pub(crate) fn matches_checksums(&self) -> bool {
        self.pages.all_match(&self.postings())
    }

    /// Checks that it may be the part built from the segments that it covers: it lists each of their values, and no code beyond
    /// the dictionary. Reads no page.
    fn compare(
        &self,
        segments: &Segments,
        dictionary: Option<&Dictionary>,
    ) -> Result<(), FormatError> {
        let (mut values, mut is_known) = (0, true);
        for id in &self.entry.segments {
            let segment = segments.get(*id);
            let segment = segment.ok_or_else(|| corrupt(format!("segment {id} is not there")))?;
            let chunk = segment.chunk(self.column());
            is_known &= !segment.is_placeholder(self.column());
            values += (chunk.rows() - chunk.null_count()) as u64;
        }
        let postings = self.postings();
        if is_known && postings.entries() != values {
            return Err(corrupt(format!(
                "it lists {} rows, its segments have {values} with values",
                postings.entries()
            )));
        }
        let same = dictionary.filter(|known| known.generation() == postings.generation());
        let known = same.map_or(0, |known| known.len() as u64);
        if postings.codes() > known {
            return Err(corrupt(format!(
                "it lists {} codes, of which the dictionary has {known}",
                postings.codes()
            )));
        }
        Ok(())
    }

    /// Its pages.
    pub(crate) fn pages(&self) -> &StoredPages {
        &self.pages
    }

    /// Makes a near copy ([`StoredPages::near_copy`]).
    pub(crate) fn near_copy(
        &self,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, FormatError> {
        self.pages.near_copy(&self.postings(), near, goes_on)
    }

    /// The same part read from another near copy, or from none.
    pub(crate) fn with_near(
        &self,
        near: Option<Arc<NearCopy>>,
        calibration: &Calibration,
    ) -> Arc<Self> {
        let pages = self.pages.with_near(near, &self.postings());
        let gates = Gates::of(calibration, pages.speed());
        Arc::new(self.read_from(pages, gates))
    }

    /// Statistics of its reads.
    pub(crate) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }

    /// The same part read from other copies of its extent.
    pub(crate) fn with_extent(&self, extent: Arc<OwnedExtent>) -> Arc<Self> {
        Arc::new(self.read_from(self.pages.with_extent(extent), self.gates.clone()))
    }

    fn read_from(&self, pages: StoredPages, gates: Arc<Gates>) -> Self {
        Self {
            pages,
            gates,
            uses: self.uses.clone(),
            damaged: AtomicBool::new(self.is_given_up()),
            entry: self.entry.clone(),
            layout: self.layout,
        }
    }

    /// Gives it up because its bytes are not those that were written; returns whether it was in use until now.
    pub(crate) fn give_up(&self) -> bool {
        !self.damaged.swap(true, Ordering::Relaxed)
    }

    /// Whether it was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    pub(crate) fn entry(&self) -> &Arc<PartEntry> {
        &self.entry
    }

    pub(crate) fn column(&self) -> usize {
        self.entry.column as usize
    }

    /// The tier that lookups read.
    pub(crate) fn speed(&self) -> Speed {
        self.pages.speed()
    }

    /// How long its lines take where they are read.
    pub(crate) fn line_times(&self) -> LineTimes {
        match self.speed() {
            Speed::Near => LineTimes::USUAL,
            Speed::Far => self.extent().read().line_times(),
        }
    }

    /// Codes that it covers, with or without rows.
    pub(crate) fn codes(&self) -> u64 {
        self.postings().codes()
    }

    /// Rows of this many codes at the average frequency.
    pub(crate) fn average_rows(&self, codes: u64) -> u64 {
        let postings = self.postings();
        let rows = u128::from(codes) * u128::from(postings.entries());
        (rows / u128::from(postings.codes().max(1))) as u64
    }

    /// Whether codes have lists: most have at most one row, which needs no list.
    pub(crate) fn has_lists(&self) -> bool {
        self.postings().entries() >= 2 * self.codes()
    }

    /// Whether it lists the rows of this segment.
    pub(crate) fn covers(&self, segment: u32) -> bool {
        self.entry.segments.binary_search(&segment).is_ok()
    }

    pub(crate) fn extent(&self) -> &Arc<OwnedExtent> {
        self.pages.extent()
    }

    fn postings(&self) -> Postings<'_> {
        Postings::reopen(self.pages.bytes(), &self.layout)
    }

    /// The first lookup: an upper bound of the rows of some codes, and where these are listed. Each code is one lookup.
    pub(crate) fn lists(
        &self,
        codes: &[u32],
        lookups: &mut Lookups,
    ) -> Result<PartRows, FormatError> {
        let postings = self.postings();
        let read = || codes.iter().flat_map(|code| postings.pages_of_list(*code));
        self.pages.restore_lost(&postings)?;
        self.pages.verify(&postings, read())?;
        let (mut rows, mut failed) = (PartRows::default(), None);
        lookups.run(
            self.gates.list.now(),
            codes.len(),
            |execution, size, part| {
                in_mode!(execution, M => for_each(
                    size,
                    &codes[part],
                    |cx: Cx<M>, code| postings.list(cx, *code),
                    |_, listed| match listed {
                        Ok(PostingList::Empty) => {}
                        Ok(PostingList::Single(position)) => rows.once.push(position),
                        Ok(PostingList::Entries(stretch)) => {
                            rows.among += stretch.len() as u64;
                            rows.stretches.push(stretch);
                        }
                        Err(error) => failed = Some(error),
                    },
                ))
            },
        );
        self.note_lookups(codes.len());
        self.pages.check_read(&postings, read())?;
        failed.map_or(Ok(rows), Err)
    }

    /// The second lookup: calls `found` with the position of each row. Each run of lines is one lookup.
    pub(crate) fn positions(
        &self,
        rows: &PartRows,
        lookups: &mut Lookups,
        mut found: impl FnMut(Position),
    ) -> Result<(), FormatError> {
        let postings = self.postings();
        self.pages.restore_lost(&postings)?;
        rows.once.iter().for_each(|position| found(*position));
        let stretches: Vec<EntryRange> =
            rows.stretches.iter().flat_map(|all| all.parts()).collect();
        let read = || stretches.iter().flat_map(|it| postings.pages_of_range(it));
        self.pages.verify(&postings, read())?;
        lookups.run(
            self.gates.stretch.now(),
            stretches.len(),
            |execution, size, part| {
                in_mode!(execution, M => for_each(
                    size,
                    &stretches[part],
                    |cx: Cx<M>, stretch| postings.load_range(cx, *stretch),
                    |_, stretch| postings.positions_in(&stretch, &mut found),
                ))
            },
        );
        self.note_lookups(stretches.len());
        self.pages.check_read(&postings, read())
    }

    fn note_lookups(&self, count: usize) {
        let mut lines = 0;
        sample(count, |_| lines += SAMPLED);
        if lines > 0 {
            self.uses.looked_up(lines);
        }
    }
}

impl PageFormat for Postings<'_> {
    const WHAT: &'static str = "a page of an inverted index";

    fn pages(&self) -> usize {
        Postings::pages(self)
    }

    fn range(&self, page: usize) -> Range<usize> {
        self.page_range(page)
    }

    fn crc(&self, page: usize) -> u32 {
        self.page_crc(page)
    }
}

fn corrupt(why: String) -> FormatError {
    FormatError::Corrupt {
        what: "an inverted index",
        why,
    }
}

impl std::fmt::Debug for InvertedPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (column, segments) = (self.entry.column, self.entry.segments.len());
        write!(f, "InvertedPart(column {column}, {segments} segments)")
    }
}
