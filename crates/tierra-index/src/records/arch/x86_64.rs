//! With SSE2, which every x86-64 processor has.

use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

/// A bit for every byte of `bytes` that equals `wanted`, the first byte's lowest.
#[inline(always)]
pub(crate) fn equal_bytes(bytes: &[u8; 16], wanted: u8) -> u32 {
    // SAFETY: SSE2 is part of the architecture, and the array has the sixteen bytes that are read.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
        let equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted.cast_signed()));
        _mm_movemask_epi8(equal).cast_unsigned()
    }
}
