//! Room in near memory: what is cold goes far before it is needed.

use tierra_index::Slot;
use tierra_memory::Speed;
use tierra_memory::placement::Heat;

use super::super::DATABASES;
use super::super::db::Table;
use super::super::heap::Heap;
use super::super::large::Larges;
use super::super::order::Order;
use super::super::policy::Policy;
use super::hand::Tables;
use super::{MOVED_BYTES_MAX, Migration, TICK_GROUPS};

/// The part of the near budget that is kept free, half of it for new records alone, half for those that become hot as well.
const FREE_PART: u64 = 256;
/// And at least as many bytes of it, or an eighth where that is less.
const FREE_BYTES_MIN: u64 = 256 << 10;
/// Groups that are searched for cold records at a time...
const SEARCHED_GROUPS: usize = 4;
/// ...and as often as that before a window, at most.
const SEARCHES: u64 = 4;
/// Searches in vain after which there seems to be nothing that could move.
const VAIN_SEARCHES: u32 = 4096;
/// How much near memory is free.
pub(in super::super) struct Free {
    bytes: u64,
    wanted_bytes: u64,
}

impl Free {
    #[inline]
    pub(in super::super) fn now(heap: &Heap) -> Free {
        let near = heap.memory.used(Speed::Near);
        // Vacant slots count as free, though other sizes may have no use for them: those that lack pages have them emptied
        // (`pages.rs`). None counts where a limit has been lowered below what is held, until enough pages are empty.
        let below_limit = near.limit_bytes.checked_sub(near.held_bytes);
        Free {
            bytes: below_limit.map_or(0, |bytes| bytes.saturating_add(near.vacant_bytes)),
            wanted_bytes: (near.limit_bytes / FREE_PART)
                .max(FREE_BYTES_MIN.min(near.limit_bytes / 8)),
        }
    }

    fn is_enough(&self) -> bool {
        self.bytes >= self.wanted_bytes
    }

    pub(in super::super) fn is_half(&self) -> bool {
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

impl Migration {
    /// Moves something cold far where near memory lacks the room that is kept free; more if it lacks half of that, or when the
    /// clock asks (`ticks`).
    #[inline]
    pub(in super::super) fn make_room(
        &mut self,
        tables: &mut [Table; DATABASES],
        larges: &mut Larges,
        heap: &mut Heap,
        ticks: bool,
    ) {
        let is_dynamic = heap.chooser.settings.policy == Policy::Dynamic;
        if is_dynamic && !self.is_stuck && !Free::now(heap).is_enough() {
            let tables = &mut Tables {
                tables,
                larges,
                heap,
            };
            if ticks {
                self.search(
                    tables,
                    TICK_GROUPS / SEARCHED_GROUPS as u64,
                    Free::is_enough,
                );
            } else {
                // One after the other: far memory takes its time for each.
                self.search(tables, SEARCHES, Free::is_half);
            }
        }
    }

    /// Searches so many times at most, until something has moved and there is room enough.
    #[cold]
    fn search(&mut self, tables: &mut Tables<'_>, searches: u64, is_enough: fn(&Free) -> bool) {
        for _ in 0..searches {
            if self.is_stuck || !self.pace.allows() {
                return;
            }
            let far_before = self.done.to_far;
            // Behind the round's hand heats are halved already.
            let is_aged = self.ages() && self.search < self.round;
            let (point, _) = tables.visit(self.search, SEARCHED_GROUPS, |slot, order, heap| {
                self.send_far(slot, order, heap, is_aged);
            });
            tables.advance(&mut self.search, point);
            self.vain_searches = if self.done.to_far == far_before {
                self.vain_searches + 1
            } else {
                0
            };
            self.is_stuck |= self.vain_searches >= VAIN_SEARCHES;
            if self.vain_searches == 0 && is_enough(&Free::now(tables.heap)) {
                return;
            }
        }
    }

    /// Looks at an entry, and moves its record far if that is near and cold.
    fn send_far(
        &mut self,
        slot: Slot<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        is_aged: bool,
    ) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far {
            return;
        }
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        let mut heat = Heat::from_bits(slot.note());
        if is_aged {
            heat = heat.younger();
        }
        self.border.meet(heat, bytes as u64);
        if self.border.repels(heat) && self.pace.allows() {
            self.move_to(Speed::Far, slot, order, heap);
        }
    }
}
