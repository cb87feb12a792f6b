//! Pages lost while a database is open: they are noted, so that no reader trusts the zeros in their place.
//!
//! ```text
//! reader   begin: noted   read in any way   end: no new loss, and noted unchanged?  -> trust the result
//!                                                otherwise: note, and read again
//! noting   pool.take_faults -> marks in the affected copies -> noted + 1 -> the tier's noted epoch
//! retry    a marked block, header or part of an index is first restored from another copy, or reported as lost
//! ```
//! The thread that finds a loss notes it. That takes microseconds regardless of its size, because it only sets marks. Each reader
//! then restores what it reads, and the scrubber the rest. If two threads find the same page, the second waits and finds it done.
//!
//! Invariant: what is marked was lost and is not restored. A reader that began after a loss was noted finds its marks, and one
//! that began before reads again. So no result computed from the zeros is ever returned.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::storage::extent::OwnedExtent;
use crate::storage::faults::{FaultKind, FaultLog};
use crate::storage::frames::Frames;
use crate::storage::read_checks::ReadChecks;
use crate::storage::tier::Tier;

/// The number of noted losses when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadStamp(u64);

/// The losses of a database. Shared as `Arc`.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    noted: AtomicU64,
    noting: Mutex<()>,
    held: Mutex<LiveExtents>,
    /// The faults found, and their outcomes.
    pub(crate) log: FaultLog,
    /// Whether readers also check for unreported damage.
    pub(crate) checks: ReadChecks,
    /// Copies of far blocks, for scans that do not read in place.
    pub(crate) frames: Frames,
    listeners: RwLock<Vec<Listener>>,
}

/// Called after a loss; wakes a thread that handles it.
struct Listener(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// All extents in memory: one that is no longer published may still be read.
#[derive(Debug, Default)]
struct LiveExtents {
    extents: Vec<Weak<OwnedExtent>>,
    /// Dead entries are removed when there are more than this.
    prune_at: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half done that is relied on: marks are set before they count.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Losses {
    /// Called before a read.
    #[inline]
    pub(crate) fn begin_read(&self) -> ReadStamp {
        ReadStamp(self.noted.load(Ordering::Acquire))
    }

    /// Whether nothing that was read since from these tiers may have been lost. Called after the read: every loss is noted, and
    /// none was noted meanwhile.
    #[inline]
    pub(crate) fn validate<'t>(
        &self,
        seen: ReadStamp,
        mut tiers: impl Iterator<Item = &'t Tier>,
    ) -> bool {
        // In this order: [`Self::note`] increments `noted` before it stores the tier's epoch.
        !tiers.any(Tier::has_losses) && self.begin_read() == seen
    }

    /// Registers an extent that may be read from now on.
    pub(crate) fn hold(&self, extent: &Arc<OwnedExtent>) {
        let mut held = lock(&self.held);
        if held.extents.len() >= held.prune_at {
            held.extents.retain(|extent| extent.strong_count() > 0);
            held.prune_at = 2 * held.extents.len() + 64;
        }
        held.extents.push(Arc::downgrade(extent));
    }

    /// All extents in memory.
    pub(crate) fn held(&self) -> Vec<Arc<OwnedExtent>> {
        let held = lock(&self.held);
        held.extents.iter().filter_map(Weak::upgrade).collect()
    }

    /// Marks what these tiers' pools have lost since the last call, and calls the listeners if there was a loss.
    pub(crate) fn note<'t>(&self, tiers: impl Iterator<Item = &'t Tier>) {
        let _noting = lock(&self.noting);
        let mut found = false;
        for tier in tiers {
            let epoch = tier.pool.fault_epoch();
            if tier.noted_epoch.load(Ordering::Acquire) == epoch {
                continue;
            }
            found = true;
            let faults = tier.pool.take_faults();
            // As zeros, the end is lost once and not page by page.
            let restored = tier.pool.restore_length();
            if let Err(error) = &restored {
                let tier = &*tier.name;
                tracing::error!(tier, %error, "a tier's file was truncated and could not be extended: the copies in its end are lost");
            }
            if tier.pool.take_truncation() {
                self.log.cut_short(tier.id, &tier.name, restored.is_ok());
            }
            self.mark(tier, &faults);
            // In this order: see [`Self::validate`].
            self.noted.fetch_add(1, Ordering::AcqRel);
            tier.noted_epoch.store(epoch, Ordering::Release);
        }
        if found {
            self.tell();
        }
    }

    /// Calls the listeners, after a loss, or because a copy could not be repaired.
    pub(crate) fn tell(&self) {
        let listeners = self.listeners.read();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| (listener.0)());
    }

    /// Calls `told` after every loss from now on, and for every copy that cannot be repaired.
    pub(crate) fn listen(&self, told: impl Fn() + Send + Sync + 'static) {
        let listeners = self.listeners.write();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.push(Listener(Box::new(told)));
    }

    /// Marks the copies that contain a lost part of the pool.
    fn mark(&self, tier: &Tier, faults: &[tierra_memory::Fault]) {
        for extent in self.held() {
            let copies = extent.copies().iter();
            for copy in copies.filter(|copy| Arc::ptr_eq(copy.pool(), &tier.pool)) {
                let parts = faults.iter().map(|fault| copy.note_lost(&fault.offsets));
                for part in parts.flatten() {
                    self.log.found(&extent, copy, part, FaultKind::LostPage);
                }
            }
        }
    }
}
