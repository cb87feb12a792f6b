//! Ownership of extents, when their space may be reused, and which of their copies is read.
//!
//! Readers of an extent read one of its copies, the one in the tier whose lines take least. Copies that were measured to take about the
//! same are read by turns, each for its share of the extents, so that a scan has the bandwidth of all these tiers. Without a
//! measurement the first one is read, that of the tier named first.
//!
//! Invariant: the space of a copy is freed only when no published manifest names it and no reader uses it. The last reference to
//! an [`ExtentCopy`] frees the space if the copy was never published, or if the manifest has released it since. A process that
//! ends frees nothing: at the next open everything that the manifest does not name is free.

use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_memory::emulation::FarMemory;
use tierra_memory::placement::LineTimes;
use tierra_memory::{BegunRead, Copied, CopyMethod, Extent, FileReads, Finished, Pool};

use crate::manifest::{CopyEntry, ExtentEntry, ExtentId};
use crate::spec::replicas::TierId;
use crate::storage::losses::Losses;
use crate::storage::revalidation::RevalidationReason;
use crate::storage::tier::{Reader, Tier, TierLines};

/// The content and table of an extent: stored in its header, and checked when a manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Manifest,
    Log(u64),
    Segment(u64),
    Dictionary(u64),
    Index(u64),
    /// Bitmaps of deleted rows.
    Deleted(u64),
}

impl Owner {
    /// The table's id.
    pub(crate) fn table(self) -> Option<u64> {
        match self {
            Self::Manifest => None,
            Self::Log(table)
            | Self::Segment(table)
            | Self::Dictionary(table)
            | Self::Index(table)
            | Self::Deleted(table) => Some(table),
        }
    }

    /// Kind in the top byte, table id below.
    pub(crate) fn tag(self) -> u64 {
        let (kind, table) = match self {
            Self::Manifest => (1, 0),
            Self::Log(table) => (2, table),
            Self::Segment(table) => (3, table),
            Self::Dictionary(table) => (4, table),
            Self::Index(table) => (5, table),
            Self::Deleted(table) => (6, table),
        };
        kind << 56 | table & ((1 << 56) - 1)
    }
}

/// Bytes of an extent's header, which lies before its payload.
const HEADER_BYTES: u64 = 64;

/// The parts of a copy that are lost and not yet restored.
#[derive(Debug, Default)]
struct Lost {
    /// Ranges of the payload; unordered, not joined.
    parts: Vec<Range<usize>>,
    header: bool,
}

impl Lost {
    fn is_none(&self) -> bool {
        self.parts.is_empty() && !self.header
    }
}

/// One copy of an extent, mapped. Shared as `Arc`.
pub(crate) struct ExtentCopy {
    tier: TierId,
    tier_name: Arc<str>,
    pool: Arc<Pool>,
    lines: TierLines,
    extent: Extent,
    /// Whether the newest published manifest names it.
    published: AtomicBool,
    lost: Mutex<Lost>,
    /// Whether damage in it could not be repaired, because its medium cannot be written.
    refuses_repair: AtomicBool,
}

impl ExtentCopy {
    /// A copy that the opened manifest names.
    pub(crate) fn published(tier: &Tier, extent: Extent) -> Arc<Self> {
        Self::new(tier, extent, true)
    }

    /// A copy that was just finished.
    pub(crate) fn of(tier: &Tier, finished: &Finished) -> Arc<Self> {
        Self::new(tier, finished.extent(), false)
    }

    fn new(tier: &Tier, extent: Extent, published: bool) -> Arc<Self> {
        Arc::new(Self {
            tier: tier.id,
            tier_name: tier.name.clone(),
            pool: tier.pool.clone(),
            lines: tier.lines.clone(),
            extent,
            published: AtomicBool::new(published),
            lost: Mutex::default(),
            refuses_repair: AtomicBool::new(false),
        })
    }

    pub(crate) fn tier(&self) -> TierId {
        self.tier
    }

    pub(crate) fn tier_name(&self) -> &Arc<str> {
        &self.tier_name
    }

    /// How long reading a line takes.
    pub(crate) fn line_times(&self) -> LineTimes {
        self.lines.times()
    }

    /// The far memory that it is taken for now.
    pub(crate) fn emulated(&self) -> Option<FarMemory> {
        self.lines.emulated()
    }

    /// Counts a reader of its tier, as long as what is returned lives.
    pub(crate) fn reading(&self) -> Reader<'_> {
        self.lines.reading()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Marks the copy's share of a range of the pool as lost; returns the affected part of the payload, if any.
    pub(crate) fn note_lost(&self, offsets: &Range<u64>) -> Option<Range<usize>> {
        let payload = self.extent.offset..self.extent.offset + self.extent.len_bytes;
        let header = payload.start - HEADER_BYTES..payload.start;
        let meets = |range: &Range<u64>| range.start < offsets.end && offsets.start < range.end;
        if !meets(&header) && !meets(&payload) {
            return None;
        }
        let within = |at: u64| (at.clamp(payload.start, payload.end) - payload.start) as usize;
        let part = within(offsets.start)..within(offsets.end);
        self.change_lost(|lost| {
            lost.header |= meets(&header);
            if !part.is_empty() {
                lost.parts.push(part.clone());
            }
        });
        Some(part)
    }

    /// Whether any part of a range of the payload is lost.
    pub(crate) fn is_lost(&self, range: &Range<usize>) -> bool {
        let lost = self.lost();
        let mut parts = lost.parts.iter();
        parts.any(|part| part.start < range.end && range.start < part.end)
    }

    /// Whether anything is lost, the header included.
    pub(crate) fn has_losses(&self) -> bool {
        !self.lost().is_none()
    }

    /// The lost ranges of the payload, and whether the header is lost.
    pub(crate) fn losses(&self) -> (Vec<Range<usize>>, bool) {
        let lost = self.lost();
        (lost.parts.clone(), lost.header)
    }

    /// A range of the payload is restored, durably.
    pub(crate) fn note_restored(&self, range: &Range<usize>) {
        self.change_lost(|lost| {
            let left = |part: &Range<usize>| {
                let before = part.start..part.end.min(range.start);
                let behind = part.start.max(range.end)..part.end;
                [before, behind].into_iter().filter(|left| !left.is_empty())
            };
            lost.parts = lost.parts.iter().flat_map(left).collect();
        });
    }

    /// Everything is restored, durably.
    pub(crate) fn note_all_restored(&self) {
        self.change_lost(|lost| *lost = Lost::default());
    }

    /// Notes that damage in it could not be repaired. Returns whether that is news.
    pub(crate) fn note_refusal(&self) -> bool {
        !self.refuses_repair.swap(true, Ordering::AcqRel)
    }

    /// Whether damage in it could not be repaired: what is right in memory there may not be durable.
    pub(crate) fn refuses_repair(&self) -> bool {
        self.refuses_repair.load(Ordering::Acquire)
    }

    fn change_lost(&self, change: impl FnOnce(&mut Lost)) {
        let mut lost = self.lost();
        let had_losses = !lost.is_none();
        change(&mut lost);
        match (had_losses, !lost.is_none()) {
            (false, true) => RevalidationReason::begin(),
            (true, false) => RevalidationReason::end(),
            _ => {}
        }
    }

    fn lost(&self) -> MutexGuard<'_, Lost> {
        // Changes are single assignments.
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Copies a range of the payload, with `zeros` zeros behind it.
    pub(crate) fn copy_out(
        &self,
        range: Range<usize>,
        zeros: usize,
        method: CopyMethod,
    ) -> io::Result<Copied> {
        self.pool.copy_out(self.extent, range, zeros, method)
    }

    /// Begins to read what [`Self::copy_out`] copies; `None` if there is no room for it, or nothing to read ahead.
    pub(crate) fn begin_copy_out(
        &self,
        reads: &mut FileReads,
        range: Range<usize>,
        zeros: usize,
        method: CopyMethod,
    ) -> Option<BegunRead> {
        reads.begin(&self.pool, self.extent, range, zeros, method)
    }

    /// Its entry for a manifest.
    pub(crate) fn entry(&self) -> CopyEntry {
        CopyEntry {
            tier: self.tier,
            offset: self.extent.offset,
        }
    }

    /// Called when a published manifest names it.
    pub(crate) fn keep(&self) {
        self.published.store(true, Ordering::Release);
    }

    /// Called when the published manifest no longer names it.
    pub(crate) fn release(&self) {
        self.published.store(false, Ordering::Release);
    }
}

impl Deref for ExtentCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pool.bytes(self.extent)
    }
}

impl Drop for ExtentCopy {
    fn drop(&mut self) {
        self.note_all_restored();
        if !*self.published.get_mut() {
            self.pool.free(self.extent);
        }
    }
}

impl std::fmt::Debug for ExtentCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExtentCopy({:?}, {:?})", self.tier, self.extent)
    }
}

/// Copies are read by turns if reading takes at most this many times what it takes of the fastest.
pub(crate) const ALIKE: f64 = 1.1;

/// Which copy of an extent is read, by its number.
fn to_read(id: ExtentId, owner: Owner, copies: &[Arc<ExtentCopy>]) -> usize {
    // A log is read where it is opened, and compared with its other copies there.
    let may_choose = copies.len() > 1 && !matches!(owner, Owner::Manifest | Owner::Log(_));
    if !may_choose {
        return 0;
    }
    let sound = (0..copies.len()).filter(|copy| !copies[*copy].refuses_repair());
    let sound: Vec<usize> = sound.collect();
    if sound.is_empty() {
        return 0;
    }
    let lines = || sound.iter().map(|copy| &copies[*copy].lines);
    let times: Vec<LineTimes> = lines().map(TierLines::times).collect();
    // What is not known may be a disk: only what is known to be as fast has its turn.
    let (turn, alike) = match lines().all(TierLines::is_known) {
        true => (id.0, ALIKE),
        false => (0, 1.0),
    };
    sound[by_turns(turn, &times, alike)]
}

/// Which of several copies is read: the one that takes least, among those that take about that the one whose turn it is.
fn by_turns(turn: u64, times: &[LineTimes], alike: f64) -> usize {
    // Scans and lookups count alike, whatever the number of lines that each touches.
    let taken = |times: &LineTimes| (times.in_order_ns * times.alone_ns).sqrt();
    let least = times.iter().map(taken).fold(f64::INFINITY, f64::min);
    let is_alike = |copy: &usize| taken(&times[*copy]) <= least * alike;
    let alike: Vec<usize> = (0..times.len()).filter(is_alike).collect();
    // Multiples of the golden ratio spread evenly for numbers one, two or more apart, as those of one column's chunks are.
    let turn = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (u128::from(turn) * alike.len() as u128) >> 64;
    alike.get(at as usize).copied().unwrap_or(0)
}

/// An extent and its copies, which hold the same bytes. Immutable: a change of copies makes another `OwnedExtent` with the same
/// number.
#[derive(Debug)]
pub(crate) struct OwnedExtent {
    id: ExtentId,
    owner: Owner,
    len_bytes: u64,
    /// Copies in present tiers; at least one.
    copies: Vec<Arc<ExtentCopy>>,
    /// The one that is read.
    read: usize,
    /// Copies in missing tiers.
    elsewhere: Vec<CopyEntry>,
    losses: Arc<Losses>,
}

impl OwnedExtent {
    /// # Panics
    /// If there is no copy.
    pub(crate) fn new(
        losses: &Arc<Losses>,
        id: ExtentId,
        owner: Owner,
        copies: Vec<Arc<ExtentCopy>>,
        elsewhere: Vec<CopyEntry>,
    ) -> Arc<Self> {
        let extent = Arc::new(Self {
            id,
            owner,
            len_bytes: copies[0].extent().len_bytes,
            read: to_read(id, owner, &copies),
            copies,
            elsewhere,
            losses: losses.clone(),
        });
        losses.hold(&extent);
        extent
    }

    /// The same extent with other copies.
    pub(crate) fn with_copies(
        &self,
        copies: Vec<Arc<ExtentCopy>>,
        elsewhere: Vec<CopyEntry>,
    ) -> Arc<Self> {
        Self::new(&self.losses, self.id, self.owner, copies, elsewhere)
    }

    /// The content and table of the extent.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// The losses of its database.
    pub(crate) fn all_losses(&self) -> &Losses {
        &self.losses
    }

    pub(crate) fn id(&self) -> ExtentId {
        self.id
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The copies that can be read, at least one.
    pub(crate) fn copies(&self) -> &[Arc<ExtentCopy>] {
        &self.copies
    }

    /// The copies in missing tiers.
    pub(crate) fn elsewhere(&self) -> &[CopyEntry] {
        &self.elsewhere
    }

    /// The copy that is read; where it is faulty, it is repaired from the others.
    pub(crate) fn read(&self) -> &Arc<ExtentCopy> {
        &self.copies[self.read]
    }

    /// Whether it has several copies, in tiers whose times are all known.
    pub(crate) fn has_known_copies(&self) -> bool {
        self.copies.len() > 1 && self.copies.iter().all(|copy| copy.lines.is_known())
    }

    /// The same extent, read from the copy that is to be read now; `None` if it is.
    pub(crate) fn read_elsewhere(&self) -> Option<Arc<Self>> {
        let is_other = to_read(self.id, self.owner, &self.copies) != self.read;
        is_other.then(|| self.with_copies(self.copies.clone(), self.elsewhere.clone()))
    }

    /// Its copy in a tier, unless it cannot be repaired.
    pub(crate) fn copy_in(&self, tier: TierId) -> Option<usize> {
        let is_it = |copy: &Arc<ExtentCopy>| copy.tier() == tier && !copy.refuses_repair();
        self.copies.iter().position(is_it)
    }

    /// The same extent, read in a tier, if it has a copy there. Losses are noted in this one, which outlives the other.
    pub(crate) fn read_in(self: &Arc<Self>, tier: TierId) -> Arc<Self> {
        match self.copy_in(tier) {
            Some(read) if read != self.read => Arc::new(Self {
                read,
                copies: self.copies.clone(),
                elsewhere: self.elsewhere.clone(),
                losses: self.losses.clone(),
                ..**self
            }),
            _ => self.clone(),
        }
    }

    /// Its entry for a manifest.
    pub(crate) fn entry(&self) -> ExtentEntry {
        let there = self.copies.iter().map(|copy| copy.entry());
        ExtentEntry {
            len_bytes: self.len_bytes,
            copies: there.chain(self.elsewhere.iter().copied()).collect(),
        }
    }

    /// Called when a published manifest names it.
    pub(crate) fn keep(&self) {
        self.copies.iter().for_each(|copy| copy.keep());
    }

    /// Called when the published manifest no longer names it, except the copies in `kept`.
    pub(crate) fn release(&self, kept: Option<&OwnedExtent>) {
        let stays = |copy: &Arc<ExtentCopy>| {
            kept.is_some_and(|kept| kept.copies.iter().any(|other| Arc::ptr_eq(other, copy)))
        };
        let gone = self.copies.iter().filter(|copy| !stays(copy));
        gone.for_each(|copy| copy.release());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(in_order_ns: f64, alone_ns: f64) -> LineTimes {
        LineTimes {
            in_order_ns,
            alone_ns,
            shared_ns: 0.0,
        }
    }

    #[test]
    fn the_fastest_copy_is_read() {
        let all = |times: &[LineTimes], copy| {
            let read = (0..100).map(|turn| by_turns(turn, times, ALIKE));
            read.into_iter().all(|read| read == copy)
        };
        assert!(all(&[times(5.0, 100.0), times(20.0, 300.0)], 0));
        let last = [times(20.0, 300.0), times(5.0, 300.0), times(5.0, 100.0)];
        assert!(all(&last, 2));
    }

    #[test]
    fn copies_that_take_the_same_are_read_by_turns_whatever_lies_between_them() {
        let alike = [times(10.0, 300.0), times(10.4, 310.0), times(30.0, 300.0)];
        for step in 1..=12 {
            let read = (0..200).map(|at| by_turns(7 + at * step, &alike, ALIKE));
            let mut counts = [0_usize; 3];
            read.for_each(|copy| counts[copy] += 1);
            assert_eq!(counts[2], 0);
            assert!(counts[0].abs_diff(100) <= 10, "{counts:?} of every {step}");
        }
    }
}
