//! `clwb`, `clflushopt`, `clflush`, `sfence`, streaming stores, and the time-stamp counter.
//!
//! Stable Rust has no intrinsics for the first two, hence inline assembly. They are found through
//! CPUID leaf 7: EBX bit 24 is `clwb`, bit 23 `clflushopt`. `clwb` comes first because it may leave
//! the line in the cache; some processors evict it all the same.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, _MM_HINT_T0, _MM_HINT_T1, _mm_clflush, _mm_loadu_si128,
    _mm_prefetch, _mm_sfence, _mm_stream_si32, _mm_stream_si64, _mm_stream_si128, _mm512_add_epi64,
    _mm512_loadu_si512, _mm512_mask_i64scatter_epi64, _mm512_set1_epi64, _rdtsc,
};

use super::lines::{Flush, Lines};
use crate::LINE_BYTES;

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
#[inline]
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
#[inline(always)]
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

/// Stores words of four bytes past the cache, by the longest stores that fit; a fence waits for them.
///
/// # Safety
/// `[to, to + from.len())` must be mapped, writable and not shared, `to` and the length multiples of
/// four.
#[inline]
pub(crate) unsafe fn stream_words(to: *mut u8, from: &[u8]) {
    const WORD_BYTES: usize = 8;
    const HALF_BYTES: usize = 4;
    debug_assert!(from.is_empty() || to.addr().is_multiple_of(HALF_BYTES));
    debug_assert!(from.len().is_multiple_of(HALF_BYTES));
    let mut at = 0;
    while at < from.len() {
        // SAFETY: both sides have what is read and written here, and the targets are aligned for it: a
        // line to sixteen bytes, a word to eight, its half to four. SSE2 is part of every x86-64.
        unsafe {
            let (to, from_here) = (to.add(at), from.as_ptr().add(at));
            if to.addr().is_multiple_of(LINE_BYTES) && from.len() - at >= LINE_BYTES {
                for part in 0..LINE_BYTES / size_of::<__m128i>() {
                    let bytes = _mm_loadu_si128(from_here.cast::<__m128i>().add(part));
                    _mm_stream_si128(to.cast::<__m128i>().add(part), bytes);
                }
                at += LINE_BYTES;
            } else if to.addr().is_multiple_of(WORD_BYTES) && from.len() - at >= WORD_BYTES {
                _mm_stream_si64(to.cast(), from_here.cast::<i64>().read_unaligned());
                at += WORD_BYTES;
            } else {
                _mm_stream_si32(to.cast(), from_here.cast::<i32>().read_unaligned());
                at += HALF_BYTES;
            }
        }
    }
}

/// Whether one instruction can store to eight places.
pub(crate) fn has_scatter() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// Copies bytes to the first `count` targets, eight bytes to all of them by one instruction.
///
/// # Safety
/// [`has_scatter`] must be true; for each of these targets `[to, to + from.len())` must be mapped,
/// writable and not shared.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn scatter(to: &[*mut u8; 8], count: usize, from: &[u8]) {
    let lanes = ((1u16 << count) - 1) as u8;
    let addresses = to.map(|to| to.expose_provenance() as i64);
    let mut words = from.chunks_exact(8);
    let mut at = 0;
    for word in words.by_ref() {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        // SAFETY: the lanes are `count` targets that have these eight bytes; a scatter asks for no
        // alignment.
        unsafe {
            let places = _mm512_loadu_si512(addresses.as_ptr().cast());
            let places = _mm512_add_epi64(places, _mm512_set1_epi64(at));
            let word = _mm512_set1_epi64(i64::from_ne_bytes(bytes));
            _mm512_mask_i64scatter_epi64::<1>(std::ptr::null_mut(), lanes, places, word);
        }
        at += 8;
    }
    let rest = words.remainder();
    for &to in &to[..count] {
        // SAFETY: the rest of the caller's range.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to.add(at as usize), rest.len()) };
    }
}

/// Fetches a line into the nearest cache.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: a hint, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Asks for a line into the caches that cores share, or the nearest to those.
#[inline(always)]
pub(crate) fn prefetch_shared(address: *const u8) {
    // SAFETY: a hint, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
}

/// The time-stamp counter: the same on every core, at a rate that does not change, on every processor
/// that calls it invariant (all of the last fifteen years).
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: part of every x86-64; reads a counter and nothing else.
    unsafe { _rdtsc() }
}
