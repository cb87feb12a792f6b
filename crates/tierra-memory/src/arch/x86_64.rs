//! `clwb`, `clflushopt`, `clflush`, `sfence`, streaming stores, and the time-stamp counter.
//!
//! Stable Rust has no intrinsics for the first two, hence inline assembly. They are found through
//! CPUID leaf 7: EBX bit 24 is `clwb`, bit 23 `clflushopt`. `clwb` comes first because it may leave
//! the line in the cache; some processors evict it all the same.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, _mm_clflush, _mm_loadu_si128, _mm_sfence, _mm_stream_si128,
    _rdtsc,
};

use crate::LINE_BYTES;
use crate::persist::{Flush, Lines};

/// The best flush this processor has; `clflush` is part of every x86-64.
pub(crate) fn detect() -> Option<Flush> {
    const CLFLUSHOPT: u32 = 1 << 23;
    const CLWB: u32 = 1 << 24;
    let features = if __cpuid(0).eax >= 7 {
        __cpuid_count(7, 0).ebx
    } else {
        0
    };
    Some(match features {
        ebx if ebx & CLWB != 0 => Flush::Clwb,
        ebx if ebx & CLFLUSHOPT != 0 => Flush::ClflushOpt,
        _ => Flush::Clflush,
    })
}

/// Flushes lines.
///
/// # Safety
/// The lines must be mapped, and `how` an instruction that [`detect`] would allow on this processor.
pub(crate) unsafe fn flush(how: Flush, lines: Lines) {
    let Lines { first, count } = lines;
    // One loop per instruction: the choice is made once, not per line.
    match how {
        Flush::Clwb => (0..count).for_each(|line| {
            // SAFETY: the line is mapped and the processor has the instruction (caller's promise);
            // the instruction changes no memory content and no flag. `asm!` may access memory by
            // default, so the compiler keeps earlier stores before it.
            unsafe {
                asm!("clwb [{}]", in(reg) first.wrapping_add(line * LINE_BYTES),
                     options(nostack, preserves_flags));
            }
        }),
        Flush::ClflushOpt => (0..count).for_each(|line| {
            // SAFETY: as above.
            unsafe {
                asm!("clflushopt [{}]", in(reg) first.wrapping_add(line * LINE_BYTES),
                     options(nostack, preserves_flags));
            }
        }),
        Flush::Clflush => (0..count).for_each(|line| {
            // SAFETY: the line is mapped (caller's promise).
            unsafe { _mm_clflush(first.wrapping_add(line * LINE_BYTES)) }
        }),
    }
}

/// Waits until the flushes and streaming stores of this thread are done.
pub(crate) fn fence() {
    // SAFETY: SSE is part of every x86-64.
    unsafe { _mm_sfence() }
}

/// Copies past the cache, whole lines by streaming stores, the ragged ends through the cache and
/// flushed by the caller's persist. Ends with a fence, as streaming stores are weakly ordered.
pub(crate) fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a copy has one length");
    const STORE_BYTES: usize = size_of::<__m128i>();
    let lead = to.as_ptr().align_offset(LINE_BYTES).min(to.len());
    let (to_lead, to_rest) = to.split_at_mut(lead);
    let (from_lead, from_rest) = from.split_at(lead);
    to_lead.copy_from_slice(from_lead);
    let mut to_lines = to_rest.chunks_exact_mut(LINE_BYTES);
    let mut from_lines = from_rest.chunks_exact(LINE_BYTES);
    for (to_line, from_line) in to_lines.by_ref().zip(from_lines.by_ref()) {
        for at in (0..LINE_BYTES).step_by(STORE_BYTES) {
            // SAFETY: both lines are 64 bytes long; the target is line-aligned, hence aligned for the
            // store. SSE2 is part of every x86-64.
            unsafe {
                let bytes = _mm_loadu_si128(from_line.as_ptr().add(at).cast());
                _mm_stream_si128(to_line.as_mut_ptr().add(at).cast(), bytes);
            }
        }
    }
    to_lines
        .into_remainder()
        .copy_from_slice(from_lines.remainder());
    fence();
}

/// The time-stamp counter: the same on every core, at a rate that does not change, on every processor
/// that calls it invariant (all of the last fifteen years).
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: part of every x86-64; reads a counter and nothing else.
    unsafe { _rdtsc() }
}
