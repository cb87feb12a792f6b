//! Ownership of extents, and when their space may be reused.
//!
//! Invariant: the space of a copy is freed only when no published manifest names it and no reader uses it. The last reference to
//! an [`ExtentCopy`] frees the space if the copy was never published, or if the manifest has released it since. A process that
//! ends frees nothing: at the next open everything that the manifest does not name is free.

use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_memory::placement::LineTimes;
use tierra_memory::{BegunRead, Copied, CopyMethod, Extent, FileReads, Finished, Pool};

use crate::manifest::{CopyEntry, ExtentEntry, ExtentId};
use crate::spec::replicas::TierId;
use crate::storage::losses::Losses;
use crate::storage::revalidation::RevalidationReason;
use crate::storage::tier::{Tier, TierLines};

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

/// An extent and its copies, which hold the same bytes. Immutable: a change of copies makes another `OwnedExtent` with the same
/// number.
#[derive(Debug)]
pub(crate) struct OwnedExtent {
    id: ExtentId,
    owner: Owner,
    len_bytes: u64,
    /// Copies in present tiers; at least one.
    copies: Vec<Arc<ExtentCopy>>,
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

    /// The copy that is read unless it is faulty.
    pub(crate) fn first(&self) -> &Arc<ExtentCopy> {
        &self.copies[0]
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
