//! Demotion: cold records are moved far before their room is needed.

use tierra_index::SlotMut;
use tierra_memory::Speed;
use tierra_memory::slab::FetchStep;

use super::super::headroom::Headroom;
use super::super::heap::{Heap, MOVED_BYTES_MAX};
use super::super::settings::Policy;
use super::super::store::Store;
use super::hand::Hand;
use super::mover::{Mover, TICK_GROUPS, has_many, heat_before};

/// Groups that are searched for cold records before a window, at most, besides one for every eight of its keys...
const SEARCHED_GROUPS: usize = 16;
const KEYS_PER_GROUP: usize = 8;
/// ...and at least, one for as many keys.
const MIN_KEYS_PER_GROUP: usize = 16;
/// Groups that are prefetched for the next search.
const FETCHED_GROUPS: usize = 4;
/// The most records that are prefetched and demoted before the next window. If more are needed, they are demoted at once.
const MAX_PENDING: usize = 8;

/// A cold record chosen for demotion, and the group of its entry.
///
/// It is demoted before the next window. Until then the record and the allocator's metadata of it, which the move reads, are
/// prefetched.
#[derive(Clone, Copy, Debug)]
struct Demotion {
    hand: Hand,
    record: u64,
    bytes: u64,
}

/// The search for cold near records.
#[derive(Default)]
pub(super) struct DemotionSearch {
    hand: Hand,
    /// To be demoted before the next window.
    pending: Vec<Demotion>,
    /// The search has found nothing to move since its round began.
    is_fruitless: bool,
}

impl DemotionSearch {
    /// Keeps near memory free: demotes what was chosen before the last window, and chooses cold records if there is less room
    /// than is kept free; more of them if half of that is missing. Called before a window of `keys` keys, or periodically with
    /// `None`.
    #[inline]
    pub(super) fn make_room(&mut self, mover: &mut Mover, store: &mut Store, keys: Option<usize>) {
        if store.heap.chooser.settings.policy != Policy::Dynamic {
            return;
        }
        if !self.pending.is_empty() {
            self.demote_pending(mover, store);
        }
        if mover.is_stuck || Headroom::now(&store.heap.memory).is_enough() {
            return;
        }
        match keys {
            Some(keys) => self.search(mover, store, keys),
            None => self.search_at_once(mover, store),
        }
    }

    /// Bytes of the records chosen.
    fn pending_bytes(&self) -> u64 {
        self.pending.iter().map(|each| each.bytes).sum()
    }

    /// Chooses the cold records of a group for demotion before the next window, or of several groups if the window is wide or
    /// half of the room to be kept free is missing.
    #[cold]
    fn search(&mut self, mover: &mut Mover, store: &mut Store, keys: usize) {
        let least = keys / MIN_KEYS_PER_GROUP;
        for searched in 1..=SEARCHED_GROUPS + keys / KEYS_PER_GROUP {
            if mover.is_stuck || !mover.pace.allows() {
                return;
            }
            self.search_group(mover, store);
            let free = Headroom::now(&store.heap.memory).without(self.pending_bytes());
            let is_found = !self.pending.is_empty() && free.is_half() && searched >= least;
            if is_found || free.is_enough() {
                break;
            }
            if self.pending.len() == MAX_PENDING {
                self.demote_pending(mover, store);
            }
        }
        self.hand.fetch(store, FETCHED_GROUPS);
    }

    /// Demotes cold records until there is enough room, for about a millisecond.
    fn search_at_once(&mut self, mover: &mut Mover, store: &mut Store) {
        let far_before = mover.rounds.done().to_far;
        for _ in 0..TICK_GROUPS {
            if mover.is_stuck
                || !mover.pace.allows()
                || Headroom::now(&store.heap.memory).is_enough()
            {
                break;
            }
            self.search_group(mover, store);
            self.demote_pending(mover, store);
        }
        // After a fruitless round, windows do not search until a tick has found something.
        mover.is_stuck |= self.is_fruitless && mover.rounds.done().to_far == far_before;
    }

    fn search_group(&mut self, mover: &mut Mover, store: &mut Store) {
        let hand = self.hand;
        let is_aged = mover.is_aged(hand);
        let (point, _) = hand.visit(store, 1, |slot, _, heap| {
            self.choose(mover, &slot, heap, is_aged);
        });
        if self.hand.advance(store, point) {
            mover.is_stuck |= self.is_fruitless;
            self.is_fruitless = true;
        }
        if !self.pending.is_empty() {
            self.is_fruitless = false;
        }
    }

    /// Visits an entry, and chooses its record if that is near and cold.
    fn choose(&mut self, mover: &mut Mover, slot: &SlotMut<'_>, heap: &Heap, is_aged: bool) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far {
            return;
        }
        let heat = heat_before(slot, is_aged);
        let is_chosen = mover.rounds.should_demote(heat) && self.pending.len() < MAX_PENDING;
        let is_met = !has_many(heap) || mover.is_sample();
        if !is_chosen && !is_met {
            return;
        }
        // A size is a load of its own, so it is not read for most records.
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        let bytes = bytes as u64;
        if is_met {
            mover.rounds.observe(heat, bytes);
        }
        if is_chosen {
            self.pending.push(Demotion {
                hand: self.hand,
                record,
                bytes,
            });
            heap.fetch(record);
        }
    }

    /// The second step of prefetching, after the lookups of a window.
    #[inline]
    pub(super) fn continue_prefetch(&self, heap: &Heap) {
        for pending in &self.pending {
            heap.prefetch_metadata(pending.record, FetchStep::Second);
        }
    }

    /// Demotes the records chosen, if they are still where they were, and cold.
    fn demote_pending(&mut self, mover: &mut Mover, store: &mut Store) {
        let mut pending = std::mem::take(&mut self.pending);
        for Demotion { hand, record, .. } in pending.drain(..) {
            let is_aged = mover.is_aged(hand);
            hand.visit(store, 1, |slot, order, heap| {
                let is_chosen = slot.record() == record;
                if is_chosen && mover.rounds.should_demote(heat_before(&slot, is_aged)) {
                    mover.move_to(Speed::Far, slot, order, heap);
                }
            });
        }
        self.pending = pending;
    }
}
