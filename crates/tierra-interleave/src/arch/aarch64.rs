//! Prefetch on 64-bit ARM: `prfm pldl1keep`. The intrinsic is not stable, so it is one line of
//! assembly.

use core::arch::asm;

/// Asks for the cache line at `address` in every level of the cache.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    // SAFETY: a prefetch is a hint: it reads and writes nothing the program can see, touches
    // neither stack nor flags, and does not fault even for an address that is not mapped.
    unsafe {
        asm!("prfm pldl1keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
