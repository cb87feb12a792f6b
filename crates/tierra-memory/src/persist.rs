//! Flush, fence, persist: the steps of which durability by cache line is made.
//!
//! A store is durable on byte-addressable persistent memory once its line was flushed and a fence of
//! the same thread followed. Many flushes may share one fence; that is what makes a write of several
//! copies cost hardly more than one. The instruction is detected once and cached.
//!
//! While far memory is emulated, what is flushed to it, streamed to it and fenced takes its time
//! ([`emulation`]).

use std::fmt;
use std::sync::OnceLock;

use crate::{arch, emulation};

/// The instruction that moves a line from the caches to memory, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flush {
    /// Writes the line back and may keep it cached.
    Clwb,
    /// Writes the line back and evicts it; flushes of different lines overlap.
    ClflushOpt,
    /// Writes the line back and evicts it, one after the other.
    Clflush,
}

impl Flush {
    /// The best of this processor; `None` where no flush instruction is known, and durability by
    /// cache line is not offered.
    pub fn best() -> Option<Flush> {
        static BEST: OnceLock<Option<Flush>> = OnceLock::new();
        *BEST.get_or_init(arch::detect)
    }

    /// Every instruction this processor has, best first.
    #[cfg(test)]
    fn available() -> impl Iterator<Item = Flush> {
        let best = Flush::best();
        [Flush::Clwb, Flush::ClflushOpt, Flush::Clflush]
            .into_iter()
            .filter(move |flush| best.is_some_and(|best| best <= *flush))
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flush::Clwb => "clwb",
            Flush::ClflushOpt => "clflushopt",
            Flush::Clflush => "clflush",
        })
    }
}

/// Starts moving the lines of `bytes` to memory; [`fence`] waits for them.
pub fn flush(bytes: &[u8]) {
    // SAFETY: a slice is mapped.
    unsafe { flush_raw(bytes.as_ptr(), bytes.len()) }
}

/// Waits until this thread's flushes and streaming stores have reached memory.
pub fn fence() {
    arch::fence();
    emulation::fenced();
}

/// Flush and fence: when it returns, `bytes` survive a power cut if they lie on persistent memory
/// mapped with `MAP_SYNC`.
pub fn persist(bytes: &[u8]) {
    flush(bytes);
    fence();
}

/// Copies without filling the caches with what is not read soon, ending with a fence. For bulk; the
/// ragged ends (less than a line on either side) still need a flush.
///
/// # Panics
/// If the lengths differ.
pub fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
    let reading = emulation::begin_read(from);
    emulation::flushed(to.as_ptr(), to.len());
    arch::copy_nontemporal(to, from);
    emulation::fenced();
    drop(reading);
}

/// [`flush`] for memory that must not be borrowed, because someone else may be writing next to it.
///
/// # Safety
/// `[start, start + len_bytes)` must be mapped.
pub(crate) unsafe fn flush_raw(start: *const u8, len_bytes: usize) {
    emulation::flushed(start, len_bytes);
    if let Some(how) = Flush::best() {
        // SAFETY: mapped by the caller's promise, and the instruction was detected.
        unsafe { arch::flush(how, start, len_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_flush_leaves_the_content_alone() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for how in Flush::available() {
            for (start, len) in [(0, 0), (0, 1), (63, 2), (1, 999), (0, 1000)] {
                // SAFETY: inside the vector, and the instruction is available.
                unsafe { arch::flush(how, bytes.as_ptr().add(start), len) };
            }
            fence();
        }
        persist(&bytes);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    }

    #[test]
    fn the_best_flush_is_the_first_available() {
        assert_eq!(Flush::best(), Flush::available().next());
    }

    #[test]
    fn nontemporal_copies_copy_at_every_alignment() {
        let from: Vec<u8> = (0..400u32).map(|i| (i * 7) as u8).collect();
        for start in 0..70 {
            for len in [0, 1, 63, 64, 65, 127, 128, 200, 300] {
                let mut to = vec![0xAA; 400];
                copy_nontemporal(&mut to[start..start + len], &from[5..5 + len]);
                assert_eq!(
                    to[start..start + len],
                    from[5..5 + len],
                    "start {start} len {len}"
                );
                assert!(
                    to[..start]
                        .iter()
                        .chain(&to[start + len..])
                        .all(|&byte| byte == 0xAA)
                );
            }
        }
    }
}
