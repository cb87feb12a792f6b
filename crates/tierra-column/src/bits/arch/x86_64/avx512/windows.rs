//! Packed codes into lanes, three instructions a register: a byte permutation brings each 64-bit
//! word the bytes its codes lie in, a multishift picks every byte of every lane out of that word
//! at any bit, and a mask cuts off the bits of the neighbours.
//!
//! ```text
//! width 5, 8-bit lanes    packed bytes  0 .. 4 | 5 .. 9 | ...      40 bytes are 64 codes
//! permute                 word 0 = bytes 0..8, word 1 = bytes 5..13, ...
//! multishift              byte j of a word = its bits [5 j, 5 j + 8)
//! and 0b11111             lane = code
//! ```
//!
//! It works for a width if the codes of every word lie in 64 bits from its first byte on.

use super::Lanes;
use crate::bits::{
    packing::max_code,
    vector::{Unpack, Vector},
};
use std::{arch::x86_64::*, marker::PhantomData};

/// What a register is shuffled by.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Shuffle {
    /// For each byte of a register, the byte of the group it comes from.
    bytes: [u8; 64],
    /// For each byte of a register, the bit of its 64-bit word it starts at.
    bits: [u8; 64],
}

impl Shuffle {
    const fn new(width: usize, lane_bytes: usize) -> Self {
        let mut shuffle = Shuffle {
            bytes: [0; 64],
            bits: [0; 64],
        };
        let mut at = 0;
        while at < 64 {
            let (word, byte) = (at / 8, at % 8);
            let (lane, byte_of_lane) = (byte / lane_bytes, byte % lane_bytes);
            let first_bit = word * (8 / lane_bytes) * width;
            // Bytes and bits past the end wrap; they hold no bit of a code.
            shuffle.bytes[at] = ((first_bit / 8 + byte) % 64) as u8;
            shuffle.bits[at] = ((first_bit % 8 + lane * width + byte_of_lane * 8) % 64) as u8;
            at += 1;
        }
        shuffle
    }

    /// Whether the codes of every 64-bit word lie in 64 bits from a byte on.
    const fn suffices(width: usize, lane_bytes: usize) -> bool {
        let bits = 8 / lane_bytes * width;
        let mut word = 0;
        while word < 8 {
            if word * bits % 8 + bits > 64 {
                return false;
            }
            word += 1;
        }
        true
    }
}

/// One shuffle for every width up to that of the lane.
const fn shuffles<const WIDTHS: usize>() -> [Shuffle; WIDTHS] {
    let mut shuffles = [Shuffle {
        bytes: [0; 64],
        bits: [0; 64],
    }; WIDTHS];
    let mut width = 0;
    while width < WIDTHS {
        shuffles[width] = Shuffle::new(width, WIDTHS / 8);
        width += 1;
    }
    shuffles
}

static SHUFFLES_8: [Shuffle; 9] = shuffles();
static SHUFFLES_16: [Shuffle; 17] = shuffles();
static SHUFFLES_32: [Shuffle; 33] = shuffles();
static SHUFFLES_64: [Shuffle; 65] = shuffles();

/// Lanes that codes can be unpacked to.
pub(super) trait Lane: Copy {
    fn shuffles() -> &'static [Shuffle];
}

macro_rules! lane {
    ($($lane:ty => $shuffles:ident),*) => {
        $(impl Lane for $lane {
            #[inline(always)]
            fn shuffles() -> &'static [Shuffle] {
                &$shuffles
            }
        })*
    };
}
lane!(u8 => SHUFFLES_8, u16 => SHUFFLES_16, u32 => SHUFFLES_32, u64 => SHUFFLES_64);

/// Codes of one width, in lanes of the type `T`.
#[derive(Clone, Copy)]
pub(super) struct Windows<T> {
    bytes: __m512i,
    bits: __m512i,
    code_mask: __m512i,
    group_bytes: usize,
    lane: PhantomData<T>,
}

impl<T: Lane> Windows<T>
where
    Lanes<T>: Vector,
{
    /// # Safety
    /// The CPU has the level.
    ///
    /// # Panics
    /// If the lane is too narrow for the width.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        debug_assert!(Shuffle::suffices(width_bits, size_of::<T>()));
        let shuffle = &T::shuffles()[width_bits];
        // SAFETY: the CPU has the level; both arrays are a register long.
        unsafe {
            Self {
                bytes: _mm512_loadu_si512(shuffle.bytes.as_ptr().cast()),
                bits: _mm512_loadu_si512(shuffle.bits.as_ptr().cast()),
                code_mask: Lanes::<T>::splat(max_code(width)).0,
                group_bytes: Lanes::<T>::LANES * width_bits / 8,
                lane: PhantomData,
            }
        }
    }
}

impl<T: Lane> Unpack for Windows<T>
where
    Lanes<T>: Vector,
{
    type Vector = Lanes<T>;

    super::avx512! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes<T> {
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad.
            let bytes = unsafe { _mm512_loadu_si512(packed.add(group * self.group_bytes).cast()) };
            let words = _mm512_permutexvar_epi8(self.bytes, bytes);
            let lanes = _mm512_multishift_epi64_epi8(self.bits, words);
            Lanes::new(_mm512_and_si512(lanes, self.code_mask))
        }
    }
}

/// Codes of the few widths above 58 bits that may reach into a ninth byte: a window of eight
/// bytes from the code's first, and a second one from the byte after them.
#[derive(Clone, Copy)]
pub(super) struct SplitWindows {
    low_bytes: __m512i,
    low_shift: __m512i,
    high_bytes: __m512i,
    high_shift: __m512i,
    code_mask: __m512i,
    group_bytes: usize,
}

impl SplitWindows {
    /// # Safety
    /// The CPU has the level.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        let phase: [u64; 8] = std::array::from_fn(|lane| (lane * width_bits % 8) as u64);
        let shuffle = &SHUFFLES_64[width_bits];
        // SAFETY: the CPU has the level; the arrays are a register long.
        unsafe {
            let low_bytes = _mm512_loadu_si512(shuffle.bytes.as_ptr().cast());
            let low_shift = _mm512_loadu_si512(phase.as_ptr().cast());
            Self {
                low_bytes,
                low_shift,
                // The permutation counts modulo 64.
                high_bytes: _mm512_add_epi8(low_bytes, _mm512_set1_epi8(8)),
                // A shift by 64 leaves nothing, as it must when the phase is zero.
                high_shift: _mm512_sub_epi64(_mm512_set1_epi64(64), low_shift),
                code_mask: _mm512_set1_epi64(max_code(width) as i64),
                group_bytes: width_bits,
            }
        }
    }
}

impl Unpack for SplitWindows {
    type Vector = Lanes<u64>;

    super::avx512! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes<u64> {
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad.
            let bytes = unsafe { _mm512_loadu_si512(packed.add(group * self.group_bytes).cast()) };
            let low = _mm512_permutexvar_epi8(self.low_bytes, bytes);
            let high = _mm512_permutexvar_epi8(self.high_bytes, bytes);
            let low = _mm512_srlv_epi64(low, self.low_shift);
            let high = _mm512_sllv_epi64(high, self.high_shift);
            Lanes::new(_mm512_and_si512(_mm512_or_si512(low, high), self.code_mask))
        }
    }
}

/// Codes of the one width, 31, of which two may reach into a ninth byte, in lanes of their own: four bytes from the code's first
/// and the four after them.
#[derive(Clone, Copy)]
pub(super) struct SplitWindows32 {
    low_bytes: __m512i,
    high_bytes: __m512i,
    shifts: __m512i,
    code_mask: __m512i,
    group_bytes: usize,
}

impl SplitWindows32 {
    /// # Safety
    /// The CPU has the level.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        let first_bit = |lane: usize| lane * width_bits;
        let low: [u8; 64] = std::array::from_fn(|at| (first_bit(at / 4) / 8 + at % 4) as u8);
        let phase: [u32; 16] = std::array::from_fn(|lane| (first_bit(lane) % 8) as u32);
        // SAFETY: the CPU has the level; the arrays are a register long.
        unsafe {
            let low_bytes = _mm512_loadu_si512(low.as_ptr().cast());
            Self {
                low_bytes,
                // The permutation counts modulo 64; what wraps around holds no bit of a code.
                high_bytes: _mm512_add_epi8(low_bytes, _mm512_set1_epi8(4)),
                shifts: _mm512_loadu_si512(phase.as_ptr().cast()),
                code_mask: Lanes::<u32>::splat(max_code(width)).0,
                group_bytes: 2 * width_bits,
            }
        }
    }
}

impl Unpack for SplitWindows32 {
    type Vector = Lanes<u32>;

    super::avx512! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes<u32> {
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad.
            let bytes = unsafe { _mm512_loadu_si512(packed.add(group * self.group_bytes).cast()) };
            let low = _mm512_permutexvar_epi8(self.low_bytes, bytes);
            let high = _mm512_permutexvar_epi8(self.high_bytes, bytes);
            let codes = _mm512_shrdv_epi32(low, high, self.shifts);
            Lanes::new(_mm512_and_si512(codes, self.code_mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_widths_that_need_two_windows_get_them() {
        let split = |lane_bytes: usize| {
            (0..=lane_bytes * 8).filter(move |&width| !Shuffle::suffices(width, lane_bytes))
        };
        assert_eq!(split(1).count() + split(2).count(), 0);
        assert_eq!(split(4).collect::<Vec<_>>(), [31]);
        assert_eq!(split(8).collect::<Vec<_>>(), [59, 61, 62, 63]);
    }
}
