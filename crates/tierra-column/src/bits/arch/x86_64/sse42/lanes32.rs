//! 4 lanes of 32 bits: codes of up to 25 bits, and unpacked values.

use crate::bits::{CodeBits, vector::Vector};
use std::arch::x86_64::*;

/// Four lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes32(pub(super) __m128i);

/// For every selection of four lanes the bytes of the selected ones in order.
static FRONT: [[u8; 16]; 16] = {
    let mut front = [[0; 16]; 16];
    let mut selected = 0;
    while selected < 16 {
        let (mut lane, mut place) = (0, 0);
        while lane < 4 {
            if selected >> lane & 1 == 1 {
                let mut byte = 0;
                while byte < 4 {
                    front[selected][4 * place + byte] = (4 * lane + byte) as u8;
                    byte += 1;
                }
                place += 1;
            }
            lane += 1;
        }
        selected += 1;
    }
    front
};

impl Lanes32 {
    super::sse42! {
        /// All bits of the lanes whose bit is set.
        unsafe fn expand(selected: u64) -> __m128i {
            let bits = _mm_setr_epi32(1, 2, 4, 8);
            _mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32(selected as i32), bits), bits)
        }

        unsafe fn to_array(self) -> [u32; 4] {
            let mut lanes = [0; 4];
            // SAFETY: the array is a register long.
            unsafe { _mm_storeu_si128(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }
    }
}

impl Vector for Lanes32 {
    const LANES: usize = 4;
    const SMALL_SET_BITS: usize = 0;
    /// 64-bit sums.
    type Sum = __m128i;
    type SmallSet = ();

    super::sse42! {
        unsafe fn splat(code: u64) -> Self {
            Self(_mm_set1_epi32(code as i32))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Self(unsafe { _mm_loadu_si128(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let mut first = [0u32; 4];
            // SAFETY: the caller vouches for these lanes; the array has as many at least.
            unsafe {
                std::ptr::copy_nonoverlapping(from, first.as_mut_ptr().cast(), lanes.min(4) * 4);
                Self::load(first.as_ptr().cast())
            }
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller vouches for 4 places.
            unsafe { _mm_storeu_si128(out.cast(), self.0) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            let low = _mm_cvtepu32_epi64(self.0);
            let high = _mm_cvtepu32_epi64(_mm_srli_si128::<8>(self.0));
            // SAFETY: the caller vouches for 4 places.
            unsafe {
                _mm_storeu_si128(out.cast(), low);
                _mm_storeu_si128(out.add(2).cast(), high);
            }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            let distance = _mm_sub_epi32(self.0, low.0);
            let within = _mm_cmpeq_epi32(_mm_min_epu32(distance, span.0), distance);
            u64::from(_mm_movemask_ps(_mm_castsi128_ps(within)) as u32)
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm_blendv_epi8(other.0, self.0, unsafe { Self::expand(selected) }))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            // SAFETY: the entry is a register long.
            let front = unsafe { _mm_loadu_si128(FRONT[selected as usize % 16].as_ptr().cast()) };
            Self(_mm_shuffle_epi8(self.0, front))
        }

        unsafe fn min(self, other: Self) -> Self {
            Self(_mm_min_epu32(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Self(_mm_max_epu32(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(u32::MAX, u32::min).into()
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(0, u32::max).into()
        }

        unsafe fn no_sum() -> __m128i {
            _mm_setzero_si128()
        }

        unsafe fn add_to(self, sum: __m128i) -> __m128i {
            let even = _mm_and_si128(self.0, _mm_set1_epi64x(0xFFFF_FFFF));
            let odd = _mm_srli_epi64::<32>(self.0);
            _mm_add_epi64(sum, _mm_add_epi64(even, odd))
        }

        unsafe fn total(sum: __m128i) -> u128 {
            let mut sums = [0u64; 2];
            // SAFETY: the array is a register long.
            unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), sum) };
            u128::from(sums[0] + sums[1])
        }

        unsafe fn small_set(_bitmap: &[u64]) {}

        unsafe fn in_small(self, _set: &()) -> u64 {
            0
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            // SAFETY: the caller's promise.
            let codes = unsafe { self.to_array() };
            let is_set = |code: u32| {
                let word = bitmap.get(code as usize / 64);
                word.map_or(0, |word| word >> (code % 64) & 1)
            };
            codes.into_iter().rev().fold(0, |bits, code| bits << 1 | is_set(code))
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            // SAFETY: the caller's promise.
            let codes = unsafe { self.to_array() };
            let is_set = |code: u32| {
                // All of the stretch fits a lane, so what lies before it wraps around to beyond it.
                let from_first = u64::from(code.wrapping_sub(bits.first_code() as u32));
                if from_first > bits.span() {
                    return 0;
                }
                let bit = from_first + bits.first_bit();
                bits.words()[(bit / 64) as usize] >> (bit % 64) & 1
            };
            codes.into_iter().rev().fold(0, |bits, code| bits << 1 | is_set(code))
        }
    }
}
