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
use tierra_memory::placement::{Heat, Pace, Rounds};

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

/// Records that groups have, more or less.
const RECORDS_PER_GROUP: u64 = 8;
/// Groups that a step between two windows visits.
const STEP_GROUPS: u64 = Rounds::STEP_USES as u64 / RECORDS_PER_GROUP;
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
/// How far from its ratio memory may be, in parts of all.
const RATIO_TOLERANCE: u64 = 200;

pub(super) struct Migration {
    /// When what heats call for is done, and what is hot.
    pub(super) rounds: Rounds,
    pace: Pace,
    /// Where the round is that tells how hot things are.
    round: Hand,
    /// Where cold records are searched for.
    search: Hand,
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
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            rounds: Rounds::default(),
            pace: Pace::new(SHARE_PERCENT),
            round: Hand::default(),
            search: Hand::default(),
            passed: 0,
            leaving: Vec::new(),
            is_search_vain: false,
            is_stuck: false,
            vain_rounds: 0,
            vain_bytes: [0; 2],
            clearing: Clearing::default(),
        }
    }

    /// Begins anew, but for what has been done: what was noted under another policy says nothing.
    pub(super) fn restart(&mut self) {
        self.rounds.restart();
        *self = Migration {
            rounds: std::mem::take(&mut self.rounds),
            ..Migration::new()
        };
    }

    /// Whether one of many is to be met.
    #[inline(always)]
    fn is_sample(&mut self) -> bool {
        self.passed = (self.passed + 1) % MET_OF_MANY;
        self.passed == 0
    }

    /// Whether heat is noted: records are placed by it, or keys evicted.
    #[inline(always)]
    fn is_by_heat(&self, heap: &Heap) -> bool {
        heap.chooser.settings.policy == Policy::Dynamic || self.rounds.is_for_eviction()
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
        let speed = heap.speed(entry.record);
        self.rounds.count_use(speed);
        if !self.is_by_heat(heap) || !self.rounds.notes_use() {
            return false;
        }
        let heat = table.update_note(&entry.carried, |note| {
            self.rounds.raised(Heat::from_bits(note), uses).bits()
        });
        let bytes = heap.header(entry.record).bytes();
        self.pace
            .earn(bytes as u64 * u64::from(self.rounds.noted()));
        let is_dynamic = heap.chooser.settings.policy == Policy::Dynamic;
        let is_attracted = is_dynamic && self.rounds.attracts(Heat::from_bits(heat));
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
            self.rounds.note_refusal();
            return false;
        };
        table.replace(&mut entry.carried, record);
        entry.record = record;
        self.pace.spend(bytes as u64);
        self.rounds.note_move(Speed::Far, Speed::Near, bytes as u64);
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
        let moved_before = self.rounds.done().bytes;
        let mut groups = if ticks { TICK_GROUPS } else { 2 * STEP_GROUPS };
        loop {
            let wanted = Wanted::now(tables.heap, self);
            if !wanted.by_heat {
                // Uses call for nothing then.
                self.rounds.forget_uses();
            }
            let is_due = self.rounds.is_due();
            if !is_due && (!wanted.anyway || self.is_stuck) {
                return false;
            }
            if groups == 0 || self.rounds.done().bytes - moved_before > STEP_BYTES_MAX {
                return wanted.anyway;
            }
            let steps = self.visit(tables, &wanted);
            if is_due {
                self.rounds.take_steps(steps);
            }
            groups = groups.saturating_sub(STEP_GROUPS);
        }
    }

    /// Visits the next groups of the round, and may pass over some behind them; how many steps' groups that were.
    fn visit(&mut self, tables: &mut Tables<'_>, wanted: &Wanted) -> u64 {
        let (mut point, len) =
            tables.visit(self.round, STEP_GROUPS as usize, |slot, order, heap| {
                self.meet(slot, order, heap, wanted);
            });
        let mut steps = u64::from(len > 0);
        if point != 0 && !wanted.anyway {
            let steps_of = |groups: usize| groups as u64 / STEP_GROUPS;
            let left = steps_of(len.saturating_sub(point));
            let passed = self.rounds.passes_over(steps_of(len), left);
            steps += passed;
            point += (passed * STEP_GROUPS) as usize;
        }
        let has_ended = tables.advance(&mut self.round, point);
        tables.fetch(self.round, STEP_GROUPS as usize);
        if has_ended {
            self.judge_gathering(tables.heap, wanted);
            self.rounds.end(Free::now(tables.heap).is_enough());
        }
        steps
    }

    /// Whether there is anything left to gather is seen by whole rounds that gather nothing.
    fn judge_gathering(&mut self, heap: &Heap, wanted: &Wanted) {
        let gathers = wanted.sparse.contains(&true);
        let gathered = self.rounds.done_in_round().compacted - self.clearing.end_round();
        let is_vain = gathers && gathered == 0;
        self.vain_rounds = if is_vain { self.vain_rounds + 1 } else { 0 };
        self.vain_bytes = held_bytes(heap);
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
                    self.rounds.meet(heat, bytes as u64);
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
        self.rounds.note_move(from, to, bytes as u64);
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
        let ages = migration.rounds.ages();
        Wanted {
            by_heat: migration.is_by_heat(heap),
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
        if self.migration.rounds.is_due() {
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
