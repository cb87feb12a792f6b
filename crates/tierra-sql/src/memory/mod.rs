//! The memory that the queries of a session may use together.
//!
//! Operators ask before they grow. A sort, group or join beyond the limit spills to files if it can. Otherwise it fails
//! with a message that says what to do. The limit may change while queries run: it is read at every request for more.
//!
//! ```text
//! operators that gather rows -- ask --> this pool
//! functions that make much of little -> growing.rs: the size of the result first, smaller batches
//! rows of an answer that is collected -> answer.rs: accounted for like an operator's
//! texts that hold many buffers ---------> texts.rs: copied together before and after a sort
//! tokens of a text, its tree and plan --> reading.rs: an estimate, before there are any
//! memory without an account ---------> watch.rs: the real growth of the process
//! ```

mod answer;
mod growing;
mod reading;
mod texts;
mod watch;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use tierra_memory::{Size, Topology};

pub(crate) use answer::Collected;
pub(crate) use growing::{add_to, batch_rows};
pub(crate) use reading::{Planning, TokenAccount};
pub(crate) use texts::with_compact_strings;
pub use watch::release_memory_with;
pub(crate) use watch::{Watched, Writing};

/// By default queries may use one part in this many of the memory that the process may have.
const DEFAULT_PART: u64 = 2;

/// Bytes that queries may use by default: half of the machine's memory, or of what control groups leave of it.
pub(crate) fn default_bytes() -> usize {
    let bytes = Topology::discover().map_or(u64::MAX, |topology| topology.usable_bytes());
    usize::try_from(bytes / DEFAULT_PART).unwrap_or(usize::MAX)
}

/// The account of one session.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl QueryMemory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }
}

// Relaxed: the counters guard no other memory, and each is changed by one operation.
impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query memory"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let grown = |used: usize| used.checked_add(additional).filter(|used| *used <= limit);
        let order = Ordering::Relaxed;
        match self.used.fetch_update(order, order, grown) {
            Ok(_) => Ok(()),
            Err(used) => Err(resources_datafusion_err!(
                "{} needs {additional} bytes more, of tierra.query_memory = {} {} are left: \
                 SET tierra.query_memory to more, or ask for less at a time",
                reservation.consumer().name(),
                Size(limit as u64),
                Size(limit.saturating_sub(used) as u64)
            )),
        }
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit.load(Ordering::Relaxed))
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (&self.used, &self.limit);
        let load = |bytes: &AtomicUsize| Size(bytes.load(Ordering::Relaxed) as u64);
        write!(f, "{}({} of {})", self.name(), load(used), load(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::MemoryConsumer;
    use std::sync::Arc;

    #[test]
    fn growth_stops_at_the_limit_and_goes_on_when_it_rises() {
        let memory = Arc::new(QueryMemory::new(100));
        let pool: Arc<dyn MemoryPool> = memory.clone();
        let reservation = MemoryConsumer::new("join").register(&pool);
        reservation.try_grow(100).unwrap();
        let error = reservation.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("join needs 1 bytes more"), "{error}");
        memory.set_limit(200);
        reservation.try_grow(100).unwrap();
        drop(reservation);
        assert_eq!(pool.reserved(), 0);
    }
}
