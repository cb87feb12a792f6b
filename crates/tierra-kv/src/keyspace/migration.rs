//! Records on the move: hot ones near, cold ones far, or as a ratio wants it; and out of sparse pages.
//!
//! There is no second thread: a shard's records are its own. A request that uses a hot far record takes it
//! near, when the record has just been read; the rest is done in small steps, between windows and by
//! [`Keyspace::tick`](super::Keyspace::tick), in proportion to the uses there were. So nothing is stopped, and an idle
//! store does nothing.

use tierra_index::{RecordTable, Slot};
use tierra_memory::Speed;
use tierra_memory::placement::{Border, Heat, Pace};

use super::db::{Entry, Table};
use super::heap::Heap;
use super::large::Larges;
use super::policy::Policy;
use super::{DATABASES, Db};

/// Uses for each group that a round visits: a round takes about twice as many uses as there are records.
const USES_PER_GROUP: u64 = 16;
/// Groups that a step between two windows visits at most.
const STEP_GROUPS: u64 = 8;
/// Groups that a tick visits at most: about a millisecond.
const TICK_GROUPS: u64 = 2048;
/// Larger records are left where they are: moving one would hold up a request.
const MOVED_BYTES_MAX: usize = 64 << 10;
/// Bytes moved for a hundred that requests touch.
const SHARE_PERCENT: u64 = 50;
/// The part of the near budget that is kept free for new records and those that become hot.
const FREE_PART: u64 = 64;
/// One record in as many is counted in the histogram.
const SAMPLED: u32 = 8;
/// How far from its ratio memory may be, in parts of all.
const RATIO_TOLERANCE: u64 = 400;

/// Records moved since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Near, because they were used.
    pub to_near: u64,
    /// Far, because others are hotter, or to hold a ratio.
    pub to_far: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Within their tier, so that pages could be given back.
    pub compacted: u64,
    /// Hot records that stayed far, because near memory was full or enough had moved.
    pub refused: u64,
}

pub(super) struct Migration {
    border: Border,
    pace: Pace,
    random: u64,
    /// Uses that no group has been visited for.
    uses: u64,
    /// What the round visits: a database or, from [`DATABASES`] on, a large hash; and the point in it.
    visiting: usize,
    point: usize,
    pub(super) done: Migrations,
}

impl Migration {
    pub(super) fn new() -> Migration {
        Migration {
            border: Border::default(),
            pace: Pace::new(SHARE_PERCENT),
            random: 0x2545_F491_4F6C_DD1D,
            uses: 0,
            visiting: 0,
            point: 0,
            done: Migrations::default(),
        }
    }

    #[inline(always)]
    fn random(&mut self) -> u32 {
        // Xorshift: cheap, and good enough for a coin.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }

    /// What a new record's entry notes: it stays where it was born for a round.
    #[inline]
    pub(super) fn birth_note(&self) -> u8 {
        self.border.heat().bits()
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
        if heap.chooser.settings.policy != Policy::Dynamic {
            return false;
        }
        self.uses += 1;
        let before = Heat::from_bits(table.note(&entry.carried));
        let heat = (0..uses).fold(before, |heat, _| heat.used(self.random()));
        if heat != before {
            table.set_note(&entry.carried, heat.bits());
        }
        let bytes = heap.header(entry.record).bytes();
        self.pace.earn(bytes as u64);
        if heap.speed(entry.record) == Speed::Near
            || !self.border.attracts(heat)
            || bytes > MOVED_BYTES_MAX
        {
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
        let near = self
            .pace
            .allows()
            .then(|| heap.migrate(entry.record, Speed::Near))
            .flatten();
        let Some(record) = near else {
            self.done.refused += 1;
            return false;
        };
        table.replace(&mut entry.carried, record);
        entry.record = record;
        self.pace.spend(bytes as u64);
        self.done.to_near += 1;
        self.done.bytes += bytes as u64;
        true
    }

    /// Visits as many groups as uses call for, `groups_max` at most.
    pub(super) fn step(
        &mut self,
        tables: &mut [Table; DATABASES],
        larges: &mut Larges,
        heap: &mut Heap,
        groups_max: u64,
    ) {
        let wanted = Wanted::now(heap);
        let due = if wanted.anyway {
            groups_max
        } else {
            (self.uses / USES_PER_GROUP).min(groups_max)
        };
        self.uses -= (due * USES_PER_GROUP).min(self.uses);
        let mut left = due as usize;
        while left > 0 {
            let table = match tables.get_mut(self.visiting) {
                Some(table) => Some(&mut table.records),
                None => larges.hash_table(self.visiting - DATABASES),
            };
            if let Some(table) = table.filter(|table| !table.is_empty()) {
                let groups = left.min(STEP_GROUPS as usize);
                let point = self.point;
                let visit = |slot: Slot<'_>| self.meet(slot, heap, &wanted);
                self.point = table.visit(point, groups, visit);
                left -= groups;
            } else {
                self.point = 0;
            }
            if self.point == 0 {
                self.visiting += 1;
                if self.visiting >= DATABASES + larges.numbers() {
                    self.visiting = 0;
                    self.end_round(heap);
                    return;
                }
            }
        }
    }

    fn end_round(&mut self, heap: &Heap) {
        let [near, far] = [Speed::Near, Speed::Far].map(|speed| heap.memory.used(speed));
        let budget = near.limit_bytes - near.limit_bytes / FREE_PART;
        // Pages hold a little more than objects.
        let all = near.held_bytes + far.held_bytes;
        self.border.end_round(budget, all);
    }

    fn meet(&mut self, mut slot: Slot<'_>, heap: &mut Heap, wanted: &Wanted) {
        let record = slot.record();
        let heat = Heat::from_bits(slot.note());
        let speed = heap.speed(record);
        let mut to = None;
        if wanted.by_heat {
            if heat != Heat::COLD {
                slot.set_note(heat.aged().bits());
            }
            if self.random() < u32::MAX / SAMPLED {
                self.border.meet(heat, heap.capacity(record) as u64);
            }
            let repelled =
                self.border.repels(heat) || wanted.pressed && !self.border.attracts(heat);
            if speed == Speed::Near && wanted.room && repelled && self.pace.allows() {
                to = Some(Speed::Far);
            }
        } else if let Some(from) = wanted.from
            && from == speed
            && heap
                .chooser
                .excess(&heap.memory)
                .is_some_and(|(tier, bytes)| tier == from && bytes > wanted.tolerance)
        {
            to = Some(if from == Speed::Near {
                Speed::Far
            } else {
                Speed::Near
            });
        }
        if to.is_none() && wanted.sparse[speed as usize] && heap.set_aside(record) {
            to = Some(speed);
        }
        if let Some(to) = to
            && heap.capacity(record) <= MOVED_BYTES_MAX
            && let Some(moved) = heap.migrate(record, to)
        {
            slot.set_record(moved);
            let bytes = heap.capacity(moved) as u64;
            self.pace.spend(bytes);
            self.done.bytes += bytes;
            match (speed == to, to) {
                (true, _) => self.done.compacted += 1,
                (_, Speed::Near) => self.done.to_near += 1,
                (_, Speed::Far) => self.done.to_far += 1,
            }
        }
    }
}

/// What a step is after, by what memory looks like when it begins.
struct Wanted {
    /// Heat decides.
    by_heat: bool,
    /// Near memory lacks the room that is kept free,
    room: bool,
    /// or has hardly any.
    pressed: bool,
    /// The tier that holds more than a ratio gives it, and how much more it may.
    from: Option<Speed>,
    tolerance: u64,
    /// Tiers half of whose pages are empty.
    sparse: [bool; 2],
    /// There is something to do, whether there were uses or not.
    anyway: bool,
}

impl Wanted {
    fn now(heap: &Heap) -> Wanted {
        let used = [Speed::Near, Speed::Far].map(|speed| heap.memory.used(speed));
        let near = used[0];
        let free = near.limit_bytes.saturating_sub(near.held_bytes);
        let policy = heap.chooser.settings.policy;
        let tolerance = (used[0].object_bytes + used[1].object_bytes) / RATIO_TOLERANCE;
        let excess = (policy == Policy::Ratio)
            .then(|| heap.chooser.excess(&heap.memory))
            .flatten();
        let from = excess
            .filter(|&(_, bytes)| bytes > tolerance)
            .map(|(tier, _)| tier);
        const FEW_BYTES: u64 = 4 << 20;
        let sparse = used.map(|tier| tier.held_bytes > 2 * tier.object_bytes + FEW_BYTES);
        Wanted {
            by_heat: policy == Policy::Dynamic,
            room: free < near.limit_bytes / FREE_PART,
            pressed: free < near.limit_bytes / FREE_PART / 2,
            from,
            tolerance,
            sparse,
            anyway: from.is_some() || sparse.contains(&true),
        }
    }
}

impl Db {
    /// A little of what has to be done in the background.
    #[inline]
    pub(super) fn step(&mut self) {
        self.migration.step(
            &mut self.tables,
            &mut self.larges,
            &mut self.heap,
            STEP_GROUPS,
        );
    }

    /// More of it, and what the clock asks for.
    pub(super) fn tick(&mut self) {
        self.heap.chooser.check(self.now_ms, &self.heap.memory);
        self.migration.step(
            &mut self.tables,
            &mut self.larges,
            &mut self.heap,
            TICK_GROUPS,
        );
    }
}
