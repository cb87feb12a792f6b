//! A hash table from keys to records that lie elsewhere, for a store whose requests arrive in batches.
//!
//! ```text
//!  hash:  │ top bits ──────────┐     ...  │ tag │  ...  ┌─ low bits │
//!                              ▼                        ▼
//!  directory: │ 0 │ 0 │ 1 │ 2 │ ─▶ segment 1: │ group │ group │ ... │   group: two lines,
//!                                 segment 2: │ group │ group │ ... │   fourteen entries
//! ```
//!
//! A table knows of a record its 40-bit number and 24 bits of its key's hash. What lies under the number, near
//! or far, is the [`Records`]' business. So a probe reads one group, and the record that it has found;
//! moving a record to other memory changes eight bytes here.
//!
//! A segment that is full splits in two (extendible hashing), which moves at most 5,632 entries, sequentially,
//! and reads the keys of the few that are displaced only: growth stops nobody. Two half empty neighbours
//! become one again. A table of less than a segment doubles.
//!
//! # Carried entries
//! [`find`](RecordTable::find) returns where it has found its key as a [`Carried`], made of numbers, not of
//! references: requests that have arrived together are looked up together, before the first is executed.
//! Executing one may change what another has found, so each group has a version, and
//! [`resolve`](RecordTable::resolve) says whether a carried entry still holds.
//!
//! Invariants:
//! - Place `p` of the directory (`2^depth` places) names the segment of every hash whose top `depth` bits are
//!   `p`. A segment of depth `d` is named by `2^(depth - d)` consecutive places. All segments have
//!   [`SEGMENT_GROUPS`] groups, or there is only one.
//! - An entry lies in its home group, chosen by the low bits of its hash, or in the first group on its way from there
//!   ([`way`]) that had a vacant slot when it came; the groups before count it as having passed.
//! - Of every segment at most [`LOAD`](segments::LOAD) slots a group are occupied on average, so there is always a vacant one.

mod arch;
mod group;
mod holder;
mod scan;
mod segments;
#[cfg(test)]
mod tests;
mod way;

use std::sync::Arc;

use tierra_interleave::{Cx, Mode};
use tierra_memory::FarSource;

use group::{Entry, HASH_BITS, NOTE_BITS, RECORD_BITS, SLOTS, VERSIONS, tag_of};
pub use holder::Records;
pub use scan::Slot;
use segments::{SEGMENT_GROUPS, Segments};
use way::{after, home_of};

/// The slot of a [`Carried`] whose key was not there.
const ABSENT: u8 = SLOTS as u8;

/// A map from keys to records, which are numbers below 2^40. See the [module](self).
pub struct RecordTable {
    /// Segment numbers by the top bits of a hash.
    directory: Vec<u32>,
    depth: u32,
    segments: Segments,
    len: usize,
    /// Counts changes; grows by [`VERSIONS`] when entries move. What a carried entry is compared with.
    changes: u32,
}

/// Where a key was found, or found absent: holds until the table changes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    hash: u64,
    segment: u32,
    changes: u32,
    version: u16,
    group: u16,
    slot: u8,
}

impl Carried {
    /// The hash that was looked for.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What a [`Carried`] says of its key now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The key's record.
    Record(u64),
    /// There is no such key.
    Absent,
    /// The table has changed there: look again.
    Changed,
}

impl RecordTable {
    /// The greatest number of a record.
    pub const RECORD_MAX: u64 = (1 << RECORD_BITS) - 1;
    /// The greatest note.
    pub const NOTE_MAX: u8 = (1 << NOTE_BITS) - 1;

    /// An empty table of one group, in near memory.
    pub fn new() -> RecordTable {
        RecordTable::with(Segments::new(None))
    }

    /// An empty table whose groups are in far memory, from 512 of them on; where none can be had they are near. The
    /// directory, four bytes for every 64 KiB of groups, is near.
    pub fn in_far(source: Arc<FarSource>) -> RecordTable {
        RecordTable::with(Segments::new(Some(source)))
    }

    /// An empty table in the same memory as this one.
    pub fn empty_like(&self) -> RecordTable {
        RecordTable::with(Segments::new(self.segments.far().cloned()))
    }

    fn with(segments: Segments) -> RecordTable {
        RecordTable {
            directory: vec![0],
            depth: 0,
            segments,
            len: 0,
            changes: 0,
        }
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that the table takes, records not included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.segments.bytes() + self.directory.capacity() * size_of::<u32>()
    }

    /// How much of that is far memory.
    pub fn far_bytes(&self) -> usize {
        self.segments.far_bytes()
    }

    /// Every record, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.segments.entries().map(Entry::record)
    }

    /// Groups that [`visit`](Self::visit) goes through in a round, at most.
    pub fn groups(&self) -> usize {
        self.segments.numbers() * self.segments.groups(0).len()
    }

    /// Looks a key up: one group, rarely two, and the heads of records that may have it, rarely another's.
    pub async fn find<M: Mode, R: Records>(
        &self,
        cx: Cx<M>,
        hash: u64,
        key: &[u8],
        records: &R,
    ) -> Carried {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_of(hash, groups.len());
        let mut at = home;
        loop {
            let group = cx.load(&groups[at]).await;
            for slot in group.candidates(hash) {
                let record = group.entry(slot).record();
                cx.load_bytes(records.head(record)).await;
                if records.has_key(record, key) {
                    return self.carried(hash, segment, at, slot as u8);
                }
            }
            let next = after(at, tag_of(hash), groups.len());
            if !group.is_passed() || next == home {
                // An insertion of this very key would change its home.
                return self.carried(hash, segment, home, ABSENT);
            }
            at = next;
        }
    }

    /// Looks a key up by its hash alone, and reads no record: the first entry that keeps the same bits of a hash. It is another key's
    /// once in some thousand times (of more than a hundred million entries once in fifty), which whoever uses it finds out by
    /// the record; that a key is absent is certain. `ask` is told the record as soon as it is known, to fetch it while others are
    /// looked up.
    pub async fn find_likely<M: Mode>(
        &self,
        cx: Cx<M>,
        hash: u64,
        ask: impl FnOnce(u64),
    ) -> Carried {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_of(hash, groups.len());
        let mut at = home;
        loop {
            let group = cx.load(&groups[at]).await;
            if let Some(slot) = group.candidates(hash).next() {
                ask(group.entry(slot).record());
                return self.carried(hash, segment, at, slot as u8);
            }
            let next = after(at, tag_of(hash), groups.len());
            if !group.is_passed() || next == home {
                return self.carried(hash, segment, home, ABSENT);
            }
            at = next;
        }
    }

    /// The entry of a record with this hash that is `wanted`, whatever its key.
    pub fn find_hash<R: Records>(
        &self,
        hash: u64,
        records: &R,
        mut wanted: impl FnMut(u64) -> bool,
    ) -> Option<(Carried, u64)> {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_of(hash, groups.len());
        let mut at = home;
        loop {
            self.segments.reading(segment, at..at + 1);
            let group = &groups[at];
            for slot in group.candidates(hash) {
                let record = group.entry(slot).record();
                if records.hash(record) == hash && wanted(record) {
                    return Some((self.carried(hash, segment, at, slot as u8), record));
                }
            }
            let next = after(at, tag_of(hash), groups.len());
            if !group.is_passed() || next == home {
                return None;
            }
            at = next;
        }
    }

    #[inline(always)]
    fn carried(&self, hash: u64, segment: usize, group: usize, slot: u8) -> Carried {
        Carried {
            hash,
            segment: segment as u32,
            changes: self.changes,
            version: self.segments.groups(segment)[group].version(),
            group: group as u16,
            slot,
        }
    }

    /// Whether a carried entry still holds, and what it says.
    #[inline(always)]
    pub fn resolve(&self, carried: &Carried) -> Resolved {
        // Fewer changes than there are versions since: an equal version is the same one.
        if self.changes.wrapping_sub(carried.changes) >= VERSIONS {
            return Resolved::Changed;
        }
        let group = &self.segments.groups(carried.segment as usize)[usize::from(carried.group)];
        if group.version() != carried.version {
            Resolved::Changed
        } else if carried.slot == ABSENT {
            Resolved::Absent
        } else {
            Resolved::Record(group.entry(usize::from(carried.slot)).record())
        }
    }

    /// The note of an entry that holds.
    ///
    /// # Panics
    /// If the entry is that of an absent key, or (in part) if it has [`Changed`](Resolved::Changed).
    #[inline(always)]
    pub fn note(&self, carried: &Carried) -> u8 {
        let group = &self.segments.groups(carried.segment as usize)[usize::from(carried.group)];
        group.entry(usize::from(carried.slot)).note()
    }

    /// Changes the note of an entry that holds to another, at most [`NOTE_MAX`](Self::NOTE_MAX), and returns that.
    /// Changes no version.
    ///
    /// # Panics
    /// As [`note`](Self::note).
    #[inline(always)]
    pub fn update_note(&mut self, carried: &Carried, change: impl FnOnce(u8) -> u8) -> u8 {
        let (segment, at) = (carried.segment as usize, usize::from(carried.group));
        let group = &mut self.segments.groups_mut(segment)[at];
        let slot = usize::from(carried.slot);
        let before = group.entry(slot).note();
        let after = change(before);
        if after != before {
            group.set_note(slot, after);
            self.segments.wrote(segment, at..at + 1);
        }
        after
    }

    /// Adds a record whose key is not there, and returns its entry.
    ///
    /// # Panics
    /// If `record` or `note` has too many bits.
    pub fn insert<R: Records>(&mut self, hash: u64, record: u64, note: u8, records: &R) -> Carried {
        assert!(record <= Self::RECORD_MAX && note <= Self::NOTE_MAX);
        let mut segment = self.segment_number(hash);
        while self.segments.is_full(segment) {
            self.grow(segment, hash, records);
            segment = self.segment_number(hash);
        }
        let home = home_of(hash, self.segments.groups(segment).len());
        let entry = Entry::new(hash, record, note);
        let (group, slot) = self.segments.put(segment, home, tag_of(hash), entry);
        self.segments.wrote(segment, group..group + 1);
        self.changes = self.changes.wrapping_add(1);
        self.len += 1;
        self.carried(hash, segment, group, slot as u8)
    }

    /// Names another record for the key of an entry that holds, and still does afterwards. The note stays.
    ///
    /// # Panics
    /// As [`note`](Self::note), and if `record` has too many bits.
    pub fn replace(&mut self, carried: &mut Carried, record: u64) {
        assert!(record <= Self::RECORD_MAX);
        let (segment, at) = (carried.segment as usize, usize::from(carried.group));
        let group = &mut self.segments.groups_mut(segment)[at];
        group.set_record(usize::from(carried.slot), record);
        carried.version = group.version();
        self.segments.wrote(segment, at..at + 1);
        self.changes = self.changes.wrapping_add(1);
        carried.changes = self.changes;
    }

    /// Removes an entry that holds.
    ///
    /// # Panics
    /// As [`note`](Self::note).
    pub fn remove<R: Records>(&mut self, carried: &Carried, records: &R) {
        let (segment, at) = (carried.segment as usize, usize::from(carried.group));
        let groups = self.segments.groups_mut(segment);
        groups[at].vacate(usize::from(carried.slot));
        let mut passed = home_of(carried.hash, groups.len());
        while passed != at {
            groups[passed].unpass();
            passed = after(passed, tag_of(carried.hash), groups.len());
        }
        self.segments.wrote(segment, at..at + 1);
        self.changes = self.changes.wrapping_add(1);
        self.len -= 1;
        self.segments.forget(segment);
        if self.segments.is_sparse(segment) {
            self.shrink(segment, carried.hash, records);
        }
    }

    #[inline(always)]
    fn segment_number(&self, hash: u64) -> usize {
        self.directory[self.place(hash)] as usize
    }

    /// The place of a hash in the directory.
    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        // With depth 0 the shift would be by 64: two shifts make it 0.
        (hash >> 1 >> (u64::BITS - 1 - self.depth)) as usize
    }

    /// Makes room in the segment of a hash, by moving its entries and nobody else's.
    #[cold]
    fn grow<R: Records>(&mut self, number: usize, hash: u64, records: &R) {
        self.changes = self.changes.wrapping_add(VERSIONS);
        if self.segments.groups(number).len() < SEGMENT_GROUPS {
            return self.segments.double(records);
        }
        let new = self.segments.split(number, records) as u32;
        let depth = self.segments.depth(number);
        if depth > self.depth {
            let doubled = |&segment: &u32| [segment; 2];
            self.directory = self.directory.iter().flat_map(doubled).collect();
            self.depth += 1;
        }
        // The places of a segment are consecutive; the upper half of them is the new one's.
        let places = 1 << (self.depth - depth);
        let first = self.place(hash) & !(2 * places - 1);
        self.directory[first + places..first + 2 * places].fill(new);
    }

    /// Gives memory back after removals, if the segment of a hash and its neighbour, or half of the only one, suffice.
    #[cold]
    fn shrink<R: Records>(&mut self, number: usize, hash: u64, records: &R) {
        let depth = self.segments.depth(number);
        if depth == 0 {
            self.changes = self.changes.wrapping_add(VERSIONS);
            return self.segments.halve(records);
        }
        let places = 1 << (self.depth - depth);
        let first = self.place(hash) & !(2 * places - 1);
        let both = [first, first + places].map(|place| self.directory[place] as usize);
        // The one that was there first stays: so few blocks are left with segments, and segment 0 always is.
        let [stays, goes] = [both[0].min(both[1]), both[0].max(both[1])];
        if self.segments.depth(stays) == self.segments.depth(goes)
            && self.segments.fit_together(stays, goes)
        {
            self.changes = self.changes.wrapping_add(VERSIONS);
            self.segments.merge(stays, goes, records);
            self.directory[first..first + 2 * places].fill(stays as u32);
            if self.segments.depth(stays) == 0 {
                self.directory = vec![stays as u32];
                self.depth = 0;
            }
        }
    }
}

impl Default for RecordTable {
    fn default() -> Self {
        Self::new()
    }
}

// The tag, the bits that choose a group, and those kept in an entry are different ones.
const _: () = assert!(SEGMENT_GROUPS <= 1 << 16 && HASH_BITS <= 24);
