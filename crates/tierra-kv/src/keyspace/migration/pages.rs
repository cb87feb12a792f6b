//! Pages of near memory for records of sizes that have no vacant slots there.
//!
//! Cold records that go far leave vacant slots, which are of use to their own size alone. Where others find no room because of it, as
//! new records or as hot ones, some spans of slots are chosen to become empty, and the search that goes around for cold records
//! empties them: what is cold goes far, the rest to vacant slots of its size, for which something cold goes far elsewhere. So what near
//! memory holds is as hot afterwards, and a byte of a page has cost a byte that went far, and less than one that moved near.
//!
//! It ends by itself: nothing is chosen but for what was refused since, twice as much each time that was too
//! little, and what could not be emptied in two times around is used as before.

use tierra_memory::Speed;
use tierra_memory::placement::Heat;

use super::super::heap::Heap;
use super::Migration;
use super::room::Free;

/// The part of the near budget that is emptied at a time, at first, and at most: half of what may be exchanged in a round.
const CLEARED_PART_FIRST: u64 = 64;
const CLEARED_PART: u64 = 8;
/// The part of it that has to be lacking within a round: less is not worth it.
const LACKING_PART: u64 = 1024;
/// Spans that are chosen at a time, at most, and bytes that count as chosen where there was none to choose.
const CHOSEN_SPANS: usize = 4;
const CHOSEN_BYTES_MIN: u64 = 64 << 10;
/// Times around after which what is not empty is used as before; the first one has begun in the middle.
const TIMES_AROUND: u32 = 3;
/// Spans that are used as before again at a time.
const KEPT_SPANS: usize = 64;

/// What is being emptied.
#[derive(Clone, Debug, Default)]
pub(super) struct Clearing {
    /// Pages are being emptied, or are to be.
    is_on: bool,
    /// Bytes of them that are still to be chosen.
    left_bytes: u64,
    /// How much was to be emptied the last time, and half of that for each round that has ended since.
    last_bytes: u64,
    /// How often the search has been around since all were chosen.
    times_around: u32,
    /// Records moved within near memory in this round.
    pub(super) moved: u64,
}

impl Clearing {
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }
}

impl Migration {
    /// Chooses pages to be emptied where some are lacking, a few at a time, and sees when that is done.
    pub(super) fn choose_pages(&mut self, heap: &mut Heap) {
        let clearing = &mut self.clearing;
        if !clearing.is_on {
            let limit_bytes = heap.memory.used(Speed::Near).limit_bytes;
            if heap.lacking_bytes > limit_bytes / LACKING_PART {
                clearing.begin(heap);
            }
        } else if clearing.left_bytes > 0 {
            for _ in 0..CHOSEN_SPANS {
                if clearing.left_bytes == 0 {
                    break;
                }
                let bytes = heap.memory.vacate(Speed::Near).max(CHOSEN_BYTES_MIN);
                clearing.left_bytes = clearing.left_bytes.saturating_sub(bytes);
            }
            clearing.times_around = 0;
        } else {
            if clearing.times_around >= TIMES_AROUND {
                for _ in 0..KEPT_SPANS {
                    heap.memory.keep(Speed::Near);
                }
            }
            clearing.is_on = heap.memory.used(Speed::Near).vacated_bytes > 0;
            // What was lacking meanwhile may find room now.
            heap.lacking_bytes = 0;
        }
    }

    /// The search has been around.
    pub(super) fn end_time_around(&mut self) {
        self.clearing.times_around += 1;
    }

    /// A round is over. What was lacking in it was too little, if nothing is being emptied for it.
    pub(super) fn end_lacking_round(&mut self, heap: &mut Heap) {
        self.clearing.moved = 0;
        if !self.clearing.is_on {
            self.clearing.last_bytes /= 2;
            heap.lacking_bytes = 0;
        }
    }

    /// Where a near record goes whose pages are to become empty; nowhere while it is not cold and there is no vacant slot. What is
    /// cold stays near only where that needs nobody's place.
    pub(super) fn way_out(&self, record: u64, heat: Heat, heap: &Heap) -> Option<Speed> {
        let has_slot = heap
            .memory
            .has_slot(Speed::Near, heap.header(record).bytes());
        if self.border.repels(heat) && !(has_slot && Free::now(heap).is_plenty()) {
            return Some(Speed::Far);
        }
        has_slot.then_some(Speed::Near)
    }
}

impl Clearing {
    fn begin(&mut self, heap: &mut Heap) {
        heap.lacking_bytes = 0;
        let reserve_bytes = Free::now(heap).wanted_bytes();
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
