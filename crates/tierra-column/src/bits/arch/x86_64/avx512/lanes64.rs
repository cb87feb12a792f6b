//! 8 lanes of 64 bits: codes of 31 and of more than 32 bits, and unpacked values.

use super::Lanes;
use crate::bits::{CodeBits, mask::first_bits, vector::Vector};
use std::arch::x86_64::*;

impl Lanes<u64> {
    super::avx512! {
        /// One bit per lane: is it `present`, and its bit set in `bitmap`?
        ///
        /// # Safety
        /// The CPU has the level, and the bitmap the bits of the lanes that are present.
        unsafe fn is_set(self, bitmap: &[u64], present: __mmask8) -> u64 {
            // SAFETY: only the words of the bits that the bitmap has are read.
            let words = unsafe {
                _mm512_mask_i64gather_epi64::<8>(
                    _mm512_setzero_si512(),
                    present,
                    _mm512_srli_epi64::<6>(self.0),
                    bitmap.as_ptr().cast(),
                )
            };
            // A rotation takes the lane modulo 64.
            let bits = _mm512_rorv_epi64(words, self.0);
            u64::from(_mm512_test_epi64_mask(bits, _mm512_set1_epi64(1)))
        }
    }
}

impl Vector for Lanes<u64> {
    const LANES: usize = 8;
    const SMALL_SET_BITS: usize = 0;
    /// Sums of the lower and of the upper halves.
    type Sum = [__m512i; 2];
    type SmallSet = ();

    super::avx512! {
        unsafe fn splat(code: u64) -> Self {
            Lanes::new(_mm512_set1_epi64(code as i64))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Lanes::new(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let lanes = first_bits(lanes) as __mmask8;
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Lanes::new(unsafe { _mm512_maskz_loadu_epi64(lanes, from.cast()) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm256_storeu_si256(out.cast(), _mm512_cvtepi64_epi32(self.0)) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm512_storeu_si512(out.cast(), self.0) }
        }

        unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
            let sum = _mm256_add_epi32(_mm512_cvtepi64_epi32(self.0), _mm256_set1_epi32(plus as i32));
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm256_storeu_si256(out.cast(), sum) }
        }

        unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
            let sum = _mm512_add_epi64(self.0, _mm512_set1_epi64(plus as i64));
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm512_storeu_si512(out.cast(), sum) }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            u64::from(_mm512_cmple_epu64_mask(_mm512_sub_epi64(self.0, low.0), span.0))
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            Lanes::new(_mm512_mask_blend_epi64(selected as __mmask8, other.0, self.0))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            Lanes::new(_mm512_maskz_compress_epi64(selected as __mmask8, self.0))
        }

        unsafe fn min(self, other: Self) -> Self {
            Lanes::new(_mm512_min_epu64(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Lanes::new(_mm512_max_epu64(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            _mm512_reduce_min_epu64(self.0)
        }

        unsafe fn largest(self) -> u64 {
            _mm512_reduce_max_epu64(self.0)
        }

        unsafe fn no_sum() -> [__m512i; 2] {
            [_mm512_setzero_si512(); 2]
        }

        unsafe fn add_to(self, [low, high]: [__m512i; 2]) -> [__m512i; 2] {
            [
                _mm512_add_epi64(low, _mm512_and_si512(self.0, _mm512_set1_epi64(0xFFFF_FFFF))),
                _mm512_add_epi64(high, _mm512_srli_epi64::<32>(self.0)),
            ]
        }

        unsafe fn total([low, high]: [__m512i; 2]) -> u128 {
            let [low, high] = [low, high].map(|sum| _mm512_reduce_add_epi64(sum) as u64 as u128);
            low + (high << 32)
        }

        unsafe fn small_set(_bitmap: &[u64]) {}

        unsafe fn in_small(self, _set: &()) -> u64 {
            0
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            let len_bits = bitmap.len() as u64 * 64;
            let present = _mm512_cmplt_epu64_mask(self.0, _mm512_set1_epi64(len_bits as i64));
            // SAFETY: the bitmap has the bits below its length.
            unsafe { self.is_set(bitmap, present) }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            let from_first = _mm512_sub_epi64(self.0, _mm512_set1_epi64(bits.first_code() as i64));
            let present = _mm512_cmple_epu64_mask(from_first, _mm512_set1_epi64(bits.span() as i64));
            let bit = _mm512_add_epi64(from_first, _mm512_set1_epi64(bits.first_bit() as i64));
            // SAFETY: the bits of the codes in the stretch lie in its words.
            unsafe { Lanes::<u64>::new(bit).is_set(bits.words(), present) }
        }
    }
}
