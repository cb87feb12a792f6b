//! Whether readers have a reason to look closer.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies of which something is lost, and databases whose readings are all checked, in the process: nearly always none, and then
/// no reader asks for more than this.
static DOUBTS: AtomicUsize = AtomicUsize::new(0);

/// Whether there may be something to do before what was checked once is read.
#[inline]
pub(crate) fn needs_revalidation() -> bool {
    // Relaxed: who began to read before a mark was made reads again ([`losses`](super::losses)).
    DOUBTS.load(Ordering::Relaxed) != 0
}

/// A reason for readers to look closer.
pub(crate) struct RevalidationReason;

impl RevalidationReason {
    pub(crate) fn begin() {
        DOUBTS.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end() {
        DOUBTS.fetch_sub(1, Ordering::AcqRel);
    }
}
