//! A tier with an open pool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::placement::LineTimes;
use tierra_memory::{CopyMethod, Pool};

use crate::spec::replicas::TierId;
use crate::storage::access::Access;

/// A tier with an open pool.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    pub(crate) id: TierId,
    pub(crate) name: Arc<str>,
    pub(crate) pool: Arc<Pool>,
    /// How scans reach its blocks, unless a session says otherwise.
    pub(crate) access: Access,
    /// What `auto` measured last.
    measured: Arc<Mutex<Option<Measured>>>,
    /// How long reading its lines takes.
    pub(crate) lines: TierLines,
    /// The pool's fault epoch up to which all losses are noted ([`losses`](super::losses)).
    pub(crate) noted_epoch: Arc<AtomicU64>,
}

/// How blocks of a tier were reached the fastest.
#[derive(Debug)]
struct Measured {
    at: Instant,
    /// The far memory that was emulated.
    emulated: Option<FarMemory>,
    /// `None`: in place.
    method: Option<CopyMethod>,
}

/// How long a measurement counts: the page cache changes.
const MEASURED_FOR: Duration = Duration::from_secs(60);

impl Tier {
    /// The method that was measured to be the fastest; `None`: in place, also if there is nothing to `measure`.
    pub(crate) fn fastest(
        &self,
        measure: impl FnOnce() -> Option<Option<CopyMethod>>,
    ) -> Option<CopyMethod> {
        let emulated = emulation::current();
        // Others wait for a measurement that is under way. If it panics, the last one stays.
        let mut last = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(last) if last.at.elapsed() < MEASURED_FOR && last.emulated == emulated => {
                last.method
            }
            _ => {
                let method = measure()?;
                *last = Some(Measured {
                    at: Instant::now(),
                    emulated,
                    method,
                });
                method
            }
        }
    }

    /// Whether pages were lost that are not noted yet.
    #[inline]
    pub(crate) fn has_losses(&self) -> bool {
        // In this order, because the pool's epoch is never behind.
        self.noted_epoch.load(Ordering::Acquire) != self.pool.fault_epoch()
    }

    /// A tier without losses since its pool was opened.
    pub(crate) fn new(
        id: TierId,
        name: impl Into<Arc<str>>,
        pool: Arc<Pool>,
        access: Access,
    ) -> Tier {
        Tier {
            id,
            name: name.into(),
            pool,
            access,
            measured: Arc::default(),
            lines: TierLines::default(),
            noted_epoch: Arc::default(),
        }
    }
}

/// How long reading a tier's lines takes, as [`Database::calibrate_tiers`](crate::Database::calibrate_tiers) measured it. Clones share
/// it.
#[derive(Clone, Debug)]
pub(crate) struct TierLines {
    measured: Arc<Mutex<Option<LineTimes>>>,
    /// That share emulated bandwidth. Asking the system takes too long for every scan.
    threads: usize,
}

impl Default for TierLines {
    fn default() -> Self {
        TierLines {
            measured: Arc::default(),
            threads: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl TierLines {
    /// As measured, or [`LineTimes::USUAL`]; at least as slow as the far memory that is emulated, for a thread while all read.
    pub(crate) fn times(&self) -> LineTimes {
        let measured = *self.lock();
        let times = measured.unwrap_or(LineTimes::USUAL);
        emulation::current().map_or(times, |far| times.emulated(&far, self.threads))
    }

    pub(crate) fn set(&self, times: LineTimes) {
        *self.lock() = Some(times);
    }

    fn lock(&self) -> MutexGuard<'_, Option<LineTimes>> {
        let measured = self.measured.lock();
        measured.unwrap_or_else(PoisonError::into_inner)
    }
}
