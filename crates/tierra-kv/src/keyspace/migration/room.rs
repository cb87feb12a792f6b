//! Room in near memory: what is cold goes far before it is needed.

use tierra_index::Slot;
use tierra_memory::Speed;
use tierra_memory::placement::Heat;
use tierra_memory::slab::FetchStep;

use super::super::DATABASES;
use super::super::db::Table;
use super::super::heap::Heap;
use super::super::large::Larges;
use super::super::settings::Policy;
use super::hand::{Hand, Tables};
use super::{MOVED_BYTES_MAX, Migration, TICK_GROUPS, has_many};

/// The part of the near budget that is kept free, half of it for new records alone, half for those that become hot as well.
const FREE_PART: u64 = 256;
/// And at least as many bytes of it, or an eighth where that is less.
const FREE_BYTES_MIN: u64 = 256 << 10;
/// Groups that are searched for cold records before a window, at most, besides one for every eight of its keys...
const SEARCHED_GROUPS: usize = 16;
const KEYS_PER_GROUP: usize = 8;
/// ...and at least, one for as many keys.
const KEYS_PER_GROUP_LEAST: usize = 16;
/// Groups that are fetched for the next search.
const FETCHED_GROUPS: usize = 4;
/// Records that are fetched to leave before the next window, at most: where more have to, they leave at once.
const LEAVING_MAX: usize = 8;

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
        self.bytes += leaving.iter().map(|each| each.bytes).sum::<u64>();
        self
    }

    pub(super) fn is_enough(&self) -> bool {
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

/// A cold record that was chosen to go far, and the group that names it.
///
/// It goes before the next window: until then what the move reads, the record and what the memory knows of its place, is
/// fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    hand: Hand,
    record: u64,
    bytes: u64,
}

/// The heat of an entry before it was halved in this round, if it was.
pub(super) fn heat_before(slot: &Slot<'_>, is_aged: bool) -> Heat {
    let heat = Heat::from_bits(slot.note());
    if is_aged { heat.younger() } else { heat }
}

impl Migration {
    /// Keeps near memory free for what comes: sends far what was chosen before the last window, and chooses something
    /// cold if there is less room than is kept free; more if it lacks half of that. Before a window of so many keys, or because the
    /// clock asks.
    #[inline]
    pub(in super::super) fn make_room(
        &mut self,
        tables: &mut [Table; DATABASES],
        larges: &mut Larges,
        heap: &mut Heap,
        keys: Option<usize>,
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
        if self.is_stuck || Free::now(tables.heap).is_enough() {
            return;
        }
        match keys {
            Some(keys) => self.search(tables, keys),
            None => self.search_at_once(tables),
        }
    }

    /// Chooses the cold records of a group, or of several if the window is wide or room lacks half of what it should be, to go far
    /// before the next one.
    #[cold]
    fn search(&mut self, tables: &mut Tables<'_>, keys: usize) {
        let least = keys / KEYS_PER_GROUP_LEAST;
        for searched in 1..=SEARCHED_GROUPS + keys / KEYS_PER_GROUP {
            if self.is_stuck || !self.pace.allows() {
                return;
            }
            self.search_group(tables);
            let free = Free::now(tables.heap).with(&self.leaving);
            let is_found = !self.leaving.is_empty() && free.is_half() && searched >= least;
            if is_found || free.is_enough() {
                break;
            }
            if self.leaving.len() == LEAVING_MAX {
                self.send_far(tables);
            }
        }
        tables.fetch(self.search, FETCHED_GROUPS);
    }

    /// Sends cold records far until there is room enough, for about a millisecond.
    fn search_at_once(&mut self, tables: &mut Tables<'_>) {
        let far_before = self.rounds.done().to_far;
        for _ in 0..TICK_GROUPS {
            if self.is_stuck || !self.pace.allows() || Free::now(tables.heap).is_enough() {
                break;
            }
            self.search_group(tables);
            self.send_far(tables);
        }
        // After a round in vain windows search no more until a tick has found something.
        self.is_stuck |= self.is_search_vain && self.rounds.done().to_far == far_before;
    }

    fn search_group(&mut self, tables: &mut Tables<'_>) {
        let hand = self.search;
        let is_aged = self.is_aged(hand);
        let (point, _) = tables.visit(hand, 1, |slot, _, heap| {
            self.choose(&slot, hand, heap, is_aged);
        });
        if tables.advance(&mut self.search, point) {
            self.is_stuck |= self.is_search_vain;
            self.is_search_vain = true;
        }
        if !self.leaving.is_empty() {
            self.is_search_vain = false;
        }
    }

    /// Looks at an entry, and chooses its record if that is near and cold.
    fn choose(&mut self, slot: &Slot<'_>, hand: Hand, heap: &Heap, is_aged: bool) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far {
            return;
        }
        let heat = heat_before(slot, is_aged);
        let is_chosen = self.rounds.repels(heat) && self.leaving.len() < LEAVING_MAX;
        let is_met = !has_many(heap) || self.is_sample();
        if !is_chosen && !is_met {
            return;
        }
        // Sizes lie in memory of their own: of most records none is asked for.
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        let bytes = bytes as u64;
        if is_met {
            self.rounds.meet(heat, bytes);
        }
        if is_chosen {
            self.leaving.push(Leaving {
                hand,
                record,
                bytes,
            });
            heap.fetch(record);
        }
    }

    /// Has the second step of fetching follow the first, now that the lookups of a window have been made.
    #[inline]
    pub(in super::super) fn go_on_fetching(&self, heap: &Heap) {
        for leaving in &self.leaving {
            heap.fetch_books(leaving.record, FetchStep::Second);
        }
    }

    /// Moves far what was chosen, if it is still where it was, and cold.
    fn send_far(&mut self, tables: &mut Tables<'_>) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for Leaving { hand, record, .. } in leaving.drain(..) {
            let is_aged = self.is_aged(hand);
            tables.visit(hand, 1, |slot, order, heap| {
                let is_chosen = slot.record() == record;
                if is_chosen && self.rounds.repels(heat_before(&slot, is_aged)) {
                    self.move_to(Speed::Far, slot, order, heap);
                }
            });
        }
        self.leaving = leaving;
    }

    /// Whether heats at a hand have been halved in this round.
    pub(super) fn is_aged(&self, hand: Hand) -> bool {
        self.rounds.has_aged(hand, self.round)
    }
}
