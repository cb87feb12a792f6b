//! The two instructions this crate needs and Rust does not offer portably: a prefetch, and a clock
//! cheap enough to time a hundred lookups.
//!
//! Invariant: [`prefetch_line`] never faults and never changes what a program computes, whatever
//! address it is given. Where a processor has no implementation here it does nothing, so that
//! interleaved lookups still answer correctly, merely without hiding anything.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{prefetch_line, ticks};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{prefetch_line, ticks};

/// No prefetch: there is no implementation for this processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn prefetch_line(_address: *const u8) {}

/// A clock that runs evenly, read after everything before has been executed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ticks() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
