//! Selections: each word of the mask keeps the rows whose codes pass. Codes go from packed bytes
//! through registers into mask bits; nothing is materialised, and words without a selected row
//! are not read at all.

use super::{Codes, Kernel};
use crate::bits::{
    CodeBits, Mask,
    vector::{Unpack, Vector},
};

/// A test of codes, one bit per lane.
trait Predicate<V> {
    /// # Safety
    /// The CPU has the features of `V`.
    unsafe fn test(&self, codes: V) -> u64;
}

/// Narrows the mask to the rows that pass; rows that do not exist are dropped.
///
/// # Safety
/// The CPU has the features of `U`.
#[inline(always)]
unsafe fn select<U: Unpack, P: Predicate<U::Vector>>(
    codes: Codes<'_, U>,
    mask: &mut Mask,
    predicate: P,
) {
    let lanes = Codes::<U>::LANES;
    let (full, rest) = mask.0.split_at_mut(codes.full_words());
    for (word, rows) in full.iter_mut().enumerate().filter(|(_, rows)| **rows != 0) {
        let first_group = word * Codes::<U>::GROUPS_PER_WORD;
        let mut passed = 0;
        // From the last group to the first, so that each moves up by the size of a group.
        for i in (0..Codes::<U>::GROUPS_PER_WORD).rev() {
            // SAFETY: the CPU by the caller's promise; all 64 rows of the word exist.
            let bits = unsafe { predicate.test(codes.group(first_group + i)) };
            passed = if lanes == 64 {
                bits
            } else {
                passed << (lanes % 64) | bits
            };
        }
        *rows &= passed;
    }
    let Some((last, missing)) = rest.split_first_mut() else {
        return;
    };
    missing.fill(0);
    let mut passed = 0;
    for i in 0..codes.groups_after_full_words() {
        // SAFETY: as above; these are the groups that some rows of the last word lie in.
        let bits = unsafe { predicate.test(codes.group_after_full_words(i)) };
        passed |= bits << (i * lanes);
    }
    *last &= passed & codes.rows_after_full_words();
}

/// Keeps the rows with `low <= code <= low + span`, modulo the size of a code's lane.
pub(in crate::bits) struct SelectBetween<'a> {
    /// Fits the width of the codes.
    pub(in crate::bits) low: u64,
    /// Fits the width of the codes.
    pub(in crate::bits) span: u64,
    pub(in crate::bits) mask: &'a mut Mask,
}

struct Within<V> {
    low: V,
    span: V,
}

impl<V: Vector> Predicate<V> for Within<V> {
    #[inline(always)]
    unsafe fn test(&self, codes: V) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { codes.within(self.low, self.span) }
    }
}

impl Kernel for SelectBetween<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let within = Within {
                low: U::Vector::splat(self.low),
                span: U::Vector::splat(self.span),
            };
            select(codes, self.mask, within);
        }
    }
}

/// Keeps the rows whose code's bit is set; codes outside the stretch are dropped.
pub(in crate::bits) struct SelectIn<'a> {
    pub(in crate::bits) bits: CodeBits<'a>,
    /// Every code is below it.
    pub(in crate::bits) code_limit: u64,
    pub(in crate::bits) mask: &'a mut Mask,
}

struct InSmall<V: Vector>(V::SmallSet);

impl<V: Vector> Predicate<V> for InSmall<V> {
    #[inline(always)]
    unsafe fn test(&self, codes: V) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { codes.in_small(&self.0) }
    }
}

struct InBitmap<'a>(&'a [u64]);

impl<V: Vector> Predicate<V> for InBitmap<'_> {
    #[inline(always)]
    unsafe fn test(&self, codes: V) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { codes.in_bitmap(self.0) }
    }
}

struct InBits<'a>(CodeBits<'a>);

impl<V: Vector> Predicate<V> for InBits<'_> {
    #[inline(always)]
    unsafe fn test(&self, codes: V) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { codes.in_bits(&self.0) }
    }
}

impl Kernel for SelectIn<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) {
        // SAFETY: the caller's promise; a small set is used only where every code is inside it.
        unsafe {
            match self.bits.whole_bitmap(self.code_limit) {
                Some(bitmap) if self.code_limit <= U::Vector::SMALL_SET_BITS as u64 => select(
                    codes,
                    self.mask,
                    InSmall::<U::Vector>(U::Vector::small_set(bitmap)),
                ),
                Some(bitmap) => select(codes, self.mask, InBitmap(bitmap)),
                None => select(codes, self.mask, InBits(self.bits)),
            }
        }
    }
}
