//! The superblock: two slots, published alternately, each stored twice.
//!
//! Invariant: at every moment at least one copy of each slot on the medium is valid, and the slot with the higher sequence
//! names a root whose bytes are durable. The slot written is the one not current, its first copy before its second, each
//! durable before the next is touched; of each copy the commit word is cleared first and stored last. All eight
//! words share a cache line, whose stores reach memory in the order in which they were made; on media
//! durable by page the checksum in the commit word detects a torn page.
//!
//! So a power cut leaves one torn line at most, and a slot of which both copies are unreadable is damage, which might have
//! been the newer slot: it is an error, and never silently the older one.
//!
//! Several pools whose roots name what lies in all of them are published together: nothing is published
//! in any before everything is durable in all, so whichever of them survives names only what
//! exists.

use std::collections::BTreeMap;
use std::{io, iter};

use super::layout::{self, COMMIT_AT, HEADER_OFFSETS, LineBytes, SLOT_OFFSETS, SuperblockSlot};
use super::lost::{Staged, lost_page};
use super::stored::Persisted;
use super::superblock::Publication;
use super::writer::Finished;
use super::{Extent, Pool, PoolError, PublishError};
use crate::LINE_BYTES;
use crate::lock::lock;

/// A root and proof that everything it may name is durable.
struct Ready {
    root: Extent,
    root_crc: u32,
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
        lock(&self.publication).root()
    }

    /// The owner's version of what is published; 0 for a pool that has never published.
    pub fn version(&self) -> u64 {
        lock(&self.publication).current.version
    }

    /// The owner's version of the previous publication, whose root may have been overwritten meanwhile; `None` if it cannot be read.
    pub fn version_before(&self) -> Option<u64> {
        let publication = lock(&self.publication);
        let slots = publication.slots.iter().flatten();
        let version = publication.current.version;
        let before = slots.filter(|slot| slot.root_offset > 0 && slot.version < version);
        before.map(|slot| slot.version).max()
    }

    /// Whether an extent that claims to be the root has the checksum that was published.
    pub(super) fn contradicts_publication(&self, extent: Extent, payload_crc: u32) -> bool {
        let publication = lock(&self.publication);
        publication.root() == Some(extent) && publication.current.root_crc != payload_crc
    }

    /// Compares the pool's header and both slots, and their twins, with their known content; damaged lines are rewritten if
    /// asked for. Returns whether any was damaged.
    ///
    /// # Errors
    /// As [`Pool::restore`].
    pub fn check_superblock(&self, repair: bool) -> Result<bool, PoolError> {
        self.check_lines(&lock(&self.publication), repair)
    }

    /// The number of invalid lines of header and superblock.
    pub(super) fn torn_lines(&self) -> usize {
        let lines = lock(&self.publication).lines();
        let found = lines.map(|(at, right)| {
            let mut line = right;
            line.copy_from_slice(self.raw_bytes(at, right.len() as u64));
            line
        });
        found.filter(|line| !layout::is_valid(line)).count()
    }

    fn check_lines(&self, publication: &Publication, repair: bool) -> Result<bool, PoolError> {
        /// Rewriting a page rewrites other lines with it.
        const ROUNDS: usize = 3;
        let is_correct =
            |(at, right): &(u64, LineBytes)| *self.raw_bytes(*at, right.len() as u64) == *right;
        let mut damaged = false;
        for _ in 0..ROUNDS {
            let wrong: Vec<(u64, LineBytes)> = publication
                .lines()
                .filter(|line| !is_correct(line))
                .collect();
            if wrong.is_empty() {
                break;
            }
            damaged = true;
            if !repair {
                break;
            }
            for (at, right) in &wrong {
                self.overwrite(*at, right)?;
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
        self.publish_version(root, self.version().saturating_add(1))
    }

    /// [`Pool::publish`] of what its owner calls version `version`: that is what [`Pool::version`] says of it, an error if it cannot be
    /// read, and [`PoolOptions::at_version`](crate::PoolOptions::at_version) asks for. By itself a pool counts publications.
    ///
    /// # Errors
    /// As [`Pool::publish`].
    pub fn publish_version(&self, root: &Finished, version: u64) -> Result<(), PoolError> {
        let ready = self.ready(root.extent())?;
        self.publish_ready(ready, version)
    }

    /// Publishes a root in each of several pools, in their order, as one version. Before the first is published, all that
    /// was finished earlier in any of them is durable, so each root may name extents of all.
    ///
    /// # Errors
    /// [`PublishError`] says which pool failed and how many were published before it: none, if it was
    /// known that one cannot be, or if finished extents could not be made durable. A caller that continues
    /// without the failed pool publishes in the others again, a root that does not need it.
    pub fn publish_all(roots: &[(&Pool, &Finished)], version: u64) -> Result<(), PublishError> {
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
            pool.publish_ready(ready, version)
                .map_err(failed(index, index))?;
        }
        Ok(())
    }

    /// Makes durable what a root may name.
    fn ready(&self, root: Extent) -> Result<Ready, PoolError> {
        let root_crc = self.header(root)?.payload_crc;
        self.refuse_if_read_only()?;
        self.refuse_if_poisoned()?;
        // Read before settling: a length reached meanwhile may not be durable yet.
        let pool_bytes = self.len_bytes();
        let settled = self
            .settle()
            .map_err(|source| self.poison("make its extents durable", source))?;
        let staged = self.validate_staged()?;
        Ok(Ready {
            root,
            root_crc,
            pool_bytes,
            staged,
            settled,
        })
    }

    fn publish_ready(&self, ready: Ready, version: u64) -> Result<(), PoolError> {
        let mut publication = lock(&self.publication);
        self.refuse_if_poisoned()?;
        let sequence = publication.next_sequence();
        // Wrapping round would publish behind the forged one.
        let sequence = sequence.ok_or_else(|| PoolError::Damaged {
            path: self.path.clone(),
            what: "its superblock counts no further publication",
        })?;
        let slot = SuperblockSlot {
            sequence,
            root_offset: ready.root.offset,
            root_bytes: ready.root.len_bytes,
            pool_bytes: ready.pool_bytes,
            pool_id: self.id,
            version,
            root_crc: ready.root_crc,
        };
        let mut cleared = false;
        for at in SLOT_OFFSETS[(sequence % 2) as usize] {
            let mut stored = self.store_slot(at, &slot, &ready.settled);
            if stored.as_ref().is_err_and(|e| lost_page(e).is_some()) {
                // What is overwritten is not needed, and what else is on its page is known.
                self.clear_lost(at..at + LINE_BYTES as u64)?;
                cleared = true;
                stored = self.store_slot(at, &slot, &ready.settled);
            }
            stored.map_err(|source| self.poison("publish", source))?;
        }
        publication.publish(slot);
        if cleared {
            self.check_lines(&publication, true)?;
        }
        let staged = &ready.staged;
        lock(&self.staged).retain(|start, run| staged.get(start) != Some(run));
        Ok(())
    }

    /// Makes all copies of both slots durable.
    pub(super) fn persist_slots(&self) -> io::Result<()> {
        self.settle()?;
        let mut all = None;
        for at in SLOT_OFFSETS.into_iter().flatten() {
            // SAFETY: the slots are mapped, and flushing changes nothing.
            let flushed = unsafe { self.stored_before(at, LINE_BYTES as u64) }.flush()?;
            all = Some(match all {
                None => flushed,
                Some(others) => flushed.and(others),
            });
        }
        all.map_or(Ok(()), |all| all.fence().map(drop))
    }

    /// Stores header and superblock of a new pool, the word that makes it one last, and the header's twin behind it.
    pub(super) fn store_new(&self, publication: &Publication) -> io::Result<()> {
        let mut lines: Vec<(u64, LineBytes)> = publication.lines().collect();
        let [header, twin] = HEADER_OFFSETS;
        lines.sort_by_key(|(at, _)| (*at == twin, *at == header));
        for (at, line) in lines {
            let (first, rest) = line.split_at(8);
            let words = rest.chunks_exact(8).enumerate();
            let words = words.map(|(index, bytes)| (8 + index * 8, word_of(bytes)));
            // SAFETY: the line is mapped, line-aligned, and not shared.
            unsafe { self.store_line(at, words.chain([(0, word_of(first))])) }.persist()?;
        }
        Ok(())
    }

    /// Overwrites a copy of a slot that is not current: clears its commit word, stores the other words, then the
    /// commit word. Only after what it names is durable, which `_settled` proves. The caller holds the
    /// lock of the publication.
    fn store_slot(
        &self,
        at: u64,
        slot: &SuperblockSlot,
        _settled: &Persisted,
    ) -> io::Result<Persisted> {
        let line = slot.encode();
        let words = line.chunks_exact(8).enumerate();
        let words = words.map(|(index, bytes)| (index * 8, word_of(bytes)));
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
