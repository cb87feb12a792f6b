//! Memory for records: objects of any size, in the tier of choice, that can move.
//!
//! A store's records are many, small and of different sizes; they grow, are deleted, and belong in near memory only while
//! they are hot. Each gets an [`ObjectAddress`], a number that locates it in one reserved range of addresses, the
//! lower part near and the upper one far. The holder of the only reference to an object can move it: allocate in the
//! other tier, copy, free. Free slots are bits in near memory, so nothing is written to far memory but data.
//!
//! ```
//! use tierra_memory::slab::{RecordMemory, RecordMemoryOptions};
//! use tierra_memory::Speed;
//!
//! let mut memory = RecordMemory::new(&RecordMemoryOptions::default())?;
//! let address = memory.allocate(Speed::Far, 100).expect("there is room");
//! memory.bytes_mut(address, 5).copy_from_slice(b"hello");
//! assert_eq!((memory.bytes(address, 5), memory.capacity(address)), (&b"hello"[..], 112));
//! memory.free(address);
//! # Ok::<(), tierra_memory::RegionError>(())
//! ```
//!
//! # How it differs
//! *memkind* offers malloc per kind of memory, and an allocation stays where it is. *jemalloc* keeps its
//! metadata beside the objects of a slab and returns pages late; here the metadata is near, and an empty large page
//! is given back at once. Single-threaded: a shard owns its records.
//!
//! Invariant: all bytes between the start of a tier and its mapped end are readable and initialised, so no
//! address, however wrong, reads or writes outside the objects' memory.

mod arena;
mod classes;
mod runs;
#[cfg(test)]
mod tests;

use crate::address::{self, AddressRange};
use crate::emulation::FarRange;
use crate::far::{FarPages, FarSource};
use crate::topology::Speed;
use crate::{LARGE_PAGE_BYTES, RegionError};

pub use arena::TierUse;
use arena::{Arena, FreedPages};
use classes::{PAGE_BYTES, UNIT_BYTES};

/// Addresses reserved for both tiers: the range of 40-bit numbers of 16-byte units.
const RANGE_BYTES: usize = UNIT_BYTES << 40;
const MIN_RANGE_BYTES: usize = 1 << 30;
/// After the system has refused pages, it is asked again after as many refused spans.
const REFUSALS: u32 = 1024;

/// The address of an object: a number below 2^40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectAddress(u64);

impl ObjectAddress {
    /// The number.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The address of a number that [`number`](Self::number) returned.
    #[inline(always)]
    pub fn from_number(number: u64) -> ObjectAddress {
        ObjectAddress(number)
    }

    #[inline(always)]
    fn at(self) -> usize {
        // Any number is allowed: accesses are checked against the mapped range.
        (self.0 as usize).wrapping_mul(UNIT_BYTES)
    }
}

/// One of two steps of a prefetch, the second some time after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStep {
    /// Its location.
    First,
    /// The data.
    Second,
}

/// How much memory of which kind. The default: no limit, and far memory that is near memory under another
/// name, to be [emulated](crate::emulation).
#[derive(Clone, Debug)]
pub struct RecordMemoryOptions {
    /// Bytes of near memory that objects may hold.
    pub near_bytes: u64,
    /// Bytes of far memory.
    pub far_bytes: u64,
    /// Where far memory comes from.
    pub far: FarSource,
}

impl Default for RecordMemoryOptions {
    fn default() -> Self {
        RecordMemoryOptions {
            near_bytes: u64::MAX,
            far_bytes: u64::MAX,
            far: FarSource::Near,
        }
    }
}

/// The objects of one shard, in both tiers.
#[derive(Debug)]
pub struct RecordMemory {
    range: AddressRange,
    tiers: [TierMemory; 2],
    /// The far part begins here.
    far_at: usize,
    /// Makes the far part slow while far memory is emulated.
    counted: FarRange,
    far: FarPages,
}

#[derive(Debug)]
struct TierMemory {
    arena: Arena,
    mapped_bytes: usize,
    /// Requests for more pages to refuse before the system, which has refused one, is asked again.
    refusals_left: u32,
    /// The bytes that were refused. Smaller requests are still made.
    refused_bytes: usize,
}

impl RecordMemory {
    /// Reserves addresses; memory is allocated with the objects.
    ///
    /// # Errors
    /// [`RegionError::Map`] where not even addresses can be had; [`RegionError::Node`] for a node that there
    /// is not; [`RegionError::File`] for a directory that cannot be far memory.
    pub fn new(options: &RecordMemoryOptions) -> Result<RecordMemory, RegionError> {
        let failed = |source| RegionError::Map {
            len_bytes: MIN_RANGE_BYTES,
            source,
        };
        let range = AddressRange::reserve_at_most(RANGE_BYTES, MIN_RANGE_BYTES, LARGE_PAGE_BYTES)
            .map_err(failed)?;
        let far_at = range.len_bytes() / 2 / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        let start = range.start().as_ptr();
        // SAFETY: the range is ours, just reserved.
        unsafe { address::advise_large_pages(start, range.len_bytes()) };
        // SAFETY: the far part of the range, of which nothing is in use yet.
        let far = unsafe {
            FarPages::new(
                &options.far,
                start.wrapping_add(far_at),
                range.len_bytes() - far_at,
            )?
        };
        // Pages are counted in 32 bits: 16 TiB of them.
        let pages = |bytes: usize| u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        let tier = |bytes, limit_bytes| TierMemory {
            arena: Arena::new(pages(bytes), limit_bytes),
            mapped_bytes: 0,
            refusals_left: 0,
            refused_bytes: 0,
        };
        Ok(RecordMemory {
            tiers: [
                tier(far_at, options.near_bytes),
                tier(range.len_bytes() - far_at, options.far_bytes),
            ],
            far_at,
            counted: FarRange::new(start.addr() + far_at, 0),
            far,
            range,
        })
    }

    /// Bytes that an object of `bytes` takes.
    pub fn rounded(bytes: usize) -> usize {
        Arena::rounded(bytes)
    }

    /// Allocates an object of `bytes` in a tier, aligned to 16 bytes, its content arbitrary. `None` if the tier's limit
    /// or the machine does not allow it; nothing has changed then.
    #[inline]
    pub fn allocate(&mut self, speed: Speed, bytes: usize) -> Option<ObjectAddress> {
        let first = self.first(speed);
        let mut more_pages = 0;
        let TierMemory {
            arena,
            mapped_bytes,
            refusals_left,
            refused_bytes,
        } = &mut self.tiers[speed as usize];
        let (range, far, counted) = (&self.range, &self.far, &mut self.counted);
        let at = arena.allocate(bytes, |pages| {
            let (from, to) = (*mapped_bytes, pages as usize * PAGE_BYTES);
            if *refusals_left > 0 && to - from >= *refused_bytes {
                *refusals_left -= 1;
                return false;
            }
            let start = range.start().as_ptr().wrapping_add(first);
            // SAFETY: the arena asks for no more pages than its part of the range has, which is ours, and of
            // which nothing beyond `mapped_bytes` was ever handed out.
            let opened = unsafe {
                match speed {
                    Speed::Near => address::open(start.add(from), to - from),
                    Speed::Far => far.open(range, first, from, to),
                }
            };
            if let Err(error) = opened {
                (*refusals_left, *refused_bytes) = (REFUSALS, to - from);
                tracing::warn!(%error, ?speed, "a tier has no more memory for records: they go to the other one");
                return false;
            }
            *mapped_bytes = to;
            more_pages = ((to - from) / PAGE_BYTES) as u32;
            if speed == Speed::Far {
                counted.cover_up_to(start.addr() + to);
            }
            true
        })?;
        if more_pages > 0 {
            self.give_back_instead(speed, more_pages);
        }
        Some(ObjectAddress(((first + at) / UNIT_BYTES) as u64))
    }

    /// More pages were mapped: beyond the limit, other empty pages are given back for them.
    #[cold]
    fn give_back_instead(&mut self, speed: Speed, pages: u32) {
        for run in self.tiers[speed as usize].arena.trim(pages) {
            self.empty(speed, Some(run));
        }
    }

    /// Frees an object. Large pages that become empty are given back to the system.
    ///
    /// # Panics
    /// If no object begins there.
    pub fn free(&mut self, address: ObjectAddress) {
        let speed = self.speed(address);
        let first = self.first(speed);
        let freed = self.tiers[speed as usize].arena.free(address.at() - first);
        self.empty(speed, freed);
    }

    /// Gives empty pages of a tier back to the system.
    #[inline]
    fn empty(&mut self, speed: Speed, freed: FreedPages) {
        if let Some((page, pages)) = freed {
            let first = self.first(speed);
            let at = first + page as usize * PAGE_BYTES;
            // SAFETY: whole pages within the mapped part of the range that no object lies in; they read as
            // zeros from now on, or as they did, which is as good as what was there.
            unsafe {
                let start = self.range.start().as_ptr().add(at);
                let bytes = pages as usize * PAGE_BYTES;
                match speed {
                    Speed::Near => address::empty(start, bytes),
                    Speed::Far => self.far.empty(start, bytes),
                }
            };
        }
    }

    /// Prefetches the metadata that [`free`](Self::free) reads, in two steps some time apart: the second reads what the first
    /// has fetched. Any address is allowed.
    #[inline]
    pub fn prefetch_metadata(&self, address: ObjectAddress, step: FetchStep) {
        let speed = self.speed(address);
        let (arena, at) = (&self.tiers[speed as usize].arena, address.at());
        match step {
            FetchStep::First => arena.fetch_page(at - self.first(speed)),
            FetchStep::Second => arena.fetch_span(at - self.first(speed)),
        }
    }

    /// The tier of an address.
    #[inline(always)]
    pub fn speed(&self, address: ObjectAddress) -> Speed {
        if address.at() >= self.far_at {
            Speed::Far
        } else {
            Speed::Near
        }
    }

    /// Bytes that the object takes, at least those requested.
    ///
    /// # Panics
    /// If there is no object.
    #[inline]
    pub fn capacity(&self, address: ObjectAddress) -> usize {
        let speed = self.speed(address);
        self.tiers[speed as usize]
            .arena
            .capacity(address.at() - self.first(speed))
    }

    /// Whether moving the object within its tier would help to give memory back. If so, its span becomes the last one
    /// that objects are allocated from.
    pub fn deprioritize(&mut self, address: ObjectAddress) -> bool {
        let speed = self.speed(address);
        let first = self.first(speed);
        self.tiers[speed as usize]
            .arena
            .deprioritize(address.at() - first)
    }

    /// Chooses pages of a tier to evacuate, so that objects of other sizes can have them: the emptiest of a few candidates.
    /// Nothing is allocated there until they are empty, or the evacuation is [cancelled](Self::cancel_evacuation); the owner
    /// moves the objects that [lie in them](Self::is_evacuating). Returns the bytes, 0 if none was found.
    pub fn evacuate(&mut self, speed: Speed) -> u64 {
        let (bytes, freed) = self.tiers[speed as usize].arena.evacuate();
        self.empty(speed, freed);
        bytes
    }

    /// Whether the object lies in pages being evacuated.
    ///
    /// # Panics
    /// If there is no object.
    pub fn is_evacuating(&self, address: ObjectAddress) -> bool {
        let speed = self.speed(address);
        let first = self.first(speed);
        self.tiers[speed as usize]
            .arena
            .is_evacuating(address.at() - first)
    }

    /// Cancels the evacuation of some pages: objects are allocated there again. False if there are none.
    pub fn cancel_evacuation(&mut self, speed: Speed) -> bool {
        self.tiers[speed as usize].arena.cancel_evacuation()
    }

    /// Whether a tier has a vacant slot for an object of `bytes`, so that it takes no page.
    pub fn has_slot(&self, speed: Speed, bytes: usize) -> bool {
        self.tiers[speed as usize].arena.has_slot(bytes)
    }

    /// The first `len` bytes of an object.
    ///
    /// # Panics
    /// If they are not memory of objects at all. Whether they belong to this object is not checked.
    #[inline(always)]
    pub fn bytes(&self, address: ObjectAddress, len: usize) -> &[u8] {
        let at = self.checked(address, len);
        // SAFETY: mapped readable and initialised, as checked, for as long as `self` lives, and written
        // through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.range.start().as_ptr().add(at), len) }
    }

    /// The first `len` bytes of an object, to be written.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    #[inline(always)]
    pub fn bytes_mut(&mut self, address: ObjectAddress, len: usize) -> &mut [u8] {
        let at = self.checked(address, len);
        // SAFETY: as in `bytes`, mapped writable, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.range.start().as_ptr().add(at), len) }
    }

    /// Zeros the bytes `range` of an object. Anonymous large pages are not written for that: they are given back, and read as zeros
    /// when they are accessed next.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn zero(&mut self, address: ObjectAddress, range: std::ops::Range<usize>) {
        let at = self.checked(address, range.end);
        let is_anonymous = self.speed(address) == Speed::Near || self.far.is_anonymous();
        let first = (at + range.start).next_multiple_of(LARGE_PAGE_BYTES);
        let end = (at + range.end) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        let start = self.range.start().as_ptr();
        // SAFETY: whole pages of the range, mapped, as checked, within an object that is borrowed uniquely, and anonymous.
        let is_zero = first < end
            && is_anonymous
            && unsafe { address::try_empty(start.add(first), end - first) }.is_ok();
        let bytes = self.bytes_mut(address, range.end);
        if is_zero {
            bytes[range.start..first - at].fill(0);
            bytes[end - at..].fill(0);
        } else {
            bytes[range].fill(0);
        }
    }

    /// Copies `len` bytes of one object to another, each from an offset within it on.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes), or if the two overlap.
    pub fn copy(&mut self, from: (ObjectAddress, usize), to: (ObjectAddress, usize), len: usize) {
        let [from, to] = [from, to]
            .map(|(address, within)| self.checked(address, within.saturating_add(len)) + within);
        assert!(from.abs_diff(to) >= len, "two objects");
        let start = self.range.start().as_ptr();
        // SAFETY: both are memory of objects, as checked, apart from each other, and borrowed uniquely.
        unsafe { std::ptr::copy_nonoverlapping(start.add(from), start.add(to), len) };
    }

    /// Frees all objects, however many there are, and gives all pages back to the system.
    pub fn clear(&mut self) {
        for speed in [Speed::Near, Speed::Far] {
            let first = self.first(speed);
            let tier = &mut self.tiers[speed as usize];
            tier.arena.clear();
            if tier.mapped_bytes > 0 {
                // SAFETY: what is mapped of the range, whole pages, in which no object lies any more.
                unsafe {
                    let start = self.range.start().as_ptr().add(first);
                    match speed {
                        Speed::Near => address::empty(start, tier.mapped_bytes),
                        Speed::Far => self.far.empty(start, tier.mapped_bytes),
                    }
                }
            }
        }
    }

    /// The memory use of a tier.
    pub fn used(&self, speed: Speed) -> TierUse {
        self.tiers[speed as usize].arena.used()
    }

    /// Sets the limit of a tier. Memory above it stays until it is moved.
    pub fn set_limit(&mut self, speed: Speed, bytes: u64) {
        self.tiers[speed as usize].arena.set_limit(bytes);
    }

    fn first(&self, speed: Speed) -> usize {
        match speed {
            Speed::Near => 0,
            Speed::Far => self.far_at,
        }
    }

    #[inline(always)]
    fn checked(&self, address: ObjectAddress, len: usize) -> usize {
        let at = address.at();
        let speed = self.speed(address);
        let within = at - self.first(speed);
        let mapped = self.tiers[speed as usize].mapped_bytes;
        assert!(
            within <= mapped && len <= mapped - within,
            "memory of objects"
        );
        at
    }
}
