//! 2 lanes of 64 bits: codes of more than 25 bits, and unpacked values.

use crate::bits::{CodeBits, vector::Vector};
use std::arch::x86_64::*;

/// Two lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes64(pub(super) __m128i);

impl Lanes64 {
    super::sse42! {
        /// All bits of the lanes whose bit is set.
        unsafe fn expand(selected: u64) -> __m128i {
            let bits = _mm_set_epi64x(2, 1);
            _mm_cmpeq_epi64(_mm_and_si128(_mm_set1_epi64x(selected as i64), bits), bits)
        }

        /// All bits of the lanes that are larger than those of `other`, as unsigned integers.
        unsafe fn greater(self, other: Self) -> __m128i {
            let sign = _mm_set1_epi64x(i64::MIN);
            _mm_cmpgt_epi64(_mm_xor_si128(self.0, sign), _mm_xor_si128(other.0, sign))
        }

        unsafe fn to_array(self) -> [u64; 2] {
            let mut lanes = [0; 2];
            // SAFETY: the array is a register long.
            unsafe { _mm_storeu_si128(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }
    }
}

impl Vector for Lanes64 {
    const LANES: usize = 2;
    const SMALL_SET_BITS: usize = 0;
    /// Sums of the lower and of the upper halves.
    type Sum = [__m128i; 2];
    type SmallSet = ();

    super::sse42! {
        unsafe fn splat(code: u64) -> Self {
            Self(_mm_set1_epi64x(code as i64))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Self(unsafe { _mm_loadu_si128(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            match lanes {
                0 => Self(_mm_setzero_si128()),
                // SAFETY: the caller vouches for the one lane; the other is not touched.
                1 => Self(unsafe { _mm_loadl_epi64(from.cast()) }),
                // SAFETY: the caller vouches for both.
                _ => unsafe { Self::load(from) },
            }
        }

        unsafe fn store_u32(self, out: *mut u32) {
            let narrow = _mm_shuffle_epi32::<0b10_00>(self.0);
            // SAFETY: the caller vouches for 2 places.
            unsafe { _mm_storel_epi64(out.cast(), narrow) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            // SAFETY: the caller vouches for 2 places.
            unsafe { _mm_storeu_si128(out.cast(), self.0) }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            let distance = Self(_mm_sub_epi64(self.0, low.0));
            // SAFETY: the caller's promise.
            let outside = _mm_castsi128_pd(unsafe { distance.greater(span) });
            u64::from(_mm_movemask_pd(outside) as u32 ^ 0b11)
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm_blendv_epi8(other.0, self.0, unsafe { Self::expand(selected) }))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            match selected & 0b11 {
                0b10 => Self(_mm_unpackhi_epi64(self.0, self.0)),
                _ => self,
            }
        }

        unsafe fn min(self, other: Self) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm_blendv_epi8(self.0, other.0, unsafe { self.greater(other) }))
        }

        unsafe fn max(self, other: Self) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm_blendv_epi8(other.0, self.0, unsafe { self.greater(other) }))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(u64::MAX, u64::min)
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(0, u64::max)
        }

        unsafe fn no_sum() -> [__m128i; 2] {
            [_mm_setzero_si128(); 2]
        }

        unsafe fn add_to(self, [low, high]: [__m128i; 2]) -> [__m128i; 2] {
            [
                _mm_add_epi64(low, _mm_and_si128(self.0, _mm_set1_epi64x(0xFFFF_FFFF))),
                _mm_add_epi64(high, _mm_srli_epi64::<32>(self.0)),
            ]
        }

        unsafe fn total(sums: [__m128i; 2]) -> u128 {
            // SAFETY: the caller's promise.
            let [low, high] = sums.map(|sum| unsafe { Self(sum).to_array() }.into_iter().sum::<u64>());
            u128::from(low) + (u128::from(high) << 32)
        }

        unsafe fn small_set(_bitmap: &[u64]) {}

        unsafe fn in_small(self, _set: &()) -> u64 {
            0
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { self.to_array() };
            let is_set = |code: u64| {
                let word = usize::try_from(code / 64).ok().and_then(|word| bitmap.get(word));
                word.map_or(0, |word| word >> (code % 64) & 1)
            };
            is_set(low) | is_set(high) << 1
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { self.to_array() };
            let is_set = |code: u64| {
                let from_first = code.wrapping_sub(bits.first_code());
                if from_first > bits.span() {
                    return 0;
                }
                let bit = from_first + bits.first_bit();
                bits.words()[(bit / 64) as usize] >> (bit % 64) & 1
            };
            is_set(low) | is_set(high) << 1
        }
    }
}
