//! 32 lanes of 16 bits: codes of 9 to 16 bits.

use super::Lanes;
use crate::bits::{CodeBits, mask::first_bits, vector::Vector};
use std::arch::x86_64::*;

/// A bitmap of 4,096 bits.
#[derive(Clone, Copy)]
pub(super) struct SmallSet {
    registers: [__m512i; 8],
    /// Nothing is set beyond the first two registers.
    fits_two: bool,
}

impl Lanes<u16> {
    super::avx512! {
        unsafe fn halves(self) -> [__m256i; 2] {
            [_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0)]
        }

        unsafe fn widened(self) -> [Lanes<u32>; 2] {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { self.halves() };
            [Lanes::new(_mm512_cvtepu16_epi32(low)), Lanes::new(_mm512_cvtepu16_epi32(high))]
        }
    }
}

impl Vector for Lanes<u16> {
    const LANES: usize = 32;
    const SMALL_SET_BITS: usize = 4096;
    /// 32-bit sums: enough for the 32 registers of a block.
    type Sum = __m512i;
    type SmallSet = SmallSet;

    super::avx512! {
        unsafe fn splat(code: u64) -> Self {
            Lanes::new(_mm512_set1_epi16(code as i16))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Lanes::new(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let lanes = first_bits(lanes) as __mmask32;
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Lanes::new(unsafe { _mm512_maskz_loadu_epi16(lanes, from.cast()) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller vouches for 32 places.
            unsafe {
                let [low, high] = self.widened();
                low.store_u32(out);
                high.store_u32(out.add(16));
            }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            // SAFETY: the caller vouches for 32 places.
            unsafe {
                let [low, high] = self.widened();
                low.store_u64(out);
                high.store_u64(out.add(16));
            }
        }

        unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
            // SAFETY: the caller vouches for 32 places.
            unsafe {
                let [low, high] = self.widened();
                low.store_u32_plus(plus, out);
                high.store_u32_plus(plus, out.add(16));
            }
        }

        unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
            // SAFETY: the caller vouches for 32 places.
            unsafe {
                let [low, high] = self.widened();
                low.store_u64_plus(plus, out);
                high.store_u64_plus(plus, out.add(16));
            }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            u64::from(_mm512_cmple_epu16_mask(_mm512_sub_epi16(self.0, low.0), span.0))
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            Lanes::new(_mm512_mask_blend_epi16(selected as __mmask32, other.0, self.0))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            Lanes::new(_mm512_maskz_compress_epi16(selected as __mmask32, self.0))
        }

        unsafe fn min(self, other: Self) -> Self {
            Lanes::new(_mm512_min_epu16(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Lanes::new(_mm512_max_epu16(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { self.halves() };
            u64::from(_mm512_reduce_min_epu32(_mm512_cvtepu16_epi32(_mm256_min_epu16(low, high))))
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { self.halves() };
            u64::from(_mm512_reduce_max_epu32(_mm512_cvtepu16_epi32(_mm256_max_epu16(low, high))))
        }

        unsafe fn no_sum() -> __m512i {
            _mm512_setzero_si512()
        }

        unsafe fn add_to(self, sum: __m512i) -> __m512i {
            let even = _mm512_and_si512(self.0, _mm512_set1_epi32(0xFFFF));
            let odd = _mm512_srli_epi32::<16>(self.0);
            _mm512_add_epi32(sum, _mm512_add_epi32(even, odd))
        }

        unsafe fn total(sum: __m512i) -> u128 {
            let even = _mm512_and_si512(sum, _mm512_set1_epi64(0xFFFF_FFFF));
            let odd = _mm512_srli_epi64::<32>(sum);
            _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd)) as u128
        }

        unsafe fn small_set(bitmap: &[u64]) -> SmallSet {
            let mut words = [0; 64];
            let len = bitmap.len().min(64);
            words[..len].copy_from_slice(&bitmap[..len]);
            let registers = std::array::from_fn(|i| {
                // SAFETY: the array is eight registers long.
                unsafe { _mm512_loadu_si512(words.as_ptr().add(i * 8).cast()) }
            });
            SmallSet { registers, fits_two: len <= 16 }
        }

        unsafe fn in_small(self, set: &SmallSet) -> u64 {
            let word = _mm512_srli_epi16::<4>(self.0);
            let [a, b, c, d, e, f, g, h] = set.registers;
            // Each permutation finds a 16-bit word among 1,024 bits, by the word's low six bits.
            let mut words = _mm512_permutex2var_epi16(a, word, b);
            let bit_10 = _mm512_test_epi16_mask(self.0, _mm512_set1_epi16(1 << 10));
            let bit_11 = _mm512_test_epi16_mask(self.0, _mm512_set1_epi16(1 << 11));
            if set.fits_two {
                // Nothing is set from bit 1,024 on.
                words = _mm512_maskz_mov_epi16(!(bit_10 | bit_11), words);
            } else {
                let second = _mm512_permutex2var_epi16(c, word, d);
                let third = _mm512_permutex2var_epi16(e, word, f);
                let fourth = _mm512_permutex2var_epi16(g, word, h);
                let low = _mm512_mask_mov_epi16(words, bit_10, second);
                let high = _mm512_mask_mov_epi16(third, bit_10, fourth);
                words = _mm512_mask_mov_epi16(low, bit_11, high);
            }
            let bit = _mm512_and_si512(self.0, _mm512_set1_epi16(15));
            let bits = _mm512_sllv_epi16(_mm512_set1_epi16(1), bit);
            u64::from(_mm512_test_epi16_mask(words, bits))
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            // SAFETY: the caller's promise.
            unsafe {
                let [low, high] = self.widened();
                low.in_bitmap(bitmap) | high.in_bitmap(bitmap) << 16
            }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            // SAFETY: the caller's promise.
            unsafe {
                let [low, high] = self.widened();
                low.in_bits(bits) | high.in_bits(bits) << 16
            }
        }
    }
}
