//! The one instruction this crate needs and Rust does not offer portably: a prefetch.
//!
//! Invariant: [`prefetch_line`] never faults and never changes what a program computes, whatever
//! address it is given. Where a processor has no implementation here it does nothing, so that
//! interleaved lookups still answer correctly, merely without hiding anything.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::prefetch_line;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::prefetch_line;

/// Nothing to ask of a processor whose prefetch instruction is not known here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn prefetch_line(_address: *const u8) {}
