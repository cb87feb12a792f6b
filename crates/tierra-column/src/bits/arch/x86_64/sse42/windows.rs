//! Packed codes into lanes. Up to 25 bits: a register is loaded from the byte its first code lies in, a byte shuffle brings every
//! lane the window of bytes that holds its code, a product with a power of two brings all codes to bit 7, a shift to bit 0, and a
//! mask cuts off the bits of the neighbours. Wider codes are taken one by one.

use super::{Lanes32, Lanes64};
use crate::bits::{
    arch::scalar::window,
    packing::max_code,
    vector::{Unpack, Vector},
};
use std::arch::x86_64::*;

/// The bit that codes are multiplied to: the last that the first bit of a code may have in its first byte.
const ALIGNED_BIT: i32 = 7;

/// What a register of four lanes is shuffled and multiplied by.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Shuffle {
    /// For each byte of a register, the byte it comes from.
    bytes: [u8; 16],
    /// For each lane the power of two that moves its code to [`ALIGNED_BIT`].
    factors: [u32; 4],
}

impl Shuffle {
    /// For the group of codes that begins with code `first`.
    const fn new(width: usize, first: usize) -> Self {
        let mut shuffle = Shuffle {
            bytes: [0; 16],
            factors: [0; 4],
        };
        let mut lane = 0;
        while lane < 4 {
            let bit = (first + lane) * width - first * width / 8 * 8;
            let mut byte = 0;
            while byte < 4 {
                shuffle.bytes[lane * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            shuffle.factors[lane] = 1 << (ALIGNED_BIT as usize - bit % 8);
            lane += 1;
        }
        shuffle
    }
}

/// Every other group of four codes begins amid a byte if the width is odd.
static SHUFFLES: [[Shuffle; 2]; 26] = {
    let none = Shuffle {
        bytes: [0; 16],
        factors: [0; 4],
    };
    let mut shuffles = [[none; 2]; 26];
    let mut width = 0;
    while width < shuffles.len() {
        shuffles[width] = [Shuffle::new(width, 0), Shuffle::new(width, 4)];
        width += 1;
    }
    shuffles
};

/// A [`Shuffle`] in registers.
#[derive(Clone, Copy)]
struct Loaded {
    bytes: __m128i,
    factors: __m128i,
}

impl Loaded {
    super::sse42! {
        unsafe fn new(shuffle: &Shuffle) -> Self {
            // SAFETY: both arrays are a register long.
            unsafe {
                Self {
                    bytes: _mm_loadu_si128(shuffle.bytes.as_ptr().cast()),
                    factors: _mm_loadu_si128(shuffle.factors.as_ptr().cast()),
                }
            }
        }
    }
}

/// Codes of up to 25 bits, four at a time: from any bit of a byte on they fit in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Windows32 {
    shuffles: [Loaded; 2],
    code_mask: __m128i,
    width_bits: usize,
}

impl Windows32 {
    /// # Safety
    /// The CPU has the level.
    ///
    /// # Panics
    /// If the width exceeds 25.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        let [even, odd] = &SHUFFLES[width_bits];
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                shuffles: [Loaded::new(even), Loaded::new(odd)],
                code_mask: Lanes32::splat(max_code(width)).0,
                width_bits,
            }
        }
    }
}

impl Unpack for Windows32 {
    type Vector = Lanes32;

    super::sse42! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes32 {
            // Four codes are half of the width in bytes.
            let first = group * self.width_bits / 2;
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad. The last window ends at
            // byte (4 + 3 * 25) / 8 + 4 of them, which is the thirteenth.
            let bytes = unsafe { _mm_loadu_si128(packed.add(first).cast()) };
            let shuffle = self.shuffles[group % 2];
            let windows = _mm_shuffle_epi8(bytes, shuffle.bytes);
            let codes = _mm_srli_epi32::<ALIGNED_BIT>(_mm_mullo_epi32(windows, shuffle.factors));
            Lanes32(_mm_and_si128(codes, self.code_mask))
        }
    }
}

/// Codes of 26 to 63 bits, two at a time. Those above 57 bits may reach into a ninth byte.
#[derive(Clone, Copy)]
pub(super) struct OneByOne<const NINTH_BYTE: bool> {
    code_mask: __m128i,
    width_bits: usize,
}

impl<const NINTH_BYTE: bool> OneByOne<NINTH_BYTE> {
    /// # Safety
    /// The CPU has the level.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        // SAFETY: the caller's promise.
        let code_mask = unsafe { Lanes64::splat(max_code(width)).0 };
        Self {
            code_mask,
            width_bits: usize::from(width),
        }
    }
}

impl<const NINTH_BYTE: bool> Unpack for OneByOne<NINTH_BYTE> {
    type Vector = Lanes64;

    super::sse42! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes64 {
            let bit = group * 2 * self.width_bits;
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad;
            // the second code begins at most 8 bytes later.
            let (low, high) = unsafe {
                (
                    window::<NINTH_BYTE>(packed, bit),
                    window::<NINTH_BYTE>(packed, bit + self.width_bits),
                )
            };
            let windows = _mm_set_epi64x(high as i64, low as i64);
            Lanes64(_mm_and_si128(windows, self.code_mask))
        }
    }
}
