//! Codes into the values they stand for.

/// Appends `dictionary[code]` for every code.
///
/// # Safety
/// Every code is below `dictionary.len()`.
#[inline(always)]
pub(in crate::bits) unsafe fn gather_unchecked<T: Copy>(
    dictionary: &[T],
    codes: &[u32],
    out: &mut Vec<T>,
) {
    // SAFETY: the caller's promise.
    let value = |&code: &u32| unsafe { *dictionary.get_unchecked(code as usize) };
    out.extend(codes.iter().map(value));
}
