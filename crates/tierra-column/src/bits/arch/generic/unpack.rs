//! Codes into slices: all of a block, or only the selected ones, in order.

use super::{Codes, Kernel};
use crate::bits::{
    Mask,
    mask::first_bits,
    vector::{Unpack, Vector},
};
use std::mem::MaybeUninit;

/// What codes are unpacked to.
pub(in crate::bits) trait Target: Copy {
    /// Nothing more than the code.
    const ZERO: Self;

    /// # Safety
    /// The CPU has the features of `V`, and `V::LANES` places at `out` are writable.
    unsafe fn store<V: Vector>(codes: V, out: *mut Self);

    /// Stores `plus` more than the codes, which wraps around like the type.
    ///
    /// # Safety
    /// As of [`Target::store`].
    unsafe fn store_plus<V: Vector>(codes: V, plus: Self, out: *mut Self);
}

macro_rules! target {
    ($($ty:ty as $unsigned:ty: $store:ident, $store_plus:ident;)*) => {$(
        impl Target for $ty {
            const ZERO: $ty = 0;

            #[inline(always)]
            unsafe fn store<V: Vector>(codes: V, out: *mut $ty) {
                // SAFETY: the caller's promise.
                unsafe { codes.$store(out.cast::<$unsigned>()) }
            }

            #[inline(always)]
            unsafe fn store_plus<V: Vector>(codes: V, plus: $ty, out: *mut $ty) {
                // SAFETY: the caller's promise.
                unsafe { codes.$store_plus(plus as $unsigned, out.cast::<$unsigned>()) }
            }
        }
    )*};
}
target! {
    u32 as u32: store_u32, store_u32_plus;
    i32 as u32: store_u32, store_u32_plus;
    u64 as u64: store_u64, store_u64_plus;
    i64 as u64: store_u64, store_u64_plus;
}

/// Stores the first `out.len()` lanes.
///
/// # Safety
/// The CPU has the features of `V`; `out` is not longer than `V::LANES`.
#[inline(always)]
unsafe fn store_first<V: Vector, T: Target>(codes: V, out: &mut [T]) {
    let mut lanes = [T::ZERO; 64];
    // SAFETY: the CPU by the caller's promise; no register has more than 64 lanes.
    unsafe { T::store(codes, lanes.as_mut_ptr()) };
    out.copy_from_slice(&lanes[..out.len()]);
}

/// Unpacks every code; there are as many as places. All of these are written.
pub(in crate::bits) struct UnpackAll<'a, T> {
    pub(in crate::bits) out: &'a mut [MaybeUninit<T>],
    /// Added to every code.
    pub(in crate::bits) plus: T,
}

impl<T: Target> Kernel for UnpackAll<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) {
        assert_eq!(codes.n, self.out.len());
        let lanes = Codes::<U>::LANES;
        let (words, rest) = self.out.as_chunks_mut::<64>();
        for (word, out) in words.iter_mut().enumerate() {
            let first_group = word * Codes::<U>::GROUPS_PER_WORD;
            let places: *mut T = out.as_mut_ptr().cast();
            for i in 0..Codes::<U>::GROUPS_PER_WORD {
                // SAFETY: the CPU by the caller's promise; all 64 rows of the word exist, and have places.
                unsafe {
                    let codes = codes.group(first_group + i);
                    T::store_plus(codes, self.plus, places.add(i * lanes));
                }
            }
        }
        for (i, out) in rest.chunks_mut(lanes).enumerate() {
            let mut lanes = [T::ZERO; 64];
            // SAFETY: as above; the last group may have fewer codes, and as many places.
            let codes = unsafe { codes.group_after_full_words(i) };
            // SAFETY: the CPU by the caller's promise; no register has more than 64 lanes.
            unsafe { T::store_plus(codes, self.plus, lanes.as_mut_ptr()) };
            out.write_copy_of_slice(&lanes[..out.len()]);
        }
    }
}

/// Unpacks the selected codes one by one; returns how many there are. For few of them: the others are not looked at.
pub(in crate::bits) struct UnpackFew<'a, T> {
    pub(in crate::bits) mask: &'a Mask,
    pub(in crate::bits) out: &'a mut [T],
}

impl<T: Target> Kernel for UnpackFew<'_, T> {
    type Output = usize;

    /// # Panics
    /// If `out` is shorter than the number of selected rows.
    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) -> usize {
        const { assert!(Codes::<U>::LANES == 1) }
        let mut selected = *self.mask;
        selected.and(&Mask::first(codes.n));
        let count = selected.count();
        assert!(
            count <= self.out.len(),
            "{count} codes, {} places",
            self.out.len()
        );
        let mut place = self.out.as_mut_ptr();
        for (word, mut rest) in selected.0.into_iter().enumerate() {
            while rest != 0 {
                let row = word * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                // SAFETY: the CPU by the caller's promise; the row exists, and there is a place for each.
                unsafe {
                    T::store(codes.group(row), place);
                    place = place.add(1);
                }
            }
        }
        count
    }
}

/// Unpacks the selected codes; returns how many there are.
pub(in crate::bits) struct UnpackSelected<'a, T> {
    pub(in crate::bits) mask: &'a Mask,
    pub(in crate::bits) out: &'a mut [T],
}

impl<T: Target> Kernel for UnpackSelected<'_, T> {
    type Output = usize;

    /// # Panics
    /// If `out` is shorter than the number of selected rows.
    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) -> usize {
        let lanes = Codes::<U>::LANES;
        let mut len = 0;
        for word in 0..codes.full_words() {
            let selected = self.mask.0[word];
            if selected == 0 {
                continue;
            }
            let first_group = word * Codes::<U>::GROUPS_PER_WORD;
            if self.out.len() - len >= 64 {
                let mut place = self.out[len..].as_mut_ptr();
                for i in 0..Codes::<U>::GROUPS_PER_WORD {
                    let in_group = selected >> (i * lanes) & first_bits(lanes);
                    // SAFETY: the CPU by the caller's promise; all 64 rows of the word exist, and
                    // there are places for all of them: those of the group and after it are free.
                    unsafe {
                        T::store(codes.group(first_group + i).compress(in_group), place);
                        place = place.add(in_group.count_ones() as usize);
                    }
                }
                len += selected.count_ones() as usize;
            } else {
                for i in 0..Codes::<U>::GROUPS_PER_WORD {
                    let in_group = selected >> (i * lanes) & first_bits(lanes);
                    let end = len + in_group.count_ones() as usize;
                    // SAFETY: as above.
                    unsafe {
                        let kept = codes.group(first_group + i).compress(in_group);
                        store_first(kept, &mut self.out[len..end]);
                    }
                    len = end;
                }
            }
        }
        let selected = match codes.rows_after_full_words() {
            0 => 0,
            existing => self.mask.0[codes.full_words()] & existing,
        };
        for i in 0..codes.groups_after_full_words() {
            let in_group = selected >> (i * lanes) & first_bits(lanes);
            let end = len + in_group.count_ones() as usize;
            // SAFETY: as above; these are the groups that some rows of the last word lie in.
            unsafe {
                let kept = codes.group_after_full_words(i).compress(in_group);
                store_first(kept, &mut self.out[len..end]);
            }
            len = end;
        }
        len
    }
}
