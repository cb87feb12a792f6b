//! The verbs every instruction set implements, and the two things kernels are written over:
//! a register of codes ([`Vector`]) and a way to get one from packed bytes ([`Unpack`]).
//!
//! All methods are `unsafe` for one reason: they may only run on a CPU that has the
//! implementation's features. Those with pointers say what must be readable or writable.
//! Kernels are inlined into one function per level that switches the features on, so nothing
//! here is ever called through memory.

use super::CodeBits;
use std::marker::PhantomData;

/// A register of unsigned codes, all lanes as wide as the narrowest lane that fits the width.
pub(super) trait Vector: Copy {
    /// Codes in a register; divides 64.
    const LANES: usize;

    /// Largest number of bitmap bits that [`Vector::in_small`] can hold in registers; zero if the
    /// lanes are never narrow enough to try.
    const SMALL_SET_BITS: usize;

    /// Running sums, wide enough for the largest codes of a block.
    type Sum: Copy;

    /// A bitmap held in registers.
    type SmallSet: Copy;

    /// The same code in every lane, cut to the size of the lane.
    unsafe fn splat(code: u64) -> Self;

    /// The lanes at `from`, which has a register of readable bytes and any alignment.
    unsafe fn load(from: *const u8) -> Self;

    /// The first `lanes` lanes at `from`, zero in the others; reads only those lanes.
    unsafe fn load_first(from: *const u8, lanes: usize) -> Self;

    /// Writes the low 32 bits of each lane to `LANES` places.
    unsafe fn store_u32(self, out: *mut u32);

    /// Writes each lane to `LANES` places.
    unsafe fn store_u64(self, out: *mut u64);

    /// [`Vector::store_u32`] of `plus` more, modulo 2^32.
    #[inline(always)]
    unsafe fn store_u32_plus(self, plus: u32, out: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.store_u32(out);
            for lane in 0..Self::LANES {
                *out.add(lane) = (*out.add(lane)).wrapping_add(plus);
            }
        }
    }

    /// [`Vector::store_u64`] of `plus` more, modulo 2^64.
    #[inline(always)]
    unsafe fn store_u64_plus(self, plus: u64, out: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe {
            self.store_u64(out);
            for lane in 0..Self::LANES {
                *out.add(lane) = (*out.add(lane)).wrapping_add(plus);
            }
        }
    }

    /// One bit per lane, lowest lane first: `low <= lane <= low + span`, where the lanes count
    /// modulo their size.
    unsafe fn within(self, low: Self, span: Self) -> u64;

    /// Lanes whose bit in `selected` is set, those of `other` elsewhere. Bits from `LANES` on
    /// are ignored.
    unsafe fn blend(self, other: Self, selected: u64) -> Self;

    /// Moves the selected lanes to the front in order; the lanes after them are undefined.
    /// Bits from `LANES` on are ignored.
    unsafe fn compress(self, selected: u64) -> Self;

    /// Lane by lane, the smaller.
    unsafe fn min(self, other: Self) -> Self;

    /// Lane by lane, the larger.
    unsafe fn max(self, other: Self) -> Self;

    /// The smallest lane.
    unsafe fn smallest(self) -> u64;

    /// The largest lane.
    unsafe fn largest(self) -> u64;

    /// Sums of nothing.
    unsafe fn no_sum() -> Self::Sum;

    /// `sum` and every lane.
    unsafe fn add_to(self, sum: Self::Sum) -> Self::Sum;

    /// What a running sum comes to.
    unsafe fn total(sum: Self::Sum) -> u128;

    /// The first `SMALL_SET_BITS` bits of a bitmap; absent ones are zero.
    unsafe fn small_set(bitmap: &[u64]) -> Self::SmallSet;

    /// One bit per lane: is the code's bit set? Every code is below `SMALL_SET_BITS`.
    unsafe fn in_small(self, set: &Self::SmallSet) -> u64;

    /// One bit per lane: is the code's bit set in a bitmap of any length? Absent bits are zero.
    unsafe fn in_bitmap(self, bitmap: &[u64]) -> u64;

    /// One bit per lane: is the code in the stretch, and its bit set? All codes of the stretch, and the
    /// numbers of their bits, fit a lane (of 8 or 16 bits: the codes).
    unsafe fn in_bits(self, bits: &CodeBits<'_>) -> u64;
}

/// How codes of one width come out of packed bytes: holds the tables of that width in registers.
pub(super) trait Unpack: Copy {
    /// What a group of codes unpacks to.
    type Vector: Vector;

    /// Codes `group * LANES ..` of the block at `packed`. At least `PAD_BYTES` readable bytes
    /// follow the group's first byte, or the whole group lies in the block.
    unsafe fn group(&self, packed: *const u8, group: usize) -> Self::Vector;

    /// As [`Unpack::group`] where only the first `lanes` codes exist; other lanes are undefined.
    #[inline(always)]
    unsafe fn first_of_group(
        &self,
        packed: *const u8,
        group: usize,
        _lanes: usize,
    ) -> Self::Vector {
        // SAFETY: the caller's promise; a packed block is followed by its pad.
        unsafe { self.group(packed, group) }
    }
}

/// Unpacked values, lane for lane as in memory; nothing beyond the last value is read.
#[derive(Clone, Copy)]
pub(super) struct Unpacked<V>(PhantomData<V>);

impl<V> Unpacked<V> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<V: Vector> Unpack for Unpacked<V> {
    type Vector = V;

    #[inline(always)]
    unsafe fn group(&self, packed: *const u8, group: usize) -> V {
        // SAFETY: the caller vouches for the CPU and that the group lies in the values.
        unsafe { V::load(packed.add(group * size_of::<V>())) }
    }

    #[inline(always)]
    unsafe fn first_of_group(&self, packed: *const u8, group: usize, lanes: usize) -> V {
        // SAFETY: as above, for the lanes that exist.
        unsafe { V::load_first(packed.add(group * size_of::<V>()), lanes) }
    }
}
