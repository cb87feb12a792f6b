//! Where no flush instruction is known: detection says so, and pools stay durable by page.

use std::sync::OnceLock;
use std::time::Instant;

use super::lines::{Flush, Lines};

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

/// Stores words, as any other store.
///
/// # Safety
/// `[to, to + from.len())` must be mapped, writable, and not shared.
pub(crate) unsafe fn stream_words(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
}

/// There are no scattered stores, and [`scatter`] is never reached.
pub(crate) fn has_scatter() -> bool {
    false
}

/// Copies to each target.
///
/// # Safety
/// As for [`stream_words`], for each of the first `count` targets.
pub(crate) unsafe fn scatter(to: &[*mut u8; 8], count: usize, from: &[u8]) {
    for &to in &to[..count] {
        // SAFETY: the caller's promise.
        unsafe { stream_words(to, from) }
    }
}

/// Nothing: a hint that is not given.
pub(crate) fn prefetch(_: *const u8) {}

/// As [`prefetch`].
#[inline(always)]
pub(crate) fn prefetch_shared(_: *const u8) {}

/// Nanoseconds since the first call.
pub(crate) fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
