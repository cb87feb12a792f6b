//! The unit of a probe: fourteen entries in two neighbouring lines, of which a probe reads the first
//! and, for half of the entries, the second.
//!
//! ```text
//!  byte 0                14      16      24              128
//!       │ tag 0 ... tag 13│ state │ entry 0│ ... │ entry 13│
//!  state: │ version: 10 bits │ overflow: 6 │
//!  entry: │ hash, top 16 bits │ displaced: 1 │ note: 7 │ record: 40 │
//! ```
//!
//! A tag is eight bits of the key's hash, 0 if the slot is vacant. `overflow` counts the entries whose probe
//! sequence passes this group before the group they lie in: while it is 0 a search ends here. It saturates
//! at 63 and stays there, because entries that were not counted cannot be subtracted. (The counter is F14's "outbound
//! overflow"; the version takes the place of its second counter.) A counter of four bits saturated sooner or later in
//! every group of a full table with insertions and removals, and searches for absent keys then read all groups.
//!
//! Invariants: 128 zero bytes are an empty group; an entry is displaced exactly if it does not lie in its
//! home; every change but of a note gives the group another version.

use super::arch::equal_bytes;
use crate::node_array::Node;

/// Entries in a group.
pub(super) const SLOTS: usize = 14;
/// A version repeats after this many changes of its group.
pub(super) const VERSIONS: u32 = 1 << 10;
/// Bits of a record number.
pub(super) const RECORD_BITS: u32 = 40;
/// Bits that an entry keeps for its user.
pub(super) const NOTE_BITS: u32 = 7;
/// Bits of the hash that an entry keeps, the top ones.
pub(super) const HASH_BITS: u32 = 16;

const HEAD_BYTES: usize = 16;
const SLOT_MASK: u32 = (1 << SLOTS) - 1;
const MAX_OVERFLOW: u16 = 63;
const VERSION_STEP: u16 = MAX_OVERFLOW + 1;
const VACANT: u8 = 0;

/// What a table knows of a record without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordEntry(u64);

impl RecordEntry {
    const DISPLACED: u64 = 1 << (RECORD_BITS + NOTE_BITS);
    const NOTE: u64 = ((1 << NOTE_BITS) - 1) << RECORD_BITS;
    const RECORD: u64 = (1 << RECORD_BITS) - 1;

    #[inline(always)]
    pub(super) fn new(hash: u64, record: u64, note: u8) -> RecordEntry {
        debug_assert!(record <= RecordEntry::RECORD && note < 1 << NOTE_BITS);
        let top = hash >> (u64::BITS - HASH_BITS) << (u64::BITS - HASH_BITS);
        RecordEntry(top | u64::from(note) << RECORD_BITS | record)
    }

    #[inline(always)]
    pub(super) fn record(self) -> u64 {
        self.0 & RecordEntry::RECORD
    }

    #[inline(always)]
    pub(super) fn note(self) -> u8 {
        ((self.0 & RecordEntry::NOTE) >> RECORD_BITS) as u8
    }

    #[inline(always)]
    fn with_record(self, record: u64) -> RecordEntry {
        debug_assert!(record <= RecordEntry::RECORD);
        RecordEntry(self.0 & !RecordEntry::RECORD | record)
    }

    #[inline(always)]
    fn with_note(self, note: u8) -> RecordEntry {
        debug_assert!(note < 1 << NOTE_BITS);
        RecordEntry(self.0 & !RecordEntry::NOTE | u64::from(note) << RECORD_BITS)
    }

    #[inline(always)]
    pub(super) fn is_displaced(self) -> bool {
        self.0 & RecordEntry::DISPLACED != 0
    }

    #[inline(always)]
    fn displaced(self, displaced: bool) -> RecordEntry {
        let bit = if displaced { RecordEntry::DISPLACED } else { 0 };
        RecordEntry(self.0 & !RecordEntry::DISPLACED | bit)
    }

    /// The bits of the hash that it keeps, in their places.
    #[inline(always)]
    pub(super) fn hash_top(self) -> u64 {
        self.0 >> (u64::BITS - HASH_BITS) << (u64::BITS - HASH_BITS)
    }

    #[inline(always)]
    fn is_of(self, hash: u64) -> bool {
        (self.0 ^ hash) >> (u64::BITS - HASH_BITS) == 0
    }
}

/// The tag of a hash: bits that neither chose the group nor are kept in the entry.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    ((hash >> 32) as u8).max(VACANT + 1)
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group {
    tags: [u8; SLOTS],
    state: u16,
    entries: [RecordEntry; SLOTS],
}

const _: () = assert!(size_of::<Group>() == 2 * tierra_interleave::LINE_BYTES);

// SAFETY: integers that fill two lines, aligned to lines.
unsafe impl Node for Group {
    const ZERO: Group = Group {
        tags: [VACANT; SLOTS],
        state: 0,
        entries: [RecordEntry(0); SLOTS],
    };
}

impl Group {
    #[inline(always)]
    fn head(&self) -> &[u8; HEAD_BYTES] {
        const { assert!(std::mem::offset_of!(Group, entries) == HEAD_BYTES) };
        // SAFETY: the first sixteen bytes of the group are tags and state, integers without padding.
        unsafe { &*std::ptr::from_ref(self).cast::<[u8; HEAD_BYTES]>() }
    }

    /// The bytes of neighbouring groups.
    pub(super) fn bytes(groups: &[Group]) -> &[u8] {
        // SAFETY: integers without padding, borrowed for as long.
        unsafe { std::slice::from_raw_parts(groups.as_ptr().cast(), size_of_val(groups)) }
    }

    /// The slots whose entries may be of `hash`: one in ten million others is among them.
    #[inline(always)]
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> {
        let slots = SetBits(equal_bytes(self.head(), tag_of(hash)) & SLOT_MASK);
        slots.filter(move |&slot| self.entries[slot].is_of(hash))
    }

    /// The slots that hold entries.
    #[inline(always)]
    pub(super) fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        SetBits(!equal_bytes(self.head(), VACANT) & SLOT_MASK)
    }

    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> RecordEntry {
        self.entries[slot]
    }

    #[inline(always)]
    pub(super) fn tag(&self, slot: usize) -> u8 {
        self.tags[slot]
    }

    #[inline(always)]
    pub(super) fn is_vacant(&self, slot: usize) -> bool {
        self.tags[slot] == VACANT
    }

    /// Whether entries overflowed from this group: a search goes on in the next one.
    #[inline(always)]
    pub(super) fn is_overflowed(&self) -> bool {
        self.state & MAX_OVERFLOW != 0
    }

    #[inline(always)]
    pub(super) fn version(&self) -> u16 {
        self.state >> MAX_OVERFLOW.trailing_ones()
    }

    #[inline(always)]
    fn change(&mut self) {
        self.state = self.state.wrapping_add(VERSION_STEP);
    }

    /// Inserts an entry and returns its slot. If no slot is vacant, counts the entry as overflow and returns
    /// `None`.
    #[inline]
    pub(super) fn try_insert(
        &mut self,
        tag: u8,
        entry: RecordEntry,
        displaced: bool,
    ) -> Option<usize> {
        self.change();
        let vacant = equal_bytes(self.head(), VACANT) & SLOT_MASK;
        if vacant == 0 {
            if self.state & MAX_OVERFLOW < MAX_OVERFLOW {
                self.state += 1;
            }
            return None;
        }
        let slot = vacant.trailing_zeros() as usize;
        self.tags[slot] = tag;
        self.entries[slot] = entry.displaced(displaced);
        Some(slot)
    }

    /// An entry that had overflowed from this group has been removed.
    pub(super) fn remove_overflow(&mut self) {
        self.change();
        let overflow = self.state & MAX_OVERFLOW;
        debug_assert!(overflow > 0);
        if overflow < MAX_OVERFLOW {
            self.state -= 1;
        }
    }

    /// Vacates a slot.
    pub(super) fn vacate(&mut self, slot: usize) {
        debug_assert!(!self.is_vacant(slot));
        self.change();
        self.tags[slot] = VACANT;
    }

    /// Names another record for the same key.
    #[inline]
    pub(super) fn set_record(&mut self, slot: usize, record: u64) {
        debug_assert!(!self.is_vacant(slot));
        self.change();
        self.entries[slot] = self.entries[slot].with_record(record);
    }

    #[inline(always)]
    pub(super) fn set_note(&mut self, slot: usize, note: u8) {
        debug_assert!(!self.is_vacant(slot));
        self.entries[slot] = self.entries[slot].with_note(note);
    }
}

/// The bits that are set.
#[derive(Clone, Copy)]
struct SetBits(u32);

impl Iterator for SetBits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            slot
        })
    }
}
