//! Who keeps an extent alive, and when its space may be reused.
//!
//! Invariant: an extent's space is given back only when no published manifest names it and nobody
//! reads it any more. The last holder of an [`OwnedExtent`] gives the space back if nobody
//! published it, or if the manifest has let it go since. A process that ends takes no part in this:
//! at the next open everything that the manifest does not name is free.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tierra_memory::{Extent, ExtentWriter, Finished, Pool, PoolError};

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

/// An extent of the far pool, held in memory. Shared as `Arc`.
pub(crate) struct OwnedExtent {
    pool: Arc<Pool>,
    extent: Extent,
    /// Whether the newest published manifest names it.
    published: AtomicBool,
}

impl OwnedExtent {
    /// An extent that the opened manifest names.
    pub(crate) fn published(pool: &Arc<Pool>, extent: Extent) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.clone(),
            extent,
            published: AtomicBool::new(true),
        })
    }

    /// Seals what was written. Until [`OwnedExtent::keep`] the space is given back with the last
    /// holder.
    pub(crate) fn finish(pool: &Arc<Pool>, writer: ExtentWriter) -> Result<Arc<Self>, PoolError> {
        Self::finish_with(pool, writer, ExtentWriter::finish)
    }

    /// The same for extents that stay writable, with [`ExtentWriter::finish_log`].
    pub(crate) fn finish_with(
        pool: &Arc<Pool>,
        writer: ExtentWriter,
        finish: impl FnOnce(ExtentWriter) -> Result<Finished, PoolError>,
    ) -> Result<Arc<Self>, PoolError> {
        Ok(Self::of(pool, &finish(writer)?))
    }

    /// An extent just finished.
    pub(crate) fn of(pool: &Arc<Pool>, finished: &Finished) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.clone(),
            extent: finished.extent(),
            published: AtomicBool::new(false),
        })
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
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

impl Deref for OwnedExtent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pool.bytes(self.extent)
    }
}

impl Drop for OwnedExtent {
    fn drop(&mut self) {
        if !*self.published.get_mut() {
            self.pool.free(self.extent);
        }
    }
}

impl std::fmt::Debug for OwnedExtent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnedExtent({:?})", self.extent)
    }
}
