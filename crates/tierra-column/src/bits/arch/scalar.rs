//! One code at a time, for any CPU: the oracle of the other levels.

use super::generic::{Codes, Kernel};
use crate::bits::{
    CodeBits,
    packing::{Block, max_code},
    vector::{Unpack, Unpacked, Vector},
};

/// A register of one code, in a lane of the type `T`.
#[derive(Clone, Copy)]
struct One<T>(T);

/// An unsigned integer as a lane.
trait Lane: Copy + Ord + Into<u64> {
    fn truncate(code: u64) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
}

impl Lane for u32 {
    #[inline(always)]
    fn truncate(code: u64) -> u32 {
        code as u32
    }

    #[inline(always)]
    fn wrapping_sub(self, other: u32) -> u32 {
        self.wrapping_sub(other)
    }
}

impl Lane for u64 {
    #[inline(always)]
    fn truncate(code: u64) -> u64 {
        code
    }

    #[inline(always)]
    fn wrapping_sub(self, other: u64) -> u64 {
        self.wrapping_sub(other)
    }
}

impl<T: Lane> Vector for One<T> {
    const LANES: usize = 1;
    const SMALL_SET_BITS: usize = 0;
    type Sum = u128;
    type SmallSet = ();

    #[inline(always)]
    unsafe fn splat(code: u64) -> Self {
        One(T::truncate(code))
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes, and an integer may hold any.
        One(unsafe { from.cast::<T>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const u8, _lanes: usize) -> Self {
        // SAFETY: the caller's promise; the one lane exists.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn store_u32(self, out: *mut u32) {
        // SAFETY: the caller vouches for the place.
        unsafe { out.write(self.0.into() as u32) }
    }

    #[inline(always)]
    unsafe fn store_u64(self, out: *mut u64) {
        // SAFETY: the caller vouches for the place.
        unsafe { out.write(self.0.into()) }
    }

    #[inline(always)]
    unsafe fn within(self, low: Self, span: Self) -> u64 {
        u64::from(Lane::wrapping_sub(self.0, low.0) <= span.0)
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, selected: u64) -> Self {
        if selected & 1 == 1 { self } else { other }
    }

    #[inline(always)]
    unsafe fn compress(self, _selected: u64) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        One(Ord::min(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        One(Ord::max(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn smallest(self) -> u64 {
        self.0.into()
    }

    #[inline(always)]
    unsafe fn largest(self) -> u64 {
        self.0.into()
    }

    #[inline(always)]
    unsafe fn no_sum() -> u128 {
        0
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: u128) -> u128 {
        sum + u128::from(self.0.into())
    }

    #[inline(always)]
    unsafe fn total(sum: u128) -> u128 {
        sum
    }

    #[inline(always)]
    unsafe fn small_set(_bitmap: &[u64]) {}

    #[inline(always)]
    unsafe fn in_small(self, _set: &()) -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64 {
        let code = self.0.into();
        let word = usize::try_from(code / 64)
            .ok()
            .and_then(|word| bitmap.get(word));
        word.map_or(0, |word| word >> (code % 64) & 1)
    }

    #[inline(always)]
    unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64 {
        let from_first = self.0.into().wrapping_sub(bits.first_code());
        if from_first > bits.span() {
            return 0;
        }
        let bit = from_first + bits.first_bit();
        bits.words()[(bit / 64) as usize] >> (bit % 64) & 1
    }
}

/// Codes of any width: a 64-bit window from the code's first byte, and the ninth byte for the
/// few codes that reach into it.
#[derive(Clone, Copy)]
struct Windows<const NINTH_BYTE: bool> {
    width: usize,
    max_code: u64,
}

impl<const NINTH_BYTE: bool> Windows<NINTH_BYTE> {
    fn new(width: u8) -> Self {
        Self {
            width: usize::from(width),
            max_code: max_code(width),
        }
    }
}

impl<const NINTH_BYTE: bool> Unpack for Windows<NINTH_BYTE> {
    type Vector = One<u64>;

    #[inline(always)]
    unsafe fn group(&self, packed: *const u8, group: usize) -> One<u64> {
        // SAFETY: the code begins in the block, and 64 readable bytes follow its first one.
        let window = unsafe { window::<NINTH_BYTE>(packed, group * self.width) };
        One(window & self.max_code)
    }
}

/// The 57 bits (64 with the ninth byte) from `bit` on, and more above them.
///
/// # Safety
/// Nine bytes are readable from the bit's byte on.
#[inline(always)]
pub(super) unsafe fn window<const NINTH_BYTE: bool>(packed: *const u8, bit: usize) -> u64 {
    let (byte, phase) = (bit / 8, bit % 8);
    // SAFETY: the caller's promise.
    unsafe {
        let at = packed.add(byte);
        let low = u64::from_le(at.cast::<u64>().read_unaligned()) >> phase;
        // Shifting in two steps keeps each shift below 64 when the phase is zero.
        if NINTH_BYTE {
            low | u64::from(*at.add(8)) << 1 << (63 - phase)
        } else {
            low
        }
    }
}

#[inline(always)]
pub(super) fn on_codes<K: Kernel>(block: Block<'_>, kernel: K) -> K::Output {
    let width = block.width();
    // SAFETY: these vectors need no CPU features.
    unsafe {
        // From bit 7 on, 57 bits of a 64-bit window are left.
        if width <= 57 {
            kernel.run(Codes::packed(block, Windows::<false>::new(width)))
        } else {
            kernel.run(Codes::packed(block, Windows::<true>::new(width)))
        }
    }
}

pub(super) fn on_u32s<K: Kernel>(values: &[u32], kernel: K) -> K::Output {
    // SAFETY: these vectors need no CPU features.
    unsafe { kernel.run(Codes::<Unpacked<One<u32>>>::unpacked(values)) }
}

pub(super) fn on_u64s<K: Kernel>(values: &[u64], kernel: K) -> K::Output {
    // SAFETY: these vectors need no CPU features.
    unsafe { kernel.run(Codes::<Unpacked<One<u64>>>::unpacked(values)) }
}
