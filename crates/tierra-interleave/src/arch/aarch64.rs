//! Prefetch and clock on 64-bit ARM: `prfm pldl1keep` and the virtual counter. The intrinsics are not
//! stable, so each is a line of assembly.

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

/// The virtual counter, read after everything before has been executed.
#[inline]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable from user space, and reading it has no other effect.
    unsafe {
        asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack, nomem, preserves_flags));
    }
    ticks
}
