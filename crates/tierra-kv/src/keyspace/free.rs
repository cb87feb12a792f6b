//! How much near memory is free, of what is to be kept free.

use tierra_memory::Speed;
use tierra_memory::slab::RecordMemory;

/// The part of the near budget that is kept free, half of it for new records alone, half for those that become hot as well.
const FREE_PART: u64 = 256;
/// And at least as many bytes of it, or an eighth where that is less.
const FREE_BYTES_MIN: u64 = 256 << 10;
/// How much near memory is free.
pub(super) struct Free {
    bytes: u64,
    wanted_bytes: u64,
}

impl Free {
    #[inline]
    pub(super) fn now(memory: &RecordMemory) -> Free {
        let near = memory.used(Speed::Near);
        // Vacant slots count as free, though other sizes may have no use for them: those that lack pages have them emptied
        // (`migration/pages.rs`). None counts where a limit has been lowered below what is held, until enough pages are empty.
        let below_limit = near.limit_bytes.checked_sub(near.held_bytes);
        Free {
            bytes: below_limit.map_or(0, |bytes| bytes.saturating_add(near.vacant_bytes)),
            wanted_bytes: (near.limit_bytes / FREE_PART)
                .max(FREE_BYTES_MIN.min(near.limit_bytes / 8)),
        }
    }

    /// As it will be when so many bytes have left.
    pub(super) fn without(mut self, bytes: u64) -> Free {
        self.bytes += bytes;
        self
    }

    pub(super) fn is_enough(&self) -> bool {
        self.bytes >= self.wanted_bytes
    }

    pub(super) fn is_half(&self) -> bool {
        self.bytes >= self.wanted_bytes / 2
    }

    /// Twice as much as is kept free.
    pub(super) fn is_plenty(&self) -> bool {
        self.bytes / 2 >= self.wanted_bytes
    }

    /// What is kept free.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }
}
