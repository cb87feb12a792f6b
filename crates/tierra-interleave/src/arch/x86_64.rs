//! Prefetch and clock on x86-64: `prefetcht0` and `rdtsc`, part of the baseline instruction set.

use core::arch::x86_64::{_MM_HINT_T0, _mm_lfence, _mm_prefetch, _rdtsc};

/// Asks for the cache line at `address` in every level of the cache.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    // SAFETY: SSE is part of the x86-64 baseline, and a prefetch is a hint: it neither faults nor
    // has an effect visible to the program, even for an address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) }
}

/// The time stamp counter, read after everything before has been executed: loads still under way
/// belong to what is timed.
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: SSE2 and the counter are part of the x86-64 baseline; neither touches memory.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}
