//! Sorted sets: packed into one record while they are small, records and an [`Order`] of them when they are not.

use std::cmp::Ordering;
use std::ops::Range;

use tierra_index::RecordTable;

use super::db::{Db, WRITE_USES};
use super::entry::LiveEntry;
use super::heap::{Heap, MemoryFull};
use super::key::Key;
use super::large::Large;
use super::lookup::{look_up, scan_table};
use super::member::{compare, score_of};
use super::order::{Order, Ranked, RankedRange};
use super::packed::{self, COUNT_BYTES, Member, PACKED_BYTES_MAX};
use super::prefetch::Prefetched;
use super::record::Form;

/// Members and scores, in order. Made by [`Db::zset_range`].
pub struct ZsetRange<'a>(Members<'a>);

enum Members<'a> {
    Packed(std::vec::IntoIter<(&'a [u8], f64)>),
    Large(Box<Prefetched<'a, RankedRange<'a>>>),
}

impl<'a> Iterator for ZsetRange<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Members::Packed(members) => members.next(),
            Members::Large(range) => range
                .next()
                .map(|(score, record)| (range.heap().key(record), score)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Members::Packed(members) => members.size_hint(),
            Members::Large(range) => range.size_hint(),
        }
    }
}

impl DoubleEndedIterator for ZsetRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Members::Packed(members) => members.next_back(),
            Members::Large(range) => range
                .next_back()
                .map(|(score, record)| (range.heap().key(record), score)),
        }
    }
}

impl ExactSizeIterator for ZsetRange<'_> {}

impl Db {
    fn members(&self, entry: LiveEntry) -> impl Iterator<Item = Member<'_>> + Clone {
        packed::members(self.store.heap.value(entry.record))
    }

    fn set_parts(&self, entry: LiveEntry) -> (&RecordTable, &Order) {
        match self.store.large(entry) {
            Large::Set(table, order) => (table, order),
            Large::Hash(_) => unreachable!("the caller has asked for the kind"),
        }
    }

    fn set_parts_mut(&mut self, record: u64) -> (&mut RecordTable, &mut Order, &mut Heap) {
        match self
            .store
            .larges
            .get_mut(self.store.heap.large_number(record))
        {
            Large::Set(table, order) => (table, order, &mut self.store.heap),
            Large::Hash(_) => unreachable!("the caller has asked for the kind"),
        }
    }

    /// How many members a sorted set has.
    pub fn zset_len(&self, entry: LiveEntry) -> usize {
        if self.is_packed(entry) {
            packed::count(self.store.heap.value(entry.record))
        } else {
            self.set_parts(entry).0.len()
        }
    }

    /// The score of a member.
    pub fn zset_score(&self, entry: LiveEntry, member: &[u8]) -> Option<f64> {
        if self.is_packed(entry) {
            return self
                .members(entry)
                .find(|found| found.member == member)
                .map(|found| found.score);
        }
        let (_, record) = look_up(self.set_parts(entry).0, &self.store.heap, member)?;
        Some(score_of(self.store.heap.value(record)))
    }

    /// How many members come before this one.
    pub fn zset_rank(&self, entry: LiveEntry, member: &[u8]) -> Option<usize> {
        if self.is_packed(entry) {
            return self.members(entry).position(|found| found.member == member);
        }
        let score = self.zset_score(entry, member)?;
        let compare = compare(&self.store.heap, score, member);
        Some(
            self.set_parts(entry)
                .1
                .count(|other| compare(other) == Ordering::Less),
        )
    }

    /// Gives a member a score; it and the set are made where they are missing.
    ///
    /// # Errors
    /// Where there is no memory for it; the set is what it was.
    pub fn zset_set(&mut self, key: &Key<'_>, member: &[u8], score: f64) -> Result<(), MemoryFull> {
        debug_assert!(!score.is_nan());
        let mut entry = self.peek(key);
        if let Some(entry) = &mut entry {
            self.use_entry(key, entry, WRITE_USES);
            if !self.is_packed(*entry) {
                return self.large_set(entry.record, member, score);
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let settings = &self.store.heap.chooser.settings;
        let fits = member.len() <= settings.set_packed_value_max && {
            let before = entry.map(|entry| self.store.heap.value(entry.record));
            packed::put_member(
                &mut scratch,
                before.unwrap_or(&[0; COUNT_BYTES]),
                score,
                member,
            );
            packed::count(&scratch) <= settings.set_packed_entries_max
                && scratch.len() <= PACKED_BYTES_MAX
        };
        let result = if fits {
            self.write_packed(key, entry, Form::PackedSet, &scratch)
        } else {
            let unpacked = self.unpack_set(key, entry);
            let result = unpacked.and_then(|record| self.large_set(record, member, score));
            self.remove_if_empty(key, result)
        };
        self.scratch = scratch;
        result
    }

    fn unpack_set(&mut self, key: &Key<'_>, entry: Option<LiveEntry>) -> Result<u64, MemoryFull> {
        let packed = entry.map(|entry| self.store.heap.value(entry.record).to_vec());
        let packed = packed.unwrap_or_else(|| vec![0; COUNT_BYTES]);
        let (mut table, mut ranked) = (self.new_table(), Vec::new());
        for found in packed::members(&packed) {
            let Ok(record) = self
                .store
                .heap
                .create_field(found.member, &found.score.to_le_bytes())
            else {
                table.iter().for_each(|record| self.store.heap.free(record));
                return Err(MemoryFull);
            };
            table.insert(
                self.store.heap.hash_of(found.member),
                record,
                0,
                &self.store.heap,
            );
            ranked.push((found.score, record));
        }
        self.write_large(
            key,
            entry,
            Large::Set(table, Box::new(Order::new(ranked.into_iter()))),
        )
    }

    fn large_set(&mut self, record: u64, member: &[u8], score: f64) -> Result<(), MemoryFull> {
        let (table, order, heap) = self.set_parts_mut(record);
        match look_up(table, heap, member) {
            Some((_, record)) => {
                let before = score_of(heap.value(record));
                if before == score {
                    return Ok(());
                }
                let removed = order.remove(compare(heap, before, member));
                debug_assert!(removed, "a member has its place");
                heap.value_mut(record).copy_from_slice(&score.to_le_bytes());
                heap.wrote(record, heap.header(record).value_at(), size_of::<f64>());
                order.insert((score, record), compare(heap, score, member));
            }
            None => {
                let record = heap.create_field(member, &score.to_le_bytes())?;
                table.insert(heap.hash_of(member), record, 0, heap);
                order.insert((score, record), compare(heap, score, member));
            }
        }
        Ok(())
    }

    /// Removes a member, and the set with its last one. False where there is no such member.
    pub fn zset_remove(&mut self, key: &Key<'_>, member: &[u8]) -> bool {
        let Some(entry) = self.peek(key) else {
            return false;
        };
        if !self.is_packed(entry) {
            return self.remove_parts(entry, std::iter::once(member)) == 1;
        }
        let Some(rank) = self.zset_rank(entry, member) else {
            return false;
        };
        self.zset_remove_ranks(key, rank..rank + 1);
        true
    }

    /// Removes the members of these ranks, and the set with its last one.
    pub fn zset_remove_ranks(&mut self, key: &Key<'_>, ranks: Range<usize>) {
        let Some(mut entry) = self.peek(key) else {
            return;
        };
        let len = self.zset_len(entry);
        let ranks = ranks.start.min(len)..ranks.end.min(len);
        if ranks.is_empty() {
            return;
        }
        if ranks.len() == len {
            return self.remove_entry(entry);
        }
        if self.is_packed(entry) {
            let bytes = self.store.heap.value(entry.record).len();
            let mut members = self.members(entry).skip(ranks.start).take(ranks.len());
            let first = members.next().expect("there are members of these ranks");
            let end = members.last().map_or(first.end, |last| last.end);
            let start = first.start;
            let packed = self.store.heap.value_mut(entry.record);
            packed.copy_within(end.., start);
            packed::set_count(packed, len - ranks.len());
            return self.shrink(key, &mut entry, bytes - (end - start));
        }
        let removed: Vec<Ranked> = self.set_parts(entry).1.range(ranks).collect();
        let (large, heap) = (
            self.store
                .larges
                .get_mut(self.store.heap.large_number(entry.record)),
            &mut self.store.heap,
        );
        for (_, record) in removed {
            let found = look_up(large.table(), heap, heap.key(record));
            let (handle, _) = found.expect("a member has its record");
            large.remove(&handle, record, heap);
        }
    }

    /// How many members have a score below this one (or this one, if inclusive).
    pub fn zset_below_score(&self, entry: LiveEntry, score: f64, inclusive: bool) -> usize {
        let below = |other: f64| other < score || inclusive && other == score;
        if self.is_packed(entry) {
            return self
                .members(entry)
                .take_while(|found| below(found.score))
                .count();
        }
        self.set_parts(entry).1.count(|(other, _)| below(other))
    }

    /// How many members come before these bytes (or are these bytes, if inclusive) where all scores are equal.
    pub fn zset_below_member(&self, entry: LiveEntry, member: &[u8], inclusive: bool) -> usize {
        let below = |other: &[u8]| other < member || inclusive && other == member;
        if self.is_packed(entry) {
            return self
                .members(entry)
                .take_while(|found| below(found.member))
                .count();
        }
        self.set_parts(entry)
            .1
            .count(|(_, record)| below(self.store.heap.key(record)))
    }

    /// The members of these ranks in order, from either end.
    pub fn zset_range(&self, entry: LiveEntry, ranks: Range<usize>) -> ZsetRange<'_> {
        let len = self.zset_len(entry);
        let ranks = ranks.start.min(len)..ranks.end.min(len);
        ZsetRange(if self.is_packed(entry) {
            let members = self.members(entry).skip(ranks.start).take(ranks.len());
            let members: Vec<_> = members.map(|found| (found.member, found.score)).collect();
            Members::Packed(members.into_iter())
        } else {
            Members::Large(Box::new(Prefetched::new(
                &self.store.heap,
                self.set_parts(entry).1.range(ranks),
            )))
        })
    }

    /// As [`Db::scan`], over members and scores.
    pub fn zset_scan(
        &self,
        entry: LiveEntry,
        cursor: u64,
        count: usize,
        mut each: impl FnMut(&[u8], f64),
    ) -> u64 {
        if self.is_packed(entry) {
            self.members(entry)
                .for_each(|found| each(found.member, found.score));
            return 0;
        }
        scan_table(
            self.set_parts(entry).0,
            &self.store.heap,
            cursor,
            count,
            |record| {
                each(
                    self.store.heap.key(record),
                    score_of(self.store.heap.value(record)),
                );
            },
        )
    }
}
