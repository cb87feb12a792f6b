//! One number for all pools, which moves when something happens that writers have to hear of: a page was lost,
//! or a device refused a write.
//!
//! A writer that has once found all its pools well need not ask them again as long as the number stays, so
//! that a durable word costs one load of a line which nobody writes to in good times.
//!
//! Invariant: the number moves after what happened can be seen in its pool, and before anybody can see a page
//! of zeros.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// From one: zero is what writers remember that have not asked yet.
static TROUBLES: AtomicU64 = AtomicU64::new(1);

/// A pool is no longer as its writers found it. May be called in a signal.
pub(crate) fn happened() {
    TROUBLES.fetch_add(1, Ordering::SeqCst);
}

/// How often that was. Stores that this thread made before the call have had their signal.
#[inline(always)]
pub(crate) fn count() -> u64 {
    // The handler runs on this thread at the store: only the compiler could move it behind the load.
    compiler_fence(Ordering::SeqCst);
    TROUBLES.load(Ordering::Acquire)
}
