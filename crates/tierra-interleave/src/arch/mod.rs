//! The two instructions this crate needs and Rust does not offer portably: a prefetch, and a clock
//! cheap enough to time a hundred lookups.
//!
//! Invariant: [`prefetch_line`] never faults and never changes what a program computes, whatever
//! address it is given. Where a processor has no implementation here it does nothing, so that
//! interleaved lookups still answer correctly, merely without hiding anything.

// Miri interprets neither the instruction that orders the clock nor that of other processors.
cfg_select! {
    miri => {
        mod portable;
        pub(crate) use portable::{prefetch_line, ticks};
    }
    target_arch = "aarch64" => {
        mod aarch64;
        pub(crate) use aarch64::{prefetch_line, ticks};
    }
    target_arch = "x86_64" => {
        mod x86_64;
        pub(crate) use x86_64::{prefetch_line, ticks};
    }
    _ => {
        mod portable;
        pub(crate) use portable::{prefetch_line, ticks};
    }
}
