//! All records of a shard, in both tiers: made, read, resized, freed, moved.
//!
//! Records are named by the numbers of their places. Whoever names one keeps the name right: what resizes or
//! moves a record returns its new number.
//!
//! Invariant: a number that a table holds is that of a live record whose header tells its length.

use std::cell::Cell;
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use tierra_index::RecordStore;
use tierra_interleave::{Interleaved, Mode};
use tierra_memory::Speed;
use tierra_memory::emulation::{self, Transfer};
use tierra_memory::slab::{FetchStep, Place, RecordMemory};

use super::chooser::Chooser;
use super::free::Free;
use super::record::{EXPIRY_BYTES, Form, HEADER_BYTES, Header, KEY_BYTES_MAX};
use super::settings::Policy;

/// Bytes of a record that are fetched ahead at most. The processor notices what follows by itself.
pub(super) const FETCHED_BYTES_MAX: usize = 4096;

/// Larger records are left where they are: moving one would hold up a request.
pub(super) const MOVED_BYTES_MAX: usize = 64 << 10;

/// There is no memory left for a record in either tier. What was asked for has not been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither tier has memory left for the record")]
pub struct MemoryFull;

pub(super) struct Heap {
    pub(super) memory: RecordMemory,
    pub(super) chooser: Chooser,
    hasher: SeedableRandomState,
    /// What is being written to emulated far memory: stores do not wait, but one has to be done before the next.
    writing: Cell<Option<Transfer>>,
    /// Bytes of records that found no room near though there was enough of it, of other sizes.
    pub(super) lacking_bytes: u64,
}

impl Heap {
    pub(super) fn new(memory: RecordMemory, chooser: Chooser) -> Heap {
        // The library's own randomness is that of its address; the system's is added.
        let seed = std::hash::RandomState::new().hash_one(0);
        Heap {
            memory,
            chooser,
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_random()),
            writing: Cell::new(None),
            lacking_bytes: 0,
        }
    }

    #[inline(always)]
    pub(super) fn hash_of(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    #[inline(always)]
    pub(super) fn header(&self, record: u64) -> Header {
        let bytes = self.memory.bytes(Place::from_number(record), HEADER_BYTES);
        Header::read(bytes.try_into().expect("as long as a header"))
    }

    /// The whole record.
    #[inline(always)]
    pub(super) fn bytes(&self, record: u64) -> &[u8] {
        let header = self.header(record);
        self.memory
            .bytes(Place::from_number(record), header.bytes())
    }

    #[inline(always)]
    pub(super) fn key(&self, record: u64) -> &[u8] {
        let header = self.header(record);
        &self.bytes(record)[header.key_at()..header.value_at()]
    }

    #[inline(always)]
    pub(super) fn value(&self, record: u64) -> &[u8] {
        let header = self.header(record);
        &self.bytes(record)[header.value_at()..]
    }

    /// The value, to be written; say so with [`wrote`](Self::wrote).
    #[inline(always)]
    pub(super) fn value_mut(&mut self, record: u64) -> &mut [u8] {
        let header = self.header(record);
        &mut self
            .memory
            .bytes_mut(Place::from_number(record), header.bytes())[header.value_at()..]
    }

    /// Makes bytes of a record zero; say so with [`wrote`](Self::wrote).
    pub(super) fn zero(&mut self, record: u64, range: std::ops::Range<usize>) {
        self.memory.zero(Place::from_number(record), range);
    }

    /// The number that a record of form [`Form::Large`] holds.
    pub(super) fn large_number(&self, record: u64) -> u32 {
        u32::from_le_bytes(self.value(record).try_into().expect("four bytes"))
    }

    pub(super) fn expiry(&self, record: u64) -> Option<u64> {
        let expires = self.header(record).expires;
        expires.then(|| {
            let bytes = self
                .memory
                .bytes(Place::from_number(record), HEADER_BYTES + EXPIRY_BYTES);
            u64::from_le_bytes(bytes[HEADER_BYTES..].try_into().expect("eight bytes"))
        })
    }

    #[inline(always)]
    pub(super) fn speed(&self, record: u64) -> Speed {
        self.memory.speed(Place::from_number(record))
    }

    /// Bytes that a record takes.
    pub(super) fn capacity(&self, record: u64) -> usize {
        self.memory.capacity(Place::from_number(record))
    }

    fn allocate(&mut self, bytes: usize) -> Result<Place, MemoryFull> {
        if self.chooser.is_due() {
            self.chooser.check_now(&self.memory);
        }
        let (first, second) = match self.chooser.tier(bytes) {
            Speed::Near => (Speed::Near, Speed::Far),
            Speed::Far => (Speed::Far, Speed::Near),
        };
        if let Some(place) = self.memory.allocate(first, bytes) {
            return Ok(place);
        }
        if first == Speed::Near {
            self.note_lack(bytes);
        }
        if let Some(place) = self.memory.allocate(second, bytes) {
            return Ok(place);
        }
        // Slots of pages that were to become empty for others.
        while self.memory.keep(Speed::Near) {
            if let Some(place) = self.memory.allocate(Speed::Near, bytes) {
                return Ok(place);
            }
        }
        Err(MemoryFull)
    }

    /// A record of as many bytes has found no room near.
    #[cold]
    fn note_lack(&mut self, bytes: usize) {
        let is_dynamic = self.chooser.settings.policy == Policy::Dynamic;
        if is_dynamic && bytes <= MOVED_BYTES_MAX && Free::now(&self.memory).is_half() {
            self.lacking_bytes += bytes as u64;
        }
    }

    /// Makes a record; its value is whatever was there before, to be written.
    pub(super) fn create(
        &mut self,
        form: Form,
        key: &[u8],
        value_bytes: usize,
        expiry: Option<u64>,
    ) -> Result<u64, MemoryFull> {
        if key.len() > KEY_BYTES_MAX || u32::try_from(value_bytes).is_err() {
            return Err(MemoryFull);
        }
        let header = Header {
            form,
            expires: expiry.is_some(),
            key_bytes: key.len(),
            value_bytes,
        };
        let place = self.allocate(header.bytes())?;
        let bytes = self.memory.bytes_mut(place, header.bytes());
        write_head(bytes, header, expiry);
        bytes[header.key_at()..header.value_at()].copy_from_slice(key);
        Ok(place.number())
    }

    /// Makes the record of a field, or of a member and its score.
    pub(super) fn create_field(&mut self, field: &[u8], value: &[u8]) -> Result<u64, MemoryFull> {
        let record = self.create(Form::Bytes, field, value.len(), None)?;
        self.value_mut(record).copy_from_slice(value);
        self.wrote(record, 0, self.header(record).bytes());
        Ok(record)
    }

    pub(super) fn free(&mut self, record: u64) {
        self.memory.free(Place::from_number(record));
    }

    /// Gives a record's value another length: what it had, as far as it fits, then whatever was there. It may
    /// move, also to another tier, and its old number is invalid then.
    pub(super) fn resize(&mut self, record: u64, value_bytes: usize) -> Result<u64, MemoryFull> {
        if u32::try_from(value_bytes).is_err() {
            return Err(MemoryFull);
        }
        let old = self.header(record);
        let new = Header { value_bytes, ..old };
        if self.fits(record, new.bytes()) {
            let place = Place::from_number(record);
            self.memory
                .bytes_mut(place, HEADER_BYTES)
                .copy_from_slice(&new.to_bytes());
            return Ok(record);
        }
        let place = self.allocate(new.bytes())?;
        Ok(self.move_to(place, record, new))
    }

    /// As [`resize`](Self::resize), of a value that is likely to grow again: where it has to move, it gets an eighth of its
    /// length in addition, or what is appended to a long one would move all of it again and again.
    pub(super) fn grow(&mut self, record: u64, value_bytes: usize) -> Result<u64, MemoryFull> {
        let old = self.header(record);
        let new = Header { value_bytes, ..old };
        let room = new.bytes() + new.bytes() / 8;
        if u32::try_from(value_bytes).is_ok()
            && new.bytes() > self.capacity(record)
            && let Ok(place) = self.allocate(room)
        {
            return Ok(self.move_to(place, record, new));
        }
        self.resize(record, value_bytes)
    }

    /// Moves a record to another place and gives it another header with a key as long.
    fn move_to(&mut self, place: Place, record: u64, new: Header) -> u64 {
        let bytes = self.header(record).bytes().min(new.bytes());
        let from = Place::from_number(record);
        self.memory.copy((from, 0), (place, 0), bytes);
        self.memory
            .bytes_mut(place, HEADER_BYTES)
            .copy_from_slice(&new.to_bytes());
        self.free(record);
        place.number()
    }

    /// Whether as many bytes are at home where the record is: they fit, without wasting half.
    fn fits(&self, record: u64, bytes: usize) -> bool {
        let capacity = self.capacity(record);
        bytes <= capacity && bytes >= capacity / 2
    }

    /// Shortens a value. It may move as by [`resize`](Self::resize), if there is memory.
    pub(super) fn shrink(&mut self, record: u64, value_bytes: usize) -> u64 {
        let header = Header {
            value_bytes,
            ..self.header(record)
        };
        debug_assert!(value_bytes <= self.header(record).value_bytes);
        self.resize(record, value_bytes)
            .unwrap_or_else(|MemoryFull| {
                let place = Place::from_number(record);
                self.memory
                    .bytes_mut(place, HEADER_BYTES)
                    .copy_from_slice(&header.to_bytes());
                record
            })
    }

    /// Whether a record's pages are nearly empty; then others are allocated from first.
    pub(super) fn set_aside(&mut self, record: u64) -> bool {
        self.memory.set_aside(Place::from_number(record))
    }

    /// Whether a record's pages are to become empty; then nothing is allocated there.
    pub(super) fn is_vacated(&self, record: u64) -> bool {
        self.memory.is_vacated(Place::from_number(record))
    }

    /// Says when a record expires. It may move as by [`resize`](Self::resize).
    pub(super) fn set_expiry(
        &mut self,
        record: u64,
        expiry: Option<u64>,
    ) -> Result<u64, MemoryFull> {
        let old = self.header(record);
        let new = Header {
            expires: expiry.is_some(),
            ..old
        };
        let place = Place::from_number(record);
        let kept = old.key_at()..old.bytes();
        if new.bytes() <= self.capacity(record) {
            let bytes = self.memory.bytes_mut(place, old.bytes().max(new.bytes()));
            if old.expires != new.expires {
                bytes.copy_within(kept, new.key_at());
            }
            write_head(bytes, new, expiry);
            let changed = if old.expires == new.expires {
                EXPIRY_BYTES
            } else {
                new.bytes()
            };
            self.wrote(record, 0, changed);
            return Ok(record);
        }
        let to = self.allocate(new.bytes())?;
        // Both begin at units, so the copy is made where it is and shifted there.
        self.memory.copy((place, 0), (to, 0), old.bytes());
        let bytes = self.memory.bytes_mut(to, new.bytes());
        bytes.copy_within(kept, new.key_at());
        write_head(bytes, new, expiry);
        self.free(record);
        self.wrote(to.number(), 0, new.bytes());
        Ok(to.number())
    }

    /// Gives a record that expires another time; say so with [`wrote`](Self::wrote).
    pub(super) fn put_off(&mut self, record: u64, at_ms: u64) {
        let header = self.header(record);
        debug_assert!(header.expires);
        let bytes = self
            .memory
            .bytes_mut(Place::from_number(record), HEADER_BYTES + EXPIRY_BYTES);
        write_head(bytes, header, Some(at_ms));
    }

    /// The same record under another key; the old one stays.
    pub(super) fn duplicate(&mut self, record: u64, key: &[u8]) -> Result<u64, MemoryFull> {
        let header = self.header(record);
        let expiry = self.expiry(record);
        let copy = self.create(header.form, key, header.value_bytes, expiry)?;
        let (from, to) = (Place::from_number(record), Place::from_number(copy));
        let to = (to, self.header(copy).value_at());
        self.memory
            .copy((from, header.value_at()), to, header.value_bytes);
        self.wrote(copy, 0, self.header(copy).bytes());
        Ok(copy)
    }

    /// Moves a record to a tier, if that has room; its new number.
    pub(super) fn migrate(&mut self, record: u64, to: Speed) -> Option<u64> {
        let bytes = self.header(record).bytes();
        let from = Place::from_number(record);
        let Some(place) = self.memory.allocate(to, bytes) else {
            if to == Speed::Near && self.memory.speed(from) == Speed::Far {
                self.note_lack(bytes);
            }
            return None;
        };
        self.memory.copy((from, 0), (place, 0), bytes);
        self.wrote(place.number(), 0, bytes);
        self.free(record);
        Some(place.number())
    }

    /// Fetches what moving a record reads; [`fetch_books`](Self::fetch_books) goes on with it.
    pub(super) fn fetch(&self, record: u64) {
        let bytes = self.fetched(record);
        Interleaved.issue(bytes.as_ptr(), bytes.len());
        self.fetch_books(record, FetchStep::First);
    }

    /// Fetches what the memory knows of a record's place, in two steps.
    pub(super) fn fetch_books(&self, record: u64, step: FetchStep) {
        self.memory.fetch_books(Place::from_number(record), step);
    }

    /// Bytes of a record have been written: where far memory is emulated, this is when it takes its time.
    #[inline(always)]
    pub(super) fn wrote(&self, record: u64, at: usize, bytes: usize) {
        if emulation::is_on() {
            let all = self.memory.bytes(Place::from_number(record), at + bytes);
            drop(self.writing.take());
            let writing = emulation::begin_write(all[at..].as_ptr(), bytes);
            self.writing.set(Some(writing));
        }
    }

    /// The beginning of a record's room, as much of it as is fetched ahead. The record itself is not read.
    #[inline(always)]
    pub(super) fn fetched(&self, record: u64) -> &[u8] {
        let place = Place::from_number(record);
        let bytes = self.memory.capacity(place).min(FETCHED_BYTES_MAX);
        self.memory.bytes(place, bytes)
    }
}

fn write_head(bytes: &mut [u8], header: Header, expiry: Option<u64>) {
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    if let Some(expiry) = expiry {
        bytes[HEADER_BYTES..HEADER_BYTES + EXPIRY_BYTES].copy_from_slice(&expiry.to_le_bytes());
    }
}

impl RecordStore for Heap {
    #[inline(always)]
    fn head(&self, record: u64) -> &[u8] {
        // All of it, since it will be wanted: how large it is is known near.
        self.fetched(record)
    }

    #[inline(always)]
    fn has_key(&self, record: u64, key: &[u8]) -> bool {
        let header = self.header(record);
        header.key_bytes == key.len()
            && self
                .memory
                .bytes(Place::from_number(record), header.value_at())[header.key_at()..]
                == *key
    }

    fn hash(&self, record: u64) -> u64 {
        self.hash_of(self.key(record))
    }
}
