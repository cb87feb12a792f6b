//! A run: the keys of some sealed segments in order, each with its row, in far memory.
//!
//! The index of a primary key consists of runs, except for rows without a run, whose keys are in near tables ([`super::levels`]).
//! Like parts of inverted indexes, runs are extents: immutable, with as many copies as the table, made in the background
//! (`write/writer/runs.rs`) and joined while they are small. Near memory holds the first normalized key of each leaf and a tree
//! over these, read from the run's directory when it is opened: at most a tenth of a byte per row; and, if the budget has room, a
//! copy of the leaves on large pages.
//!
//! Invariant: no byte of a leaf is used before its checksum matched once. A run lists all rows of its segments or is given up:
//! then a substitute is built from the segments, in near memory, until the writer has made another run.

mod build;
mod layout;
mod merge;
mod search;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tierra_column::FormatError;
use tierra_index::HashIndex;
use tierra_interleave::{Cx, GroupReport, Lookups, Plain, for_each};
use tierra_memory::emulation::begin_read;
use tierra_memory::placement::{SAMPLED, Uses, sample};
use tierra_memory::{MemoryGate, NearCopy, NearMemory, Speed, in_mode};

use super::hashed::rows_in;
use crate::calibration::{Calibration, LookupKind};
use crate::integrity::pages::{PageFormat, StoredPages};
use crate::integrity::repair;
use crate::manifest::RunEntry;
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::row_id::RowId;
use crate::segment::Segments;
use crate::storage::extent::{ExtentCopy, OwnedExtent};

pub(crate) use self::build::{BuiltRun, RunBuilder};
pub(crate) use self::layout::Entry;
pub(crate) use self::merge::{MergeError, merge, merge_without};

use self::layout::{Directory, LEAF_BYTES, corrupt, leaves_at};
use self::search::{Leaves, Sought};

/// Greater than every row number.
const ROWS_END: u64 = (SEGMENT_ROWS as u64) << 32;

/// The runs of a version, in the order in which they were made.
pub(crate) type KeyRuns = Arc<[Arc<KeyRun>]>;

/// A run that was opened or written.
pub(crate) struct KeyRun {
    entry: Arc<RunEntry>,
    /// Its leaves as stored.
    pages: StoredPages,
    /// Their directory in near memory.
    leaves: Arc<Leaves>,
    gate: Arc<MemoryGate>,
    state: Arc<State>,
}

/// State shared by all instances of a run, which read different copies, near or far.
#[derive(Default)]
struct State {
    /// Reads of the run, in any tier.
    uses: Uses,
    damaged: AtomicBool,
    /// Its entries, if it was given up and a reader needed them.
    substitute: OnceLock<HashIndex>,
}

impl KeyRun {
    /// Opens a run that another process wrote, for a table with these segments. A damaged header or directory is repaired from
    /// another copy.
    pub(crate) fn open(
        entry: Arc<RunEntry>,
        extent: Arc<OwnedExtent>,
        calibration: &Calibration,
        segments: &Segments,
    ) -> Result<Arc<Self>, FormatError> {
        let directory = Directory::read(extent.read());
        let directory = directory.or_else(|error| match repair_directory(&extent) {
            true => Directory::read(extent.read()),
            false => Err(error),
        })?;
        let mut rows = 0;
        for id in &entry.segments {
            let segment = segments.get(*id);
            let segment = segment.ok_or_else(|| corrupt(format!("segment {id} is not there")))?;
            rows += segment.rows() as u64;
        }
        if directory.entries != rows {
            return Err(corrupt(format!(
                "it lists {} rows, its segments have {rows}",
                directory.entries
            )));
        }
        Ok(Self::new(entry, extent, directory, false, calibration))
    }

    /// A run that was just written, whose leaves need no check.
    pub(crate) fn written(
        entry: Arc<RunEntry>,
        extent: Arc<OwnedExtent>,
        built: BuiltRun,
        calibration: &Calibration,
    ) -> Arc<Self> {
        Self::new(entry, extent, built.directory, true, calibration)
    }

    fn new(
        entry: Arc<RunEntry>,
        extent: Arc<OwnedExtent>,
        directory: Directory,
        is_written: bool,
        calibration: &Calibration,
    ) -> Arc<Self> {
        Arc::new(Self {
            entry,
            pages: StoredPages::new(extent, directory.len(), is_written),
            leaves: Arc::new(Leaves::new(directory)),
            gate: Arc::new(calibration.gate(LookupKind::Key, Speed::Far)),
            state: Arc::default(),
        })
    }

    /// Its leaves as stored.
    pub(crate) fn pages(&self) -> &StoredPages {
        &self.pages
    }

    /// The same run read from other copies of its extent; a near copy stays.
    pub(crate) fn with_extent(&self, extent: Arc<OwnedExtent>) -> Arc<Self> {
        self.read_from(self.pages.with_extent(extent), self.gate.clone())
    }

    /// Makes a near copy ([`StoredPages::near_copy`]).
    pub(crate) fn near_copy(
        &self,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, FormatError> {
        self.pages.near_copy(self.directory(), near, goes_on)
    }

    /// The same run read from another near copy, or from none.
    pub(crate) fn with_near(
        &self,
        near: Option<Arc<NearCopy>>,
        calibration: &Calibration,
    ) -> Arc<Self> {
        let pages = self.pages.with_near(near, self.directory());
        let gate = calibration.gate(LookupKind::Key, pages.speed());
        self.read_from(pages, Arc::new(gate))
    }

    fn read_from(&self, pages: StoredPages, gate: Arc<MemoryGate>) -> Arc<Self> {
        Arc::new(Self {
            pages,
            gate,
            entry: self.entry.clone(),
            leaves: self.leaves.clone(),
            state: self.state.clone(),
        })
    }

    fn directory(&self) -> &Directory {
        &self.leaves.directory
    }

    /// Statistics of its reads.
    pub(crate) fn uses(&self) -> &Uses {
        &self.state.uses
    }

    pub(crate) fn entry(&self) -> &Arc<RunEntry> {
        &self.entry
    }

    pub(crate) fn extent(&self) -> &Arc<OwnedExtent> {
        self.pages.extent()
    }

    /// Number of rows that it lists.
    pub(crate) fn rows(&self) -> u64 {
        self.leaves.directory.entries
    }

    /// The least and the greatest normalized key.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let directory = &self.leaves.directory;
        (directory.firsts[0], directory.last)
    }

    /// Its bytes of near memory, without the near copy.
    pub(crate) fn near_bytes(&self) -> usize {
        let substitute = self.substitute().map_or(0, HashIndex::bytes);
        self.leaves.near_bytes() + substitute
    }

    /// Whether it lists the rows of this segment.
    pub(crate) fn covers(&self, segment: u32) -> bool {
        self.entry.segments.binary_search(&segment).is_ok()
    }

    /// Gives it up because its bytes are not those that were written; returns whether it was in use until now.
    pub(crate) fn give_up(&self) -> bool {
        !self.state.damaged.swap(true, Ordering::Relaxed)
    }

    /// Whether it was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.state.damaged.load(Ordering::Relaxed)
    }

    /// The entries used in its place, once they are built.
    pub(crate) fn substitute(&self) -> Option<&HashIndex> {
        self.state.substitute.get()
    }

    /// Sets the entries to be used in its place.
    pub(crate) fn set_substitute(&self, entries: HashIndex) {
        // Two readers may build one at the same time; both are the same.
        let _ = self.state.substitute.set(entries);
    }

    /// Whether all its leaves match their checksums.
    pub(crate) fn matches_checksums(&self) -> bool {
        self.pages.all_match(self.directory())
    }

    /// Finds a row for each of `normalized_keys` without one in `rows`. `lookups` counts those that find one; the others continue
    /// elsewhere. Normalized keys outside the run's bounds cost nothing.
    pub(crate) fn find(
        &self,
        normalized_keys: &[u64],
        rows: &mut [Option<RowId>],
        lookups: &mut Lookups,
    ) -> Result<(), FormatError> {
        let wanted = normalized_keys.iter().zip(&*rows).enumerate();
        let wanted = wanted.filter(|(_, (normalized_key, row))| {
            row.is_none() && self.leaves.may_have(**normalized_key)
        });
        let mut sought: Vec<Sought> = wanted
            .map(|(place, (normalized_key, _))| Sought::of(*normalized_key, place))
            .collect();
        if sought.is_empty() {
            return Ok(());
        }
        let mut tell = |place: usize, row: Option<u64>| {
            rows[place] = row.map(RowId::from_number);
            u64::from(row.is_some())
        };
        let gate = self.gate.now();
        let mut lines = 0;
        sample(sought.len(), |_| lines += SAMPLED);
        if lines > 0 {
            self.state.uses.looked_up(lines);
        }
        if let Some(substitute) = self.substitute() {
            lookups.run(gate, sought.len(), |execution, size, part| {
                let (sought, mut found) = (&sought[part], 0);
                let report = in_mode!(execution, M => for_each(
                    size,
                    sought,
                    |cx: Cx<M>, sought| substitute.get(cx, sought.normalized_key),
                    |at, row| found += tell(sought[at].place as usize, row),
                ));
                // The others are counted elsewhere.
                GroupReport {
                    lookups: found,
                    ..report
                }
            });
            return Ok(());
        }
        self.pages.restore_lost(self.directory())?;
        let mut failed = None;
        lookups.run(gate, sought.len(), |execution, _, part| {
            let (sought, mut found) = (&mut sought[part], 0);
            in_mode!(execution, M => {
                let mut report = self.leaves.seek::<M>(sought);
                match self.pages.verify(self.directory(), self.leaves_of(sought)) {
                    Ok(()) => {
                        let leaves = self.leaf_bytes();
                        report += self.leaves.first_rows::<M>(leaves, sought, |place, row| {
                            found += tell(place, row);
                        });
                        let read = self.leaves_of(sought);
                        if let Err(error) = self.pages.check_read(self.directory(), read) {
                            failed = Some(error);
                        }
                    }
                    Err(error) => failed = Some(error),
                }
                GroupReport { lookups: found, ..report }
            })
        });
        failed.map_or(Ok(()), Err)
    }

    /// All rows of a normalized key.
    pub(crate) fn candidates(&self, normalized_key: u64) -> Result<Vec<RowId>, FormatError> {
        if !self.leaves.may_have(normalized_key) {
            return Ok(Vec::new());
        }
        if let Some(substitute) = self.substitute() {
            return Ok(rows_in(substitute, normalized_key).collect());
        }
        self.pages.restore_lost(self.directory())?;
        let mut sought = [Sought::of(normalized_key, 0)];
        self.leaves.seek::<Plain>(&mut sought);
        self.pages
            .verify(self.directory(), self.leaves_of(&sought))?;
        let rows = self.leaves.all_rows(self.leaf_bytes(), sought[0]);
        let rows = rows.map(RowId::from_number).collect();
        self.pages
            .check_read(self.directory(), self.leaves_of(&sought))?;
        Ok(rows)
    }

    /// Replaces `entries` by those of a leaf, in order; by none after the last leaf.
    pub(crate) fn read_leaf(
        &self,
        number: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), FormatError> {
        entries.clear();
        if number == self.leaves.directory.len() {
            return Ok(());
        }
        self.pages.restore_lost(self.directory())?;
        // The result is stored, so the leaf is checked now even if it was checked before.
        self.pages.verify_now(self.directory(), number)?;
        let _reading = begin_read(&self.pages.bytes()[self.directory().range(number)]);
        let (first, leaf, bytes) = self.leaves.leaf(self.leaf_bytes(), number);
        entries.extend((0..usize::from(leaf.entries)).map(|place| {
            let (distance, row) = leaf.entry(bytes, place);
            (first.wrapping_add(distance), row)
        }));
        let next = self.leaves.directory.firsts.get(number + 1);
        let ends_before = entries
            .last()
            .is_none_or(|(last, _)| *last <= next.copied().unwrap_or(self.leaves.directory.last));
        let is_possible = |(_, row): &Entry| *row < ROWS_END;
        match entries.is_sorted() && ends_before && entries.iter().all(is_possible) {
            true => self.pages.check(self.directory(), number),
            false => Err(corrupt("a leaf of it is out of order")),
        }
    }

    /// The leaves that may hold normalized keys between two of them.
    pub(crate) fn leaves_between(&self, first: u64, last: u64) -> Range<usize> {
        let firsts = &self.leaves.directory.firsts;
        let start = firsts.partition_point(|normalized_key| *normalized_key < first);
        start.saturating_sub(1)..firsts.partition_point(|normalized_key| *normalized_key <= last)
    }

    fn leaf_bytes(&self) -> &[u8] {
        &self.pages.bytes()[leaves_at(self.leaves.directory.len())..]
    }

    /// The leaves that may hold a sought key.
    fn leaves_of<'a>(&'a self, sought: &'a [Sought]) -> impl Iterator<Item = usize> + 'a {
        let firsts = &self.leaves.directory.firsts;
        sought.iter().flat_map(
            move |Sought {
                      normalized_key,
                      leaf,
                      ..
                  }| {
                let leaf = *leaf as usize;
                let more = firsts[leaf + 1..]
                    .iter()
                    .take_while(move |first| *first == normalized_key);
                leaf..leaf + 1 + more.count()
            },
        )
    }
}

impl PageFormat for Directory {
    const WHAT: &'static str = "a leaf of an index of keys";

    fn pages(&self) -> usize {
        self.len()
    }

    fn range(&self, leaf: usize) -> Range<usize> {
        let at = leaves_at(self.len()) + leaf * LEAF_BYTES;
        at..at + LEAF_BYTES
    }

    fn crc(&self, leaf: usize) -> u32 {
        self.leaves[leaf].crc
    }
}

/// Repairs header and directory from any copy in which they can be read. Returns whether that succeeded.
fn repair_directory(extent: &OwnedExtent) -> bool {
    let whole = |copy: &Arc<ExtentCopy>| Directory::read(copy).is_ok();
    let right = extent.copies().iter().find(|copy| whole(copy));
    let len = right.and_then(|copy| Directory::stored_bytes(copy));
    // The length comes from the right copy: equal bytes of that length are right.
    let expected = right.zip(len).map(|(copy, len)| copy[..len].to_vec());
    expected.is_some_and(|expected| {
        repair::stored(extent, 0..expected.len(), |bytes| bytes == expected)
    })
}

impl std::fmt::Debug for KeyRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let segments = self.entry.segments.len();
        write!(f, "KeyRun({} rows of {segments} segments)", self.rows())
    }
}
