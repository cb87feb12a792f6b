//! A global counter of events that writers must notice: a page was lost, or a device refused a write.
//!
//! A writer that has found all its pools healthy does not check them again as long as the counter is unchanged, so
//! a durable word costs one load of a line that is not written in normal operation.
//!
//! Invariant: the counter advances after the event is visible in its pool, and before any thread can see a page
//! of zeros.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// Starts at one: zero is the value of writers that have not checked yet.
static TROUBLES: AtomicU64 = AtomicU64::new(1);

/// Counts an event. May be called in a signal handler.
pub(crate) fn happened() {
    TROUBLES.fetch_add(1, Ordering::SeqCst);
}

/// The number of events. Signals of stores that this thread made before the call have been handled.
#[inline(always)]
pub(crate) fn count() -> u64 {
    // The handler runs on this thread at the store: only the compiler could move it behind the load.
    compiler_fence(Ordering::SeqCst);
    TROUBLES.load(Ordering::Acquire)
}
