//! Where no flush instruction is known: detection says so, and pools stay durable by page.

use std::sync::OnceLock;
use std::time::Instant;

use crate::persist::{Flush, Lines};

/// No instruction: [`flush`] is never reached.
pub(crate) fn detect() -> Option<Flush> {
    None
}

/// Nothing to do, as [`detect`] offers nothing.
///
/// # Safety
/// None needed.
pub(crate) unsafe fn flush(_: Flush, _: Lines) {}

/// Orders stores among threads.
pub(crate) fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// A plain copy.
pub(crate) fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

/// Nanoseconds since the first call.
pub(crate) fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
