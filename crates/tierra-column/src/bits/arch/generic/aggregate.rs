//! Sum, smallest and largest of the selected codes.

use super::{Codes, Kernel};
use crate::bits::{
    Mask,
    vector::{Unpack, Vector},
};

/// Something accumulated over registers of codes.
trait Fold<V> {
    /// # Safety
    /// The CPU has the features of `V`.
    unsafe fn add(&mut self, codes: V);

    /// As `add` for the lanes whose bit in `selected` is set.
    ///
    /// # Safety
    /// The CPU has the features of `V`.
    unsafe fn add_selected(&mut self, codes: V, selected: u64);
}

/// Feeds the selected codes (all without a mask) to `fold`; returns whether there were any.
///
/// # Safety
/// The CPU has the features of `U`.
#[inline(always)]
unsafe fn fold<U: Unpack, F: Fold<U::Vector>>(
    codes: Codes<'_, U>,
    mask: Option<&Mask>,
    fold: &mut F,
) -> bool {
    let lanes = Codes::<U>::LANES;
    let selection = |word: usize| mask.map_or(!0, |mask| mask.0[word]);
    let mut seen = 0;
    for word in 0..codes.full_words() {
        let selected = selection(word);
        seen |= selected;
        let first_group = word * Codes::<U>::GROUPS_PER_WORD;
        if selected == !0 {
            for i in 0..Codes::<U>::GROUPS_PER_WORD {
                // SAFETY: the CPU by the caller's promise; all 64 rows of the word exist.
                unsafe { fold.add(codes.group(first_group + i)) };
            }
        } else if selected != 0 {
            for i in 0..Codes::<U>::GROUPS_PER_WORD {
                // SAFETY: as above.
                unsafe { fold.add_selected(codes.group(first_group + i), selected >> (i * lanes)) };
            }
        }
    }
    let existing = codes.rows_after_full_words();
    if existing != 0 {
        let selected = selection(codes.full_words()) & existing;
        seen |= selected;
        for i in 0..codes.groups_after_full_words() {
            // SAFETY: as above; these are the groups that some rows of the last word lie in.
            unsafe { fold.add_selected(codes.group_after_full_words(i), selected >> (i * lanes)) };
        }
    }
    seen != 0
}

/// The sum of the selected codes.
pub(in crate::bits) struct Sum<'a> {
    pub(in crate::bits) mask: Option<&'a Mask>,
}

struct Adder<V: Vector>(V::Sum);

impl<V: Vector> Fold<V> for Adder<V> {
    #[inline(always)]
    unsafe fn add(&mut self, codes: V) {
        // SAFETY: the caller's promise.
        unsafe { self.0 = codes.add_to(self.0) }
    }

    #[inline(always)]
    unsafe fn add_selected(&mut self, codes: V, selected: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0 = codes.blend(V::splat(0), selected).add_to(self.0) }
    }
}

impl Kernel for Sum<'_> {
    type Output = u128;

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) -> u128 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut adder = Adder::<U::Vector>(U::Vector::no_sum());
            fold(codes, self.mask, &mut adder);
            U::Vector::total(adder.0)
        }
    }
}

/// The smallest and the largest of the selected codes; `None` if no row is selected.
pub(in crate::bits) struct MinMax<'a> {
    pub(in crate::bits) mask: Option<&'a Mask>,
}

struct Extremes<V> {
    smallest: V,
    largest: V,
}

impl<V: Vector> Fold<V> for Extremes<V> {
    #[inline(always)]
    unsafe fn add(&mut self, codes: V) {
        // SAFETY: the caller's promise.
        unsafe {
            self.smallest = self.smallest.min(codes);
            self.largest = self.largest.max(codes);
        }
    }

    #[inline(always)]
    unsafe fn add_selected(&mut self, codes: V, selected: u64) {
        // SAFETY: the caller's promise. What was seen before changes neither extreme.
        unsafe {
            self.smallest = self.smallest.min(codes.blend(self.smallest, selected));
            self.largest = self.largest.max(codes.blend(self.largest, selected));
        }
    }
}

impl Kernel for MinMax<'_> {
    type Output = Option<(u64, u64)>;

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) -> Option<(u64, u64)> {
        // SAFETY: the caller's promise.
        unsafe {
            let mut extremes = Extremes {
                smallest: U::Vector::splat(!0),
                largest: U::Vector::splat(0),
            };
            fold(codes, self.mask, &mut extremes)
                .then(|| (extremes.smallest.smallest(), extremes.largest.largest()))
        }
    }
}
