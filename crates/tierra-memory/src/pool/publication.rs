//! The superblock: two slots, published in turn by one 8-byte store.
//!
//! Invariant: at every moment at least one slot on the medium is whole and names a root whose bytes
//! are durable. The slot written is the one not current; its commit word is cleared first and stored
//! last. All eight words share a cache line, whose stores reach memory in the order in which they
//! were made; on media durable by page the checksum in the commit word tells a torn page.
//!
//! Several pools whose roots name what lies in all of them are published together: nothing is published
//! in any before everything is durable in all, so whichever of them survives names nothing that is not
//! there.

use std::collections::BTreeMap;
use std::{io, iter};

use super::layout::{COMMIT_AT, PoolHeader, SLOT_OFFSETS, Slot};
use super::lost::Staged;
use super::stored::Persisted;
use super::writer::Finished;
use super::{Extent, Pool, PoolError, PublishError, lock};
use crate::LINE_BYTES;

/// What is published now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    sequence: u64,
    root: Option<Extent>,
    /// Bytes of the pool when that was published.
    pool_bytes: u64,
}

impl Publication {
    /// Of a pool that has never published.
    pub(super) fn none() -> Publication {
        Publication {
            sequence: 0,
            root: None,
            pool_bytes: 0,
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
            pool_bytes: slot.pool_bytes,
        }
    }

    /// The slot that says so, unless nothing was ever published.
    fn slot(&self, pool_id: u64) -> Option<Slot> {
        self.root.map(|root| Slot {
            sequence: self.sequence,
            root_offset: root.offset,
            root_bytes: root.len_bytes,
            pool_bytes: self.pool_bytes,
            pool_id,
        })
    }
}

/// A root of which all that it may name is durable.
struct Ready {
    root: Extent,
    /// Bytes of the pool when that was made so.
    pool_bytes: u64,
    /// What was staged by then, none of it lost.
    staged: BTreeMap<u64, Staged>,
    settled: Persisted,
}

impl Pool {
    /// What the superblock publishes, or `None` for a pool that has never published. After an open
    /// it is a claim to be checked like any other extent.
    pub fn root(&self) -> Option<Extent> {
        lock(&self.publication).root
    }

    /// Compares the pool's header, and the slot that is current, with what they are to say, which is known; what is damaged is
    /// written anew if asked for. Whether something was. The other slot may be torn, and is not needed.
    ///
    /// # Errors
    /// As [`Pool::restore`].
    pub fn check_superblock(&self, mend: bool) -> Result<bool, PoolError> {
        let publication = lock(&self.publication);
        let header = PoolHeader { pool_id: self.id }.encode();
        let slot = publication.slot(self.id).map(|slot| {
            let at = SLOT_OFFSETS[(slot.sequence % 2) as usize];
            (at, slot.encode())
        });
        let mut damaged = false;
        for (at, right) in iter::once((0, header)).chain(slot) {
            if *self.raw_bytes(at, LINE_BYTES as u64) == right {
                continue;
            }
            damaged = true;
            if mend {
                self.overwrite(at, &right)?;
            }
        }
        Ok(damaged)
    }

    /// Publishes a finished extent as the root: before it returns, all that was finished earlier is
    /// durable, and a crash at any moment finds either the old root or the new one.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`] if it is another pool's, [`PoolError::Damaged`]: nothing is published.
    /// [`PoolError::Lost`], [`PoolError::Truncated`]: nothing is published before what was finished and lost
    /// is restored or freed, or the file has its end again, which [`Pool::restore`] gives it.
    /// [`PoolError::Io`]: whether the new root is
    /// durable is unknown, the old one's bytes must stay, and the pool publishes no more
    /// ([`PoolError::Poisoned`]) until it is opened again.
    pub fn publish(&self, root: &Finished) -> Result<(), PoolError> {
        let ready = self.ready(root.extent())?;
        self.publish_ready(ready)
    }

    /// Publishes a root in each of several pools, in their order. Before the first is published, all that
    /// was finished earlier in any of them is durable, so each root may name extents of all.
    ///
    /// # Errors
    /// [`PublishError`] says which pool failed and how many were published before it: none, if it was
    /// known that one cannot be, or if finished extents could not be made durable. Whoever goes on
    /// without the failed pool publishes in the others again, a root that does not need it.
    pub fn publish_all(roots: &[(&Pool, &Finished)]) -> Result<(), PublishError> {
        let failed = |failed: usize, published: usize| {
            move |source: PoolError| PublishError {
                failed,
                published,
                source,
            }
        };
        let mut all_ready = Vec::with_capacity(roots.len());
        for (index, (pool, root)) in roots.iter().enumerate() {
            all_ready.push(pool.ready(root.extent()).map_err(failed(index, 0))?);
        }
        for (index, ((pool, _), ready)) in roots.iter().zip(all_ready).enumerate() {
            pool.publish_ready(ready).map_err(failed(index, index))?;
        }
        Ok(())
    }

    /// Makes durable what a root may name.
    fn ready(&self, root: Extent) -> Result<Ready, PoolError> {
        self.check_extent(root)?;
        self.refuse_if_read_only()?;
        self.refuse_if_poisoned()?;
        // Read before settling: a length reached meanwhile may not be durable yet.
        let pool_bytes = self.len_bytes();
        let settled = self
            .settle()
            .map_err(|source| self.poison("make its extents durable", source))?;
        let staged = self.staged_and_whole()?;
        Ok(Ready {
            root,
            pool_bytes,
            staged,
            settled,
        })
    }

    fn publish_ready(&self, ready: Ready) -> Result<(), PoolError> {
        let Ready {
            root,
            pool_bytes,
            staged,
            settled,
        } = ready;
        let mut publication = lock(&self.publication);
        self.refuse_if_poisoned()?;
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
        let mut stored = self.store_slot(&slot, &settled);
        if stored.as_ref().is_err_and(|e| Pool::lost_page(e).is_some()) {
            // The slot that is overwritten holds nothing that is needed.
            let at = SLOT_OFFSETS[(sequence % 2) as usize];
            self.heal(at..at + LINE_BYTES as u64)?;
            stored = self.store_slot(&slot, &settled);
        }
        stored.map_err(|source| self.poison("publish", source))?;
        *publication = Publication::of(&slot);
        lock(&self.staged).retain(|start, run| staged.get(start) != Some(run));
        Ok(())
    }

    /// Makes durable what both slots hold.
    pub(super) fn persist_slots(&self) -> io::Result<()> {
        self.settle()?;
        // SAFETY: the slots are mapped, and flushing changes nothing.
        let [first, second] =
            SLOT_OFFSETS.map(|at| unsafe { self.stored_before(at, LINE_BYTES as u64) });
        first.flush()?.and(second.flush()?).fence()?;
        Ok(())
    }

    /// Stores the header of a new pool, the word that makes it one last.
    pub(super) fn store_header(&self, pool_id: u64) -> io::Result<u64> {
        let line = PoolHeader { pool_id }.encode();
        let (magic, rest) = line.split_at(8);
        let words = rest.chunks_exact(8).enumerate();
        let words = words.map(|(index, bytes)| (8 + index * 8, word_of(bytes)));
        // SAFETY: the header is mapped, line-aligned, and nobody else's.
        unsafe { self.store_line(0, words.chain([(0, word_of(magic))])) }.persist()?;
        Ok(pool_id)
    }

    /// Overwrites the slot that is not current: clears its commit word, stores the other words, then the
    /// commit word. Only after what it names is durable, which `_settled` proves. The caller holds the
    /// lock of the publication.
    pub(super) fn store_slot(&self, slot: &Slot, _settled: &Persisted) -> io::Result<Persisted> {
        let line = slot.encode();
        let words = line.chunks_exact(8).enumerate();
        let words = words.map(|(index, bytes)| (index * 8, word_of(bytes)));
        let at = SLOT_OFFSETS[(slot.sequence % 2) as usize];
        // SAFETY: the slots are mapped, line-aligned, and written here only, under the lock.
        unsafe { self.store_line(at, iter::once((COMMIT_AT, 0)).chain(words)) }.persist()
    }
}

/// Eight bytes as they are stored.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}
