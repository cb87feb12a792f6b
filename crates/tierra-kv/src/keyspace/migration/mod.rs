//! Records on the move: hot ones near, cold ones far, or as a ratio wants it; and out of pages that are sparse, or that other sizes
//! want.
//!
//! There is no second thread: a shard's records are its own. A request that uses a hot far record takes it
//! near, when the record has just been read; the rest is done in small steps, between windows and by
//! [`Keyspace::tick`](super::Keyspace::tick), in proportion to the uses there were. So nothing is stopped, and an idle
//! store does nothing.

mod hand;
mod mover;
mod pages;
mod room;

use tierra_index::SlotMut;
use tierra_memory::Speed;
use tierra_memory::placement::{Heat, Rounds};

use super::free::Free;
use super::heap::{Heap, MOVED_BYTES_MAX};
use super::order::Order;
use super::settings::Policy;
use super::store::Store;
use mover::{Mover, STEP_BYTES_MAX, TICK_GROUPS, has_many};
use pages::Clearing;
use room::Search;

/// Records that groups have, more or less.
const RECORDS_PER_GROUP: u64 = 8;
/// Groups that a step between two windows visits.
const STEP_GROUPS: u64 = Rounds::STEP_USES as u64 / RECORDS_PER_GROUP;
/// How far from its ratio memory may be, in parts of all.
const RATIO_TOLERANCE: u64 = 200;

pub(super) struct Migration {
    pub(super) mover: Mover,
    search: Search,
    /// Rounds that were to give pages back and could not, and the bytes that tiers held after the last.
    vain_rounds: u32,
    vain_bytes: [u64; 2],
    /// Pages that are emptied for sizes that have none.
    clearing: Clearing,
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            mover: Mover::new(),
            search: Search::default(),
            vain_rounds: 0,
            vain_bytes: [0; 2],
            clearing: Clearing::default(),
        }
    }

    /// Begins anew, but for what has been done: what was noted under another policy says nothing.
    pub(super) fn restart(&mut self) {
        let mut rounds = std::mem::take(&mut self.mover.rounds);
        rounds.restart();
        *self = Migration::new();
        self.mover.rounds = rounds;
    }

    /// A little of what has to be done in the background, before a window of so many keys.
    #[inline]
    pub(super) fn before_window(&mut self, store: &mut Store, keys: usize) {
        if self.mover.rounds.is_due() {
            self.step(store, false);
            self.clearing.choose_pages(&mut store.heap);
        }
        self.search.make_room(&mut self.mover, store, Some(keys));
        self.clearing
            .empty_pages(&mut self.mover, store, Some(keys));
    }

    /// More of it, and what the clock asks for. Whether there is more to do.
    pub(super) fn tick(&mut self, store: &mut Store) -> bool {
        let has_more = self.step(store, true);
        self.clearing.choose_pages(&mut store.heap);
        self.search.make_room(&mut self.mover, store, None);
        self.clearing.empty_pages(&mut self.mover, store, None);
        has_more
    }

    /// Has the second step of fetching follow the first, now that the lookups of a window have been made.
    #[inline]
    pub(super) fn go_on_fetching(&self, heap: &Heap) {
        self.search.go_on_fetching(heap);
    }

    /// Visits groups, a few at a time, as long as there is something to do: those that uses call for and, if the
    /// clock asks (`ticks`), those that a ratio or sparse pages do. Whether there is more of the latter.
    fn step(&mut self, store: &mut Store, ticks: bool) -> bool {
        if ticks {
            self.mover.is_stuck = false;
        }
        let moved_before = self.mover.rounds.done().bytes;
        let mut groups = if ticks { TICK_GROUPS } else { 2 * STEP_GROUPS };
        loop {
            let wanted = Wanted::now(&store.heap, self);
            if !wanted.by_heat {
                // Uses call for nothing then.
                self.mover.rounds.forget_uses();
            }
            let is_due = self.mover.rounds.is_due();
            if !is_due && (!wanted.anyway || self.mover.is_stuck) {
                return false;
            }
            if groups == 0 || self.mover.rounds.done().bytes - moved_before > STEP_BYTES_MAX {
                return wanted.anyway;
            }
            let steps = self.visit(store, &wanted);
            if is_due {
                self.mover.rounds.take_steps(steps);
            }
            groups = groups.saturating_sub(STEP_GROUPS);
        }
    }

    /// Visits the next groups of the round, and may pass over some behind them; how many steps' groups that were.
    fn visit(&mut self, store: &mut Store, wanted: &Wanted) -> u64 {
        let hand = self.mover.round;
        let (mut point, len) = hand.visit(store, STEP_GROUPS as usize, |slot, order, heap| {
            self.meet(slot, order, heap, wanted);
        });
        let mut steps = u64::from(len > 0);
        if point != 0 && !wanted.anyway {
            let steps_of = |groups: usize| groups as u64 / STEP_GROUPS;
            let left = steps_of(len.saturating_sub(point));
            let passed = self.mover.rounds.passes_over(steps_of(len), left);
            steps += passed;
            point += (passed * STEP_GROUPS) as usize;
        }
        let has_ended = self.mover.round.advance(store, point);
        self.mover.round.fetch(store, STEP_GROUPS as usize);
        if has_ended {
            self.judge_gathering(&store.heap, wanted);
            self.mover
                .rounds
                .end(Free::now(&store.heap.memory).is_enough());
        }
        steps
    }

    /// Whether there is anything left to gather is seen by whole rounds that gather nothing.
    fn judge_gathering(&mut self, heap: &Heap, wanted: &Wanted) {
        let gathers = wanted.sparse.contains(&true);
        let gathered = self.mover.rounds.done_in_round().compacted - self.clearing.end_round();
        let is_vain = gathers && gathered == 0;
        self.vain_rounds = if is_vain { self.vain_rounds + 1 } else { 0 };
        self.vain_bytes = held_bytes(heap);
    }

    /// Looks at an entry, of a sorted set if there is an `order`, and moves its record if that is called for.
    fn meet(
        &mut self,
        mut slot: SlotMut<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        wanted: &Wanted,
    ) {
        let record = slot.record();
        let speed = heap.speed(record);
        let mut to = None;
        if wanted.by_heat {
            let heat = Heat::from_bits(slot.note());
            if wanted.ages && heat != Heat::COLD {
                slot.set_note(heat.aged().bits());
            }
            if speed == Speed::Near && (!wanted.meets_many || self.mover.is_sample()) {
                let bytes = heap.capacity(record);
                if bytes <= MOVED_BYTES_MAX {
                    self.mover.rounds.meet(heat, bytes as u64);
                }
            }
        }
        if wanted.from == Some(speed) && !self.mover.is_stuck {
            to = Some(if speed == Speed::Near {
                Speed::Far
            } else {
                Speed::Near
            });
        }
        if to.is_none() && wanted.sparse[speed as usize] && heap.set_aside(record) {
            to = Some(speed);
        }
        if let Some(to) = to {
            self.mover.move_to(to, slot, order, heap);
        }
    }
}

/// What a step is after, by what memory looks like when it begins.
struct Wanted {
    /// Heat is noted.
    by_heat: bool,
    /// Heats are halved in this round.
    ages: bool,
    /// All of many records are visited in this round.
    meets_many: bool,
    /// The tier that holds more than a ratio gives it.
    from: Option<Speed>,
    /// Tiers half of whose pages are empty.
    sparse: [bool; 2],
    /// There is something to do, whether there were uses or not.
    anyway: bool,
}

fn held_bytes(heap: &Heap) -> [u64; 2] {
    [Speed::Near, Speed::Far].map(|speed| heap.memory.used(speed).held_bytes)
}

impl Wanted {
    fn now(heap: &Heap, migration: &Migration) -> Wanted {
        /// Less is not worth gathering.
        const FEW_BYTES: u64 = 4 << 20;
        let used = [Speed::Near, Speed::Far].map(|speed| heap.memory.used(speed));
        let [near, far] = used;
        let policy = heap.chooser.settings.policy;
        let tolerance = (near.object_bytes + far.object_bytes) / RATIO_TOLERANCE;
        let excess = (policy == Policy::Ratio)
            .then(|| heap.chooser.excess(&heap.memory))
            .flatten();
        let from = excess
            .filter(|&(_, bytes)| bytes > tolerance)
            .map(|(tier, _)| tier);
        // Of a round that has begun in the middle something may have been missed: two.
        let is_vain = migration.vain_rounds >= 2 && migration.vain_bytes == held_bytes(heap);
        let sparse = used.map(|tier| {
            let is_sparse = tier.held_bytes > 2 * tier.object_bytes + FEW_BYTES;
            !is_vain && (is_sparse || tier.held_bytes > tier.limit_bytes)
        });
        let ages = migration.mover.rounds.ages();
        Wanted {
            by_heat: migration.mover.is_by_heat(heap),
            ages,
            meets_many: ages && has_many(heap),
            from,
            sparse,
            anyway: from.is_some() || sparse.contains(&true),
        }
    }
}
