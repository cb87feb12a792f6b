//! Asking for lines that will be read soon.

use crate::{LINE_BYTES, arch};

/// Asks the processor for the first `lines` lines of `bytes`, and goes on at once. It may bring them into its caches or not; no
/// result depends on it. Emulated far memory does not notice: it lets a read in order wait for no line but the first.
#[inline]
pub fn prefetch(bytes: &[u8], lines: usize) {
    let first = bytes.len().min(lines.saturating_mul(LINE_BYTES));
    for line in bytes[..first].chunks(LINE_BYTES) {
        arch::prefetch(line.as_ptr());
    }
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
