//! An undo log: several ranges of logs changed at once, all of them or, after a crash at any moment, none.
//!
//! ```text
//! undo log  | finished u64, zeros | entry | entry | .. | whatever was there before |
//!
//! entry      0      4   5       8             16             24             32   40          48
//!           | UNDO | 1 | 3 x 0 | transaction | extent offset | extent bytes | at | old bytes | index u32
//!           52                   56    60
//!           | CRC of old bytes  | 0   | CRC of 0..60 | old bytes, zeros up to a multiple of 64 |
//! ```
//! A transaction numbered `finished + 1` goes three steps, each durable before the next begins:
//! 1. the old bytes of every range are logged,
//! 2. the new bytes are written in place,
//! 3. `finished` counts the transaction: an 8-byte store, with which it is committed.
//!
//! Invariant: entries of the transaction that `finished` does not count yet are whole if anything was
//! written in place, so taking the old bytes back from the valid entries restores every range. A
//! number is used once, by a transaction that was rolled back as well, so what an earlier one logged is
//! never taken for an entry.

use std::sync::Arc;

use super::entry::{self, Write};
use super::stored::Persisted;
use super::{Extent, Pool, PoolError};
use crate::LINE_BYTES;

/// Where the first entry begins.
const FIRST_ENTRY: u64 = LINE_BYTES as u64;

/// Remembers what transactions overwrite: a log extent of its own, used by one thread at a time.
///
/// ```
/// use tierra_memory::{Pool, PoolOptions, UndoLog};
///
/// let dir = tempfile::tempdir()?;
/// let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default())?;
/// let accounts = pool.allocate(16, 1)?.finish_log()?.extent();
/// let undo = pool.allocate(4096, 2)?.finish_log()?.extent();
/// // .. and publish a root that names both; after an open, before anything else:
/// let mut undo = UndoLog::open(&pool, undo)?;
/// let mut transfer = undo.begin();
/// transfer.write(accounts, 0, &90u64.to_le_bytes())?;
/// transfer.write(accounts, 8, &10u64.to_le_bytes())?;
/// transfer.commit()?; // both, durably; dropping it instead: neither
/// assert_eq!(pool.bytes(accounts)[..8], 90u64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UndoLog {
    pool: Arc<Pool>,
    extent: Extent,
    /// The number of the next transaction, one more than what is finished.
    next: u64,
    rolled_back: usize,
    /// What the transaction under way will write. Kept for their capacity.
    writes: Vec<Write>,
    new_bytes: Vec<u8>,
    entries: Vec<u8>,
}

impl UndoLog {
    /// Opens an undo log, new or used, and takes back what a transaction wrote that had not committed.
    /// Comes before whatever reads the logs it wrote to.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`], [`PoolError::OutsideLog`]: the extent is no log or too short, or its
    /// entries name what is none. [`PoolError::Io`], [`PoolError::Poisoned`].
    pub fn open(pool: &Arc<Pool>, extent: Extent) -> Result<UndoLog, PoolError> {
        pool.check_range(extent, 0, FIRST_ENTRY)?;
        pool.refuse_if_poisoned()?;
        let bytes = pool.bytes(extent);
        let finished = entry::u64_at(bytes, 0);
        let number = finished
            .checked_add(1)
            .filter(|number| *number < u64::MAX)
            .ok_or_else(|| pool.bad(extent, "an undo log that counts no further transaction"))?;
        let entries = entry::whole_entries(bytes, FIRST_ENTRY, number);
        for (write, _) in &entries {
            pool.check_range(write.extent, write.at, write.len_bytes)?;
        }
        let mut log = UndoLog {
            pool: Arc::clone(pool),
            extent,
            next: number,
            rolled_back: entries.len(),
            writes: Vec::new(),
            new_bytes: Vec::new(),
            entries: Vec::new(),
        };
        // The last first: where two overlap, the first has the oldest bytes.
        let ranges = entries.iter().rev().map(|(write, old)| (*write, *old));
        let restored = log.write_in_place(ranges, &Persisted::by_earlier_run())?;
        // Also where nothing is whole: some entry behind the first may be, and its number must not
        // come again.
        log.finish(&restored)?;
        Ok(log)
    }

    /// How many ranges opening rolled back.
    pub fn rolled_back(&self) -> usize {
        self.rolled_back
    }

    /// Where the log lies.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Transaction<'_> {
        self.writes.clear();
        self.new_bytes.clear();
        Transaction {
            entries_bytes: 0,
            log: self,
        }
    }

    /// Step 1.
    fn log_old_bytes(&mut self) -> Result<Persisted, PoolError> {
        self.entries.clear();
        for (index, write) in self.writes.iter().enumerate() {
            let old = self.pool.bytes(Extent {
                offset: write.extent.offset + write.at,
                len_bytes: write.len_bytes,
            });
            entry::put_entry(&mut self.entries, self.next, index as u32, write, old);
        }
        // SAFETY: the extent is a log of this pool, checked when it was opened, and `begin` saw to it
        // that the entries fit; the log has one user, who holds it mutably.
        let stored = unsafe {
            self.pool
                .copy(self.extent.offset + FIRST_ENTRY, &self.entries)
        };
        let persisted = stored.persist();
        persisted.map_err(|source| self.pool.poison("log what is overwritten", source))
    }

    /// Step 2, or the way back. `_logged` proves that the old bytes are safe.
    fn write_in_place<'b>(
        &self,
        ranges: impl Iterator<Item = (Write, &'b [u8])>,
        _logged: &Persisted,
    ) -> Result<Persisted, PoolError> {
        let poison = |source| self.pool.poison("write a transaction", source);
        let mut flushed = None;
        for (write, bytes) in ranges {
            // SAFETY: the range lies in a log, as was checked when it was added; by the pool's protocol
            // it has one writer, and no slice of it is held.
            let stored = unsafe { self.pool.copy(write.extent.offset + write.at, bytes) };
            let this = stored.flush().map_err(poison)?;
            flushed = Some(match flushed {
                None => this,
                Some(before) => this.and(before),
            });
        }
        match flushed {
            None => Ok(Persisted::nothing()),
            Some(flushed) => flushed.fence().map_err(poison),
        }
    }

    /// Step 3. `_written` proves that the new bytes, or the old ones again, are in place.
    fn finish(&mut self, _written: &Persisted) -> Result<(), PoolError> {
        let word = u64::from_le(self.next);
        // SAFETY: the first line of a log of this pool, which has one user.
        let stored = unsafe { self.pool.store_line(self.extent.offset, [(0, word)]) };
        stored
            .persist()
            .map_err(|source| self.pool.poison("finish a transaction", source))?;
        self.next += 1;
        Ok(())
    }
}

/// Ranges to be written at once. Dropped, it has written nothing.
#[derive(Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct Transaction<'l> {
    log: &'l mut UndoLog,
    /// What the entries will take.
    entries_bytes: u64,
}

impl Transaction<'_> {
    /// Adds a range of a log and its new content. Nothing is written yet.
    ///
    /// # Errors
    /// [`PoolError::OutsideLog`], [`PoolError::BadExtent`] if the extent is no log,
    /// [`PoolError::UndoLogFull`]. The transaction is as before.
    pub fn write(&mut self, extent: Extent, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        let log = &mut *self.log;
        let len_bytes = bytes.len() as u64;
        log.pool.check_range(extent, at, len_bytes)?;
        let entries_bytes = self.entries_bytes + entry::entry_bytes(len_bytes);
        let needed_bytes = FIRST_ENTRY + entries_bytes;
        if needed_bytes > log.extent.len_bytes {
            return Err(PoolError::UndoLogFull {
                path: log.pool.path.clone(),
                extent: log.extent,
                needed_bytes,
            });
        }
        self.entries_bytes = entries_bytes;
        log.new_bytes.extend_from_slice(bytes);
        log.writes.push(Write {
            extent,
            at,
            len_bytes,
        });
        Ok(())
    }

    /// Writes all ranges: on return they hold what they were to, durably; after a crash before, all
    /// hold what they did, once the log has been opened.
    ///
    /// # Errors
    /// [`PoolError::Io`], [`PoolError::Poisoned`]: which of both they hold shows when the pool is
    /// opened again.
    pub fn commit(self) -> Result<(), PoolError> {
        let log = self.log;
        if log.writes.is_empty() {
            return Ok(());
        }
        log.pool.refuse_if_poisoned()?;
        let logged = log.log_old_bytes()?;
        let mut rest = log.new_bytes.as_slice();
        let ranges = log.writes.iter().map(|write| {
            let (bytes, behind) = rest.split_at(write.len_bytes as usize);
            rest = behind;
            (*write, bytes)
        });
        let written = log.write_in_place(ranges, &logged)?;
        log.finish(&written)
    }
}
