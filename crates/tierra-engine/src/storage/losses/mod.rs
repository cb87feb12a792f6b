//! Pages that are lost while a database is open: noted, so that nobody believes the zeros that are in their place.
//!
//! ```text
//! reader   begin: noted   read, any way it likes   end: nothing new, and noted as before?  -> believe it
//!                                                        otherwise: note, and read again
//! noting   pool.take_faults -> marks in the copies concerned -> noted + 1 -> the tier's noted epoch
//! reading again   a marked block, head or part of an index is restored from another copy first, or refused
//! ```
//! Whoever finds a loss notes it; that takes microseconds, whatever was lost, for only marks are made. Each reader then restores
//! what it reads itself, and the scrubber the rest. Two that find the same page take turns, and the second finds it done.
//!
//! Invariant: what is marked was lost and has not been restored; a reader whose reading began after a loss was noted finds
//! its marks, and one that began before reads again. So nothing that was computed from zeros is ever given out.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::storage::extent::OwnedExtent;
use crate::storage::faults::{FaultKind, FaultLog};
use crate::storage::read_checks::ReadChecks;
use crate::storage::tier::Tier;

/// How often losses had been noted when a reading began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadStamp(u64);

/// The losses of a database. Shared as `Arc`.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    noted: AtomicU64,
    noting: Mutex<()>,
    held: Mutex<Held>,
    /// What was found wrong, and what became of it.
    pub(crate) log: FaultLog,
    /// Whether readers look for what no loss tells of.
    pub(crate) checks: ReadChecks,
    listeners: RwLock<Vec<Listener>>,
}

/// Called when something was lost: a thread that is to see to it.
struct Listener(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// All extents that are in memory: one that nobody publishes any more may still be read.
#[derive(Debug, Default)]
struct Held {
    extents: Vec<Weak<OwnedExtent>>,
    /// Those that are gone are forgotten when there are more than this.
    prune_at: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half done that would be believed: marks are made before they count.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Losses {
    /// Before anything is read.
    #[inline]
    pub(crate) fn begin_read(&self) -> ReadStamp {
        ReadStamp(self.noted.load(Ordering::Acquire))
    }

    /// Whether nothing that was read since from these tiers may have been lost. After it was: no loss is left that is not noted,
    /// and none was noted meanwhile.
    #[inline]
    pub(crate) fn validate<'t>(
        &self,
        seen: ReadStamp,
        mut tiers: impl Iterator<Item = &'t Tier>,
    ) -> bool {
        // In this order: who notes counts before it says that an epoch is dealt with.
        !tiers.any(Tier::has_losses) && self.begin_read() == seen
    }

    /// An extent may be read from now on.
    pub(crate) fn hold(&self, extent: &Arc<OwnedExtent>) {
        let mut held = lock(&self.held);
        if held.extents.len() >= held.prune_at {
            held.extents.retain(|extent| extent.strong_count() > 0);
            held.prune_at = 2 * held.extents.len() + 64;
        }
        held.extents.push(Arc::downgrade(extent));
    }

    /// All extents that are held now.
    pub(crate) fn held(&self) -> Vec<Arc<OwnedExtent>> {
        let held = lock(&self.held);
        held.extents.iter().filter_map(Weak::upgrade).collect()
    }

    /// Marks what these tiers' pools have lost since this was last done, and calls those who listen if there was something.
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
            // As zeros the end is lost once, and not page by page.
            let restored = tier.pool.restore_length();
            if let Err(error) = &restored {
                let tier = &*tier.name;
                tracing::error!(tier, %error, "the file of a tier was cut short, and stays so: the copies in its end are lost");
            }
            if tier.pool.take_truncation() {
                self.log.cut_short(tier.id, &tier.name, restored.is_ok());
            }
            self.mark(tier, &faults);
            // In this order: see `is_whole_since`.
            self.noted.fetch_add(1, Ordering::AcqRel);
            tier.noted_epoch.store(epoch, Ordering::Release);
        }
        if found {
            let listeners = self.listeners.read();
            let listeners = listeners.unwrap_or_else(PoisonError::into_inner);
            listeners.iter().for_each(|listener| (listener.0)());
        }
    }

    /// Has `told` called whenever something was lost, from now on.
    pub(crate) fn listen(&self, told: impl Fn() + Send + Sync + 'static) {
        let listeners = self.listeners.write();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.push(Listener(Box::new(told)));
    }

    /// Marks the copies that have a part of what a pool has lost.
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
