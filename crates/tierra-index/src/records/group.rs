//! The unit of a probe: fourteen entries in two neighbouring lines, of which a probe reads the first
//! and, for half of the entries, the second.
//!
//! ```text
//!  byte 0                14      16      24              128
//!       │ tag 0 ... tag 13│ state │ entry 0│ ... │ entry 13│
//!  state: │ version: 10 bits │ passed: 6 │
//!  entry: │ hash, top 16 bits │ displaced: 1 │ note: 7 │ record: 40 │
//! ```
//!
//! A tag is eight bits of the key's hash, 0 if the slot is vacant. `passed` counts the entries that
//! have this group on their way from their home to where they lie: while it is 0 a search ends here. It
//! sticks at 63, because what is not counted cannot be counted down. (The counter is F14's, "outbound
//! overflow"; the version takes the place of its second counter.) Of four bits it stuck sooner or later in every group
//! of a full table whose keys come and go, and searches for keys that were not there met all groups.
//!
//! Invariants: 128 zero bytes are an empty group; an entry is displaced exactly if it does not lie in its
//! home; every change but of a note gives the group another version.

use super::arch::equal_bytes;
use crate::lines::Node;

/// Entries in a group.
pub(super) const SLOTS: usize = 14;
/// Changes of a group after which a version comes again.
pub(super) const VERSIONS: u32 = 1 << 10;
/// Records are numbered by as many bits.
pub(super) const RECORD_BITS: u32 = 40;
/// Bits that an entry keeps for its user.
pub(super) const NOTE_BITS: u32 = 7;
/// Bits of the hash that an entry keeps, the top ones.
pub(super) const HASH_BITS: u32 = 16;

const HEAD_BYTES: usize = 16;
const SLOT_MASK: u32 = (1 << SLOTS) - 1;
const PASSED_MAX: u16 = 63;
const ONE_VERSION: u16 = PASSED_MAX + 1;
const VACANT: u8 = 0;

/// What a table knows of a record without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    const DISPLACED: u64 = 1 << (RECORD_BITS + NOTE_BITS);
    const NOTE: u64 = ((1 << NOTE_BITS) - 1) << RECORD_BITS;
    const RECORD: u64 = (1 << RECORD_BITS) - 1;

    #[inline(always)]
    pub(super) fn new(hash: u64, record: u64, note: u8) -> Entry {
        debug_assert!(record <= Entry::RECORD && note < 1 << NOTE_BITS);
        let top = hash >> (u64::BITS - HASH_BITS) << (u64::BITS - HASH_BITS);
        Entry(top | u64::from(note) << RECORD_BITS | record)
    }

    #[inline(always)]
    pub(super) fn record(self) -> u64 {
        self.0 & Entry::RECORD
    }

    #[inline(always)]
    pub(super) fn note(self) -> u8 {
        ((self.0 & Entry::NOTE) >> RECORD_BITS) as u8
    }

    #[inline(always)]
    fn with_record(self, record: u64) -> Entry {
        debug_assert!(record <= Entry::RECORD);
        Entry(self.0 & !Entry::RECORD | record)
    }

    #[inline(always)]
    fn with_note(self, note: u8) -> Entry {
        debug_assert!(note < 1 << NOTE_BITS);
        Entry(self.0 & !Entry::NOTE | u64::from(note) << RECORD_BITS)
    }

    #[inline(always)]
    pub(super) fn is_displaced(self) -> bool {
        self.0 & Entry::DISPLACED != 0
    }

    #[inline(always)]
    fn displaced(self, displaced: bool) -> Entry {
        let bit = if displaced { Entry::DISPLACED } else { 0 };
        Entry(self.0 & !Entry::DISPLACED | bit)
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
    entries: [Entry; SLOTS],
}

const _: () = assert!(size_of::<Group>() == 2 * tierra_interleave::LINE_BYTES);

// SAFETY: integers that fill two lines, aligned to lines.
unsafe impl Node for Group {
    const ZERO: Group = Group {
        tags: [VACANT; SLOTS],
        state: 0,
        entries: [Entry(0); SLOTS],
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
        let slots = Slots(equal_bytes(self.head(), tag_of(hash)) & SLOT_MASK);
        slots.filter(move |&slot| self.entries[slot].is_of(hash))
    }

    /// The slots that hold entries.
    #[inline(always)]
    pub(super) fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        Slots(!equal_bytes(self.head(), VACANT) & SLOT_MASK)
    }

    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> Entry {
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

    /// Whether entries have passed this group: a search goes on in the next one.
    #[inline(always)]
    pub(super) fn is_passed(&self) -> bool {
        self.state & PASSED_MAX != 0
    }

    #[inline(always)]
    pub(super) fn version(&self) -> u16 {
        self.state >> PASSED_MAX.trailing_ones()
    }

    #[inline(always)]
    fn change(&mut self) {
        self.state = self.state.wrapping_add(ONE_VERSION);
    }

    /// Takes an entry in, and says where; `None`, and the entry counted as passing, if there is no vacant
    /// slot.
    #[inline]
    pub(super) fn take(&mut self, tag: u8, entry: Entry, displaced: bool) -> Option<usize> {
        self.change();
        let vacant = equal_bytes(self.head(), VACANT) & SLOT_MASK;
        if vacant == 0 {
            if self.state & PASSED_MAX < PASSED_MAX {
                self.state += 1;
            }
            return None;
        }
        let slot = vacant.trailing_zeros() as usize;
        self.tags[slot] = tag;
        self.entries[slot] = entry.displaced(displaced);
        Some(slot)
    }

    /// An entry that had passed this group is gone.
    pub(super) fn unpass(&mut self) {
        self.change();
        let passed = self.state & PASSED_MAX;
        debug_assert!(passed > 0);
        if passed < PASSED_MAX {
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
struct Slots(u32);

impl Iterator for Slots {
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
