//! 8 lanes of 32 bits: codes of up to 25 bits, and unpacked values.

use crate::bits::{CodeBits, vector::Vector};
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes32(pub(super) __m256i);

/// For every selection of eight lanes the numbers of the selected ones in order, a byte each.
static FRONT: [u64; 256] = {
    let mut front = [0; 256];
    let mut selected = 0;
    while selected < 256 {
        let (mut lane, mut place) = (0, 0);
        while lane < 8 {
            if selected >> lane & 1 == 1 {
                front[selected] |= lane << (8 * place);
                place += 1;
            }
            lane += 1;
        }
        selected += 1;
    }
    front
};

impl Lanes32 {
    super::avx2! {
        /// All bits of the lanes whose bit is set.
        unsafe fn expand(selected: u64) -> __m256i {
            let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(selected as i32), bits), bits)
        }

        /// The lowest bit of every lane.
        unsafe fn low_bits(lanes: __m256i) -> u64 {
            let signs = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(lanes));
            u64::from(_mm256_movemask_ps(signs) as u32)
        }

        /// One bit per lane: is it `present` (all bits set), and its bit set in `bitmap`?
        ///
        /// # Safety
        /// The CPU has the level, and the bitmap the bits of the lanes that are present.
        unsafe fn is_set(self, bitmap: &[u64], present: __m256i) -> u64 {
            // SAFETY: only the 32-bit words of the bits that the bitmap has are read.
            let words = unsafe {
                _mm256_mask_i32gather_epi32::<4>(
                    _mm256_setzero_si256(),
                    bitmap.as_ptr().cast(),
                    _mm256_srli_epi32::<5>(self.0),
                    present,
                )
            };
            let bit = _mm256_and_si256(self.0, _mm256_set1_epi32(31));
            // SAFETY: the caller's promise.
            unsafe { Self::low_bits(_mm256_srlv_epi32(words, bit)) }
        }

        unsafe fn to_array(self) -> [u32; 8] {
            let mut lanes = [0; 8];
            // SAFETY: the array is a register long.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }
    }
}

impl Vector for Lanes32 {
    const LANES: usize = 8;
    const SMALL_SET_BITS: usize = 256;
    /// 64-bit sums.
    type Sum = __m256i;
    type SmallSet = __m256i;

    super::avx2! {
        unsafe fn splat(code: u64) -> Self {
            Self(_mm256_set1_epi32(code as i32))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let exist = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), numbers);
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Self(unsafe { _mm256_maskload_epi32(from.cast(), exist) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm256_storeu_si256(out.cast(), self.0) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(self.0));
            let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(self.0));
            // SAFETY: the caller vouches for 8 places.
            unsafe {
                _mm256_storeu_si256(out.cast(), low);
                _mm256_storeu_si256(out.add(4).cast(), high);
            }
        }

        unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
            let sum = _mm256_add_epi32(self.0, _mm256_set1_epi32(plus as i32));
            // SAFETY: the caller vouches for 8 places.
            unsafe { _mm256_storeu_si256(out.cast(), sum) }
        }

        unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
            let plus = _mm256_set1_epi64x(plus as i64);
            let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(self.0));
            let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(self.0));
            // SAFETY: the caller vouches for 8 places.
            unsafe {
                _mm256_storeu_si256(out.cast(), _mm256_add_epi64(low, plus));
                _mm256_storeu_si256(out.add(4).cast(), _mm256_add_epi64(high, plus));
            }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            let distance = _mm256_sub_epi32(self.0, low.0);
            let within = _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span.0), distance);
            u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(within)) as u32)
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm256_blendv_epi8(other.0, self.0, unsafe { Self::expand(selected) }))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            let front = _mm_cvtsi64_si128(FRONT[selected as usize % 256] as i64);
            Self(_mm256_permutevar8x32_epi32(self.0, _mm256_cvtepu8_epi32(front)))
        }

        unsafe fn min(self, other: Self) -> Self {
            Self(_mm256_min_epu32(self.0, other.0))
        }

        unsafe fn max(self, other: Self) -> Self {
            Self(_mm256_max_epu32(self.0, other.0))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(u32::MAX, u32::min).into()
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(0, u32::max).into()
        }

        unsafe fn no_sum() -> __m256i {
            _mm256_setzero_si256()
        }

        unsafe fn add_to(self, sum: __m256i) -> __m256i {
            let even = _mm256_and_si256(self.0, _mm256_set1_epi64x(0xFFFF_FFFF));
            let odd = _mm256_srli_epi64::<32>(self.0);
            _mm256_add_epi64(sum, _mm256_add_epi64(even, odd))
        }

        unsafe fn total(sum: __m256i) -> u128 {
            let mut sums = [0u64; 4];
            // SAFETY: the array is a register long.
            unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
            u128::from(sums[0] + sums[1] + sums[2] + sums[3])
        }

        unsafe fn small_set(bitmap: &[u64]) -> __m256i {
            let mut words = [0; 4];
            let len = bitmap.len().min(4);
            words[..len].copy_from_slice(&bitmap[..len]);
            // SAFETY: the array is a register long.
            unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
        }

        unsafe fn in_small(self, set: &__m256i) -> u64 {
            let words = _mm256_permutevar8x32_epi32(*set, _mm256_srli_epi32::<5>(self.0));
            let bit = _mm256_and_si256(self.0, _mm256_set1_epi32(31));
            // SAFETY: the caller's promise.
            unsafe { Self::low_bits(_mm256_srlv_epi32(words, bit)) }
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            let Some(last) = (bitmap.len() * 64).checked_sub(1) else {
                return 0;
            };
            let last = _mm256_set1_epi32(u32::try_from(last).unwrap_or(u32::MAX) as i32);
            let present = _mm256_cmpeq_epi32(_mm256_min_epu32(self.0, last), self.0);
            // SAFETY: the bitmap has the bits up to the last.
            unsafe { self.is_set(bitmap, present) }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            let from_first = _mm256_sub_epi32(self.0, _mm256_set1_epi32(bits.first_code() as i32));
            let span = _mm256_set1_epi32(bits.span() as i32);
            let present = _mm256_cmpeq_epi32(_mm256_min_epu32(from_first, span), from_first);
            let bit = _mm256_add_epi32(from_first, _mm256_set1_epi32(bits.first_bit() as i32));
            // SAFETY: the bits of the codes in the stretch lie in its words.
            unsafe { Self(bit).is_set(bits.words(), present) }
        }
    }
}
