//! Where a processor has no implementation: nothing is hidden, and time is the system's.

use std::sync::LazyLock;
use std::time::Instant;

/// No prefetch.
#[inline(always)]
pub(crate) fn prefetch_line(_address: *const u8) {}

/// A clock that runs evenly.
pub(crate) fn ticks() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
