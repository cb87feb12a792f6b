//! Whether readers have a reason to validate.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of copies with losses, plus databases that check every read, in this process. It is nearly always zero, and then
/// readers check nothing else.
static REASONS: AtomicUsize = AtomicUsize::new(0);

/// Whether reads of bytes that were verified once may need another check.
#[inline]
pub(crate) fn needs_revalidation() -> bool {
    // Relaxed: a reader that began before a mark was made reads again ([`losses`](super::losses)).
    REASONS.load(Ordering::Relaxed) != 0
}

/// A reason for readers to validate.
pub(crate) struct RevalidationReason;

impl RevalidationReason {
    pub(crate) fn begin() {
        REASONS.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end() {
        REASONS.fetch_sub(1, Ordering::AcqRel);
    }
}
