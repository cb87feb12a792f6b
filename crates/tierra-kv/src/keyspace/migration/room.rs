//! Room in near memory: what is cold goes far before it is needed.

use tierra_index::SlotMut;
use tierra_memory::Speed;
use tierra_memory::slab::FetchStep;

use super::super::free::Free;
use super::super::heap::{Heap, MOVED_BYTES_MAX};
use super::super::settings::Policy;
use super::super::store::Store;
use super::hand::Hand;
use super::mover::{Mover, TICK_GROUPS, has_many, heat_before};

/// Groups that are searched for cold records before a window, at most, besides one for every eight of its keys...
const SEARCHED_GROUPS: usize = 16;
const KEYS_PER_GROUP: usize = 8;
/// ...and at least, one for as many keys.
const KEYS_PER_GROUP_LEAST: usize = 16;
/// Groups that are fetched for the next search.
const FETCHED_GROUPS: usize = 4;
/// Records that are fetched to leave before the next window, at most: where more have to, they leave at once.
const LEAVING_MAX: usize = 8;

/// A cold record that was chosen to go far, and the group that names it.
///
/// It goes before the next window: until then what the move reads, the record and what the memory knows of its place, is
/// fetched.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    hand: Hand,
    record: u64,
    bytes: u64,
}

/// What is cold and near.
#[derive(Default)]
pub(super) struct Search {
    hand: Hand,
    /// Chosen to go far before the next window.
    leaving: Vec<Leaving>,
    /// The search has found nothing to move since its round began.
    is_vain: bool,
}

impl Search {
    /// Keeps near memory free for what comes: sends far what was chosen before the last window, and chooses something
    /// cold if there is less room than is kept free; more if it lacks half of that. Before a window of so many keys, or because the
    /// clock asks.
    #[inline]
    pub(super) fn make_room(&mut self, mover: &mut Mover, store: &mut Store, keys: Option<usize>) {
        if store.heap.chooser.settings.policy != Policy::Dynamic {
            return;
        }
        if !self.leaving.is_empty() {
            self.send_far(mover, store);
        }
        if mover.is_stuck || Free::now(&store.heap.memory).is_enough() {
            return;
        }
        match keys {
            Some(keys) => self.search(mover, store, keys),
            None => self.search_at_once(mover, store),
        }
    }

    /// Bytes of what was chosen.
    fn leaving_bytes(&self) -> u64 {
        self.leaving.iter().map(|each| each.bytes).sum()
    }

    /// Chooses the cold records of a group, or of several if the window is wide or room lacks half of what it should be, to go far
    /// before the next one.
    #[cold]
    fn search(&mut self, mover: &mut Mover, store: &mut Store, keys: usize) {
        let least = keys / KEYS_PER_GROUP_LEAST;
        for searched in 1..=SEARCHED_GROUPS + keys / KEYS_PER_GROUP {
            if mover.is_stuck || !mover.pace.allows() {
                return;
            }
            self.search_group(mover, store);
            let free = Free::now(&store.heap.memory).without(self.leaving_bytes());
            let is_found = !self.leaving.is_empty() && free.is_half() && searched >= least;
            if is_found || free.is_enough() {
                break;
            }
            if self.leaving.len() == LEAVING_MAX {
                self.send_far(mover, store);
            }
        }
        self.hand.fetch(store, FETCHED_GROUPS);
    }

    /// Sends cold records far until there is room enough, for about a millisecond.
    fn search_at_once(&mut self, mover: &mut Mover, store: &mut Store) {
        let far_before = mover.rounds.done().to_far;
        for _ in 0..TICK_GROUPS {
            if mover.is_stuck || !mover.pace.allows() || Free::now(&store.heap.memory).is_enough() {
                break;
            }
            self.search_group(mover, store);
            self.send_far(mover, store);
        }
        // After a round in vain windows search no more until a tick has found something.
        mover.is_stuck |= self.is_vain && mover.rounds.done().to_far == far_before;
    }

    fn search_group(&mut self, mover: &mut Mover, store: &mut Store) {
        let hand = self.hand;
        let is_aged = mover.is_aged(hand);
        let (point, _) = hand.visit(store, 1, |slot, _, heap| {
            self.choose(mover, &slot, heap, is_aged);
        });
        if self.hand.advance(store, point) {
            mover.is_stuck |= self.is_vain;
            self.is_vain = true;
        }
        if !self.leaving.is_empty() {
            self.is_vain = false;
        }
    }

    /// Looks at an entry, and chooses its record if that is near and cold.
    fn choose(&mut self, mover: &mut Mover, slot: &SlotMut<'_>, heap: &Heap, is_aged: bool) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far {
            return;
        }
        let heat = heat_before(slot, is_aged);
        let is_chosen = mover.rounds.repels(heat) && self.leaving.len() < LEAVING_MAX;
        let is_met = !has_many(heap) || mover.is_sample();
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
            mover.rounds.meet(heat, bytes);
        }
        if is_chosen {
            self.leaving.push(Leaving {
                hand: self.hand,
                record,
                bytes,
            });
            heap.fetch(record);
        }
    }

    /// Has the second step of fetching follow the first, now that the lookups of a window have been made.
    #[inline]
    pub(super) fn go_on_fetching(&self, heap: &Heap) {
        for leaving in &self.leaving {
            heap.fetch_books(leaving.record, FetchStep::Second);
        }
    }

    /// Moves far what was chosen, if it is still where it was, and cold.
    fn send_far(&mut self, mover: &mut Mover, store: &mut Store) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for Leaving { hand, record, .. } in leaving.drain(..) {
            let is_aged = mover.is_aged(hand);
            hand.visit(store, 1, |slot, order, heap| {
                let is_chosen = slot.record() == record;
                if is_chosen && mover.rounds.repels(heat_before(&slot, is_aged)) {
                    mover.move_to(Speed::Far, slot, order, heap);
                }
            });
        }
        self.leaving = leaving;
    }
}
