//! All records of a shard, in both tiers: creating, reading, resizing, freeing and moving them.
//!
//! A record is identified by the number of its address. The holder of a number keeps it up to date: methods that resize
//! or move a record return its new number.
//!
//! Invariant: a number that a table holds is that of a live record whose header has its length.

use std::cell::Cell;
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use tierra_index::RecordStore;
use tierra_interleave::{Interleaved, Mode};
use tierra_memory::Speed;
use tierra_memory::emulation::{self, Transfer};
use tierra_memory::slab::{FetchStep, ObjectAddress, RecordMemory};

use super::chooser::Chooser;
use super::headroom::Headroom;
use super::record::{EXPIRY_BYTES, Form, HEADER_BYTES, Header, KEY_BYTES_MAX};
use super::settings::Policy;

/// The most bytes of a record that are prefetched. The hardware prefetcher fetches what follows.
pub(super) const FETCHED_BYTES_MAX: usize = 4096;

/// Larger records are not moved: moving one would delay a request.
pub(super) const MOVED_BYTES_MAX: usize = 64 << 10;

/// There is no memory left for a record in either tier. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither tier has memory left for the record")]
pub struct MemoryFull;

pub(super) struct Heap {
    pub(super) memory: RecordMemory,
    pub(super) chooser: Chooser,
    hasher: SeedableRandomState,
    /// The transfer to emulated far memory in progress: stores do not wait, but each waits for the one before.
    writing: Cell<Option<Transfer>>,
    /// Bytes of records that found no slot near, although there was enough room in slots of other sizes.
    pub(super) shortfall_bytes: u64,
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
            shortfall_bytes: 0,
        }
    }

    #[inline(always)]
    pub(super) fn hash_of(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    #[inline(always)]
    pub(super) fn header(&self, record: u64) -> Header {
        let bytes = self
            .memory
            .bytes(ObjectAddress::from_number(record), HEADER_BYTES);
        Header::read(bytes.try_into().expect("as long as a header"))
    }

    /// The whole record.
    #[inline(always)]
    pub(super) fn bytes(&self, record: u64) -> &[u8] {
        let header = self.header(record);
        self.memory
            .bytes(ObjectAddress::from_number(record), header.bytes())
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

    /// The value, to be written. Call [`wrote`](Self::wrote) afterwards.
    #[inline(always)]
    pub(super) fn value_mut(&mut self, record: u64) -> &mut [u8] {
        let header = self.header(record);
        &mut self
            .memory
            .bytes_mut(ObjectAddress::from_number(record), header.bytes())[header.value_at()..]
    }

    /// Zeros bytes of a record. Call [`wrote`](Self::wrote) afterwards.
    pub(super) fn zero(&mut self, record: u64, range: std::ops::Range<usize>) {
        self.memory.zero(ObjectAddress::from_number(record), range);
    }

    /// The number that a record of form [`Form::Large`] holds.
    pub(super) fn large_number(&self, record: u64) -> u32 {
        u32::from_le_bytes(self.value(record).try_into().expect("four bytes"))
    }

    pub(super) fn expiry(&self, record: u64) -> Option<u64> {
        let expires = self.header(record).expires;
        expires.then(|| {
            let bytes = self.memory.bytes(
                ObjectAddress::from_number(record),
                HEADER_BYTES + EXPIRY_BYTES,
            );
            u64::from_le_bytes(bytes[HEADER_BYTES..].try_into().expect("eight bytes"))
        })
    }

    #[inline(always)]
    pub(super) fn speed(&self, record: u64) -> Speed {
        self.memory.speed(ObjectAddress::from_number(record))
    }

    /// Bytes that a record takes.
    pub(super) fn capacity(&self, record: u64) -> usize {
        self.memory.capacity(ObjectAddress::from_number(record))
    }

    fn allocate(&mut self, bytes: usize) -> Result<ObjectAddress, MemoryFull> {
        if self.chooser.is_due() {
            self.chooser.check_now(&self.memory);
        }
        let (first, second) = match self.chooser.tier(bytes) {
            Speed::Near => (Speed::Near, Speed::Far),
            Speed::Far => (Speed::Far, Speed::Near),
        };
        if let Some(address) = self.memory.allocate(first, bytes) {
            return Ok(address);
        }
        if first == Speed::Near {
            self.note_shortfall(bytes);
        }
        if let Some(address) = self.memory.allocate(second, bytes) {
            return Ok(address);
        }
        // Slots of pages that are being evacuated for other sizes.
        while self.memory.cancel_evacuation(Speed::Near) {
            if let Some(address) = self.memory.allocate(Speed::Near, bytes) {
                return Ok(address);
            }
        }
        Err(MemoryFull)
    }

    /// A record of as many bytes has found no room near.
    #[cold]
    fn note_shortfall(&mut self, bytes: usize) {
        let is_dynamic = self.chooser.settings.policy == Policy::Dynamic;
        if is_dynamic && bytes <= MOVED_BYTES_MAX && Headroom::now(&self.memory).is_half() {
            self.shortfall_bytes += bytes as u64;
        }
    }

    /// Creates a record; its value is uninitialised, to be written.
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
        let address = self.allocate(header.bytes())?;
        let bytes = self.memory.bytes_mut(address, header.bytes());
        write_header(bytes, header, expiry);
        bytes[header.key_at()..header.value_at()].copy_from_slice(key);
        Ok(address.number())
    }

    /// Creates the record of a field, or of a member and its score.
    pub(super) fn create_field(&mut self, field: &[u8], value: &[u8]) -> Result<u64, MemoryFull> {
        let record = self.create(Form::Bytes, field, value.len(), None)?;
        self.value_mut(record).copy_from_slice(value);
        self.wrote(record, 0, self.header(record).bytes());
        Ok(record)
    }

    pub(super) fn free(&mut self, record: u64) {
        self.memory.free(ObjectAddress::from_number(record));
    }

    /// Resizes a record's value: the old bytes as far as they fit, then arbitrary ones. The record may
    /// move, also to another tier, and its old number is invalid then.
    pub(super) fn resize(&mut self, record: u64, value_bytes: usize) -> Result<u64, MemoryFull> {
        if u32::try_from(value_bytes).is_err() {
            return Err(MemoryFull);
        }
        let old = self.header(record);
        let new = Header { value_bytes, ..old };
        if self.fits(record, new.bytes()) {
            let address = ObjectAddress::from_number(record);
            self.memory
                .bytes_mut(address, HEADER_BYTES)
                .copy_from_slice(&new.to_bytes());
            return Ok(record);
        }
        let address = self.allocate(new.bytes())?;
        Ok(self.move_to(address, record, new))
    }

    /// As [`resize`](Self::resize), of a value that is likely to grow again: if it has to move, it gets an eighth of its
    /// length in addition, so that repeated appends do not move a long value each time.
    pub(super) fn grow(&mut self, record: u64, value_bytes: usize) -> Result<u64, MemoryFull> {
        let old = self.header(record);
        let new = Header { value_bytes, ..old };
        let room = new.bytes() + new.bytes() / 8;
        if u32::try_from(value_bytes).is_ok()
            && new.bytes() > self.capacity(record)
            && let Ok(address) = self.allocate(room)
        {
            return Ok(self.move_to(address, record, new));
        }
        self.resize(record, value_bytes)
    }

    /// Moves a record to another address and gives it another header with a key of the same length.
    fn move_to(&mut self, address: ObjectAddress, record: u64, new: Header) -> u64 {
        let bytes = self.header(record).bytes().min(new.bytes());
        let from = ObjectAddress::from_number(record);
        self.memory.copy((from, 0), (address, 0), bytes);
        self.memory
            .bytes_mut(address, HEADER_BYTES)
            .copy_from_slice(&new.to_bytes());
        self.free(record);
        address.number()
    }

    /// Whether as many bytes fit into the record's slot without wasting half of it.
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
                let address = ObjectAddress::from_number(record);
                self.memory
                    .bytes_mut(address, HEADER_BYTES)
                    .copy_from_slice(&header.to_bytes());
                record
            })
    }

    /// Whether a record's span is less than half full; then other spans are allocated from first.
    pub(super) fn deprioritize(&mut self, record: u64) -> bool {
        self.memory.deprioritize(ObjectAddress::from_number(record))
    }

    /// Whether a record's pages are being evacuated; then nothing is allocated there.
    pub(super) fn is_evacuating(&self, record: u64) -> bool {
        self.memory
            .is_evacuating(ObjectAddress::from_number(record))
    }

    /// Sets or removes the expiry of a record. It may move as by [`resize`](Self::resize).
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
        let address = ObjectAddress::from_number(record);
        let kept = old.key_at()..old.bytes();
        if new.bytes() <= self.capacity(record) {
            let bytes = self.memory.bytes_mut(address, old.bytes().max(new.bytes()));
            if old.expires != new.expires {
                bytes.copy_within(kept, new.key_at());
            }
            write_header(bytes, new, expiry);
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
        self.memory.copy((address, 0), (to, 0), old.bytes());
        let bytes = self.memory.bytes_mut(to, new.bytes());
        bytes.copy_within(kept, new.key_at());
        write_header(bytes, new, expiry);
        self.free(record);
        self.wrote(to.number(), 0, new.bytes());
        Ok(to.number())
    }

    /// Changes the time at which a record expires. Call [`wrote`](Self::wrote) afterwards.
    pub(super) fn postpone_expiry(&mut self, record: u64, at_ms: u64) {
        let header = self.header(record);
        debug_assert!(header.expires);
        let bytes = self.memory.bytes_mut(
            ObjectAddress::from_number(record),
            HEADER_BYTES + EXPIRY_BYTES,
        );
        write_header(bytes, header, Some(at_ms));
    }

    /// The same record under another key; the old one stays.
    pub(super) fn duplicate(&mut self, record: u64, key: &[u8]) -> Result<u64, MemoryFull> {
        let header = self.header(record);
        let expiry = self.expiry(record);
        let copy = self.create(header.form, key, header.value_bytes, expiry)?;
        let (from, to) = (
            ObjectAddress::from_number(record),
            ObjectAddress::from_number(copy),
        );
        let to = (to, self.header(copy).value_at());
        self.memory
            .copy((from, header.value_at()), to, header.value_bytes);
        self.wrote(copy, 0, self.header(copy).bytes());
        Ok(copy)
    }

    /// Moves a record to a tier, if that has room; its new number.
    pub(super) fn migrate(&mut self, record: u64, to: Speed) -> Option<u64> {
        let bytes = self.header(record).bytes();
        let from = ObjectAddress::from_number(record);
        let Some(address) = self.memory.allocate(to, bytes) else {
            if to == Speed::Near && self.memory.speed(from) == Speed::Far {
                self.note_shortfall(bytes);
            }
            return None;
        };
        self.memory.copy((from, 0), (address, 0), bytes);
        self.wrote(address.number(), 0, bytes);
        self.free(record);
        Some(address.number())
    }

    /// Prefetches what moving a record reads; [`prefetch_metadata`](Self::prefetch_metadata) is the second step.
    pub(super) fn fetch(&self, record: u64) {
        let bytes = self.fetched(record);
        Interleaved.issue(bytes.as_ptr(), bytes.len());
        self.prefetch_metadata(record, FetchStep::First);
    }

    /// Prefetches the allocator's metadata of a record, in two steps.
    pub(super) fn prefetch_metadata(&self, record: u64, step: FetchStep) {
        self.memory
            .prefetch_metadata(ObjectAddress::from_number(record), step);
    }

    /// Bytes of a record have been written. Emulated far memory adds its delay here.
    #[inline(always)]
    pub(super) fn wrote(&self, record: u64, at: usize, bytes: usize) {
        if emulation::is_on() {
            let all = self
                .memory
                .bytes(ObjectAddress::from_number(record), at + bytes);
            drop(self.writing.take());
            let writing = emulation::begin_store(all[at..].as_ptr(), bytes);
            self.writing.set(Some(writing));
        }
    }

    /// The first bytes of a record's slot, as many as are prefetched. The record itself is not read.
    #[inline(always)]
    pub(super) fn fetched(&self, record: u64) -> &[u8] {
        let address = ObjectAddress::from_number(record);
        let bytes = self.memory.capacity(address).min(FETCHED_BYTES_MAX);
        self.memory.bytes(address, bytes)
    }
}

fn write_header(bytes: &mut [u8], header: Header, expiry: Option<u64>) {
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    if let Some(expiry) = expiry {
        bytes[HEADER_BYTES..HEADER_BYTES + EXPIRY_BYTES].copy_from_slice(&expiry.to_le_bytes());
    }
}

impl RecordStore for Heap {
    #[inline(always)]
    fn head(&self, record: u64) -> &[u8] {
        // The whole record, since it will be used: its size is known near.
        self.fetched(record)
    }

    #[inline(always)]
    fn has_key(&self, record: u64, key: &[u8]) -> bool {
        let header = self.header(record);
        header.key_bytes == key.len()
            && self
                .memory
                .bytes(ObjectAddress::from_number(record), header.value_at())[header.key_at()..]
                == *key
    }

    fn hash(&self, record: u64) -> u64 {
        self.hash_of(self.key(record))
    }
}
