//! Room in near memory: what is cold goes far before it is needed.

use tierra_index::Slot;
use tierra_memory::Speed;
use tierra_memory::placement::Heat;
use tierra_memory::slab::FetchStep;

use super::super::DATABASES;
use super::super::db::Table;
use super::super::heap::Heap;
use super::super::large::Larges;
use super::super::order::Order;
use super::super::policy::Policy;
use super::hand::{Hand, Tables};
use super::{MOVED_BYTES_MAX, Migration, STEP_BYTES_MAX, TICK_GROUPS};

/// The part of the near budget that is kept free, half of it for new records alone, half for those that become hot as well.
const FREE_PART: u64 = 256;
/// And at least as many bytes of it, or an eighth where that is less.
const FREE_BYTES_MIN: u64 = 256 << 10;
/// Groups that are searched for cold records before a window, at most.
const SEARCHED_GROUPS: u64 = 16;
/// Groups that are fetched for the next search.
const FETCHED_GROUPS: usize = 4;
/// Records that leave before a window, at most.
const LEAVING_MAX: usize = 8;
/// Bytes that move before a window at least, as far as that search finds them, while pages are emptied.
const CLEARED_BYTES: u64 = 1 << 10;

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

    /// As it will be when some have left.
    fn with(mut self, leaving: &[Leaving]) -> Free {
        self.bytes += bytes_of(leaving);
        self
    }

    /// What is kept free.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }

    /// Twice as much as is kept free.
    pub(super) fn is_plenty(&self) -> bool {
        self.bytes / 2 >= self.wanted_bytes
    }

    fn is_enough(&self) -> bool {
        self.bytes >= self.wanted_bytes
    }

    pub(in super::super) fn is_half(&self) -> bool {
        self.bytes >= self.wanted_bytes / 2
    }
}

/// A cold record that was chosen to go far, and the group that names it.
///
/// It goes before the next window: until then what the move reads, the record and what the memory knows of its place, is
/// fetched. A move of a record of a thousand bytes takes half as long then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    hand: Hand,
    record: u64,
    bytes: u64,
}

fn bytes_of(leaving: &[Leaving]) -> u64 {
    leaving.iter().map(|each| each.bytes).sum()
}

impl Migration {
    /// Keeps near memory free for what comes: sends far what was chosen before the last window, and chooses something
    /// cold if there is less room than is kept free; more if it lacks half of that, or when the clock asks (`ticks`). Moves
    /// something out of pages that are to become empty.
    #[inline]
    pub(in super::super) fn make_room(
        &mut self,
        tables: &mut [Table; DATABASES],
        larges: &mut Larges,
        heap: &mut Heap,
        ticks: bool,
    ) {
        if heap.chooser.settings.policy != Policy::Dynamic {
            return;
        }
        let tables = &mut Tables {
            tables,
            larges,
            heap,
        };
        if !self.leaving.is_empty() {
            self.send_far(tables);
        }
        if self.is_stuck || (Free::now(tables.heap).is_enough() && !self.clearing.is_on()) {
            return;
        }
        if ticks {
            self.search_at_once(tables);
        } else {
            self.search(tables);
        }
    }

    /// Chooses one cold record, or several if room lacks half of what it should be, to go far before the next window.
    #[cold]
    fn search(&mut self, tables: &mut Tables<'_>) {
        let bytes_before = self.done.bytes;
        for _ in 0..SEARCHED_GROUPS {
            let moved_bytes = self.done.bytes - bytes_before;
            if self.is_stuck || !self.pace.allows() || moved_bytes > STEP_BYTES_MAX {
                return;
            }
            self.search_group(tables);
            let bytes = self.done.bytes - bytes_before + bytes_of(&self.leaving);
            let is_little = bytes == 0 || (self.clearing.is_on() && bytes < CLEARED_BYTES);
            if !is_little && Free::now(tables.heap).with(&self.leaving).is_half() {
                break;
            }
        }
        tables.fetch(self.search, FETCHED_GROUPS);
    }

    /// Sends cold records far until there is room enough, for about a millisecond.
    fn search_at_once(&mut self, tables: &mut Tables<'_>) {
        let bytes_before = self.done.bytes;
        for _ in 0..TICK_GROUPS {
            let moved_bytes = self.done.bytes - bytes_before;
            let is_done = Free::now(tables.heap).is_enough() && !self.clearing.is_on();
            if self.is_stuck || is_done || !self.pace.allows() || moved_bytes > STEP_BYTES_MAX {
                break;
            }
            self.search_group(tables);
            self.send_far(tables);
        }
        // After a round in vain windows search no more until a tick has found something.
        self.is_stuck |= self.is_search_vain && self.done.bytes == bytes_before;
    }

    fn search_group(&mut self, tables: &mut Tables<'_>) {
        let (hand, bytes_before) = (self.search, self.done.bytes);
        // Behind the round's hand heats are halved already.
        let is_aged = self.ages() && hand < self.round;
        let lacks_room = !Free::now(tables.heap).with(&self.leaving).is_enough();
        let (point, _) = tables.visit(hand, 1, |slot, order, heap| {
            let mut heat = Heat::from_bits(slot.note());
            if is_aged {
                heat = heat.younger();
            }
            if heap.speed(slot.record()) == Speed::Near {
                self.look_at(slot, order, heap, heat, lacks_room.then_some(hand));
            }
        });
        if tables.advance(&mut self.search, point) {
            self.end_time_around();
            // Where room is not lacking, the end of what is searched for is seen by times around.
            self.is_stuck |= self.is_search_vain && lacks_room;
            self.is_search_vain = true;
        }
        if !self.leaving.is_empty() || self.done.bytes > bytes_before {
            self.is_search_vain = false;
        }
    }

    /// Looks at an entry whose record is near: moves that out of a page that is to become empty, or chooses it if it is cold and
    /// room is `lacking` where it is.
    fn look_at(
        &mut self,
        slot: Slot<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        heat: Heat,
        lacking: Option<Hand>,
    ) {
        let record = slot.record();
        let leaves = self.border.repels(heat) && self.leaving.len() < LEAVING_MAX;
        let chosen = lacking.filter(|_| leaves);
        let is_vacated = self.clearing.is_on() && heap.is_vacated(record);
        let is_met = self.is_sample();
        if chosen.is_none() && !is_vacated && !is_met {
            return;
        }
        // Sizes lie in memory of their own: of most records none is asked for.
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        let bytes = bytes as u64;
        if is_met {
            self.border.meet(heat, bytes);
        }
        if is_vacated {
            if self.pace.allows()
                && let Some(to) = self.way_out(record, heat, heap)
            {
                let before = self.done.compacted;
                self.move_to(to, slot, order, heap);
                self.clearing.moved += self.done.compacted - before;
            }
        } else if let Some(hand) = chosen {
            self.leaving.push(Leaving {
                hand,
                record,
                bytes,
            });
            heap.fetch(record);
        }
    }

    /// Has the second step of fetching follow the first, now that the look-ups of a window have been made.
    #[inline]
    pub(in super::super) fn go_on_fetching(&self, heap: &Heap) {
        for leaving in &self.leaving {
            heap.fetch_books(leaving.record, FetchStep::Second);
        }
    }

    /// Moves far what was chosen, if it is still where it was.
    fn send_far(&mut self, tables: &mut Tables<'_>) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for Leaving { hand, record, .. } in leaving.drain(..) {
            tables.visit(hand, 1, |slot, order, heap| {
                if slot.record() == record {
                    self.move_to(Speed::Far, slot, order, heap);
                }
            });
        }
        self.leaving = leaving;
    }
}
