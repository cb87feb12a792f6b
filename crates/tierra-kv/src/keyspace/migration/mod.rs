//! Migration of records: hot ones are promoted, cold ones demoted, or either to hold a ratio; and records leave pages that are
//! sparse or needed for other sizes.
//!
//! There is no second thread: a shard's records are its own. A request that uses a hot far record promotes it, when the
//! record has just been read. The rest is done in small steps, between windows and by
//! [`Keyspace::tick`](super::Keyspace::tick), in proportion to the uses. So no request is stopped for long, and an idle
//! store does nothing.

mod demotion;
mod evacuation;
mod hand;
mod mover;

use tierra_index::SlotMut;
use tierra_memory::Speed;
use tierra_memory::placement::{Heat, Rounds};

use super::headroom::Headroom;
use super::heap::{Heap, MOVED_BYTES_MAX};
use super::order::Order;
use super::settings::Policy;
use super::store::Store;
use demotion::DemotionSearch;
use evacuation::Evacuation;
use mover::{Mover, STEP_BYTES_MAX, TICK_GROUPS, has_many};

/// Records of a group, on average.
const RECORDS_PER_GROUP: u64 = 8;
/// Groups that a step between two windows visits.
const STEP_GROUPS: u64 = Rounds::STEP_USES as u64 / RECORDS_PER_GROUP;
/// How far from its ratio memory may be, in parts of all.
const RATIO_TOLERANCE: u64 = 200;

pub(super) struct Migration {
    pub(super) mover: Mover,
    demotion: DemotionSearch,
    /// Rounds that should have given pages back and could not, and the bytes that tiers held after the last.
    fruitless_rounds: u32,
    fruitless_bytes: [u64; 2],
    /// Pages that are evacuated for sizes that have none.
    evacuation: Evacuation,
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            mover: Mover::new(),
            demotion: DemotionSearch::default(),
            fruitless_rounds: 0,
            fruitless_bytes: [0; 2],
            evacuation: Evacuation::default(),
        }
    }

    /// Resets everything but the counters: observations under another policy are void.
    pub(super) fn restart(&mut self) {
        let mut rounds = std::mem::take(&mut self.mover.rounds);
        rounds.restart();
        *self = Migration::new();
        self.mover.rounds = rounds;
    }

    /// A small step of the background work, before a window of `keys` keys.
    #[inline]
    pub(super) fn before_window(&mut self, store: &mut Store, keys: usize) {
        if self.mover.rounds.is_due() {
            self.step(store, false);
            self.evacuation.choose_pages(&mut store.heap);
        }
        self.demotion.make_room(&mut self.mover, store, Some(keys));
        self.evacuation
            .empty_pages(&mut self.mover, store, Some(keys));
    }

    /// A larger step, including the periodic work. Returns whether there is more to do.
    pub(super) fn tick(&mut self, store: &mut Store) -> bool {
        let has_more = self.step(store, true);
        self.evacuation.choose_pages(&mut store.heap);
        self.demotion.make_room(&mut self.mover, store, None);
        self.evacuation.empty_pages(&mut self.mover, store, None);
        has_more
    }

    /// The second step of prefetching, after the lookups of a window.
    #[inline]
    pub(super) fn continue_prefetch(&self, heap: &Heap) {
        self.demotion.continue_prefetch(heap);
    }

    /// Visits groups, a few at a time, as long as there is something to do: those due by uses and, if `ticks` is set,
    /// those due for a ratio or for sparse pages. Returns whether there is more of the latter.
    fn step(&mut self, store: &mut Store, ticks: bool) -> bool {
        if ticks {
            self.mover.is_stuck = false;
        }
        let moved_before = self.mover.rounds.done().bytes;
        let mut groups = if ticks { TICK_GROUPS } else { 2 * STEP_GROUPS };
        loop {
            let goals = StepGoals::now(&store.heap, self);
            if !goals.by_heat {
                // Heat is not used then.
                self.mover.rounds.discard_uses();
            }
            let is_due = self.mover.rounds.is_due();
            if !is_due && (!goals.anyway || self.mover.is_stuck) {
                return false;
            }
            if groups == 0 || self.mover.rounds.done().bytes - moved_before > STEP_BYTES_MAX {
                return goals.anyway;
            }
            let steps = self.visit(store, &goals);
            if is_due {
                self.mover.rounds.take_steps(steps);
            }
            groups = groups.saturating_sub(STEP_GROUPS);
        }
    }

    /// Visits the next groups of the round, and may skip some after them. Returns how many steps' groups that were.
    fn visit(&mut self, store: &mut Store, goals: &StepGoals) -> u64 {
        let hand = self.mover.round;
        let (mut point, len) = hand.visit(store, STEP_GROUPS as usize, |slot, order, heap| {
            self.visit_entry(slot, order, heap, goals);
        });
        let mut steps = u64::from(len > 0);
        if point != 0 && !goals.anyway {
            let steps_of = |groups: usize| groups as u64 / STEP_GROUPS;
            let left = steps_of(len.saturating_sub(point));
            let passed = self.mover.rounds.steps_to_skip(steps_of(len), left);
            steps += passed;
            point += (passed * STEP_GROUPS) as usize;
        }
        let has_ended = self.mover.round.advance(store, point);
        self.mover.round.fetch(store, STEP_GROUPS as usize);
        if has_ended {
            self.evaluate_compaction(&store.heap, goals);
            self.mover
                .rounds
                .end(Headroom::now(&store.heap.memory).is_enough());
        }
        steps
    }

    /// Detects that there is nothing left to compact by complete rounds that compact nothing.
    fn evaluate_compaction(&mut self, heap: &Heap, goals: &StepGoals) {
        let compacts = goals.sparse.contains(&true);
        let compacted = self.mover.rounds.done_in_round().compacted - self.evacuation.end_round();
        let is_fruitless = compacts && compacted == 0;
        self.fruitless_rounds = if is_fruitless {
            self.fruitless_rounds + 1
        } else {
            0
        };
        self.fruitless_bytes = held_bytes(heap);
    }

    /// Visits an entry, of a sorted set if there is an `order`, and moves its record if necessary.
    fn visit_entry(
        &mut self,
        mut slot: SlotMut<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
        goals: &StepGoals,
    ) {
        let record = slot.record();
        let speed = heap.speed(record);
        let mut to = None;
        if goals.by_heat {
            let heat = Heat::from_bits(slot.note());
            if goals.ages && heat != Heat::COLD {
                slot.set_note(heat.aged().bits());
            }
            if speed == Speed::Near && (!goals.samples_many || self.mover.is_sample()) {
                let bytes = heap.capacity(record);
                if bytes <= MOVED_BYTES_MAX {
                    self.mover.rounds.observe(heat, bytes as u64);
                }
            }
        }
        if goals.from == Some(speed) && !self.mover.is_stuck {
            to = Some(if speed == Speed::Near {
                Speed::Far
            } else {
                Speed::Near
            });
        }
        if to.is_none() && goals.sparse[speed as usize] && heap.deprioritize(record) {
            to = Some(speed);
        }
        if let Some(to) = to {
            self.mover.move_to(to, slot, order, heap);
        }
    }
}

/// The goals of a step, by the state of memory when it begins.
struct StepGoals {
    /// Heat is kept.
    by_heat: bool,
    /// Heats are halved in this round.
    ages: bool,
    /// All of many records are visited in this round.
    samples_many: bool,
    /// The tier that holds more than a ratio gives it.
    from: Option<Speed>,
    /// Tiers half of whose pages are empty.
    sparse: [bool; 2],
    /// There is something to do even without uses.
    anyway: bool,
}

fn held_bytes(heap: &Heap) -> [u64; 2] {
    [Speed::Near, Speed::Far].map(|speed| heap.memory.used(speed).held_bytes)
}

impl StepGoals {
    fn now(heap: &Heap, migration: &Migration) -> StepGoals {
        /// Less is not worth compacting.
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
        // Two rounds, because one that began in the middle may have missed something.
        let is_fruitless =
            migration.fruitless_rounds >= 2 && migration.fruitless_bytes == held_bytes(heap);
        let sparse = used.map(|tier| {
            let is_sparse = tier.held_bytes > 2 * tier.object_bytes + FEW_BYTES;
            !is_fruitless && (is_sparse || tier.held_bytes > tier.limit_bytes)
        });
        let ages = migration.mover.rounds.ages();
        StepGoals {
            by_heat: migration.mover.is_by_heat(heap),
            ages,
            samples_many: ages && has_many(heap),
            from,
            sparse,
            anyway: from.is_some() || sparse.contains(&true),
        }
    }
}
