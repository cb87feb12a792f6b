//! Moving records one at a time, within the pace, and counting the moves.

use tierra_index::{RecordTable, SlotMut};
use tierra_memory::Speed;
use tierra_memory::placement::{Heat, Pace, Rounds};

use super::super::entry::LiveEntry;
use super::super::headroom::Headroom;
use super::super::heap::{Heap, MOVED_BYTES_MAX};
use super::super::member::member_position;
use super::super::order::Order;
use super::super::settings::Policy;
use super::hand::Hand;

/// From as many near records on, heats are sampled.
const MANY_OBJECTS: u64 = 1 << 16;
/// Of many near records, one of as many is sampled.
const SAMPLE_INTERVAL: u32 = 8;
/// Groups that a tick visits at most, and bytes that it moves: about a millisecond.
pub(super) const TICK_GROUPS: u64 = 2048;
pub(super) const STEP_BYTES_MAX: u64 = 1 << 20;
/// Bytes moved for a hundred that requests touch.
const SHARE_PERCENT: u64 = 50;

pub(crate) struct Mover {
    /// The schedule of the work, and the thresholds of heat.
    pub(crate) rounds: Rounds,
    pub(super) pace: Pace,
    /// The position of the round that observes heats.
    pub(super) round: Hand,
    /// Near records since the last sampled one.
    unsampled: u32,
    /// A move has found no room, or searches found nothing to move: only the next tick tries again.
    pub(super) is_stuck: bool,
}

impl Mover {
    pub(super) fn new() -> Mover {
        Mover {
            rounds: Rounds::default(),
            pace: Pace::new(SHARE_PERCENT),
            round: Hand::default(),
            unsampled: 0,
            is_stuck: false,
        }
    }

    /// Whether one of many records is sampled.
    #[inline(always)]
    pub(super) fn is_sample(&mut self) -> bool {
        self.unsampled = (self.unsampled + 1) % SAMPLE_INTERVAL;
        self.unsampled == 0
    }

    /// Whether heat is kept: records are placed by it, or keys evicted.
    #[inline(always)]
    pub(super) fn is_by_heat(&self, heap: &Heap) -> bool {
        heap.chooser.settings.policy == Policy::Dynamic || self.rounds.is_evicting_by_heat()
    }

    /// An entry was used. Returns whether its record was promoted for it: then the entry has the new one.
    #[inline]
    pub(crate) fn note_use(
        &mut self,
        table: &mut RecordTable,
        heap: &mut Heap,
        entry: &mut LiveEntry,
        uses: u32,
    ) -> bool {
        let speed = heap.speed(entry.record);
        self.rounds.count_use(speed);
        if !self.is_by_heat(heap) || !self.rounds.samples_use() {
            return false;
        }
        let heat = table.update_note(&entry.handle, |note| {
            self.rounds.raised(Heat::from_bits(note), uses).bits()
        });
        let bytes = heap.header(entry.record).bytes();
        self.pace
            .refill(bytes as u64 * u64::from(self.rounds.sampling_interval()));
        let is_dynamic = heap.chooser.settings.policy == Policy::Dynamic;
        let is_hot_enough = is_dynamic && self.rounds.should_promote(Heat::from_bits(heat));
        if speed == Speed::Near || !is_hot_enough || bytes > MOVED_BYTES_MAX {
            return false;
        }
        self.promote(table, heap, entry, bytes)
    }

    #[cold]
    fn promote(
        &mut self,
        table: &mut RecordTable,
        heap: &mut Heap,
        entry: &mut LiveEntry,
        bytes: usize,
    ) -> bool {
        let moved = (self.pace.allows() && Headroom::now(&heap.memory).is_half())
            .then(|| heap.migrate(entry.record, Speed::Near))
            .flatten();
        let Some(record) = moved else {
            self.rounds.note_refusal();
            return false;
        };
        table.replace(&mut entry.handle, record);
        entry.record = record;
        self.pace.spend(bytes as u64);
        self.rounds.note_move(Speed::Far, Speed::Near, bytes as u64);
        true
    }

    /// Moves the record of an entry to a tier, if that has room.
    pub(super) fn move_to(
        &mut self,
        to: Speed,
        mut slot: SlotMut<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
    ) {
        let record = slot.record();
        let from = heap.speed(record);
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        // The order refers to the record as well; its position is found while the record can be compared.
        let position = order.map(|order| (member_position(order, heap, record), order));
        let Some(moved) = heap.migrate(record, to) else {
            self.is_stuck = true;
            return;
        };
        slot.set_record(moved);
        if let Some((position, order)) = position {
            order.set_record(position, moved);
        }
        self.pace.spend(bytes as u64);
        self.rounds.note_move(from, to, bytes as u64);
    }

    /// Whether heats at a hand have been halved in this round.
    pub(super) fn is_aged(&self, hand: Hand) -> bool {
        self.rounds.has_aged(hand, self.round)
    }
}

/// Whether near records are many.
#[inline]
pub(super) fn has_many(heap: &Heap) -> bool {
    heap.memory.used(Speed::Near).objects >= MANY_OBJECTS
}

/// The heat of an entry before it was halved in this round, if it was.
pub(super) fn heat_before(slot: &SlotMut<'_>, is_aged: bool) -> Heat {
    let heat = Heat::from_bits(slot.note());
    if is_aged { heat.before_aging() } else { heat }
}
