//! Binding memory to a NUMA node.

use std::io;

use crate::topology::NodeId;

/// Binds the pages of a mapped range to one NUMA node, those not yet touched included.
///
/// # Safety
/// `[start, start + len_bytes)` must be mapped and owned by the caller.
pub(crate) unsafe fn bind(start: *mut u8, len_bytes: usize, node: NodeId) -> io::Result<()> {
    /// Moves pages already touched, as <linux/mempolicy.h> numbers it.
    const MPOL_MF_MOVE: libc::c_uint = 2;
    const WORD_BITS: usize = u64::BITS as usize;
    const MASK_WORDS: usize = 1024 / WORD_BITS;
    let mut mask = [0u64; MASK_WORDS];
    let Some(word) = mask.get_mut(usize::from(node.0) / WORD_BITS) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    *word |= 1 << (usize::from(node.0) % WORD_BITS);
    // The kernel reads one bit less than `maxnode` says.
    let mask_bits = MASK_WORDS * WORD_BITS + 1;
    // SAFETY: mbind changes the placement of the caller's pages, not their content; the mask outlives
    // the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            len_bytes,
            libc::MPOL_BIND,
            mask.as_ptr(),
            mask_bits,
            MPOL_MF_MOVE,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
