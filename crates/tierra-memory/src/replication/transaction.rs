//! Transactions: several ranges of a replica set changed at once, all of them in all copies or, after a crash at any
//! moment, none in any.
//!
//! The undo log is replicated too, a set of its own whose entries are those of
//! [`UndoLog`](crate::UndoLog); offsets are from the beginning of a copy. A transaction goes the same
//! three steps, each durable in all copies before the next begins, with one fence each, however many
//! ranges and copies there are. So any copy of the log together with any copy of the set restores what was.
//!
//! Three fences are what undoing needs: old bytes before new ones, new ones before the count, the count before the
//! return. Two would do for a log of new bytes that is replayed, but only if no range of it is written outside
//! a transaction until the log has been closed, and a set is written by its exclusive owner.

use super::{Composition, CopyBy, Master, Method, ReplicaSet, ReplicationError, Waits};
use crate::LINE_BYTES;
use crate::pool::Persisted;
use crate::pool::entry::{self, Write};

/// Where the first entry begins.
const FIRST_ENTRY: u64 = LINE_BYTES as u64;

/// Remembers in several copies what transactions on a replica set overwrite.
///
/// ```
/// use tierra_memory::replication::{Composition, Method, ReplicaSet, ReplicatedUndo};
/// use tierra_memory::{Pool, PoolOptions};
///
/// let dir = tempfile::tempdir()?;
/// let (mut accounts, mut undo) = (Vec::new(), Vec::new());
/// for name in ["a", "b"] {
///     let pool = Pool::create(&dir.path().join(name), &PoolOptions::default())?;
///     accounts.push((pool.clone(), pool.allocate(16, 1)?.finish_log()?.extent()));
///     undo.push((pool.clone(), pool.allocate(4096, 2)?.finish_log()?.extent()));
///     // .. and publish a root that names both
/// }
/// let mut accounts = ReplicaSet::open(&accounts)?;
/// let mut undo = ReplicatedUndo::open(ReplicaSet::open(&undo)?, &mut accounts)?;
/// let method = Method::Always(Composition::BASIC);
/// let mut transfer = undo.begin(&mut accounts);
/// transfer.write(0, &90u64.to_le_bytes())?;
/// transfer.write(8, &10u64.to_le_bytes())?;
/// transfer.commit(&method)?; // both, in both copies; dropping it instead: neither
/// assert_eq!(accounts.bytes(1)[..8], 90u64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReplicatedUndo {
    log: ReplicaSet,
    /// The number of the next transaction, one more than what is finished.
    next: u64,
    rolled_back: usize,
    /// What the transaction under way will write. Kept for their capacity.
    writes: Vec<Write>,
    new_bytes: Vec<u8>,
    entries: Vec<u8>,
}

impl ReplicatedUndo {
    /// Opens an undo log, new or used, and takes back what a transaction on `set` wrote that had not
    /// committed. Comes before whatever reads the set.
    ///
    /// # Errors
    /// [`ReplicationError::Undo`]: the log is too short, or it is another set's.
    /// [`ReplicationError::Pool`]: a pool failed.
    pub fn open(
        mut log: ReplicaSet,
        set: &mut ReplicaSet,
    ) -> Result<ReplicatedUndo, ReplicationError> {
        log.refuse_if_poisoned()?;
        set.refuse_if_poisoned()?;
        let bytes = log.bytes(0);
        if bytes.len() < FIRST_ENTRY as usize {
            return Err(ReplicationError::Undo("it is shorter than a line"));
        }
        let finished = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let next = finished
            .checked_add(1)
            .filter(|number| *number < u64::MAX)
            .ok_or(ReplicationError::Undo("it counts no further transaction"))?;
        let entries = entry::whole_entries(bytes, FIRST_ENTRY, next);
        let whole = set.whole();
        let is_ours = |write: &Write| {
            let end = write.at.checked_add(write.len_bytes);
            write.extent == whole && end.is_some_and(|end| end <= whole.len_bytes)
        };
        if !entries.iter().all(|(write, _)| is_ours(write)) {
            return Err(ReplicationError::Undo(
                "its entries are those of another set",
            ));
        }
        let rolled_back = entries.len();
        // The last first: where two overlap, the first has the oldest bytes.
        let ranges = entries.iter().rev().map(|(write, old)| (write.at, *old));
        let restored = set.replicate_all(ONE_FENCE, ranges)?;
        let mut undo = ReplicatedUndo {
            log,
            next,
            rolled_back,
            writes: Vec::new(),
            new_bytes: Vec::new(),
            entries: Vec::new(),
        };
        // Also where nothing is whole: some entry behind the first may be, and its number must not
        // come again.
        undo.finish(ONE_FENCE, &restored)?;
        Ok(undo)
    }

    /// How many ranges opening rolled back.
    pub fn rolled_back(&self) -> usize {
        self.rolled_back
    }

    /// Begins a transaction on `set`, the one the log was opened with.
    pub fn begin<'l>(&'l mut self, set: &'l mut ReplicaSet) -> ReplicatedTransaction<'l> {
        self.writes.clear();
        self.new_bytes.clear();
        ReplicatedTransaction {
            entries_bytes: 0,
            log: self,
            set,
        }
    }

    /// Step 1.
    fn log_old_bytes(
        &mut self,
        composition: Composition,
        set: &ReplicaSet,
    ) -> Result<Persisted, ReplicationError> {
        self.entries.clear();
        for (index, write) in self.writes.iter().enumerate() {
            let (from, end) = (write.at as usize, (write.at + write.len_bytes) as usize);
            let old = &set.bytes(0)[from..end];
            entry::put_entry(&mut self.entries, self.next, index as u32, write, old);
        }
        let composition = of_log(composition);
        let logged = self
            .log
            .replicate_one(composition, FIRST_ENTRY, &self.entries);
        Ok(logged?)
    }

    /// Step 3. `_written` proves that the new bytes, or the old ones again, are in place.
    fn finish(
        &mut self,
        composition: Composition,
        _written: &Persisted,
    ) -> Result<(), ReplicationError> {
        let count = self.next.to_le_bytes();
        self.log.replicate_one(of_log(composition), 0, &count)?;
        self.next += 1;
        Ok(())
    }
}

const ONE_FENCE: Composition = Composition {
    waits: Waits::Once,
    ..Composition::BASIC
};

/// How the log is written: past the cache where that is not waited for copy by copy, because it is not read before
/// it is opened, and a fence waits less for it than for lines that are flushed.
fn of_log(composition: Composition) -> Composition {
    match composition.waits {
        Waits::Each => composition,
        Waits::Once => Composition {
            master: Master::Streamed,
            copy: CopyBy::Streams,
            prefetch: false,
            ..composition
        },
    }
}

/// Ranges of a replica set to be written at once. Dropped, it has written nothing.
#[derive(Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct ReplicatedTransaction<'l> {
    log: &'l mut ReplicatedUndo,
    set: &'l mut ReplicaSet,
    /// What the entries will take.
    entries_bytes: u64,
}

impl ReplicatedTransaction<'_> {
    /// Adds a range and its new content. Nothing is written yet.
    ///
    /// # Errors
    /// [`ReplicationError::Outside`], [`ReplicationError::UndoLogFull`]. The transaction is as before.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), ReplicationError> {
        let len_bytes = bytes.len() as u64;
        self.set.refuse_outside(at, len_bytes)?;
        let entries_bytes = self.entries_bytes + entry::entry_bytes(len_bytes);
        let (needed_bytes, len) = (FIRST_ENTRY + entries_bytes, self.log.log.len_bytes());
        if needed_bytes > len {
            return Err(ReplicationError::UndoLogFull {
                needed_bytes,
                len_bytes: len,
            });
        }
        // What it overwrites is read soon, and all copies are written.
        self.set.prefetch_line(at);
        self.entries_bytes = entries_bytes;
        self.log.new_bytes.extend_from_slice(bytes);
        self.log.writes.push(Write {
            extent: self.set.whole(),
            at,
            len_bytes,
        });
        Ok(())
    }

    /// Writes all ranges in all copies: on return they hold what they were to, durably; after a crash
    /// before, all hold what they did, once the log has been opened. The method is that for all bytes of
    /// the transaction together.
    ///
    /// # Errors
    /// [`ReplicationError::Pool`]: which of both they hold shows when they are opened again; until then
    /// neither set writes.
    pub fn commit(self, method: &Method) -> Result<(), ReplicationError> {
        let ReplicatedTransaction { log, set, .. } = self;
        let Some(first) = log.writes.first() else {
            return Ok(());
        };
        set.refuse_if_poisoned()?;
        log.log.refuse_if_poisoned()?;
        let composition = set.choose(method, first.at, log.new_bytes.len() as u64, true);
        let _logged = log.log_old_bytes(composition, set)?;
        let mut rest = log.new_bytes.as_slice();
        let written = match log.writes[..] {
            [Write { at, .. }] => set.replicate_one(composition, at, rest)?,
            ref writes => {
                let ranges = writes.iter().map(|write| {
                    let (bytes, behind) = rest.split_at(write.len_bytes as usize);
                    rest = behind;
                    (write.at, bytes)
                });
                set.replicate_all(composition, ranges)?
            }
        };
        log.finish(composition, &written)
    }
}
