//! 64 lanes of 8 bits: codes of up to 8 bits.

use super::Lanes;
use crate::bits::{CodeBits, mask::first_bits, vector::Vector};
use std::arch::x86_64::*;

/// `1 << (i % 8)` for the byte `i` of each 16.
const BIT_OF_BYTE: i64 = 0x8040_2010_0804_0201_u64 as i64;

impl Lanes<u8> {
    super::avx512! {
        /// Both halves of each half: 16 lanes that are as small or large as any.
        unsafe fn fold_min(self) -> __m512i {
            let half = _mm256_min_epu8(
                _mm512_castsi512_si256(self.0),
                _mm512_extracti64x4_epi64::<1>(self.0),
            );
            let quarter = _mm_min_epu8(
                _mm256_castsi256_si128(half),
                _mm256_extracti128_si256::<1>(half),
            );
            _mm512_cvtepu8_epi32(quarter)
        }

        unsafe fn fold_max(self) -> __m512i {
            let half = _mm256_max_epu8(
                _mm512_castsi512_si256(self.0),
                _mm512_extracti64x4_epi64::<1>(self.0),
            );
            let quarter = _mm_max_epu8(
                _mm256_castsi256_si128(half),
                _mm256_extracti128_si256::<1>(half),
            );
            _mm512_cvtepu8_epi32(quarter)
        }

        unsafe fn quarters(self) -> [__m128i; 4] {
            [
                _mm512_castsi512_si128(self.0),
                _mm512_extracti32x4_epi32::<1>(self.0),
                _mm512_extracti32x4_epi32::<2>(self.0),
                _mm512_extracti32x4_epi32::<3>(self.0),
            ]
        }
    }
}

impl Vector for Lanes<u8> {
    const LANES: usize = 64;
    const SMALL_SET_BITS: usize = 256;
    type Sum = __m512i;
    type SmallSet = __m512i;

    super::avx512! {
        unsafe fn splat(code: u64) -> Self {
            Lanes::new(_mm512_set1_epi8(code as i8))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Lanes::new(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Lanes::new(unsafe { _mm512_maskz_loadu_epi8(first_bits(lanes), from.cast()) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller's promise.
            for (i, quarter) in unsafe { self.quarters() }.into_iter().enumerate() {
                // SAFETY: the caller vouches for 64 places.
                unsafe { _mm512_storeu_si512(out.add(i * 16).cast(), _mm512_cvtepu8_epi32(quarter)) };
            }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            // SAFETY: the caller's promise.
            for (i, quarter) in unsafe { self.quarters() }.into_iter().enumerate() {
                let (low, high) = (quarter, _mm_unpackhi_epi64(quarter, quarter));
                // SAFETY: the caller vouches for 64 places.
                unsafe {
                    _mm512_storeu_si512(out.add(i * 16).cast(), _mm512_cvtepu8_epi64(low));
                    _mm512_storeu_si512(out.add(i * 16 + 8).cast(), _mm512_cvtepu8_epi64(high));
                }
            }
        }

        unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
            // SAFETY: the caller's promise.
            for (i, quarter) in unsafe { self.quarters() }.into_iter().enumerate() {
                // SAFETY: the caller vouches for 64 places.
                unsafe { Lanes::<u32>::new(_mm512_cvtepu8_epi32(quarter)).store_u32_plus(plus, out.add(i * 16)) };
            }
        }

        unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
            // SAFETY: the caller's promise.
            for (i, quarter) in unsafe { self.quarters() }.into_iter().enumerate() {
                let (low, high) = (quarter, _mm_unpackhi_epi64(quarter, quarter));
                // SAFETY: the caller vouches for 64 places.
                unsafe {
                    let place = out.add(i * 16);
                    Lanes::<u64>::new(_mm512_cvtepu8_epi64(low)).store_u64_plus(plus, place);
                    Lanes::<u64>::new(_mm512_cvtepu8_epi64(high)).store_u64_plus(plus, place.add(8));
                }
            }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            _mm512_cmple_epu8_mask(_mm512_sub_epi8(self.0, low.0), span.0)
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            Lanes::new(_mm512_mask_blend_epi8(selected, other.0, self.0))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            Lanes::new(_mm512_maskz_compress_epi8(selected, self.0))
        }

        unsafe fn min(self, other: Self) -> Self {
            Lanes::new(_mm512_min_epu8(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Lanes::new(_mm512_max_epu8(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            u64::from(_mm512_reduce_min_epu32(unsafe { self.fold_min() }))
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            u64::from(_mm512_reduce_max_epu32(unsafe { self.fold_max() }))
        }

        unsafe fn no_sum() -> __m512i {
            _mm512_setzero_si512()
        }

        unsafe fn add_to(self, sum: __m512i) -> __m512i {
            // The sum of absolute differences from zero adds up eight lanes at a time.
            _mm512_add_epi64(sum, _mm512_sad_epu8(self.0, _mm512_setzero_si512()))
        }

        unsafe fn total(sum: __m512i) -> u128 {
            _mm512_reduce_add_epi64(sum) as u128
        }

        unsafe fn small_set(bitmap: &[u64]) -> __m512i {
            let mut words = [0; 8];
            let len = bitmap.len().min(4);
            words[..len].copy_from_slice(&bitmap[..len]);
            // SAFETY: the array is a register long.
            unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
        }

        unsafe fn in_small(self, set: &__m512i) -> u64 {
            // Shifting 16-bit lanes brings in bits of the neighbour, which the mask removes.
            let byte = _mm512_and_si512(_mm512_srli_epi16::<3>(self.0), _mm512_set1_epi8(0x1F));
            let bytes = _mm512_permutexvar_epi8(byte, *set);
            let bit = _mm512_and_si512(self.0, _mm512_set1_epi8(7));
            let bits = _mm512_shuffle_epi8(_mm512_set1_epi64(BIT_OF_BYTE), bit);
            _mm512_test_epi8_mask(bytes, bits)
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            // SAFETY: the caller's promise; every 8-bit code is in the small set.
            unsafe { self.in_small(&Self::small_set(bitmap)) }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            // SAFETY: the caller's promise.
            unsafe {
                let [a, b, c, d] = self.quarters();
                let in_bits = |quarter| Lanes::<u32>::new(_mm512_cvtepu8_epi32(quarter)).in_bits(bits);
                in_bits(a) | in_bits(b) << 16 | in_bits(c) << 32 | in_bits(d) << 48
            }
        }
    }
}
