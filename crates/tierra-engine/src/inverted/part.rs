//! One part of an inverted index: an extent with postings, far or copied near.
//!
//! Invariant: no byte of a page is used before its checksum held, once; a part written by this
//! process, or copied near, is known to be whole. A damaged page is put right from another copy; a part of which there is
//! none, or that changes while it is read, is given up: nobody asks it again, and the writer builds another one in its place.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tierra_column::{
    Dictionary, EntryRange, FormatError, Position, PostingList, Postings, PostingsLayout,
};
use tierra_interleave::{Cx, Lookups, for_each};
use tierra_memory::emulation::begin_read;
use tierra_memory::placement::{SAMPLED, Uses, sample};
use tierra_memory::{MemoryGate, NearCopy, NearMemory, Speed, in_mode};

use crate::calibration::{Calibration, LookupKind};
use crate::doubt::any_doubt;
use crate::manifest::PartEntry;
use crate::mend;
use crate::near::checked_copy;
use crate::segment::Segment;
use crate::space::{ExtentCopy, OwnedExtent};
use crate::verified::{DamageFound, VerifiedPages};
use crate::verify::VerifyReads;

/// A part as it was opened or written.
pub(crate) struct InvertedPart {
    entry: Arc<PartEntry>,
    /// Kept allocated even where reads go to the near copy.
    extent: Arc<OwnedExtent>,
    /// The copy of it that is read.
    read: Arc<ExtentCopy>,
    near: Option<Arc<NearCopy>>,
    /// What was read of it, wherever it lay.
    uses: Arc<Uses>,
    layout: PostingsLayout,
    /// A bit per page whose checksum held; `None` once all did.
    verified: Option<VerifiedPages>,
    damaged: AtomicBool,
    gates: Arc<Gates>,
}

/// Of finding lists, and of reading them: where the two lie may differ in how near it is.
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

/// The rows that some codes have in a part, as far as the first look tells.
#[derive(Debug, Default)]
pub(crate) struct PartRows {
    once: Vec<Position>,
    stretches: Vec<EntryRange>,
    among: u64,
}

impl PartRows {
    /// Rows at most.
    pub(crate) fn most(&self) -> u64 {
        self.once.len() as u64 + self.among
    }
}

impl InvertedPart {
    /// Opens a part that another process wrote, for a table with these segments and this dictionary of
    /// the column. Gates start as `calibration` says.
    pub(crate) fn open(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
        segments: &[Arc<Segment>],
        dictionary: Option<&Dictionary>,
    ) -> Result<Arc<Self>, FormatError> {
        let mut part = Self::checked(entry, extent, calibration)?;
        part.compare(segments, dictionary)?;
        part.verified = Some(part.nothing_verified());
        Ok(Arc::new(part))
    }

    /// Opens a part written a moment ago, whose pages need no check.
    pub(crate) fn written(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
    ) -> Result<Arc<Self>, FormatError> {
        let mut part = Self::checked(entry, extent, calibration)?;
        part.verified = Some(VerifiedPages::new(
            part.damage(),
            part.postings().pages(),
            true,
        ));
        Ok(Arc::new(part))
    }

    fn checked(
        entry: Arc<PartEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
    ) -> Result<Self, FormatError> {
        let read = extent.first().clone();
        let postings = Postings::open(&read)?;
        let (generation, segments) = (entry.generation, entry.segments.len());
        if (postings.generation(), postings.chunks()) != (generation, segments) {
            return Err(corrupt(format!(
                "it covers {} segments in generation {}, the manifest says {segments} in {generation}",
                postings.chunks(),
                postings.generation()
            )));
        }
        Ok(Self {
            layout: postings.layout(),
            entry,
            extent,
            read,
            near: None,
            uses: Arc::default(),
            verified: None,
            damaged: AtomicBool::new(false),
            gates: Gates::of(calibration, Speed::Far),
        })
    }

    fn damage(&self) -> &DamageFound {
        &self.extent.all_losses().log.damage
    }

    fn nothing_verified(&self) -> VerifiedPages {
        VerifiedPages::new(self.damage(), self.postings().pages(), false)
    }

    /// Whether all its pages have their checksums.
    pub(crate) fn is_whole(&self) -> bool {
        let postings = self.postings();
        let mut pages = 0..postings.pages();
        pages.all(|page| postings.verify_page(page).is_ok())
    }

    /// Whether it can be what was built of the segments that it covers: it lists each of their values,
    /// and no code that the dictionary does not have. Reads no page.
    fn compare(
        &self,
        segments: &[Arc<Segment>],
        dictionary: Option<&Dictionary>,
    ) -> Result<(), FormatError> {
        let (mut values, mut is_known) = (0, true);
        for id in &self.entry.segments {
            let at = segments.binary_search_by_key(id, |segment| segment.id());
            let at = at.map_err(|_| corrupt(format!("segment {id} is not there")))?;
            let chunk = segments[at].chunk(self.column());
            is_known &= !segments[at].is_absent(self.column());
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

    /// A near copy of it; `None` where it has one, there is no room, or copying was not to go on ([`checked_copy`]).
    pub(crate) fn near_copy(
        &self,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, FormatError> {
        if self.near.is_some() {
            return Ok(None);
        }
        self.restore_lost()?;
        let check = |copy: &[u8]| {
            let postings = Postings::reopen(copy, &self.layout);
            (0..postings.pages()).try_for_each(|page| postings.verify_page(page))
        };
        let mend = || {
            self.restore_lost()?;
            let postings = self.postings();
            (0..postings.pages()).try_for_each(|page| self.verify_page(&postings, page))
        };
        checked_copy(near, &self.read, goes_on, check, mend)
    }

    /// The same part read from another near copy, or from none.
    pub(crate) fn with_near(
        &self,
        near: Option<Arc<NearCopy>>,
        calibration: &Calibration,
    ) -> Arc<Self> {
        let speed = near.as_ref().map_or(Speed::Far, |_| Speed::Near);
        let mut part = Self {
            near,
            uses: self.uses.clone(),
            verified: None,
            damaged: AtomicBool::new(self.is_given_up()),
            entry: self.entry.clone(),
            extent: self.extent.clone(),
            read: self.read.clone(),
            layout: self.layout,
            gates: Gates::of(calibration, speed),
        };
        if part.near.is_none() {
            part.verified = Some(part.nothing_verified());
        }
        Arc::new(part)
    }

    /// Its near copy.
    pub(crate) fn near(&self) -> Option<&Arc<NearCopy>> {
        self.near.as_ref()
    }

    /// What was read of it.
    pub(crate) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }

    /// The same part read from other copies of its extent.
    pub(crate) fn with_extent(&self, extent: Arc<OwnedExtent>) -> Arc<Self> {
        Arc::new(Self {
            read: extent.first().clone(),
            extent,
            entry: self.entry.clone(),
            near: self.near.clone(),
            uses: self.uses.clone(),
            layout: self.layout,
            verified: self.verified.as_ref().map(VerifiedPages::of_other_bytes),
            damaged: AtomicBool::new(self.is_given_up()),
            gates: self.gates.clone(),
        })
    }

    /// Takes it out of use, because it holds other bytes than those that were written; whether it was
    /// in use until now.
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
        match self.near {
            Some(_) => Speed::Near,
            None => Speed::Far,
        }
    }

    /// Codes that it knows, with rows or without.
    pub(crate) fn codes(&self) -> u64 {
        self.postings().codes()
    }

    /// Rows of so many codes, if they were as frequent as all are on average.
    pub(crate) fn average_rows(&self, codes: u64) -> u64 {
        let postings = self.postings();
        let rows = u128::from(codes) * u128::from(postings.entries());
        (rows / u128::from(postings.codes().max(1))) as u64
    }

    /// Whether codes have lists: most have a row, if any, that needs none.
    pub(crate) fn has_lists(&self) -> bool {
        self.postings().entries() >= 2 * self.codes()
    }

    /// Whether it lists the rows of this segment.
    pub(crate) fn covers(&self, segment: u32) -> bool {
        self.entry.segments.binary_search(&segment).is_ok()
    }

    pub(crate) fn extent(&self) -> &Arc<OwnedExtent> {
        &self.extent
    }

    fn postings(&self) -> Postings<'_> {
        let bytes: &[u8] = match &self.near {
            Some(copy) => copy,
            None => &self.read,
        };
        Postings::reopen(bytes, &self.layout)
    }

    /// The first look: how many rows some codes have here, at most, and where they are listed. Each
    /// code is one lookup.
    pub(crate) fn lists(
        &self,
        codes: &[u32],
        lookups: &mut Lookups,
    ) -> Result<PartRows, FormatError> {
        let postings = self.postings();
        self.restore_lost()?;
        for code in codes {
            self.verify(&postings, postings.pages_of_list(*code))?;
        }
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
        let read = codes.iter();
        self.check_read(&postings, read.map(|code| postings.pages_of_list(*code)))?;
        failed.map_or(Ok(rows), Err)
    }

    /// The second look: calls `found` with the position of each row. Each run of lines is one lookup.
    pub(crate) fn positions(
        &self,
        rows: &PartRows,
        lookups: &mut Lookups,
        mut found: impl FnMut(Position),
    ) -> Result<(), FormatError> {
        let postings = self.postings();
        self.restore_lost()?;
        rows.once.iter().for_each(|position| found(*position));
        let stretches: Vec<EntryRange> =
            rows.stretches.iter().flat_map(|all| all.parts()).collect();
        for stretch in &stretches {
            self.verify(&postings, postings.pages_of_range(stretch))?;
        }
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
        let read = stretches.iter();
        self.check_read(&postings, read.map(|it| postings.pages_of_range(it)))
    }

    fn note_lookups(&self, count: usize) {
        let mut lines = 0;
        sample(count, |_| lines += SAMPLED);
        if lines > 0 {
            self.uses.looked_up(lines);
        }
    }

    /// After pages were read: whether that is to be believed.
    fn check_read(
        &self,
        postings: &Postings<'_>,
        mut pages: impl Iterator<Item = Range<usize>>,
    ) -> Result<(), FormatError> {
        match self.checks_every() {
            true => pages
                .try_for_each(|mut pages| pages.try_for_each(|page| postings.verify_page(page))),
            false => Ok(()),
        }
    }

    /// Whether what is read of it is checked every time.
    #[inline]
    fn checks_every(&self) -> bool {
        any_doubt()
            && self.near.is_none()
            && self.extent.all_losses().checks.get() == VerifyReads::Every
    }

    /// Has what was lost of the copy that is read there, if anything was.
    #[inline]
    fn restore_lost(&self) -> Result<(), FormatError> {
        match any_doubt() && self.near.is_none() && !mend::lost_parts(&self.extent, &self.read) {
            false => Ok(()),
            true => Err(corrupt(
                "pages of it were lost, and no other copy has them".to_owned(),
            )),
        }
    }

    // Relaxed: a stale zero only verifies once more, and the bytes themselves never change.
    fn verify(&self, postings: &Postings<'_>, pages: Range<usize>) -> Result<(), FormatError> {
        let every = self.checks_every();
        if self.verified.is_none() && !every {
            return Ok(());
        }
        for page in pages {
            let check = || {
                let _reading = begin_read(postings.page(page));
                self.verify_page(postings, page)
            };
            match &self.verified {
                Some(verified) if every || !verified.contains(page) => {
                    verified.check(page, check)?;
                }
                None if every => check()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the page of a far copy, which is put right from another one if need be.
    fn verify_page(&self, postings: &Postings<'_>, page: usize) -> Result<(), FormatError> {
        let checked = postings.verify_page(page);
        let right = |bytes: &[u8]| postings.page_matches(page, bytes);
        match checked.is_err() && mend::stored(&self.extent, postings.page_range(page), right) {
            true => Ok(()),
            false => checked,
        }
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
