//! Pages of near memory for records of sizes that have no vacant slots there.
//!
//! Cold records that go far leave vacant slots, which are of use to their own size alone. Where others find no room because of it, as
//! new records or as hot ones, some spans of slots are chosen to become empty, and a hand of its own goes around and
//! empties them: what is cold goes far, the rest to vacant slots of its size, for which something cold goes far elsewhere. So what near
//! memory holds is as hot afterwards, and a byte of a page has cost a byte that went far, and less than one that moved near.
//!
//! It ends by itself: nothing is chosen but for what was refused since, twice as much each time that was too
//! little, and what could not be emptied in some times around is used as before.

use tierra_index::SlotMut;
use tierra_memory::Speed;

use super::super::free::Free;
use super::super::heap::Heap;
use super::super::order::Order;
use super::super::store::Store;
use super::hand::Hand;
use super::mover::{Mover, STEP_BYTES_MAX, TICK_GROUPS, heat_before};

/// The part of the near budget that is emptied at a time, at first, and at most: half of what may be exchanged in a round.
const CLEARED_PART_FIRST: u64 = 64;
const CLEARED_PART: u64 = 8;
/// The part of it that has to be lacking within a round: less is not worth it.
const LACKING_PART: u64 = 1024;
/// Spans that are chosen at a time, at most, and bytes that count as chosen where there was none to choose.
const CHOSEN_SPANS: usize = 4;
const CHOSEN_BYTES_MIN: u64 = 64 << 10;
/// Groups that are visited before a window, at most, one for each of its keys...
const WINDOW_GROUPS: u64 = 16;
/// ...unless as many bytes have moved: far memory takes its time for them.
const WINDOW_BYTES: u64 = 1 << 10;
/// Times around after which what is not empty is used as before; the first one has begun in the middle.
const TIMES_AROUND: u32 = 3;
/// And rounds.
const ROUNDS_MAX: u32 = 16;
/// Spans that are used as before again at a time.
const KEPT_SPANS: usize = 64;

/// What is being emptied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clearing {
    /// Pages are being emptied, or are to be.
    is_on: bool,
    /// Bytes of them that are still to be chosen.
    left_bytes: u64,
    /// How much was to be emptied the last time, and half of that for each round that has ended since.
    last_bytes: u64,
    hand: Hand,
    /// How often it has been around since all were chosen.
    times_around: u32,
    /// Rounds that have ended since then.
    rounds: u32,
    /// Records moved within near memory in this round.
    moved: u64,
    has_round_ended: bool,
}

impl Clearing {
    /// Chooses pages to be emptied where some are lacking, a few at a time, and sees when that is done.
    pub(super) fn choose_pages(&mut self, heap: &mut Heap) {
        let has_round_ended = std::mem::take(&mut self.has_round_ended);
        // Where nothing can move, rounds go on none the less.
        self.rounds += u32::from(has_round_ended);
        if !self.is_on {
            let limit_bytes = heap.memory.used(Speed::Near).limit_bytes;
            if heap.lacking_bytes > limit_bytes / LACKING_PART {
                self.begin(heap);
            } else if has_round_ended {
                self.last_bytes /= 2;
                heap.lacking_bytes = 0;
            }
        } else if self.left_bytes > 0 {
            for _ in 0..CHOSEN_SPANS {
                if self.left_bytes == 0 {
                    break;
                }
                let bytes = heap.memory.vacate(Speed::Near).max(CHOSEN_BYTES_MIN);
                self.left_bytes = self.left_bytes.saturating_sub(bytes);
            }
            (self.times_around, self.rounds) = (0, 0);
        } else {
            if self.times_around >= TIMES_AROUND || self.rounds >= ROUNDS_MAX {
                for _ in 0..KEPT_SPANS {
                    heap.memory.keep(Speed::Near);
                }
            }
            self.is_on = heap.memory.used(Speed::Near).vacated_bytes > 0;
            // What was lacking meanwhile may find room now.
            heap.lacking_bytes = 0;
        }
    }

    /// Moves something out of pages that are to become empty: before a window of so many keys, or because the clock asks.
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
                    self.go_around(mover, store, groups, WINDOW_BYTES);
                }
                None => self.go_around(mover, store, TICK_GROUPS, STEP_BYTES_MAX),
            }
        }
    }

    /// Visits so many groups, or until as many bytes have moved.
    #[cold]
    fn go_around(&mut self, mover: &mut Mover, store: &mut Store, groups: u64, bytes: u64) {
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
            self.times_around += u32::from(self.hand.advance(store, point));
        }
    }

    /// Looks at an entry, and moves its record if its pages are to become empty. What is cold goes far unless there is plenty of
    /// room near; what is not stays while its size has no vacant slot.
    fn move_out(
        &mut self,
        mover: &mut Mover,
        slot: SlotMut<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        is_aged: bool,
    ) {
        let record = slot.record();
        if heap.speed(record) == Speed::Far || !heap.is_vacated(record) || !mover.pace.allows() {
            return;
        }
        let heat = heat_before(&slot, is_aged);
        let bytes = heap.header(record).bytes();
        let has_slot = heap.memory.has_slot(Speed::Near, bytes);
        if mover.rounds.repels(heat) && !(has_slot && Free::now(&heap.memory).is_plenty()) {
            mover.move_to(Speed::Far, slot, order, heap);
        } else if has_slot {
            let before = mover.rounds.done().compacted;
            mover.move_to(Speed::Near, slot, order, heap);
            self.moved += mover.rounds.done().compacted - before;
        }
    }

    /// A round is over: how many records have moved within near memory in it.
    pub(super) fn end_round(&mut self) -> u64 {
        self.has_round_ended = true;
        std::mem::take(&mut self.moved)
    }

    fn begin(&mut self, heap: &mut Heap) {
        heap.lacking_bytes = 0;
        let reserve_bytes = Free::now(&heap.memory).wanted_bytes();
        let near = heap.memory.used(Speed::Near);
        if near.held_bytes.saturating_add(reserve_bytes) <= near.limit_bytes {
            // There are pages by now.
            return;
        }
        let bytes = (2 * self.last_bytes)
            .max(near.limit_bytes / CLEARED_PART_FIRST)
            .max(reserve_bytes)
            .min(near.limit_bytes / CLEARED_PART);
        *self = Clearing {
            is_on: true,
            left_bytes: bytes,
            last_bytes: bytes,
            ..*self
        };
    }
}
