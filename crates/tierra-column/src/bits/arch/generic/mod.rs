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
    unpack::{UnpackAll, UnpackSelected},
};

use crate::bits::{
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

    /// Words of 64 rows, the last one perhaps not full.
    #[inline(always)]
    fn words(&self) -> usize {
        self.n.div_ceil(64)
    }

    /// How many rows of a word exist.
    #[inline(always)]
    fn rows_in(&self, word: usize) -> usize {
        (self.n - word * 64).min(64)
    }

    /// # Safety
    /// The CPU has the features of `U` and all codes of the group exist.
    #[inline(always)]
    unsafe fn group(&self, group: usize) -> U::Vector {
        debug_assert!((group + 1) * Self::LANES <= self.n);
        // SAFETY: the CPU by the caller's promise, the bytes by that of the fields.
        unsafe { self.unpack.group(self.packed, group) }
    }

    /// As [`Codes::group`], where only the first `lanes` codes need exist.
    ///
    /// # Safety
    /// The CPU has the features of `U`, and 0 < `lanes` <= `LANES` codes of the group exist.
    #[inline(always)]
    unsafe fn first_of_group(&self, group: usize, lanes: usize) -> U::Vector {
        debug_assert!(lanes > 0 && group * Self::LANES + lanes <= self.n);
        // SAFETY: as above.
        unsafe { self.unpack.first_of_group(self.packed, group, lanes) }
    }
}
