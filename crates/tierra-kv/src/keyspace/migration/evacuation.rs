//! Pages of near memory for records of sizes that have no vacant slots there.
//!
//! Demoted records leave vacant slots, which only records of their own size can use. If new or hot records of other sizes find
//! no room because of it, some spans of slots are chosen, and a clock hand of its own evacuates them: cold records are demoted,
//! the rest move to vacant slots of their size, for which cold records elsewhere are demoted. So near memory holds records as
//! hot as before, and a byte of a page costs one byte demoted, and less than one byte moved near.
//!
//! It ends by itself: pages are chosen only for what was refused since, twice as much each time that was too little, and spans
//! that could not be emptied in some laps are used as before.

use tierra_index::SlotMut;
use tierra_memory::Speed;

use super::super::headroom::Headroom;
use super::super::heap::Heap;
use super::super::order::Order;
use super::super::store::Store;
use super::hand::Hand;
use super::mover::{Mover, STEP_BYTES_MAX, TICK_GROUPS, heat_before};

/// The part of the near budget that is evacuated at a time, at first, and at most: half of what may be exchanged in a round.
const FIRST_PART: u64 = 64;
const MAX_PART: u64 = 8;
/// The part of it that has to be missing within a round: less is not worth it.
const SHORTFALL_PART: u64 = 1024;
/// Spans that are chosen at a time, at most, and bytes that count as chosen if there was none to choose.
const CHOSEN_SPANS: usize = 4;
const MIN_CHOSEN_BYTES: u64 = 64 << 10;
/// Groups that are visited before a window, at most, one for each of its keys...
const WINDOW_GROUPS: u64 = 16;
/// ...unless as many bytes have moved: far memory takes its time for them.
const WINDOW_BYTES: u64 = 1 << 10;
/// Laps after which spans that are not empty are used as before; the first lap begins in the middle.
const MAX_LAPS: u32 = 3;
/// And rounds.
const MAX_ROUNDS: u32 = 16;
/// Spans whose evacuation is cancelled at a time.
const CANCELLED_SPANS: usize = 64;

/// The state of an evacuation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evacuation {
    /// Pages are being evacuated, or are to be.
    is_on: bool,
    /// Bytes of them that are still to be chosen.
    left_bytes: u64,
    /// Bytes to be evacuated the last time, halved for each round that has ended since.
    last_bytes: u64,
    hand: Hand,
    /// Laps of the hand since all pages were chosen.
    laps: u32,
    /// Rounds that have ended since then.
    rounds: u32,
    /// Records moved within near memory in this round.
    moved: u64,
    has_round_ended: bool,
}

impl Evacuation {
    /// Chooses pages to evacuate if some are missing, a few at a time, and detects when the evacuation is done.
    pub(super) fn choose_pages(&mut self, heap: &mut Heap) {
        let has_round_ended = std::mem::take(&mut self.has_round_ended);
        // Rounds continue even if nothing can move.
        self.rounds += u32::from(has_round_ended);
        if !self.is_on {
            let limit_bytes = heap.memory.used(Speed::Near).limit_bytes;
            if heap.shortfall_bytes > limit_bytes / SHORTFALL_PART {
                self.begin(heap);
            } else if has_round_ended {
                self.last_bytes /= 2;
                heap.shortfall_bytes = 0;
            }
        } else if self.left_bytes > 0 {
            for _ in 0..CHOSEN_SPANS {
                if self.left_bytes == 0 {
                    break;
                }
                let bytes = heap.memory.evacuate(Speed::Near).max(MIN_CHOSEN_BYTES);
                self.left_bytes = self.left_bytes.saturating_sub(bytes);
            }
            (self.laps, self.rounds) = (0, 0);
        } else {
            if self.laps >= MAX_LAPS || self.rounds >= MAX_ROUNDS {
                for _ in 0..CANCELLED_SPANS {
                    heap.memory.cancel_evacuation(Speed::Near);
                }
            }
            self.is_on = heap.memory.used(Speed::Near).evacuating_bytes > 0;
            // What was missing meanwhile may find room now.
            heap.shortfall_bytes = 0;
        }
    }

    /// Moves records out of pages being evacuated: before a window of `keys` keys, or periodically with `None`.
    #[inline]
    pub(super) fn empty_pages(
        &mut self,
        mover: &mut Mover,
        store: &mut Store,
        keys: Option<usize>,
    ) {
        if self.is_on {
            match keys {
                Some(keys) => {
                    let groups = (keys as u64).clamp(1, WINDOW_GROUPS);
                    self.visit_groups(mover, store, groups, WINDOW_BYTES);
                }
                None => self.visit_groups(mover, store, TICK_GROUPS, STEP_BYTES_MAX),
            }
        }
    }

    /// Visits as many groups, or until as many bytes have moved.
    #[cold]
    fn visit_groups(&mut self, mover: &mut Mover, store: &mut Store, groups: u64, bytes: u64) {
        let bytes_before = mover.rounds.done().bytes;
        for _ in 0..groups {
            if mover.is_stuck
                || !mover.pace.allows()
                || mover.rounds.done().bytes - bytes_before >= bytes
            {
                return;
            }
            let hand = self.hand;
            let is_aged = mover.is_aged(hand);
            let (point, _) = hand.visit(store, 1, |slot, order, heap| {
                self.move_out(mover, slot, order, heap, is_aged);
            });
            self.laps += u32::from(self.hand.advance(store, point));
        }
    }

    /// Visits an entry, and moves its record if its pages are being evacuated. A cold record is demoted unless there is plenty of
    /// room near; others stay while their size has no vacant slot.
    fn move_out(
        &mut self,
        mover: &mut Mover,
        slot: SlotMut<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        is_aged: bool,
    ) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far || !heap.is_evacuating(record) || !mover.pace.allows() {
            return;
        }
        let heat = heat_before(&slot, is_aged);
        let bytes = heap.header(record).bytes();
        let has_slot = heap.memory.has_slot(Speed::Near, bytes);
        if mover.rounds.should_demote(heat)
            && !(has_slot && Headroom::now(&heap.memory).is_plenty())
        {
            mover.move_to(Speed::Far, slot, order, heap);
        } else if has_slot {
            let before = mover.rounds.done().compacted;
            mover.move_to(Speed::Near, slot, order, heap);
            self.moved += mover.rounds.done().compacted - before;
        }
    }

    /// A round is over: returns how many records have moved within near memory in it.
    pub(super) fn end_round(&mut self) -> u64 {
        self.has_round_ended = true;
        std::mem::take(&mut self.moved)
    }

    fn begin(&mut self, heap: &mut Heap) {
        heap.shortfall_bytes = 0;
        let reserve_bytes = Headroom::now(&heap.memory).wanted_bytes();
        let near = heap.memory.used(Speed::Near);
        if near.held_bytes.saturating_add(reserve_bytes) <= near.limit_bytes {
            // There are pages by now.
            return;
        }
        let bytes = (2 * self.last_bytes)
            .max(near.limit_bytes / FIRST_PART)
            .max(reserve_bytes)
            .min(near.limit_bytes / MAX_PART);
        *self = Evacuation {
            is_on: true,
            left_bytes: bytes,
            last_bytes: bytes,
            ..*self
        };
    }
}
