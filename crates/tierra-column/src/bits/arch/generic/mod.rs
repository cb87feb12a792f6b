//! The kernels, each written once over the verbs of [`Vector`].
//!
//! A kernel walks its codes in words of 64 rows, as a [`Mask`](crate::bits::Mask) does, and each
//! word in registers of [`Vector::LANES`] codes. It is inlined into a function of one level and
//! one way to unpack, so that tables and constants stay in registers for the whole block.

mod aggregate;
mod gather;
mod select;
mod unpack;

pub(in crate::bits) use {
    aggregate::{MinMax, Sum},
    gather::gather_unchecked,
    select::{SelectBetween, SelectIn},
    unpack::{Target, UnpackAll, UnpackFew, UnpackSelected},
};

use crate::bits::{
    mask::first_bits,
    packing::Block,
    vector::{Unpack, Unpacked, Vector},
};
use std::marker::PhantomData;

/// An algorithm over the codes of a block.
pub(in crate::bits) trait Kernel {
    type Output;

    /// # Safety
    /// The CPU has the features of `U`. Implementations are `#[inline(always)]`: they get those
    /// features from the function they are inlined into.
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) -> Self::Output;
}

/// Codes and the way to unpack them.
#[derive(Clone, Copy)]
pub(in crate::bits) struct Codes<'a, U> {
    /// Everything `unpack` reads for the groups that start before `n` is readable.
    packed: *const u8,
    n: usize,
    unpack: U,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, U: Unpack> Codes<'a, U> {
    /// The codes of a block; `unpack` is for the block's width.
    #[inline(always)]
    pub(super) fn packed(block: Block<'a>, unpack: U) -> Self {
        Self {
            packed: block.as_ptr(),
            n: block.n(),
            unpack,
            bytes: PhantomData,
        }
    }
}

impl<'a, V: Vector> Codes<'a, Unpacked<V>> {
    /// Values in a slice, as wide as the lanes of `V`.
    #[inline(always)]
    pub(super) fn unpacked<T>(values: &'a [T]) -> Self {
        const { assert!(size_of::<T>() * V::LANES == size_of::<V>()) }
        Self {
            packed: values.as_ptr().cast(),
            n: values.len(),
            unpack: Unpacked::new(),
            bytes: PhantomData,
        }
    }
}

impl<U: Unpack> Codes<'_, U> {
    const LANES: usize = U::Vector::LANES;
    const GROUPS_PER_WORD: usize = 64 / U::Vector::LANES;

    /// Words of 64 rows that all exist.
    #[inline(always)]
    fn full_words(&self) -> usize {
        self.n / 64
    }

    /// The rows after those words, as bits of a word: fewer than 64, perhaps none.
    #[inline(always)]
    fn rows_after_full_words(&self) -> u64 {
        first_bits(self.n % 64)
    }

    /// How many groups those rows lie in, the last one perhaps not full.
    #[inline(always)]
    fn groups_after_full_words(&self) -> usize {
        (self.n % 64).div_ceil(Self::LANES)
    }

    /// # Safety
    /// The CPU has the features of `U` and all codes of the group exist.
    #[inline(always)]
    unsafe fn group(&self, group: usize) -> U::Vector {
        debug_assert!((group + 1) * Self::LANES <= self.n);
        // SAFETY: the CPU by the caller's promise, the bytes by that of the fields.
        unsafe { self.unpack.group(self.packed, group) }
    }

    /// Group `i` of those after the full words; lanes whose code does not exist are undefined.
    ///
    /// # Safety
    /// The CPU has the features of `U`, and `i` < [`Codes::groups_after_full_words`].
    #[inline(always)]
    unsafe fn group_after_full_words(&self, i: usize) -> U::Vector {
        let group = self.full_words() * Self::GROUPS_PER_WORD + i;
        debug_assert!(group * Self::LANES < self.n);
        let exist = (self.n - group * Self::LANES).min(Self::LANES);
        // SAFETY: as above; the first code of the group exists.
        unsafe { self.unpack.first_of_group(self.packed, group, exist) }
    }
}
