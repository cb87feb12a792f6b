//! Giving unused pages of a buffer back to the system before the buffer is freed.
//!
//! Freeing a large buffer takes the system a tenth of a second for each GiB. A caller that cannot wait that long discards one
//! part after the other, and then frees a buffer that holds hardly any pages.

use std::mem::MaybeUninit;

use crate::address;

/// Gives the whole pages of a range back to the system. They come anew, as zeros, when they are written to.
///
/// ```
/// let mut buffer: Vec<u8> = Vec::with_capacity(1 << 20);
/// tierra_memory::discard(buffer.spare_capacity_mut());
/// buffer.push(1);
/// assert_eq!(buffer, [1]);
/// ```
pub fn discard(unused: &mut [MaybeUninit<u8>]) {
    let page_bytes = crate::base_page_bytes();
    let lead = unused.as_ptr().align_offset(page_bytes);
    let pages = unused.len().saturating_sub(lead) / page_bytes;
    if pages > 0 {
        // SAFETY: whole pages within a range that is borrowed uniquely and holds nothing that was initialised. An allocator's
        // memory is anonymous.
        unsafe { address::empty(unused.as_mut_ptr().add(lead).cast(), pages * page_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_as_zeros_and_what_is_around_them_stays() {
        let page_bytes = crate::base_page_bytes();
        let mut bytes = vec![7u8; 10 * page_bytes];
        let range = page_bytes / 2..8 * page_bytes;
        // SAFETY: bytes are valid as memory that is not initialised, and all that may come of them is a byte.
        let unused = unsafe {
            std::slice::from_raw_parts_mut(
                bytes[range.clone()].as_mut_ptr().cast::<MaybeUninit<u8>>(),
                range.len(),
            )
        };
        discard(unused);
        let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
        assert_eq!(zeros % page_bytes, 0);
        assert!(zeros >= 6 * page_bytes, "{zeros}");
        assert!(bytes.iter().all(|&byte| byte == 0 || byte == 7));
        let outside = bytes[..range.start].iter().chain(&bytes[range.end..]);
        assert!(outside.into_iter().all(|&byte| byte == 7));
        // Nothing that is whole.
        discard(&mut [MaybeUninit::uninit(); 100]);
    }
}
