//! The content of a superblock: the publications of its two slots, and their lines. `publication.rs` writes them.

use std::iter;

use super::extent::Extent;
use super::layout::{HEADER_OFFSETS, LineBytes, PoolHeader, SLOT_OFFSETS, SuperblockSlot};

/// The current publication, and the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    /// By number. One that cannot be read is `None`, where the other was asked for.
    pub(super) slots: [Option<SuperblockSlot>; 2],
    /// The valid, current one of them.
    pub(super) current: SuperblockSlot,
}

impl Publication {
    /// Of a new pool: both slots say that there is no root.
    pub(super) fn none(pool_id: u64) -> Publication {
        let slots = [0, 1].map(|sequence| SuperblockSlot {
            sequence,
            root_offset: 0,
            root_bytes: 0,
            pool_bytes: 0,
            pool_id,
            version: 0,
            root_crc: 0,
        });
        Publication {
            slots: slots.map(Some),
            current: slots[1],
        }
    }

    pub(super) fn new(slots: [Option<SuperblockSlot>; 2], current: SuperblockSlot) -> Publication {
        Publication { slots, current }
    }

    pub(super) fn root(&self) -> Option<Extent> {
        (self.current.root_offset > 0).then_some(Extent {
            offset: self.current.root_offset,
            len_bytes: self.current.root_bytes,
        })
    }

    /// Bytes that the file must have.
    pub(super) fn pool_bytes(&self) -> u64 {
        self.current.pool_bytes
    }

    /// Of the next publication: higher than any that a slot may hold, and of the slot that is not current. `None` if
    /// there is none, which only a forged slot can bring about.
    pub(super) fn next_sequence(&self) -> Option<u64> {
        let known = self.slots.iter().flatten().map(|slot| slot.sequence);
        let newest = known.max().unwrap_or(self.current.sequence);
        // The unreadable one, if it was newer, followed the newest readable one.
        let step = if self.slots.contains(&None) { 3 } else { 1 };
        let next = newest.checked_add(step)?;
        match next % 2 == self.current.sequence % 2 {
            true => next.checked_add(1),
            false => Some(next),
        }
    }

    pub(super) fn publish(&mut self, slot: SuperblockSlot) {
        self.slots[(slot.sequence % 2) as usize] = Some(slot);
        self.current = slot;
    }

    /// Every line of header and superblock as it is to be, and where.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, LineBytes)> + use<> {
        let header = PoolHeader {
            pool_id: self.current.pool_id,
        };
        let headers = HEADER_OFFSETS.map(|at| (at, header.encode()));
        let slots = iter::zip(SLOT_OFFSETS, self.slots);
        let slots = slots.filter_map(|(offsets, slot)| {
            let line = slot?.encode();
            Some(offsets.map(|at| (at, line)))
        });
        headers.into_iter().chain(slots.flatten())
    }
}
