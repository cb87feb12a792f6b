//! Prefetch on x86-64: `prefetcht0`, part of the baseline instruction set.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Asks for the cache line at `address` in every level of the cache.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    // SAFETY: SSE is part of the x86-64 baseline, and a prefetch is a hint: it neither faults nor
    // has an effect visible to the program, even for an address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) }
}
