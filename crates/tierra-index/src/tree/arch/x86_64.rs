//! Comparisons on x86-64. With AVX-512 a line is one register and one compare into mask bits; with
//! AVX2, which has no unsigned compare, two registers with their sign bits flipped.

use std::arch::x86_64::*;

use tierra_interleave::Mode;

use super::compare::Compare;
use crate::tree::batch;
use crate::tree::levels::Levels;
use crate::tree::node::Value;

pub(crate) struct Avx2;
pub(crate) struct Avx512;

/// Runs a batch with AVX-512.
///
/// # Safety
/// The CPU has AVX-512 F, AVX2 and POPCNT, and `sorted` at least `LANES` values.
#[target_feature(enable = "avx512f,avx2,popcnt")]
pub(super) unsafe fn avx512_lower_bounds<K: Value, M: Mode>(
    levels: &Levels<K>,
    sorted: &[K],
    keys: &[K],
    ranks: &mut [usize],
) where
    Avx512: Compare<K>,
{
    // SAFETY: the caller's promise.
    unsafe { batch::lower_bounds::<K, Avx512, M>(levels, sorted, keys, ranks) }
}

/// One comparison with AVX-512.
///
/// # Safety
/// The CPU has AVX-512 F, AVX2 and POPCNT, and `LANES` values can be read.
#[target_feature(enable = "avx512f,avx2,popcnt")]
pub(super) unsafe fn avx512_less<K: Value>(values: *const K, key: K) -> usize
where
    Avx512: Compare<K>,
{
    // SAFETY: the caller's promise.
    unsafe { Avx512::less(values, Avx512::splat(key)) }
}

/// One comparison with AVX2.
///
/// # Safety
/// The CPU has AVX2 and POPCNT, and `LANES` values can be read.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn avx2_less<K: Value>(values: *const K, key: K) -> usize
where
    Avx2: Compare<K>,
{
    // SAFETY: the caller's promise.
    unsafe { Avx2::less(values, Avx2::splat(key)) }
}

/// Runs a batch with AVX2.
///
/// # Safety
/// The CPU has AVX2 and POPCNT, and `sorted` at least `LANES` values.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn avx2_lower_bounds<K: Value, M: Mode>(
    levels: &Levels<K>,
    sorted: &[K],
    keys: &[K],
    ranks: &mut [usize],
) where
    Avx2: Compare<K>,
{
    // SAFETY: the caller's promise.
    unsafe { batch::lower_bounds::<K, Avx2, M>(levels, sorted, keys, ranks) }
}

impl Compare<u32> for Avx512 {
    type Splat = __m512i;

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn splat(key: u32) -> __m512i {
        _mm512_set1_epi32(key.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn less(values: *const u32, key: __m512i) -> usize {
        // SAFETY: the caller vouches for 16 readable values.
        let values = unsafe { _mm512_loadu_si512(values.cast()) };
        _mm512_cmplt_epu32_mask(values, key).count_ones() as usize
    }
}

impl Compare<u64> for Avx512 {
    type Splat = __m512i;

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn splat(key: u64) -> __m512i {
        _mm512_set1_epi64(key.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn less(values: *const u64, key: __m512i) -> usize {
        // SAFETY: the caller vouches for 16 readable values: two registers.
        let halves = unsafe {
            [
                _mm512_loadu_si512(values.cast()),
                _mm512_loadu_si512(values.add(8).cast()),
            ]
        };
        let [low, high] = halves.map(|half| u32::from(_mm512_cmplt_epu64_mask(half, key)));
        (high << 8 | low).count_ones() as usize
    }
}

impl Compare<u32> for Avx2 {
    /// With the sign bit flipped, so that a signed compare orders as the unsigned one.
    type Splat = __m256i;

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn splat(key: u32) -> __m256i {
        _mm256_set1_epi32((key ^ 1 << 31).cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn less(values: *const u32, key: __m256i) -> usize {
        let sign = _mm256_set1_epi32(i32::MIN);
        // SAFETY: the caller vouches for 16 readable values: two registers.
        let halves = unsafe {
            [
                _mm256_loadu_si256(values.cast()),
                _mm256_loadu_si256(values.add(8).cast()),
            ]
        };
        let [low, high] = halves.map(|half| _mm256_cmpgt_epi32(key, _mm256_xor_si256(half, sign)));
        // Two bits a value once packed to 16 bits each.
        let packed = _mm256_packs_epi32(low, high);
        (_mm256_movemask_epi8(packed).count_ones() / 2) as usize
    }
}

impl Compare<u64> for Avx2 {
    /// With the sign bit flipped, so that a signed compare orders as the unsigned one.
    type Splat = __m256i;

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn splat(key: u64) -> __m256i {
        _mm256_set1_epi64x((key ^ 1 << 63).cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn less(values: *const u64, key: __m256i) -> usize {
        let sign = _mm256_set1_epi64x(i64::MIN);
        // SAFETY: the caller vouches for 16 readable values: four registers.
        let quarters: [__m256i; 4] =
            std::array::from_fn(|i| unsafe { _mm256_loadu_si256(values.add(4 * i).cast()) });
        let [a, b, c, d] =
            quarters.map(|quarter| _mm256_cmpgt_epi64(key, _mm256_xor_si256(quarter, sign)));
        // Two bits a value once packed to 16 bits each.
        let packed = _mm256_packs_epi32(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        (_mm256_movemask_epi8(packed).count_ones() / 2) as usize
    }
}
