//! Records on the move: hot ones near, cold ones far, or as a ratio wants it; and out of pages that are sparse, or that other sizes
//! want.
//!
//! There is no second thread: a shard's records are its own. A request that uses a hot far record takes it
//! near, when the record has just been read; the rest is done in small steps, between windows and by
//! [`Keyspace::tick`](super::Keyspace::tick), in proportion to the uses there were. So nothing is stopped, and an idle
//! store does nothing.

mod hand;
mod pages;
mod room;

use tierra_index::{RecordTable, Slot};
use tierra_memory::Speed;
use tierra_memory::placement::{Border, Heat, Pace, Round};

use super::db::{Entry, Table};
use super::heap::Heap;
use super::large::Larges;
use super::order::Order;
use super::settings::Policy;
use super::zset::member_place;
use super::{DATABASES, Db};
use hand::{Hand, Tables};
use pages::Clearing;
pub(super) use room::Free;
use room::Leaving;

/// Uses for each group that a round visits: a round takes about as many uses as there are records.
const USES_PER_GROUP: u64 = 8;
/// Groups that a step between two windows visits.
const STEP_GROUPS: u64 = 8;
/// Uses that a step takes.
const STEP_USES: i64 = (STEP_GROUPS * USES_PER_GROUP) as i64;
/// Uses that are kept for later: a tick's.
const USES_MAX: i64 = (TICK_GROUPS * USES_PER_GROUP) as i64;
/// Where there is nothing to be done but to see how hot things are, a step passes over as many steps' groups on average...
const PASSED_STEPS: i64 = 63;
/// ...of a table of at least as many, so that a round still sees thousands of records, or of any while nobody
/// compares heats.
const LONG_TABLE_GROUPS: usize = 1 << 15;
/// Near records that are many: a part of them shows how hot all are.
const MANY_OBJECTS: u64 = 1 << 16;
/// Where many near records are met, one of as many is a sample of them.
const MET_OF_MANY: u32 = 8;
/// Groups that a tick visits at most, and bytes that it moves: about a millisecond.
const TICK_GROUPS: u64 = 2048;
const STEP_BYTES_MAX: u64 = 1 << 20;
/// Larger records are left where they are: moving one would hold up a request.
pub(super) const MOVED_BYTES_MAX: usize = 64 << 10;
/// Bytes moved for a hundred that requests touch.
const SHARE_PERCENT: u64 = 50;
/// Rounds between two in which heats are halved, at least, while nobody compares them: halving meets every entry.
const ROUNDS_UNCOMPARED: u32 = 8;
/// How far from its ratio memory may be, in parts of all.
const RATIO_TOLERANCE: u64 = 200;

/// Uses of records since the start, and how records were moved for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Near, because they were used.
    pub to_near: u64,
    /// Far, because others are hotter, or to hold a ratio.
    pub to_far: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Within their tier, so that pages came free.
    pub compacted: u64,
    /// Uses of records that were near.
    pub uses_near: u64,
    /// Uses of records that were far.
    pub uses_far: u64,
    /// Hot records that stayed far, because near memory was full or enough had moved.
    pub refused: u64,
}

pub(super) struct Migration {
    border: Border,
    pace: Pace,
    random: u64,
    /// Uses that no group has been visited for; negative while more groups were passed than there were uses for.
    uses: i64,
    /// Where the round is that tells how hot things are.
    round: Hand,
    /// Where cold records are searched for.
    search: Hand,
    /// Rounds since what was counted was last halved.
    young_rounds: u32,
    /// Rounds after which that is done at the latest, where keys are evicted by heat: it is noted for them then, wherever
    /// records go.
    evicting_rounds: Option<u32>,
    /// What had been done when the round began.
    at_round: Migrations,
    /// Nobody compares heats: in the round before all uses found their record near, there was room when it ended, and no keys are
    /// evicted by heat.
    nobody_compares: bool,
    /// One use of as many is noted, and uses that are not until the next one is.
    noted: u32,
    unnoted: u32,
    /// Near records met since one was a sample of them.
    passed: u32,
    /// Chosen to go far before the next window.
    leaving: Vec<Leaving>,
    /// The search has found nothing to move since its round began.
    is_search_vain: bool,
    /// A move has found no room, or searches nothing to move: only the next tick tries again.
    is_stuck: bool,
    /// Rounds that were to give pages back and could not, and the bytes that tiers held after the last.
    vain_rounds: u32,
    vain_bytes: [u64; 2],
    /// Pages that are emptied for sizes that have none.
    clearing: Clearing,
    pub(super) done: Migrations,
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            border: Border::default(),
            pace: Pace::new(SHARE_PERCENT),
            random: 0x2545_F491_4F6C_DD1D,
            uses: 0,
            round: Hand::default(),
            search: Hand::default(),
            young_rounds: 0,
            evicting_rounds: None,
            at_round: Migrations::default(),
            nobody_compares: false,
            noted: 1,
            unnoted: 0,
            passed: 0,
            leaving: Vec::new(),
            is_search_vain: false,
            is_stuck: false,
            vain_rounds: 0,
            vain_bytes: [0; 2],
            clearing: Clearing::default(),
            done: Migrations::default(),
        }
    }

    /// Begins anew, but for what has been done: what was noted under another policy says nothing.
    pub(super) fn restart(&mut self) {
        *self = Migration {
            random: self.random,
            evicting_rounds: self.evicting_rounds,
            done: self.done,
            at_round: self.done,
            ..Migration::new()
        };
    }

    #[inline(always)]
    fn random(&mut self) -> u32 {
        // Xorshift: cheap, and good enough for a coin.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }

    /// Whether one of many is to be met.
    #[inline(always)]
    fn is_sample(&mut self) -> bool {
        self.passed = (self.passed + 1) % MET_OF_MANY;
        self.passed == 0
    }

    /// Whether uses call for a step.
    #[inline(always)]
    fn is_due(&self) -> bool {
        self.uses >= STEP_USES
    }

    /// What a new record's entry notes: it stays where it was born for a round.
    #[inline]
    pub(super) fn birth_note(&self) -> u8 {
        self.border
            .floor()
            .bits()
            .saturating_add(1)
            .min(Heat::HOTTEST.bits())
    }

    /// An entry was used. Whether its record has moved near for it: then the entry names the new one.
    #[inline]
    pub(super) fn note_use(
        &mut self,
        table: &mut RecordTable,
        heap: &mut Heap,
        entry: &mut Entry,
        uses: u32,
    ) -> bool {
        self.uses += 1;
        let speed = heap.speed(entry.record);
        match speed {
            Speed::Near => self.done.uses_near += 1,
            Speed::Far => self.done.uses_far += 1,
        }
        let is_dynamic = heap.chooser.settings.policy == Policy::Dynamic;
        if !is_dynamic && self.evicting_rounds.is_none() {
            return false;
        }
        if self.unnoted > 0 {
            self.unnoted -= 1;
            return false;
        }
        if self.noted > 1 {
            // Some as soon as others, so that no rhythm of the requests is met.
            self.unnoted = self.random() % (2 * self.noted - 1);
        }
        let heat = table.update_note(&entry.carried, |note| {
            let before = Heat::from_bits(note);
            let heat = (0..uses).fold(before, |heat, _| heat.used(self.random()));
            heat.bits()
        });
        let heat = Heat::from_bits(heat);
        let bytes = heap.header(entry.record).bytes();
        self.pace.earn(bytes as u64 * u64::from(self.noted));
        let is_attracted = is_dynamic && self.border.attracts(heat);
        if speed == Speed::Near || !is_attracted || bytes > MOVED_BYTES_MAX {
            return false;
        }
        self.attract(table, heap, entry, bytes)
    }

    #[cold]
    fn attract(
        &mut self,
        table: &mut RecordTable,
        heap: &mut Heap,
        entry: &mut Entry,
        bytes: usize,
    ) -> bool {
        let moved = (self.pace.allows() && Free::now(heap).is_half())
            .then(|| heap.migrate(entry.record, Speed::Near))
            .flatten();
        let Some(record) = moved else {
            self.done.refused += 1;
            return false;
        };
        table.replace(&mut entry.carried, record);
        entry.record = record;
        self.pace.spend(bytes as u64);
        self.border.note_move();
        self.done.to_near += 1;
        self.done.bytes += bytes as u64;
        true
    }

    /// Visits groups, a few at a time, as long as there is something to do: those that uses call for and, if the
    /// clock asks (`ticks`), those that a ratio or sparse pages do. Whether there is more of the latter.
    pub(super) fn step(
        &mut self,
        tables: &mut [Table; DATABASES],
        larges: &mut Larges,
        heap: &mut Heap,
        ticks: bool,
    ) -> bool {
        let tables = &mut Tables {
            tables,
            larges,
            heap,
        };
        if ticks {
            self.is_stuck = false;
        }
        let moved_before = self.done.bytes;
        let mut groups = if ticks { TICK_GROUPS } else { 2 * STEP_GROUPS };
        // What there was no time for is not made up for when there is.
        self.uses = self.uses.min(USES_MAX);
        loop {
            let wanted = Wanted::now(tables.heap, self);
            if !wanted.by_heat {
                // Uses call for nothing then.
                self.uses = 0;
            }
            let is_due = self.is_due();
            if !is_due && (!wanted.anyway || self.is_stuck) {
                return false;
            }
            if groups == 0 || self.done.bytes - moved_before > STEP_BYTES_MAX {
                return wanted.anyway;
            }
            let steps = self.visit(tables, &wanted);
            if is_due {
                self.uses -= STEP_USES * steps;
            }
            groups = groups.saturating_sub(STEP_GROUPS);
        }
    }

    /// Visits the next groups of the round, and may pass over some behind them; how many steps' groups that were.
    fn visit(&mut self, tables: &mut Tables<'_>, wanted: &Wanted) -> i64 {
        let (mut point, len) =
            tables.visit(self.round, STEP_GROUPS as usize, |slot, order, heap| {
                self.meet(slot, order, heap, wanted);
            });
        let mut steps = i64::from(len > 0);
        let sees_enough = len >= LONG_TABLE_GROUPS || self.nobody_compares;
        if point != 0 && !wanted.anyway && !wanted.ages && sees_enough {
            // Not the same ones in every round, and none behind the end.
            let left = len.saturating_sub(point) as i64 / STEP_GROUPS as i64;
            let passed = (i64::from(self.random()) % (2 * PASSED_STEPS + 1)).min(left);
            steps += passed;
            point += (passed * STEP_GROUPS as i64) as usize;
        }
        let has_ended = tables.advance(&mut self.round, point);
        tables.fetch(self.round, STEP_GROUPS as usize);
        if has_ended {
            self.judge_gathering(tables.heap, wanted);
            self.end_round(tables.heap);
        }
        steps
    }

    /// Whether there is anything left to gather is seen by whole rounds that gather nothing.
    fn judge_gathering(&mut self, heap: &Heap, wanted: &Wanted) {
        let gathers = wanted.sparse.contains(&true);
        let gathered = self.done.compacted - self.at_round.compacted - self.clearing.end_round();
        let is_vain = gathers && gathered == 0;
        self.vain_rounds = if is_vain { self.vain_rounds + 1 } else { 0 };
        self.vain_bytes = held_bytes(heap);
    }

    fn end_round(&mut self, heap: &Heap) {
        let aged = self.ages();
        let (now, before) = (self.done, self.at_round);
        let near_uses = now.uses_near - before.uses_near;
        self.border.end_round(Round {
            uses: near_uses + now.uses_far - before.uses_far,
            near_uses,
            moved: now.to_near - before.to_near,
            refused: now.refused - before.refused,
            aged,
        });
        self.noted = self.evicting_rounds.map_or(self.border.noted(), |_| 1);
        self.at_round = now;
        let is_all_near = now.uses_far == before.uses_far && Free::now(heap).is_enough();
        self.nobody_compares = is_all_near && self.evicting_rounds.is_none();
        self.young_rounds = if aged { 0 } else { self.young_rounds + 1 };
    }

    /// Whether heats are halved in this round.
    fn ages(&self) -> bool {
        let mut rounds = self.border.rounds_to_age();
        if self.nobody_compares {
            rounds = rounds.max(ROUNDS_UNCOMPARED);
        }
        self.young_rounds + 1 >= self.evicting_rounds.map_or(rounds, |most| rounds.min(most))
    }

    /// Notes heat for the eviction of keys, and halves it after as many rounds at the latest; `None` for placement alone.
    pub(super) fn count_for(&mut self, evicting_rounds: Option<u32>) {
        if evicting_rounds != self.evicting_rounds {
            self.evicting_rounds = evicting_rounds;
            (self.noted, self.unnoted) = (1, 0);
            self.nobody_compares = false;
        }
    }

    /// A key was evicted: others took its place, and what was counted grows as old by it as by a use.
    pub(super) fn note_eviction(&mut self) {
        self.uses += 1;
    }

    /// Looks at an entry, of a sorted set if there is an `order`, and moves its record if that is called for.
    fn meet(
        &mut self,
        mut slot: Slot<'_>,
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
            if speed == Speed::Near && (!wanted.meets_many || self.is_sample()) {
                let bytes = heap.capacity(record);
                if bytes <= MOVED_BYTES_MAX {
                    self.border.meet(heat, bytes as u64);
                }
            }
        }
        if wanted.from == Some(speed) && !self.is_stuck {
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
            self.move_to(to, slot, order, heap);
        }
    }

    /// Moves the record of an entry to a tier, if that has room.
    fn move_to(
        &mut self,
        to: Speed,
        mut slot: Slot<'_>,
        order: Option<&mut Order>,
        heap: &mut Heap,
    ) {
        let record = slot.record();
        let from = heap.speed(record);
        let bytes = heap.capacity(record);
        if bytes > MOVED_BYTES_MAX {
            return;
        }
        // The order names the record as well; its place is found while the record can be compared.
        let place = order.map(|order| (member_place(order, heap, record), order));
        let Some(moved) = heap.migrate(record, to) else {
            self.is_stuck = true;
            return;
        };
        slot.set_record(moved);
        if let Some((place, order)) = place {
            order.set_record(place, moved);
        }
        self.pace.spend(bytes as u64);
        self.done.bytes += bytes as u64;
        match (from == to, to) {
            (true, _) => self.done.compacted += 1,
            (_, Speed::Near) => self.done.to_near += 1,
            (_, Speed::Far) => self.done.to_far += 1,
        }
    }
}

/// What a step is after, by what memory looks like when it begins.
struct Wanted {
    /// Heat is noted: records are placed by it, or keys evicted.
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

/// Whether near records are many.
#[inline]
fn has_many(heap: &Heap) -> bool {
    heap.memory.used(Speed::Near).objects >= MANY_OBJECTS
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
        let ages = migration.ages();
        Wanted {
            by_heat: policy == Policy::Dynamic || migration.evicting_rounds.is_some(),
            ages,
            meets_many: ages && has_many(heap),
            from,
            sparse,
            anyway: from.is_some() || sparse.contains(&true),
        }
    }
}

impl Db {
    /// A little of what has to be done in the background, before a window of so many keys.
    #[inline]
    pub(super) fn step(&mut self, keys: usize) {
        if self.migration.is_due() {
            self.migration
                .step(&mut self.tables, &mut self.larges, &mut self.heap, false);
            self.migration.choose_pages(&mut self.heap);
        }
        let Db {
            tables,
            larges,
            heap,
            migration,
            ..
        } = self;
        migration.make_room(tables, larges, heap, Some(keys));
        migration.empty_pages(tables, larges, heap, Some(keys));
    }

    /// More of it, and what the clock asks for. Whether there is more to do.
    pub(super) fn tick(&mut self) -> bool {
        self.heap.chooser.check(self.now_ms, &self.heap.memory);
        let has_more =
            self.migration
                .step(&mut self.tables, &mut self.larges, &mut self.heap, true);
        self.migration.choose_pages(&mut self.heap);
        self.migration
            .make_room(&mut self.tables, &mut self.larges, &mut self.heap, None);
        self.migration
            .empty_pages(&mut self.tables, &mut self.larges, &mut self.heap, None);
        has_more
    }
}
