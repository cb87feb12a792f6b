//! A hash table from keys to records that lie elsewhere, for a store whose requests arrive in batches.
//!
//! ```text
//!  hash:  │ top bits ──────────┐     ...  │ tag │  ...  ┌─ low bits │
//!                              ▼                        ▼
//!  directory: │ 0 │ 0 │ 1 │ 2 │ ─▶ segment 1: │ group │ group │ ... │   group: two lines,
//!                                 segment 2: │ group │ group │ ... │   fourteen entries
//! ```
//!
//! The table keeps a record's 40-bit number and 24 bits of its key's hash. What the number refers to, near
//! or far, is up to the [`RecordStore`]. A probe reads one group, and the record that it has found;
//! moving a record to other memory changes eight bytes here.
//!
//! A full segment splits in two (extendible hashing). That moves at most 5,632 entries, sequentially, and reads the
//! keys of the few displaced ones only, so the pause is bounded. Two half empty neighbours are merged again. A table
//! of less than a segment doubles.
//!
//! # Entry handles
//! [`find`](RecordTable::find) returns the position of its key as an [`EntryHandle`], made of numbers, not of
//! references: requests that have arrived together are looked up together, before the first is executed.
//! Executing one may change what another has found, so each group has a version, and
//! [`resolve`](RecordTable::resolve) says whether a handle is still valid.
//!
//! Invariants:
//! - Slot `p` of the directory (`2^depth` slots, but none for a depth of 0) names the segment of every hash whose top `depth` bits are
//!   `p`. A segment of depth `d` is named by `2^(depth - d)` consecutive slots. All segments have
//!   [`SEGMENT_GROUPS`] groups, or there is only one.
//! - An entry lies in its home group, chosen by the low bits of its hash, or in the first group of its probe sequence
//!   ([`probe`]) that had a vacant slot when it was inserted; the groups before it count it in their overflow.
//! - Of every segment at most [`LOAD`](segments::LOAD) slots a group are occupied on average, so there is always a vacant one.

mod arch;
mod group;
mod probe;
mod record_store;
mod scan;
mod segments;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tierra_interleave::{Cx, Mode};
use tierra_memory::FarSource;

use group::{HASH_BITS, NOTE_BITS, RECORD_BITS, RecordEntry, SLOTS, VERSIONS, tag_of};
use probe::{home_group, next_group};
pub use record_store::RecordStore;
pub use scan::SlotMut;
use segments::{SEGMENT_GROUPS, Segments};

/// The slot of an [`EntryHandle`] whose key was not there.
const ABSENT: u8 = SLOTS as u8;

/// A map from keys to records, which are numbers below 2^40.
pub struct RecordTable {
    /// Segment numbers by the top bits of a hash. Empty while there is one segment, which is number 0.
    directory: Box<[u32]>,
    depth: u32,
    segments: Segments,
    len: usize,
    /// Counts changes; grows by [`VERSIONS`] when entries move. Handles are compared with it.
    changes: u32,
}

/// The position of a key, or the fact that it was absent: valid until the table changes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHandle {
    hash: u64,
    segment: u32,
    changes: u32,
    version: u16,
    group: u16,
    slot: u8,
}

impl EntryHandle {
    /// The hash that was looked for.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What an [`EntryHandle`] says of its key now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The key's record.
    Record(u64),
    /// There is no such key.
    Absent,
    /// The table has changed there: look the key up again.
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
            directory: Box::default(),
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
        size_of::<Self>() + self.segments.bytes() + size_of_val(&*self.directory)
    }

    /// How much of that is far memory.
    pub fn far_bytes(&self) -> usize {
        self.segments.far_bytes()
    }

    /// Every record, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.segments.entries().map(RecordEntry::record)
    }

    /// Groups that [`visit`](Self::visit) goes through in a round, at most.
    pub fn groups(&self) -> usize {
        self.segments.numbers() * self.segments.groups(0).len()
    }

    /// Looks a key up: one group, rarely two, and the heads of records that may have it, rarely another's.
    pub async fn find<M: Mode, R: RecordStore>(
        &self,
        cx: Cx<M>,
        hash: u64,
        key: &[u8],
        records: &R,
    ) -> EntryHandle {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_group(hash, groups.len());
        let mut at = home;
        loop {
            let group = cx.load(&groups[at]).await;
            for slot in group.candidates(hash) {
                let record = group.entry(slot).record();
                cx.load_bytes(records.head(record)).await;
                if records.has_key(record, key) {
                    return self.handle(hash, segment, at, slot as u8);
                }
            }
            let next = next_group(at, tag_of(hash), groups.len());
            if !group.is_overflowed() || next == home {
                // An insertion of this very key would change its home.
                return self.handle(hash, segment, home, ABSENT);
            }
            at = next;
        }
    }

    /// Looks a key up by the bits of its hash that the table keeps, and reads no record: returns the first entry whose tag and
    /// hash bits match. A match is a false positive once in some thousand times (with more than a hundred million entries once
    /// in fifty), so the caller compares the record's key; a miss is certain. `ask` is called with the record as soon as it is
    /// known, to prefetch it while other keys are looked up.
    pub async fn find_by_tag<M: Mode>(
        &self,
        cx: Cx<M>,
        hash: u64,
        ask: impl FnOnce(u64),
    ) -> EntryHandle {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_group(hash, groups.len());
        let mut at = home;
        loop {
            let group = cx.load(&groups[at]).await;
            if let Some(slot) = group.candidates(hash).next() {
                ask(group.entry(slot).record());
                return self.handle(hash, segment, at, slot as u8);
            }
            let next = next_group(at, tag_of(hash), groups.len());
            if !group.is_overflowed() || next == home {
                return self.handle(hash, segment, home, ABSENT);
            }
            at = next;
        }
    }

    /// An entry with this hash whose record satisfies `is_wanted`, whatever its key.
    pub fn find_hash<R: RecordStore>(
        &self,
        hash: u64,
        records: &R,
        mut is_wanted: impl FnMut(u64) -> bool,
    ) -> Option<(EntryHandle, u64)> {
        let segment = self.segment_number(hash);
        let groups = self.segments.groups(segment);
        let home = home_group(hash, groups.len());
        let mut at = home;
        loop {
            self.segments.reading(segment, at..at + 1);
            let group = &groups[at];
            for slot in group.candidates(hash) {
                let record = group.entry(slot).record();
                if records.hash(record) == hash && is_wanted(record) {
                    return Some((self.handle(hash, segment, at, slot as u8), record));
                }
            }
            let next = next_group(at, tag_of(hash), groups.len());
            if !group.is_overflowed() || next == home {
                return None;
            }
            at = next;
        }
    }

    #[inline(always)]
    fn handle(&self, hash: u64, segment: usize, group: usize, slot: u8) -> EntryHandle {
        EntryHandle {
            hash,
            segment: segment as u32,
            changes: self.changes,
            version: self.segments.groups(segment)[group].version(),
            group: group as u16,
            slot,
        }
    }

    /// Whether a handle is still valid, and what it says.
    #[inline(always)]
    pub fn resolve(&self, handle: &EntryHandle) -> Resolved {
        // Fewer changes than there are versions since: an equal version is the same one.
        if self.changes.wrapping_sub(handle.changes) >= VERSIONS {
            return Resolved::Changed;
        }
        let group = &self.segments.groups(handle.segment as usize)[usize::from(handle.group)];
        if group.version() != handle.version {
            Resolved::Changed
        } else if handle.slot == ABSENT {
            Resolved::Absent
        } else {
            Resolved::Record(group.entry(usize::from(handle.slot)).record())
        }
    }

    /// The note of a valid handle's entry.
    ///
    /// # Panics
    /// If the handle is that of an absent key. May panic if it has [`Changed`](Resolved::Changed).
    #[inline(always)]
    pub fn note(&self, handle: &EntryHandle) -> u8 {
        let group = &self.segments.groups(handle.segment as usize)[usize::from(handle.group)];
        group.entry(usize::from(handle.slot)).note()
    }

    /// Changes the note of a valid handle's entry, to at most [`NOTE_MAX`](Self::NOTE_MAX), and returns the new
    /// note. Changes no version.
    ///
    /// # Panics
    /// As [`note`](Self::note).
    #[inline(always)]
    pub fn update_note(&mut self, handle: &EntryHandle, change: impl FnOnce(u8) -> u8) -> u8 {
        let (segment, at) = (handle.segment as usize, usize::from(handle.group));
        let group = &mut self.segments.groups_mut(segment)[at];
        let slot = usize::from(handle.slot);
        let before = group.entry(slot).note();
        let after = change(before);
        if after != before {
            group.set_note(slot, after);
            self.segments.wrote(segment, at..at + 1);
        }
        after
    }

    /// Adds a record whose key is absent, and returns the handle of its entry.
    ///
    /// # Panics
    /// If `record` or `note` has too many bits.
    pub fn insert<R: RecordStore>(
        &mut self,
        hash: u64,
        record: u64,
        note: u8,
        records: &R,
    ) -> EntryHandle {
        assert!(record <= Self::RECORD_MAX && note <= Self::NOTE_MAX);
        let mut segment = self.segment_number(hash);
        while self.segments.is_full(segment) {
            self.grow(segment, hash, records);
            segment = self.segment_number(hash);
        }
        let home = home_group(hash, self.segments.groups(segment).len());
        let entry = RecordEntry::new(hash, record, note);
        let (group, slot) = self.segments.insert(segment, home, tag_of(hash), entry);
        self.segments.wrote(segment, group..group + 1);
        self.changes = self.changes.wrapping_add(1);
        self.len += 1;
        self.handle(hash, segment, group, slot as u8)
    }

    /// Names another record for the key of a valid handle, which stays valid. The note stays.
    ///
    /// # Panics
    /// As [`note`](Self::note), and if `record` has too many bits.
    pub fn replace(&mut self, handle: &mut EntryHandle, record: u64) {
        assert!(record <= Self::RECORD_MAX);
        let (segment, at) = (handle.segment as usize, usize::from(handle.group));
        let group = &mut self.segments.groups_mut(segment)[at];
        group.set_record(usize::from(handle.slot), record);
        handle.version = group.version();
        self.segments.wrote(segment, at..at + 1);
        self.changes = self.changes.wrapping_add(1);
        handle.changes = self.changes;
    }

    /// Removes the entry of a valid handle.
    ///
    /// # Panics
    /// As [`note`](Self::note).
    pub fn remove<R: RecordStore>(&mut self, handle: &EntryHandle, records: &R) {
        let (segment, at) = (handle.segment as usize, usize::from(handle.group));
        let groups = self.segments.groups_mut(segment);
        groups[at].vacate(usize::from(handle.slot));
        let mut passed = home_group(handle.hash, groups.len());
        while passed != at {
            groups[passed].remove_overflow();
            passed = next_group(passed, tag_of(handle.hash), groups.len());
        }
        self.segments.wrote(segment, at..at + 1);
        self.changes = self.changes.wrapping_add(1);
        self.len -= 1;
        self.segments.note_removal(segment);
        if self.segments.is_sparse(segment) {
            self.shrink(segment, handle.hash, records);
        }
    }

    #[inline(always)]
    fn segment_number(&self, hash: u64) -> usize {
        self.segment_at(self.directory_slot(hash))
    }

    /// The segment that a slot of the directory names.
    #[inline(always)]
    fn segment_at(&self, slot: usize) -> usize {
        self.directory.get(slot).copied().unwrap_or(0) as usize
    }

    /// The slot of a hash in the directory.
    #[inline(always)]
    fn directory_slot(&self, hash: u64) -> usize {
        // With depth 0 the shift would be by 64: two shifts make it 0.
        (hash >> 1 >> (u64::BITS - 1 - self.depth)) as usize
    }

    /// Makes room in the segment of a hash. Moves the entries of that segment only.
    #[cold]
    fn grow<R: RecordStore>(&mut self, number: usize, hash: u64, records: &R) {
        self.changes = self.changes.wrapping_add(VERSIONS);
        if self.segments.groups(number).len() < SEGMENT_GROUPS {
            return self.segments.double(records);
        }
        let new = self.segments.split(number, records) as u32;
        let depth = self.segments.depth(number);
        if depth > self.depth {
            let doubled = |&segment: &u32| [segment; 2];
            self.directory = match self.depth {
                0 => Box::new([number as u32; 2]),
                _ => self.directory.iter().flat_map(doubled).collect(),
            };
            self.depth += 1;
        }
        // The places of a segment are consecutive; the upper half of them is the new one's.
        let slots = 1 << (self.depth - depth);
        let first = self.directory_slot(hash) & !(2 * slots - 1);
        self.directory[first + slots..first + 2 * slots].fill(new);
    }

    /// Gives memory back after removals, if the segment of a hash and its neighbour, or half of the only one, suffice.
    #[cold]
    fn shrink<R: RecordStore>(&mut self, number: usize, hash: u64, records: &R) {
        let depth = self.segments.depth(number);
        if depth == 0 {
            self.changes = self.changes.wrapping_add(VERSIONS);
            return self.segments.halve(records);
        }
        let slots = 1 << (self.depth - depth);
        let first = self.directory_slot(hash) & !(2 * slots - 1);
        let both = [first, first + slots].map(|slot| self.directory[slot] as usize);
        // The one that was there first stays: so few blocks are left with segments, and segment 0 always is.
        let [kept, removed] = [both[0].min(both[1]), both[0].max(both[1])];
        if self.segments.depth(kept) == self.segments.depth(removed)
            && self.segments.fit_together(kept, removed)
        {
            self.changes = self.changes.wrapping_add(VERSIONS);
            self.segments.merge(kept, removed, records);
            self.directory[first..first + 2 * slots].fill(kept as u32);
            if self.segments.depth(kept) == 0 {
                debug_assert_eq!(kept, 0, "the first stays");
                self.directory = Box::default();
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
