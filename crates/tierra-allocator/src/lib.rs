//! The allocator of Tierra's programs: mimalloc, which keeps freed memory for seconds.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;
//!
//! fn main() {
//!     tierra_allocator::keep_freed_memory();
//!     // ..
//!     tierra_allocator::release_freed_memory();
//! }
//! ```
//! A query frees batches, build sides and tables of groups that the next one allocates again. mimalloc gives freed pages
//! back to the system after 10 to 100 ms, and the next use waits until the system has mapped and cleared them again.
//!
//! Only programs depend on this crate. A library leaves the choice of an allocator to the program.

use std::ffi::{c_int, c_long};
use std::time::Duration;

/// mimalloc.
pub use mimalloc::MiMalloc as Allocator;

/// How long freed memory is kept.
pub const KEPT: Duration = Duration::from_secs(2);

/// `mi_option_purge_delay` of mimalloc 2: milliseconds until freed pages of a segment go back.
const PURGE_DELAY: c_int = 15;
/// `mi_option_arena_purge_mult`: how many times as long free segments stay.
const ARENA_PURGE_MULT: c_int = 24;

// SAFETY: the declarations of `mimalloc.h`, in the library that the crate `mimalloc` links. `bool` and `_Bool` are alike.
unsafe extern "C" {
    /// Changes an option from now on. Any thread may call it: options are atomic, and an unknown one is ignored.
    safe fn mi_option_set(option: c_int, value: c_long);
    /// Frees what the calling thread and ended threads have cached, and gives free memory of all threads back if forced.
    safe fn mi_collect(force: bool);
}

/// Freed memory goes back to the system after [`KEPT`], when something is freed then, or at [`release_freed_memory`].
pub fn keep_freed_memory() {
    let kept_ms = c_long::try_from(KEPT.as_millis()).expect("some seconds");
    mi_option_set(ARENA_PURGE_MULT, 1);
    mi_option_set(PURGE_DELAY, kept_ms);
}

/// Gives freed memory back to the system now, except for pages between others that a running thread still uses.
pub fn release_freed_memory() {
    mi_collect(true);
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    const BYTES: usize = 256 << 20;

    // SAFETY: as above.
    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
    }

    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// Uses and frees memory; the growth that is left.
    fn left_after_use() -> usize {
        let before = resident_bytes();
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![black_box(1); BYTES / 64]).collect();
        assert!(resident_bytes() >= before + BYTES);
        drop(blocks);
        resident_bytes().saturating_sub(before)
    }

    #[test]
    fn freed_memory_is_kept_until_it_is_released() {
        // Otherwise the options have other numbers than this crate takes them for.
        assert_eq!(mi_option_get(PURGE_DELAY), 10);
        assert_eq!(mi_option_get(ARENA_PURGE_MULT), 10);
        mi_option_set(PURGE_DELAY, 0);
        assert!(left_after_use() < BYTES / 4);

        keep_freed_memory();
        assert_eq!(mi_option_get(PURGE_DELAY), 2_000);
        // A busy machine may take longer than that.
        mi_option_set(PURGE_DELAY, 600_000);
        assert!(left_after_use() > BYTES / 2);
        let kept = resident_bytes();
        release_freed_memory();
        assert!(resident_bytes() < kept - BYTES / 2);
    }
}
