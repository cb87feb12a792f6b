//! Asking for lines that will be read soon.

use crate::{LINE_BYTES, arch, emulation};

/// Asks the processor for the first `lines` lines of `bytes`, and goes on at once. It may bring them into its caches or not; no
/// result depends on it. From emulated far memory they are on their way from now on, and the next read in order of what begins there
/// ([`begin_read`](emulation::begin_read)) takes the bandwidth of the rest alone.
#[inline]
pub fn prefetch(bytes: &[u8], lines: usize) {
    let first = bytes.len().min(lines.saturating_mul(LINE_BYTES));
    let bytes = &bytes[..first];
    for line in bytes.chunks(LINE_BYTES) {
        arch::prefetch(line.as_ptr());
    }
    emulation::prefetched(bytes);
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_is_asked_for_beyond_the_end() {
        for len in [0, 1, 64, 65, 200] {
            let bytes = vec![7_u8; len];
            for lines in [0, 1, 2, 1_000, usize::MAX] {
                super::prefetch(&bytes, lines);
            }
        }
    }
}
