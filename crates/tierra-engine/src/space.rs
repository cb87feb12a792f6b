//! Who keeps an extent alive, and when its space may be reused.
//!
//! Invariant: the space of a copy is given back only when no published manifest names it and nobody
//! reads it any more. The last holder of an [`ExtentCopy`] gives the space back if nobody
//! published it, or if the manifest has let it go since. A process that ends takes no part in this:
//! at the next open everything that the manifest does not name is free.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tierra_memory::{Extent, Finished, Pool};

use crate::manifest::{CopyEntry, ExtentEntry, ExtentId};
use crate::tiers::{Tier, TierId};

/// What an extent holds, and for which table: stored in its header and checked when a manifest
/// names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Manifest,
    Log(u64),
    Segment(u64),
    Dictionary(u64),
    Index(u64),
}

impl Owner {
    /// Kind in the top byte, table id below.
    pub(crate) fn tag(self) -> u64 {
        let (kind, table) = match self {
            Self::Manifest => (1, 0),
            Self::Log(table) => (2, table),
            Self::Segment(table) => (3, table),
            Self::Dictionary(table) => (4, table),
            Self::Index(table) => (5, table),
        };
        kind << 56 | table & ((1 << 56) - 1)
    }
}

/// One copy of an extent, held in memory. Shared as `Arc`.
pub(crate) struct ExtentCopy {
    tier: TierId,
    pool: Arc<Pool>,
    extent: Extent,
    /// Whether the newest published manifest names it.
    published: AtomicBool,
}

impl ExtentCopy {
    /// A copy that the opened manifest names.
    pub(crate) fn published(tier: &Tier, extent: Extent) -> Arc<Self> {
        Self::new(tier, extent, true)
    }

    /// A copy just finished.
    pub(crate) fn of(tier: &Tier, finished: &Finished) -> Arc<Self> {
        Self::new(tier, finished.extent(), false)
    }

    fn new(tier: &Tier, extent: Extent, published: bool) -> Arc<Self> {
        Arc::new(Self {
            tier: tier.id,
            pool: tier.pool.clone(),
            extent,
            published: AtomicBool::new(published),
        })
    }

    pub(crate) fn tier(&self) -> TierId {
        self.tier
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// As a manifest names it.
    pub(crate) fn entry(&self) -> CopyEntry {
        CopyEntry {
            tier: self.tier,
            offset: self.extent.offset,
        }
    }

    /// A published manifest names it now.
    pub(crate) fn keep(&self) {
        self.published.store(true, Ordering::Release);
    }

    /// The published manifest names it no longer.
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

/// An extent and its copies, all of them the same bytes. Immutable: an extent that gets or loses a copy is
/// another `OwnedExtent` of the same number.
#[derive(Debug)]
pub(crate) struct OwnedExtent {
    id: ExtentId,
    len_bytes: u64,
    /// Those whose tiers are there; at least one.
    copies: Vec<Arc<ExtentCopy>>,
    /// Those whose tiers are missing.
    elsewhere: Vec<CopyEntry>,
}

impl OwnedExtent {
    /// # Panics
    /// If there is no copy.
    pub(crate) fn new(
        id: ExtentId,
        copies: Vec<Arc<ExtentCopy>>,
        elsewhere: Vec<CopyEntry>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            len_bytes: copies[0].extent().len_bytes,
            copies,
            elsewhere,
        })
    }

    pub(crate) fn id(&self) -> ExtentId {
        self.id
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Those that can be read, at least one.
    pub(crate) fn copies(&self) -> &[Arc<ExtentCopy>] {
        &self.copies
    }

    /// Those that cannot be read now.
    pub(crate) fn elsewhere(&self) -> &[CopyEntry] {
        &self.elsewhere
    }

    /// The one that is read unless something is wrong with it.
    pub(crate) fn first(&self) -> &Arc<ExtentCopy> {
        &self.copies[0]
    }

    /// As a manifest names it.
    pub(crate) fn entry(&self) -> ExtentEntry {
        let there = self.copies.iter().map(|copy| copy.entry());
        ExtentEntry {
            len_bytes: self.len_bytes,
            copies: there.chain(self.elsewhere.iter().copied()).collect(),
        }
    }

    /// A published manifest names it now.
    pub(crate) fn keep(&self) {
        self.copies.iter().for_each(|copy| copy.keep());
    }

    /// The published manifest names it no longer, but for the copies in `kept`.
    pub(crate) fn release(&self, kept: Option<&OwnedExtent>) {
        let stays = |copy: &Arc<ExtentCopy>| {
            kept.is_some_and(|kept| kept.copies.iter().any(|other| Arc::ptr_eq(other, copy)))
        };
        let gone = self.copies.iter().filter(|copy| !stays(copy));
        gone.for_each(|copy| copy.release());
    }
}
