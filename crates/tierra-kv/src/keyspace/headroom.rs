//! The free near memory, compared with what is to be kept free.

use tierra_memory::Speed;
use tierra_memory::slab::RecordMemory;

/// The part of the near budget that is kept free, half of it for new records alone, half for those that become hot as well.
const FREE_PART: u64 = 256;
/// And at least as many bytes of it, or an eighth where that is less.
const FREE_BYTES_MIN: u64 = 256 << 10;
/// How much near memory is free.
pub(super) struct Headroom {
    bytes: u64,
    wanted_bytes: u64,
}

impl Headroom {
    #[inline]
    pub(super) fn now(memory: &RecordMemory) -> Headroom {
        let near = memory.used(Speed::Near);
        // Vacant slots count as free, although other sizes cannot use them: sizes that lack pages get some by evacuation
        // (`migration/evacuation.rs`). None counts if the limit was lowered below what is held, until enough pages are empty.
        let below_limit = near.limit_bytes.checked_sub(near.held_bytes);
        Headroom {
            bytes: below_limit.map_or(0, |bytes| bytes.saturating_add(near.vacant_bytes)),
            wanted_bytes: (near.limit_bytes / FREE_PART)
                .max(FREE_BYTES_MIN.min(near.limit_bytes / 8)),
        }
    }

    /// The headroom after as many bytes have been demoted.
    pub(super) fn without(mut self, bytes: u64) -> Headroom {
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
