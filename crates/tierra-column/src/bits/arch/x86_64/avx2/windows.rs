//! Packed codes into lanes: each half of a register is loaded from the byte its first code lies
//! in, a byte shuffle brings every lane the window of bytes that holds its code, a shift by the
//! lane's own distance brings the code to bit 0, and a mask cuts off the bits of the neighbours.
//! Where eight codes and their windows lie in 16 bytes, one load fills both halves.

use super::{Lanes32, Lanes64};
use crate::bits::{
    arch::scalar::window,
    packing::max_code,
    vector::{Unpack, Vector},
};
use std::arch::x86_64::*;

/// What a register of `LANES` lanes is shuffled and shifted by.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Shuffle {
    /// For each byte of a register, the byte of its half it comes from.
    bytes: [u8; 32],
    /// For each lane the distance, in lanes of the kernel's size.
    shifts: [u8; 32],
}

impl Shuffle {
    /// For the group of codes that begins with code `first`. A half holds 16 bytes from the
    /// first byte of its first code on, or both from that of the group's.
    const fn new(width: usize, lane_bytes: usize, first: usize, one_load: bool) -> Self {
        let mut shuffle = NO_SHUFFLE;
        let mut lane = 0;
        while lane < 32 / lane_bytes {
            let per_half = 16 / lane_bytes;
            let first_of_half = if one_load {
                0
            } else {
                lane / per_half * per_half
            };
            let half_bit = (first + first_of_half) * width;
            let bit = (first + lane) * width - half_bit / 8 * 8;
            let mut byte = 0;
            while byte < lane_bytes {
                // Bytes past the half wrap; they hold no bit of a code.
                shuffle.bytes[lane * lane_bytes + byte] = ((bit / 8 + byte) % 16) as u8;
                byte += 1;
            }
            // The shift of a lane is an integer of the lane's size.
            shuffle.shifts[lane * lane_bytes] = (bit % 8) as u8;
            lane += 1;
        }
        shuffle
    }

    /// Whether every code of a group lies in its lane's window.
    const fn suffices(width: usize, lane_bytes: usize) -> bool {
        let mut code = 0;
        while code < 8 {
            if code * width % 8 + width > 8 * lane_bytes {
                return false;
            }
            code += 1;
        }
        true
    }
}

const NO_SHUFFLE: Shuffle = Shuffle {
    bytes: [0; 32],
    shifts: [0; 32],
};

/// The widest code of which eight, and their windows, lie in 16 bytes.
const ONE_LOAD_WIDTH: usize = 14;

static SHUFFLES_32: [Shuffle; 32] = {
    let mut shuffles = [NO_SHUFFLE; 32];
    let mut width = 0;
    while width < shuffles.len() {
        shuffles[width] = Shuffle::new(width, 4, 0, width <= ONE_LOAD_WIDTH);
        width += 1;
    }
    shuffles
};

/// Every other group of four codes begins amid a byte if the width is odd.
static SHUFFLES_64: [[Shuffle; 2]; 58] = {
    let mut shuffles = [[NO_SHUFFLE; 2]; 58];
    let mut width = 0;
    while width < shuffles.len() {
        let [even, odd] = [0, 4];
        shuffles[width] = [
            Shuffle::new(width, 8, even, false),
            Shuffle::new(width, 8, odd, false),
        ];
        width += 1;
    }
    shuffles
};

/// A [`Shuffle`] in registers.
#[derive(Clone, Copy)]
struct Loaded {
    bytes: __m256i,
    shifts: __m256i,
}

impl Loaded {
    super::avx2! {
        unsafe fn new(shuffle: &Shuffle) -> Self {
            // SAFETY: both arrays are a register long.
            unsafe {
                Self {
                    bytes: _mm256_loadu_si256(shuffle.bytes.as_ptr().cast()),
                    shifts: _mm256_loadu_si256(shuffle.shifts.as_ptr().cast()),
                }
            }
        }
    }
}

super::avx2! {
    /// # Safety
    /// The CPU has the level; 16 bytes are readable at each place.
    unsafe fn load_halves(low: *const u8, high: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
    }
}

/// Codes of up to 26 bits or 28, eight at a time: from where they begin in a byte on they fit in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Windows32<const ONE_LOAD: bool> {
    shuffle: Loaded,
    code_mask: __m256i,
    group_bytes: usize,
    /// From the first to the fifth code of a group.
    half_bytes: usize,
}

impl<const ONE_LOAD: bool> Windows32<ONE_LOAD> {
    /// # Safety
    /// The CPU has the level.
    ///
    /// # Panics
    /// If the width exceeds 31.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        debug_assert!(Shuffle::suffices(width_bits, 4));
        debug_assert_eq!(ONE_LOAD, width_bits <= ONE_LOAD_WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                shuffle: Loaded::new(&SHUFFLES_32[width_bits]),
                code_mask: Lanes32::splat(max_code(width)).0,
                group_bytes: width_bits,
                half_bytes: width_bits * 4 / 8,
            }
        }
    }
}

impl<const ONE_LOAD: bool> Unpack for Windows32<ONE_LOAD> {
    type Vector = Lanes32;

    super::avx2! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes32 {
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad;
            // the second half begins at most 14 bytes later.
            let halves = unsafe {
                let low = packed.add(group * self.group_bytes);
                if ONE_LOAD {
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(low.cast()))
                } else {
                    load_halves(low, low.add(self.half_bytes))
                }
            };
            let windows = _mm256_shuffle_epi8(halves, self.shuffle.bytes);
            let codes = _mm256_srlv_epi32(windows, self.shuffle.shifts);
            Lanes32(_mm256_and_si256(codes, self.code_mask))
        }
    }
}

/// Codes of up to 31 bits, which may reach into a fifth byte, eight at a time: a window of four bytes from the code's first, and
/// one from its second.
#[derive(Clone, Copy)]
pub(super) struct SplitWindows32 {
    low: Loaded,
    high: Loaded,
    code_mask: __m256i,
    group_bytes: usize,
    /// From the first to the fifth code of a group.
    half_bytes: usize,
}

impl SplitWindows32 {
    /// # Safety
    /// The CPU has the level.
    ///
    /// # Panics
    /// If the width exceeds 31.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        // SAFETY: the caller's promise.
        unsafe {
            let low = Loaded::new(&SHUFFLES_32[width_bits]);
            Self {
                low,
                high: Loaded {
                    // A shuffle counts modulo 16.
                    bytes: _mm256_add_epi8(low.bytes, _mm256_set1_epi8(1)),
                    // Bit 0 of the second byte is bit 8 of the window.
                    shifts: _mm256_sub_epi32(_mm256_set1_epi32(8), low.shifts),
                },
                code_mask: Lanes32::splat(max_code(width)).0,
                group_bytes: width_bits,
                half_bytes: width_bits * 4 / 8,
            }
        }
    }
}

impl Unpack for SplitWindows32 {
    type Vector = Lanes32;

    super::avx2! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes32 {
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad;
            // the second half begins at most 15 bytes later.
            let halves = unsafe {
                let low = packed.add(group * self.group_bytes);
                load_halves(low, low.add(self.half_bytes))
            };
            let low = _mm256_shuffle_epi8(halves, self.low.bytes);
            let high = _mm256_shuffle_epi8(halves, self.high.bytes);
            let low = _mm256_srlv_epi32(low, self.low.shifts);
            let high = _mm256_sllv_epi32(high, self.high.shifts);
            Lanes32(_mm256_and_si256(_mm256_or_si256(low, high), self.code_mask))
        }
    }
}

/// Codes of up to 57 bits, four at a time: from any bit of a byte on they fit in 64 bits.
#[derive(Clone, Copy)]
pub(super) struct Windows64 {
    shuffles: [Loaded; 2],
    code_mask: __m256i,
    width_bits: usize,
}

impl Windows64 {
    /// # Safety
    /// The CPU has the level.
    ///
    /// # Panics
    /// If the width exceeds 57.
    #[inline(always)]
    pub(super) unsafe fn new(width: u8) -> Self {
        let width_bits = usize::from(width);
        let [even, odd] = &SHUFFLES_64[width_bits];
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                shuffles: [Loaded::new(even), Loaded::new(odd)],
                code_mask: Lanes64::splat(max_code(width)).0,
                width_bits,
            }
        }
    }
}

impl Unpack for Windows64 {
    type Vector = Lanes64;

    super::avx2! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes64 {
            // Two codes are a quarter of the width in bytes.
            let (low, high) = (group * 2 * self.width_bits / 4, (group * 2 + 1) * self.width_bits / 4);
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad;
            // the second half begins at most 15 bytes later.
            let halves = unsafe { load_halves(packed.add(low), packed.add(high)) };
            let shuffle = self.shuffles[group % 2];
            let windows = _mm256_shuffle_epi8(halves, shuffle.bytes);
            let codes = _mm256_srlv_epi64(windows, shuffle.shifts);
            Lanes64(_mm256_and_si256(codes, self.code_mask))
        }
    }
}

/// Codes of 58 to 63 bits, which may reach into a ninth byte: taken one by one.
#[derive(Clone, Copy)]
pub(super) struct OneByOne {
    code_mask: __m256i,
    width_bits: usize,
}

impl OneByOne {
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

impl Unpack for OneByOne {
    type Vector = Lanes64;

    super::avx2! {
        unsafe fn group(&self, packed: *const u8, group: usize) -> Lanes64 {
            let bit = group * 4 * self.width_bits;
            // SAFETY: 64 bytes are readable from a group's first one on, as its codes or the pad;
            // the last code begins at most 24 bytes later.
            let [a, b, c, d] = unsafe {
                [
                    window::<true>(packed, bit),
                    window::<true>(packed, bit + self.width_bits),
                    window::<true>(packed, bit + 2 * self.width_bits),
                    window::<true>(packed, bit + 3 * self.width_bits),
                ]
            };
            let windows = _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64);
            Lanes64(_mm256_and_si256(windows, self.code_mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_widths_that_need_two_windows_get_them() {
        let split = (0..32).filter(|&width| !Shuffle::suffices(width, 4));
        assert_eq!(split.collect::<Vec<_>>(), [27, 29, 30, 31]);
        assert!((0..58).all(|width| Shuffle::suffices(width, 8)));
        // The last of eight codes begins in this byte, and its window has three more.
        const { assert!(7 * ONE_LOAD_WIDTH / 8 + 3 < 16) };
    }
}
