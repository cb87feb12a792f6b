//! Logs in several copies, written as one: what one pool loses, the others have.
//!
//! A [`ReplicaSet`] is a master and up to eight replicas, logs of the same length in any pools. A write
//! goes to all of them and is durable in all of them when it returns. How it gets there is a
//! [`Method`], made of the building blocks that the replication thesis names (docs/papers.md), all
//! generated from one template: [`Composition::BASIC`] is what PMDK does, a fence behind every copy;
//! most others flush all copies first and fence once.
//!
//! Invariant: after a crash at any moment every copy alone has all writes that returned, and of the one
//! under way some words or none. Opening makes all copies equal to the master and durable, so what
//! was read from it stays.

mod calibrate;
mod composition;
mod error;
mod line;
mod members;
mod method;
mod profile;
mod switch;
mod template;
#[cfg(test)]
mod tests;
mod transaction;
mod workers;

use std::sync::Arc;

pub use composition::{Composition, CopyBy, MAX_REPLICAS, Master, Waits, WorkerCopy};
pub use error::ReplicationError;
pub use method::Method;
pub use profile::Profile;
pub use switch::{MethodTree, SIZE_CLASSES, Situation, class_bytes, size_class};
pub use transaction::{ReplicatedTransaction, ReplicatedUndo};

use crate::LINE_BYTES;
pub use crate::arch::Scatter;
use crate::pool::{
    CheckedLog, Copies, Extent, PersistLayer, Persisted, Pool, PoolError, Replica, WrittenRange,
};
use template::{Later, SingleWrite, run, run_until};
use workers::Workers;

/// A copy: a log of a pool.
pub type Member = (Arc<Pool>, Extent);

/// A log and its copies. It is their one writer.
///
/// ```
/// use tierra_memory::replication::{Composition, CopyBy, Master, Method, ReplicaSet, Waits};
/// use tierra_memory::{Pool, PoolOptions};
///
/// let dir = tempfile::tempdir()?;
/// let mut copies = Vec::new();
/// for name in ["a", "b"] {
///     let pool = Pool::create(&dir.path().join(name), &PoolOptions::default())?;
///     let log = pool.allocate(4096, 1)?.finish_log()?;
///     pool.publish(&log)?;
///     copies.push((pool, log.extent()));
/// }
/// let mut set = ReplicaSet::open(&copies)?;
/// let one_fence = Composition {
///     waits: Waits::Once,
///     prefetch: true,
///     ..Composition::BASIC
/// };
/// set.write(&Method::Always(one_fence), 100, b"twice")?;
/// assert_eq!(&set.bytes(1)[100..105], b"twice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReplicaSet {
    /// The master first, and last the one that is being added.
    copies: Vec<CheckedLog>,
    /// The same, as they are written.
    written: Copies,
    workers: Workers,
    joining: Option<Joining>,
    /// Where the last write ended. A set has one writer, so this is the thread's own pattern.
    last_end: u64,
    len_bytes: u64,
    repaired_bytes: u64,
}

/// What [`ReplicaSet::write_together`] writes to a set: offsets and bytes.
#[derive(Debug)]
pub struct SetWrites<'w> {
    /// The set.
    pub set: &'w mut ReplicaSet,
    /// Parts of its log.
    pub writes: &'w [(u64, &'w [u8])],
}

/// Writes to sets, and waits for all of them at once.
fn run_together<'t, B: PersistLayer>(
    sets: impl IntoIterator<Item = (&'t [Replica<B>], Composition, &'t [(u64, &'t [u8])])>,
) -> Result<Persisted, (usize, ReplicationError)> {
    let mut in_flight = B::InFlight::default();
    for (number, (copies, composition, writes)) in sets.into_iter().enumerate() {
        let later = Later::<B>(&mut in_flight);
        let written = run_until(composition, copies, writes.iter().copied(), later);
        written.map_err(|error| (number, error.into()))?;
    }
    let durable = Replica::<B>::fence_all(in_flight);
    durable.map_err(|error| (0, error.into()))
}

/// A copy that is being added.
#[derive(Clone, Copy, Debug, Default)]
struct Joining {
    /// So many bytes from its beginning are as in the master, durably.
    equal_bytes: u64,
}

impl ReplicaSet {
    /// Opens the copies of a log, the master first, and makes them equal to it and durable: a crash may
    /// have left a write in some of them. Reads all of them.
    ///
    /// # Errors
    /// [`ReplicationError`]; a copy that could not be written is the only one that may have changed.
    pub fn open(copies: &[(Arc<Pool>, Extent)]) -> Result<ReplicaSet, ReplicationError> {
        let mut set = ReplicaSet::of_equal(copies)?;
        set.repaired_bytes = set.make_equal()?;
        Ok(set)
    }

    /// Takes copies that the caller knows to be equal and durable as far as their content is used:
    /// new ones, or those whose records it has compared. Reads none of them.
    ///
    /// # Errors
    /// As [`ReplicaSet::open`].
    pub fn of_equal(copies: &[(Arc<Pool>, Extent)]) -> Result<ReplicaSet, ReplicationError> {
        if copies.is_empty() || copies.len() > 1 + MAX_REPLICAS {
            return Err(ReplicationError::Copies {
                copies: copies.len(),
            });
        }
        let mut set = ReplicaSet {
            copies: Vec::with_capacity(copies.len()),
            written: Copies::new(&[]),
            workers: Workers::default(),
            joining: None,
            last_end: u64::MAX,
            len_bytes: copies[0].1.len_bytes,
            repaired_bytes: 0,
        };
        for (copy, (pool, extent)) in copies.iter().enumerate() {
            let log = set.checked(pool, *extent, copy)?;
            set.copies.push(log);
        }
        set.copies_changed();
        Ok(set)
    }

    /// A log that may be copy number `copy` of this set.
    fn checked(
        &self,
        pool: &Arc<Pool>,
        extent: Extent,
        copy: usize,
    ) -> Result<CheckedLog, ReplicationError> {
        let log = CheckedLog::new(pool, extent)?;
        if extent.len_bytes != self.len_bytes {
            return Err(ReplicationError::Length {
                copy,
                found: extent.len_bytes,
                expected: self.len_bytes,
            });
        }
        let is_same =
            |other: &CheckedLog| Arc::ptr_eq(other.pool(), pool) && other.extent() == extent;
        if let Some(first) = self.copies.iter().position(is_same) {
            return Err(ReplicationError::Twice {
                first,
                second: copy,
            });
        }
        log.refuse_if_poisoned()?;
        Ok(log)
    }

    fn copies_changed(&mut self) {
        self.written = Copies::new(&self.copies);
    }

    /// Bytes of replicas that opening found to differ from the master, in pieces of a page.
    pub fn repaired_bytes(&self) -> u64 {
        self.repaired_bytes
    }

    /// Copies, the master among them; not one that is still being added.
    pub fn copies(&self) -> usize {
        self.copies.len() - usize::from(self.joining.is_some())
    }

    /// Bytes of a copy.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The content of a copy; the master's is 0.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn bytes(&self, copy: usize) -> &[u8] {
        self.copies[copy].bytes()
    }

    /// Overwrites a part of the log in all copies, durably on return.
    ///
    /// # Errors
    /// [`ReplicationError::Outside`]: nothing is written. [`ReplicationError::Pool`]: what the copies
    /// hold shows when they are opened again; until then the set writes no more.
    #[inline]
    pub fn write(
        &mut self,
        method: &Method,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), ReplicationError> {
        let composition = self.choose(method, at, bytes.len() as u64, false);
        // Before anything is stored, be it the registers that a call saves: while the fence of the write before is under way, the
        // processor goes on only as far as its store queue reaches.
        if composition.master != Master::Streamed {
            self.written.prefetch_master(at);
        }
        self.write_one(composition, at, bytes)
    }

    fn write_one(
        &mut self,
        composition: Composition,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), ReplicationError> {
        self.refuse_outside(at, bytes.len() as u64)?;
        self.refuse_if_poisoned()?;
        let _all_durable = self.replicate(composition, at, bytes)?;
        Ok(())
    }

    /// Overwrites several parts of the log in all copies, durably on return, under one fence where the method waits once. A
    /// crash leaves any of what was written. The method is chosen for the last of them.
    ///
    /// # Errors
    /// As [`ReplicaSet::write`].
    pub fn write_all(
        &mut self,
        method: &Method,
        writes: &[(u64, &[u8])],
    ) -> Result<(), ReplicationError> {
        for (at, bytes) in writes {
            self.refuse_outside(*at, bytes.len() as u64)?;
        }
        self.refuse_if_poisoned()?;
        let Some((at, bytes)) = writes.last() else {
            return Ok(());
        };
        let composition = self.choose(method, *at, bytes.len() as u64, false);
        if let CopyBy::Threads(_) = composition.copy
            && self.copies.len() > 1
        {
            for (at, bytes) in writes {
                let _all_durable = self.replicate(composition, *at, bytes)?;
            }
            return Ok(());
        }
        let _all_durable = self.replicate_all(composition, writes.iter().copied())?;
        Ok(())
    }

    /// As [`ReplicaSet::write_all`] of each set, durably on return, and under one fence of all of them where the method waits once
    /// and the media share one. A crash leaves any of what was written in any of the sets. An error comes with the number of the
    /// set; what the others hold is unknown, too.
    ///
    /// # Errors
    /// As [`ReplicaSet::write`].
    pub fn write_together(
        method: &Method,
        sets: &mut [SetWrites<'_>],
    ) -> Result<(), (usize, ReplicationError)> {
        let mut compositions = Vec::with_capacity(sets.len());
        for (number, SetWrites { set, writes }) in sets.iter_mut().enumerate() {
            let choice = set.prepare(method, writes);
            compositions.push(choice.map_err(|error| (number, error))?);
        }
        let all = || sets.iter().zip(&compositions);
        let is_alone = |(one, composition): (&SetWrites<'_>, &Composition)| {
            let by_threads = matches!(composition.copy, CopyBy::Threads(_));
            matches!(composition.waits, Waits::Each) || by_threads && one.set.copies.len() > 1
        };
        if all().any(is_alone) {
            for (number, SetWrites { set, writes }) in sets.iter_mut().enumerate() {
                let written = set.write_all(method, writes);
                written.map_err(|error| (number, error))?;
            }
            return Ok(());
        }
        let by_processor = all().map(|(one, composition)| {
            let copies = one.set.written.by_processor()?;
            Some((copies, *composition, one.writes))
        });
        let by_pool = all().map(|(one, composition)| {
            let copies = one.set.written.by_pool();
            (copies, *composition, one.writes)
        });
        let _all_durable = match by_processor.collect::<Option<Vec<_>>>() {
            Some(all) => run_together(all),
            None => run_together(by_pool),
        }?;
        for (number, SetWrites { set, writes }) in sets.iter().enumerate() {
            let and =
                |written: WrittenRange, (at, bytes): &(u64, &[u8])| written.and(*at, bytes.len());
            let written = writes.iter().fold(WrittenRange::NOTHING, and);
            let wrote = set.written.wrote(written);
            wrote.map_err(|error| (number, error.into()))?;
        }
        Ok(())
    }

    /// Checks writes, and chooses how they are done.
    fn prepare(
        &mut self,
        method: &Method,
        writes: &[(u64, &[u8])],
    ) -> Result<Composition, ReplicationError> {
        let mut range = WrittenRange::NOTHING;
        for (at, bytes) in writes {
            self.refuse_outside(*at, bytes.len() as u64)?;
            range = range.and(*at, bytes.len());
        }
        self.refuse_if_poisoned()?;
        self.written.refuse_if_lost_in(range)?;
        let (at, bytes) = writes
            .last()
            .map_or((0, 0), |(at, bytes)| (*at, bytes.len()));
        Ok(self.choose(method, at, bytes as u64, false))
    }

    /// The composition that the method chooses for a write, which is then recorded as the last one. The range may lie outside.
    #[inline]
    fn choose(
        &mut self,
        method: &Method,
        at: u64,
        len_bytes: u64,
        is_transactional: bool,
    ) -> Composition {
        let last_end = std::mem::replace(&mut self.last_end, at.wrapping_add(len_bytes));
        method.composition(len_bytes, || Situation {
            is_transactional,
            is_sequential: at.wrapping_sub(last_end) < LINE_BYTES as u64,
            replicas: self.copies.len() - 1,
            size_class: size_class(len_bytes),
        })
    }

    #[inline]
    fn refuse_outside(&self, at: u64, len_bytes: u64) -> Result<(), ReplicationError> {
        match at.checked_add(len_bytes) {
            Some(end) if end <= self.len_bytes => Ok(()),
            _ => Err(ReplicationError::Outside {
                at,
                len_bytes,
                copy_bytes: self.len_bytes,
            }),
        }
    }

    /// Writes all copies by a composition. The range lies within them.
    #[inline]
    fn replicate(
        &mut self,
        composition: Composition,
        at: u64,
        bytes: &[u8],
    ) -> Result<Persisted, PoolError> {
        if let CopyBy::Threads(_) = composition.copy
            && self.copies.len() > 1
        {
            return self.by_threads(composition, at, bytes);
        }
        self.replicate_one(composition, at, bytes)
    }

    /// Does one write, which lies within the copies. No threads take part.
    #[inline(always)]
    fn replicate_one(
        &mut self,
        composition: Composition,
        at: u64,
        bytes: &[u8],
    ) -> Result<Persisted, PoolError> {
        let persisted = match self.written.by_processor() {
            Some(copies) => run(composition, copies, SingleWrite(at, bytes))?,
            None => run(composition, self.written.by_pool(), SingleWrite(at, bytes))?,
        };
        self.written
            .wrote(WrittenRange::NOTHING.and(at, bytes.len()))?;
        Ok(persisted)
    }

    /// Does several writes, which lie within the copies, and waits for all of them at once, if the composition
    /// waits once. No threads take part.
    fn replicate_all<'b>(
        &mut self,
        composition: Composition,
        writes: impl IntoIterator<Item = (u64, &'b [u8])>,
    ) -> Result<Persisted, PoolError> {
        let mut written = WrittenRange::NOTHING;
        let writes = writes
            .into_iter()
            .inspect(|(at, bytes)| written = written.and(*at, bytes.len()));
        let persisted = match self.written.by_processor() {
            Some(copies) => run(composition, copies, writes)?,
            None => run(composition, self.written.by_pool(), writes)?,
        };
        self.written.wrote(written)?;
        Ok(persisted)
    }

    /// The replicas by workers, the master meanwhile by this thread.
    #[cold]
    fn by_threads(
        &mut self,
        composition: Composition,
        at: u64,
        bytes: &[u8],
    ) -> Result<Persisted, PoolError> {
        let (master, replicas) = self.written.by_pool().split_at(1);
        let handed = self.workers.hand_out(replicas, composition.copy, at, bytes);
        let alone = Composition {
            prefetch: false,
            ..composition
        };
        let written = run(alone, master, SingleWrite(at, bytes));
        handed.wait()?;
        let persisted = written?;
        self.written
            .wrote(WrittenRange::NOTHING.and(at, bytes.len()))?;
        Ok(persisted)
    }

    #[inline(always)]
    fn refuse_if_poisoned(&mut self) -> Result<(), PoolError> {
        self.written.refuse_if_poisoned()
    }

    /// All of a copy, as undo logs name it: where it lies differs from copy to copy.
    fn whole(&self) -> Extent {
        Extent {
            offset: 0,
            len_bytes: self.len_bytes,
        }
    }

    /// Writes the master's pages over those that differ, and flushes everything: what is used from
    /// now on may be in a cache only, or in some copies only. Returns how many bytes differed.
    fn make_equal(&self) -> Result<u64, PoolError> {
        const PIECE_BYTES: usize = 4096;
        let persist = |log: &CheckedLog| {
            let persisted = log.flush_inherited().persist();
            persisted.map(drop).map_err(|e| log.failed(e))
        };
        // First, for it decides which version of a write stays.
        persist(self.master())?;
        let mut repaired_bytes = 0;
        for replica in self.replicas() {
            for at in (0..self.len_bytes as usize).step_by(PIECE_BYTES) {
                let end = (at + PIECE_BYTES).min(self.len_bytes as usize);
                let right = &self.master().bytes()[at..end];
                if replica.bytes()[at..end] != *right {
                    let stored = replica.store(at as u64, right).flush();
                    stored
                        .and_then(|flushed| flushed.fence())
                        .map_err(|e| replica.failed(e))?;
                    repaired_bytes += right.len() as u64;
                }
            }
            persist(replica)?;
        }
        Ok(repaired_bytes)
    }

    fn master(&self) -> &CheckedLog {
        &self.copies[0]
    }

    fn replicas(&self) -> &[CheckedLog] {
        &self.copies[1..]
    }
}
