//! 4 lanes of 64 bits: codes of more than 25 bits, and unpacked values.

use crate::bits::{CodeBits, vector::Vector};
use std::arch::x86_64::*;

/// Four lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes64(pub(super) __m256i);

/// For every selection of four lanes the numbers of the halves of the selected ones in order, a
/// byte each.
static FRONT: [u64; 16] = {
    let mut front = [0; 16];
    let mut selected = 0;
    while selected < 16 {
        let (mut lane, mut place) = (0, 0);
        while lane < 4 {
            if selected >> lane & 1 == 1 {
                front[selected] |= ((2 * lane) | ((2 * lane + 1) << 8)) << (16 * place);
                place += 1;
            }
            lane += 1;
        }
        selected += 1;
    }
    front
};

impl Lanes64 {
    super::avx2! {
        /// All bits of the lanes whose bit is set.
        unsafe fn expand(selected: u64) -> __m256i {
            let bits = _mm256_setr_epi64x(1, 2, 4, 8);
            _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(selected as i64), bits), bits)
        }

        /// All bits of the lanes that are larger than those of `other`, as unsigned integers.
        unsafe fn greater(self, other: Self) -> __m256i {
            let sign = _mm256_set1_epi64x(i64::MIN);
            _mm256_cmpgt_epi64(_mm256_xor_si256(self.0, sign), _mm256_xor_si256(other.0, sign))
        }

        /// One bit per lane: is it `present` (all bits set), and its bit set in `bitmap`?
        ///
        /// # Safety
        /// The CPU has the level, and the bitmap the bits of the lanes that are present.
        unsafe fn is_set(self, bitmap: &[u64], present: __m256i) -> u64 {
            // SAFETY: only the words of the bits that the bitmap has are read.
            let words = unsafe {
                _mm256_mask_i64gather_epi64::<8>(
                    _mm256_setzero_si256(),
                    bitmap.as_ptr().cast(),
                    _mm256_srli_epi64::<6>(self.0),
                    present,
                )
            };
            let bit = _mm256_and_si256(self.0, _mm256_set1_epi64x(63));
            let signs = _mm256_slli_epi64::<63>(_mm256_srlv_epi64(words, bit));
            u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(signs)) as u32)
        }

        unsafe fn to_array(self) -> [u64; 4] {
            let mut lanes = [0; 4];
            // SAFETY: the array is a register long.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }
    }
}

impl Vector for Lanes64 {
    const LANES: usize = 4;
    const SMALL_SET_BITS: usize = 0;
    /// Sums of the lower and of the upper halves.
    type Sum = [__m256i; 2];
    type SmallSet = ();

    super::avx2! {
        unsafe fn splat(code: u64) -> Self {
            Self(_mm256_set1_epi64x(code as i64))
        }

        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for a register of bytes.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }

        unsafe fn load_first(from: *const u8, lanes: usize) -> Self {
            let numbers = _mm256_setr_epi64x(0, 1, 2, 3);
            let exist = _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes as i64), numbers);
            // SAFETY: the caller vouches for these lanes; the others are not touched.
            Self(unsafe { _mm256_maskload_epi64(from.cast(), exist) })
        }

        unsafe fn store_u32(self, out: *mut u32) {
            let low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
            let narrow = _mm256_permutevar8x32_epi32(self.0, low_halves);
            // SAFETY: the caller vouches for 4 places.
            unsafe { _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(narrow)) }
        }

        unsafe fn store_u64(self, out: *mut u64) {
            // SAFETY: the caller vouches for 4 places.
            unsafe { _mm256_storeu_si256(out.cast(), self.0) }
        }

        unsafe fn within(self, low: Self, span: Self) -> u64 {
            let distance = Self(_mm256_sub_epi64(self.0, low.0));
            // SAFETY: the caller's promise.
            let outside = _mm256_castsi256_pd(unsafe { distance.greater(span) });
            u64::from(_mm256_movemask_pd(outside) as u32 ^ 0b1111)
        }

        unsafe fn blend(self, other: Self, selected: u64) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm256_blendv_epi8(other.0, self.0, unsafe { Self::expand(selected) }))
        }

        unsafe fn compress(self, selected: u64) -> Self {
            let front = _mm_cvtsi64_si128(FRONT[selected as usize % 16] as i64);
            Self(_mm256_permutevar8x32_epi32(self.0, _mm256_cvtepu8_epi32(front)))
        }

        unsafe fn min(self, other: Self) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm256_blendv_epi8(self.0, other.0, unsafe { self.greater(other) }))
        }

        unsafe fn max(self, other: Self) -> Self {
            // SAFETY: the caller's promise.
            Self(_mm256_blendv_epi8(other.0, self.0, unsafe { self.greater(other) }))
        }

        unsafe fn smallest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(u64::MAX, u64::min)
        }

        unsafe fn largest(self) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { self.to_array() }.into_iter().fold(0, u64::max)
        }

        unsafe fn no_sum() -> [__m256i; 2] {
            [_mm256_setzero_si256(); 2]
        }

        unsafe fn add_to(self, [low, high]: [__m256i; 2]) -> [__m256i; 2] {
            [
                _mm256_add_epi64(low, _mm256_and_si256(self.0, _mm256_set1_epi64x(0xFFFF_FFFF))),
                _mm256_add_epi64(high, _mm256_srli_epi64::<32>(self.0)),
            ]
        }

        unsafe fn total(sums: [__m256i; 2]) -> u128 {
            // SAFETY: the caller's promise.
            let [low, high] = sums.map(|sum| unsafe { Self(sum).to_array() }.into_iter().sum::<u64>());
            u128::from(low) + (u128::from(high) << 32)
        }

        unsafe fn small_set(_bitmap: &[u64]) {}

        unsafe fn in_small(self, _set: &()) -> u64 {
            0
        }

        unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
            let len_bits = Self(_mm256_set1_epi64x(bitmap.len() as i64 * 64));
            // SAFETY: the bitmap has the bits below its length.
            unsafe { self.is_set(bitmap, len_bits.greater(self)) }
        }

        unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
            let from_first = _mm256_sub_epi64(self.0, _mm256_set1_epi64x(bits.first_code() as i64));
            let bit = _mm256_add_epi64(from_first, _mm256_set1_epi64x(bits.first_bit() as i64));
            let span = Self(_mm256_set1_epi64x(bits.span() as i64));
            // SAFETY: the bits of the codes in the stretch lie in its words.
            unsafe {
                let absent = Self(from_first).greater(span);
                let present = _mm256_xor_si256(absent, _mm256_set1_epi64x(-1));
                Self(bit).is_set(bits.words(), present)
            }
        }
    }
}
