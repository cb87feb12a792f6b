//! How many values a mini-block has.

use crate::bits::BLOCK_LEN;

/// Values in a mini-block: a power of 2 of at least 64, so that mini-blocks are whole words of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MiniLen {
    M64,
    M128,
}

impl MiniLen {
    /// Values in a mini-block.
    #[inline(always)]
    pub(crate) const fn values(self) -> usize {
        match self {
            MiniLen::M64 => 64,
            MiniLen::M128 => 128,
        }
    }

    /// Bytes of the widths of a block: one for each mini-block.
    #[inline(always)]
    pub(crate) const fn header_bytes(self) -> usize {
        BLOCK_LEN / self.values()
    }

    /// Bytes of a full mini-block.
    #[inline(always)]
    pub(crate) const fn full_bytes(self, width: u8) -> usize {
        self.values() / 8 * width as usize
    }

    /// Values of mini-block `mini` of a block of `rows` rows.
    pub(crate) fn rows(self, rows: usize, mini: usize) -> usize {
        rows.saturating_sub(mini * self.values()).min(self.values())
    }
}
