//! Codes into the values they stand for.

/// `out[i] = dictionary[codes[i]]`.
///
/// # Safety
/// Every code is below `dictionary.len()`.
#[inline(always)]
pub(in crate::bits) unsafe fn gather_unchecked<T: Copy>(
    dictionary: &[T],
    codes: &[u32],
    out: &mut [T],
) {
    for (place, &code) in out.iter_mut().zip(codes) {
        // SAFETY: the caller's promise.
        *place = unsafe { *dictionary.get_unchecked(code as usize) };
    }
}
