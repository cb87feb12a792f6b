//! Flush, fence, persist: the steps of which durability by cache line is made.
//!
//! A store is durable on byte-addressable persistent memory once its line was flushed and a fence of
//! the same thread followed. Many flushes may share one fence; that is what makes a write of several
//! copies cost hardly more than one. The instruction is detected once and cached.
//!
//! While far memory is emulated, what is flushed to it, streamed to it and fenced takes its time
//! ([`emulation`]).

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::OnceLock;

pub use crate::arch::Flush;
pub(crate) use crate::arch::Lines;
use crate::{LINE_BYTES, arch, emulation};

impl Flush {
    /// The best of this processor; `None` where no flush instruction is known, and durability by
    /// cache line is not offered.
    pub fn best() -> Option<Flush> {
        static BEST: OnceLock<Option<Flush>> = OnceLock::new();
        *BEST.get_or_init(arch::detect)
    }

    /// Every instruction this processor has, best first.
    pub fn available() -> impl Iterator<Item = Flush> {
        let best = Flush::best();
        [Flush::Clwb, Flush::ClflushOpt, Flush::Clflush]
            .into_iter()
            .filter(move |flush| best.is_some_and(|best| best <= *flush))
    }
}

/// Starts moving the lines of `bytes` to memory; [`fence`] waits for them.
pub fn flush(bytes: &[u8]) {
    // SAFETY: a slice is mapped.
    unsafe { Processor::best().flush(Lines::of(bytes.as_ptr(), bytes.len())) }
}

/// As [`flush`], by an instruction that may not be the best one.
///
/// # Panics
/// If this processor does not have it.
pub fn flush_by(how: Flush, bytes: &[u8]) {
    assert!(
        Flush::best().is_some_and(|best| best <= how),
        "this processor has no {how}"
    );
    let lines = Lines::of(bytes.as_ptr(), bytes.len());
    emulation::flushed(lines.first, lines.count * LINE_BYTES);
    // SAFETY: a slice is mapped, and the instruction was detected.
    unsafe { arch::flush(how, lines) }
}

/// Waits until this thread's flushes and streaming stores have reached memory.
pub fn fence() {
    Processor::best().fence();
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
    emulation::streamed(to.as_ptr(), to.len());
    arch::copy_nontemporal(to, from);
    emulation::fenced();
    drop(reading);
}

/// Who carries flushes and fences out: this processor, or its simulated twin, which writes them down
/// ([`crate::recording`]). Media are generic over it, so that both run the same protocol.
pub(crate) trait Instructions: fmt::Debug + Send + Sync {
    /// Starts moving lines to memory.
    ///
    /// # Safety
    /// The lines must be mapped.
    unsafe fn flush(&self, lines: Lines);

    /// Waits for this thread's flushes and streaming stores.
    fn fence(&self);

    /// The processor, if it is one.
    fn processor(&self) -> Option<Processor> {
        None
    }

    /// Makes the length of a file durable, which no flush does.
    fn sync_length(&self, file: &File) -> io::Result<()>;
}

/// The processor that runs this, flushing by one of its instructions, if it has any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor {
    how: Option<Flush>,
}

impl Processor {
    pub(crate) fn best() -> Processor {
        Processor { how: Flush::best() }
    }

    /// For memory that needs no flush.
    pub(crate) fn that_only_fences() -> Processor {
        Processor { how: None }
    }

    /// Starts moving lines to memory, whether or not far memory is emulated.
    ///
    /// # Safety
    /// The lines must be mapped.
    #[inline(always)]
    pub(crate) unsafe fn flush_lines(&self, lines: Lines) {
        if let Some(how) = self.how {
            // SAFETY: mapped by the caller's promise, and the instruction was detected.
            unsafe { arch::flush(how, lines) }
        }
    }

    /// `None` where this processor does not have the instruction.
    pub(crate) fn flushing_by(how: Flush) -> Option<Processor> {
        let has_it = Flush::available().any(|one| one == how);
        has_it.then_some(Processor { how: Some(how) })
    }
}

impl Instructions for Processor {
    #[inline]
    unsafe fn flush(&self, lines: Lines) {
        emulation::flushed(lines.first, lines.count * LINE_BYTES);
        // SAFETY: mapped by the caller's promise.
        unsafe { self.flush_lines(lines) }
    }

    #[inline]
    fn fence(&self) {
        arch::fence();
        emulation::fenced();
    }

    fn processor(&self) -> Option<Processor> {
        Some(*self)
    }

    fn sync_length(&self, file: &File) -> io::Result<()> {
        file.sync_data()
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
                flush_by(how, &bytes[start..start + len]);
            }
            fence();
        }
        persist(&bytes);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    }

    #[test]
    fn a_range_touches_every_line_it_has_a_byte_in() {
        let start = std::ptr::without_provenance::<u8>(64 * 7);
        for (lead, len, lines) in [
            (0, 0, 0),
            (5, 0, 0),
            (0, 1, 1),
            (63, 1, 1),
            (63, 2, 2),
            (0, 64, 1),
            (0, 65, 2),
            (1, 64, 2),
            (63, 66, 3),
        ] {
            let touched = Lines::of(start.wrapping_add(lead), len);
            assert_eq!(
                touched,
                Lines {
                    first: start,
                    count: lines
                },
                "{lead} {len}"
            );
        }
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
