//! Iterating over a table that changes meanwhile, in two ways.
//!
//! A **cursor** ([`RecordTable::scan`]) is a number that a client may keep for any time: every entry that exists
//! from the first step to the last is returned at least once, whatever grows or shrinks in between. The cursor is a
//! point in the order of all hashes by their low bits reversed, then by their top bits. Doubling groups divides the
//! low bits and splitting a segment divides the top ones, so what lay before the point still does. (Reversing the
//! bits is Redis's idea.) A **round** ([`RecordTable::visit`]) reads groups in the order of memory, for background
//! work that may miss entries that move.

use tierra_interleave::{Interleaved, Mode};

use super::RecordTable;
use super::group::{Group, SLOTS};
use super::probe::{STRIDES, home_group, next_group};
use super::record_store::RecordStore;
use super::segments::SEGMENT_GROUPS;

const GROUP_BITS: u32 = SEGMENT_GROUPS.trailing_zeros();
/// Places of the directory as a cursor counts them, more than there ever are.
const PLACE_BITS: u32 = 32;

/// An entry met by [`RecordTable::visit`].
pub struct SlotMut<'a> {
    group: &'a mut Group,
    slot: usize,
    changes: &'a mut u32,
    is_changed: &'a mut bool,
}

impl SlotMut<'_> {
    /// The record.
    #[inline(always)]
    pub fn record(&self) -> u64 {
        self.group.entry(self.slot).record()
    }

    /// What is noted with it.
    #[inline(always)]
    pub fn note(&self) -> u8 {
        self.group.entry(self.slot).note()
    }

    /// Notes something else, at most [`RecordTable::NOTE_MAX`].
    #[inline(always)]
    pub fn set_note(&mut self, note: u8) {
        self.group.set_note(self.slot, note);
        *self.is_changed = true;
    }

    /// Names another record for the same key.
    pub fn set_record(&mut self, record: u64) {
        assert!(record <= RecordTable::RECORD_MAX);
        self.group.set_record(self.slot, record);
        *self.is_changed = true;
        *self.changes = self.changes.wrapping_add(1);
    }
}

impl RecordTable {
    /// Emits the records of at least one home group, and returns the cursor to continue with. A scan begins with 0,
    /// and is complete when 0 is returned. Any number is accepted as a cursor.
    pub fn scan<R: RecordStore>(&self, cursor: u64, records: &R, mut emit: impl FnMut(u64)) -> u64 {
        let reversed = (cursor >> PLACE_BITS) as u32 & ((1 << GROUP_BITS) - 1);
        let place = cursor & ((1 << PLACE_BITS) - 1);
        let number = self.segment_at((place >> 1 >> (PLACE_BITS - 1 - self.depth)) as usize);
        let groups = self.segments.groups(number);
        let bits = groups.len().trailing_zeros();
        // A small table has fewer groups: those whose reversed numbers begin as the cursor does.
        let group_step = 1u32 << (GROUP_BITS - bits);
        let reversed = reversed & !(group_step - 1);
        let home = (reversed.reverse_bits() >> 1 >> (u32::BITS - 1 - GROUP_BITS)) as usize;
        self.segments.reading(number, home..home + 1);
        let at_home = groups[home].occupied().map(|slot| groups[home].entry(slot));
        for entry in at_home.filter(|entry| !entry.is_displaced()) {
            emit(entry.record());
        }
        // Displaced entries of this home lie on the probe sequences that start there.
        for stride in 0..STRIDES.len() {
            let mut at = home;
            while groups[at].is_overflowed() {
                at = next_group(at, stride as u8, groups.len());
                if at == home {
                    break;
                }
                self.segments.reading(number, at..at + 1);
                for slot in groups[at].occupied() {
                    let (entry, tag) = (groups[at].entry(slot), groups[at].tag(slot));
                    if entry.is_displaced()
                        && usize::from(tag) % STRIDES.len() == stride
                        && home_group(records.hash(entry.record()), groups.len()) == home
                    {
                        emit(entry.record());
                    }
                }
            }
        }
        // The next segment, and after the last one the next group of the first.
        let place_step = 1u64 << (PLACE_BITS - self.segments.depth(number));
        let next = (place & !(place_step - 1)) + place_step;
        if next < 1 << PLACE_BITS {
            return u64::from(reversed) << PLACE_BITS | next;
        }
        let next = reversed + group_step;
        if next < 1 << GROUP_BITS {
            u64::from(next) << PLACE_BITS
        } else {
            0
        }
    }

    /// Visits the entries of `groups` groups from a point on, and returns the point after them, 0 once the
    /// round is over, as 0 begins one.
    pub fn visit(
        &mut self,
        point: usize,
        groups: usize,
        mut visit: impl FnMut(SlotMut<'_>),
    ) -> usize {
        let (mut number, mut first) = (point / SEGMENT_GROUPS, point % SEGMENT_GROUPS);
        let mut left = groups;
        while number < self.segments.numbers() {
            if self.segments.is_used(number) {
                let len = self.segments.groups(number).len();
                let end = len.min(first.saturating_add(left));
                self.segments.reading(number, first..end);
                for at in first..end {
                    let group = &mut self.segments.groups_mut(number)[at];
                    let mut is_changed = false;
                    for slot in group.occupied() {
                        visit(SlotMut {
                            group,
                            slot,
                            changes: &mut self.changes,
                            is_changed: &mut is_changed,
                        });
                    }
                    if is_changed {
                        self.segments.wrote(number, at..at + 1);
                    }
                }
                left -= end.saturating_sub(first);
                if end < len {
                    return number * SEGMENT_GROUPS + end;
                }
            }
            (number, first) = (number + 1, 0);
            if left == 0 && number < self.segments.numbers() {
                return number * SEGMENT_GROUPS;
            }
        }
        0
    }

    /// Fetches groups that a round will visit from a point on; those of another segment will be asked for when it comes.
    pub fn fetch(&self, point: usize, groups: usize) {
        let (number, first) = (point / SEGMENT_GROUPS, point % SEGMENT_GROUPS);
        if number < self.segments.numbers() && self.segments.is_used(number) {
            let all = self.segments.groups(number);
            let end = all.len().min(first.saturating_add(groups));
            let bytes = Group::bytes(&all[first.min(end)..end]);
            if !bytes.is_empty() {
                Interleaved.issue(bytes.as_ptr(), bytes.len());
            }
        }
    }

    /// Some record, as likely as any other: `random` decides. `None` if there is none.
    pub fn some(&self, random: impl FnMut() -> u64) -> Option<u64> {
        let (number, at, slot) = self.some_slot(random)?;
        Some(self.segments.groups(number)[at].entry(slot).record())
    }

    /// The point from which [`visit`](Self::visit) visits the group of some entry first, which is as likely as any other: groups
    /// are met the more often the more they hold. `None` if there is no entry.
    pub fn some_point(&self, random: impl FnMut() -> u64) -> Option<usize> {
        let (number, at, _) = self.some_slot(random)?;
        Some(number * SEGMENT_GROUPS + at)
    }

    /// Some slot that is occupied, its segment's number and its group.
    fn some_slot(&self, mut random: impl FnMut() -> u64) -> Option<(usize, usize, usize)> {
        if self.is_empty() {
            return None;
        }
        loop {
            // A segment, not a hash: half as many hashes are those of a segment that has been split once more.
            let in_use = self.segments.in_use();
            let number = in_use[random() as usize % in_use.len()] as usize;
            let groups = self.segments.groups(number);
            let at = random() as usize % groups.len();
            // A slot, not an entry, so that full groups are met more often.
            let slot = random() as usize % SLOTS;
            if !groups[at].is_vacant(slot) {
                return Some((number, at, slot));
            }
        }
    }
}
