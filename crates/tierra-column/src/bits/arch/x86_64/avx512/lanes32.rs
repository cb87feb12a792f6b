//! 16 lanes of 32 bits: codes of 17 to 32 bits, and unpacked values.

use super::Lanes;
use crate::bits::{CodeBits, mask::first_bits, vector::Vector};
use std::arch::x86_64::*;

impl Lanes<u32> {
    super::avx512! {
        /// One bit per lane: is it `present`, and its bit set in `bitmap`?
        ///
        /// # Safety
        /// The CPU has the level, and the bitmap the bits of the lanes that are present.
        unsafe fn is_set(self, bitmap: &[u64], present: __mmask16) -> u64 {
            // SAFETY: only the 32-bit words of the bits that the bitmap has are read.
            let words = unsafe {
                _mm512_mask_i32gather_epi32::<4>(
                    _mm512_setzero_si512(),
                    present,
                    _mm512_srli_epi32::<5>(self.0),
                    bitmap.as_ptr().cast(),
                )
            };
            // A rotation takes the lane modulo 32.
            let bits = _mm512_rorv_epi32(words, self.0);
            u64::from(_mm512_test_epi32_mask(bits, _mm512_set1_epi32(1)))
        }
    }
}

impl Vector for Lanes<u32> {
    const LANES: usize = 16;
    const SMALL_SET_BITS: usize = 0;
    /// 64-bit sums.
    type Sum = __m512i;
    type SmallSet = ();

    super::avx512! {
        unsafe fn splat(code: u64) -> Self {
            Lanes::new(_mm512_set1_epi32(code as i32))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Lanes::new(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let lanes = first_bits(lanes) as __mmask16;
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Lanes::new(unsafe { _mm512_maskz_loadu_epi32(lanes, from.cast()) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller vouches for 16 places.
            unsafe { _mm512_storeu_si512(out.cast(), self.0) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(self.0));
            let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(self.0));
            // SAFETY: the caller vouches for 16 places.
            unsafe {
                _mm512_storeu_si512(out.cast(), low);
                _mm512_storeu_si512(out.add(8).cast(), high);
            }
        }

        unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
            let sum = _mm512_add_epi32(self.0, _mm512_set1_epi32(plus as i32));
            // SAFETY: the caller vouches for 16 places.
            unsafe { _mm512_storeu_si512(out.cast(), sum) }
        }

        unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
            let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(self.0));
            let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(self.0));
            // SAFETY: the caller vouches for 16 places.
            unsafe {
                Lanes::<u64>::new(low).store_u64_plus(plus, out);
                Lanes::<u64>::new(high).store_u64_plus(plus, out.add(8));
            }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            u64::from(_mm512_cmple_epu32_mask(_mm512_sub_epi32(self.0, low.0), span.0))
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            Lanes::new(_mm512_mask_blend_epi32(selected as __mmask16, other.0, self.0))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            Lanes::new(_mm512_maskz_compress_epi32(selected as __mmask16, self.0))
        }

        unsafe fn min(self, other: Self) -> Self {
            Lanes::new(_mm512_min_epu32(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Lanes::new(_mm512_max_epu32(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            u64::from(_mm512_reduce_min_epu32(self.0))
        }

        unsafe fn largest(self) -> u64 {
            u64::from(_mm512_reduce_max_epu32(self.0))
        }

        unsafe fn no_sum() -> __m512i {
            _mm512_setzero_si512()
        }

        unsafe fn add_to(self, sum: __m512i) -> __m512i {
            let even = _mm512_and_si512(self.0, _mm512_set1_epi64(0xFFFF_FFFF));
            let odd = _mm512_srli_epi64::<32>(self.0);
            _mm512_add_epi64(sum, _mm512_add_epi64(even, odd))
        }

        unsafe fn total(sum: __m512i) -> u128 {
            _mm512_reduce_add_epi64(sum) as u64 as u128
        }

        unsafe fn small_set(_bitmap: &[u64]) {}

        unsafe fn in_small(self, _set: &()) -> u64 {
            0
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            let Some(last) = (bitmap.len() * 64).checked_sub(1) else {
                return 0;
            };
            let last = u32::try_from(last).unwrap_or(u32::MAX);
            let present = _mm512_cmple_epu32_mask(self.0, _mm512_set1_epi32(last as i32));
            // SAFETY: the bitmap has the bits up to the last.
            unsafe { self.is_set(bitmap, present) }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            let from_first = _mm512_sub_epi32(self.0, _mm512_set1_epi32(bits.first_code() as i32));
            let present = _mm512_cmple_epu32_mask(from_first, _mm512_set1_epi32(bits.span() as i32));
            let bit = _mm512_add_epi32(from_first, _mm512_set1_epi32(bits.first_bit() as i32));
            // SAFETY: the bits of the codes in the stretch lie in its words.
            unsafe { Lanes::<u32>::new(bit).is_set(bits.words(), present) }
        }
    }
}
