//! Codes into slices: all of a block, or only the selected ones, in order.

use super::{Codes, Kernel};
use crate::bits::{
    Mask,
    vector::{Unpack, Vector},
};

/// What codes are unpacked to.
pub(in crate::bits) trait Target: Copy + Default {
    /// # Safety
    /// The CPU has the features of `V`, and `V::LANES` places at `out` are writable.
    unsafe fn store<V: Vector>(codes: V, out: *mut Self);
}

impl Target for u32 {
    #[inline(always)]
    unsafe fn store<V: Vector>(codes: V, out: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe { codes.store_u32(out) }
    }
}

impl Target for u64 {
    #[inline(always)]
    unsafe fn store<V: Vector>(codes: V, out: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe { codes.store_u64(out) }
    }
}

/// Stores the first `out.len()` lanes.
///
/// # Safety
/// The CPU has the features of `V`; `out` is not longer than `V::LANES`.
#[inline(always)]
unsafe fn store_first<V: Vector, T: Target>(codes: V, out: &mut [T]) {
    let mut lanes = [T::default(); 64];
    // SAFETY: the CPU by the caller's promise; no register has more than 64 lanes.
    unsafe { T::store(codes, lanes.as_mut_ptr()) };
    out.copy_from_slice(&lanes[..out.len()]);
}

/// Unpacks every code; there are as many as places.
pub(in crate::bits) struct UnpackAll<'a, T> {
    pub(in crate::bits) out: &'a mut [T],
}

impl<T: Target> Kernel for UnpackAll<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<U: Unpack>(self, codes: Codes<'_, U>) {
        assert_eq!(codes.n, self.out.len());
        let mut groups = self.out.chunks_exact_mut(Codes::<U>::LANES);
        let full = groups.len();
        for (group, out) in groups.by_ref().enumerate() {
            // SAFETY: the CPU by the caller's promise; as many codes exist as there are places.
            unsafe { T::store(codes.group(group), out.as_mut_ptr()) };
        }
        let rest = groups.into_remainder();
        if !rest.is_empty() {
            // SAFETY: as above.
            unsafe { store_first(codes.first_of_group(full, rest.len()), rest) };
        }
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
        for word in 0..codes.words().min(self.mask.0.len()) {
            let exist = codes.rows_in(word);
            let selected = self.mask.0[word] & (!0 >> (64 - exist));
            if selected == 0 {
                continue;
            }
            for i in 0..exist.div_ceil(lanes) {
                let in_group = selected >> (i * lanes) & (!0 >> (64 - lanes));
                if in_group == 0 {
                    continue;
                }
                let here = (exist - i * lanes).min(lanes);
                let group = word * Codes::<U>::GROUPS_PER_WORD + i;
                let count = in_group.count_ones() as usize;
                // SAFETY: the CPU by the caller's promise; `here` rows of the group exist. The
                // whole register is stored only where there is room for it.
                unsafe {
                    let kept = if here == lanes {
                        codes.group(group).compress(in_group)
                    } else {
                        codes.first_of_group(group, here).compress(in_group)
                    };
                    if self.out.len() - len >= lanes {
                        T::store(kept, self.out.as_mut_ptr().add(len));
                    } else {
                        store_first(kept, &mut self.out[len..len + count]);
                    }
                }
                len += count;
            }
        }
        len
    }
}
