//! The superblock: two slots, published in turn by one 8-byte store.
//!
//! Invariant: at every moment at least one slot on the medium is whole and names a root whose bytes
//! are durable. The slot written is the one not current; its commit word is cleared first and stored
//! last. All eight words share a cache line, whose stores reach memory in the order in which they
//! were made; on media durable by page the checksum in the commit word tells a torn page.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{COMMIT_AT, Line, SLOT_OFFSETS, Slot};
use super::{Extent, Pool, PoolError, lock};

/// What is published now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    sequence: u64,
    root: Option<Extent>,
}

impl Publication {
    /// Of a pool that has never published.
    pub(super) fn none() -> Publication {
        Publication {
            sequence: 0,
            root: None,
        }
    }

    pub(super) fn of(slot: &Slot) -> Publication {
        let root = Extent {
            offset: slot.root_offset,
            len_bytes: slot.root_bytes,
        };
        Publication {
            sequence: slot.sequence,
            root: Some(root),
        }
    }
}

impl Pool {
    /// What the superblock publishes, or `None` for a pool that has never published. After an open
    /// it is a claim to be checked like any other extent.
    pub fn root(&self) -> Option<Extent> {
        lock(&self.publication).root
    }

    /// Publishes a finished extent as the root: before it returns, all that was finished earlier is
    /// durable, and a crash at any moment finds either the old root or the new one.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`], [`PoolError::Damaged`]: nothing is published. [`PoolError::Io`]: whether the new root is
    /// durable is unknown, the old one's bytes must stay, and the pool publishes no more
    /// ([`PoolError::Poisoned`]) until it is opened again.
    pub fn publish(&self, root: Extent) -> Result<(), PoolError> {
        self.check_extent(root)?;
        let mut publication = lock(&self.publication);
        self.refuse_if_poisoned()?;
        // Read before settling: a length reached meanwhile may not be durable yet.
        let pool_bytes = self.len_bytes();
        self.medium
            .settle(&self.file)
            .map_err(|source| self.poison("make its extents durable", source))?;
        // Only a forged slot can have counted so far; wrapping round would publish behind it.
        let sequence = publication.sequence.checked_add(1);
        let sequence = sequence.ok_or_else(|| PoolError::Damaged {
            path: self.path.clone(),
            what: "its superblock counts no further publication",
        })?;
        let slot = Slot {
            sequence,
            root_offset: root.offset,
            root_bytes: root.len_bytes,
            pool_bytes,
            pool_id: self.id,
        };
        let line = self.address(SLOT_OFFSETS[(slot.sequence % 2) as usize]);
        // SAFETY: the slots are mapped, line-aligned, and written here only, under the lock.
        unsafe {
            store_slot(line, &slot.encode());
            self.medium.persist(line, size_of::<Line>() as u64)
        }
        .map_err(|source| self.poison("publish", source))?;
        *publication = Publication::of(&slot);
        Ok(())
    }
}

/// Clears the commit word, stores the other words, then the commit word.
///
/// # Safety
/// `to` must be a mapped, writable, 8-byte-aligned line that only this thread accesses.
unsafe fn store_slot(to: *mut u8, line: &Line) {
    let store = |at: usize, word: u64| {
        // SAFETY: inside the caller's line and aligned. Release keeps the stores in this order.
        unsafe { AtomicU64::from_ptr(to.add(at).cast()) }.store(word, Ordering::Release);
    };
    store(COMMIT_AT, 0);
    for (index, word) in line.chunks_exact(8).enumerate() {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        store(index * 8, u64::from_ne_bytes(bytes));
    }
}
