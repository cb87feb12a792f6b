//! Memory for records: objects of any size, in the tier of choice, that can move.
//!
//! A store's records are many, small and different; they grow, die, and belong in near memory only while they
//! are hot. Here each gets a [`Place`], a number that says where it lies in one reserved range of addresses, the
//! lower part near and the upper one far. Whoever holds the only name of an object can move it: allocate in the
//! other tier, copy, free. Free slots are bits in near memory, so nothing is written to far memory but data.
//!
//! ```
//! use tierra_memory::slab::{RecordMemory, RecordMemoryOptions};
//! use tierra_memory::Speed;
//!
//! let mut memory = RecordMemory::new(&RecordMemoryOptions::default())?;
//! let place = memory.allocate(Speed::Far, 100).expect("there is room");
//! memory.bytes_mut(place, 5).copy_from_slice(b"hello");
//! assert_eq!((memory.bytes(place, 5), memory.capacity(place)), (&b"hello"[..], 112));
//! memory.free(place);
//! # Ok::<(), tierra_memory::RegionError>(())
//! ```
//!
//! # How it differs
//! *memkind* offers malloc per kind of memory, and what was allocated stays where it is. *jemalloc* keeps its
//! books beside the objects of a slab and returns pages late; here the books are near, and a large page that
//! holds nothing is given back at once. Single-threaded: a shard owns its records.
//!
//! Invariant: what lies between the start of a tier and its mapped end is readable and initialised, so no
//! place, however wrong, reads or writes outside the objects' memory.

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

/// Addresses reserved for both tiers: what 40-bit numbers of 16-byte units reach.
const RANGE_BYTES: usize = UNIT_BYTES << 40;
const RANGE_BYTES_LEAST: usize = 1 << 30;
/// After the system has refused pages it is asked again when as many spans have been refused.
const REFUSALS: u32 = 1024;

/// Where an object lies: a number below 2^40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u64);

impl Place {
    /// The number.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The place of a number that [`number`](Self::number) returned.
    #[inline(always)]
    pub fn from_number(number: u64) -> Place {
        Place(number)
    }

    #[inline(always)]
    fn at(self) -> usize {
        // Any number will do: what it names is checked against what is mapped.
        (self.0 as usize).wrapping_mul(UNIT_BYTES)
    }
}

/// One of two steps in which something is fetched, the second some time after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStep {
    /// Where it is.
    First,
    /// Itself.
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
    /// How many requests for more pages are refused before the system, which has refused one, is asked again.
    refusals_left: u32,
    /// Fewer bytes than were refused may be had.
    refused_bytes: usize,
}

impl RecordMemory {
    /// Reserves addresses; memory comes when objects do.
    ///
    /// # Errors
    /// [`RegionError::Map`] where not even addresses can be had; [`RegionError::Node`] for a node that there
    /// is not; [`RegionError::File`] for a directory that cannot be far memory.
    pub fn new(options: &RecordMemoryOptions) -> Result<RecordMemory, RegionError> {
        let failed = |source| RegionError::Map {
            len_bytes: RANGE_BYTES_LEAST,
            source,
        };
        let range = AddressRange::reserve_at_most(RANGE_BYTES, RANGE_BYTES_LEAST, LARGE_PAGE_BYTES)
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

    /// Room for an object of `bytes` in a tier, aligned to 16 bytes, with whatever was there before. `None`
    /// where the tier's limit or the machine does not allow it; nothing has changed then.
    #[inline]
    pub fn allocate(&mut self, speed: Speed, bytes: usize) -> Option<Place> {
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
        Some(Place(((first + at) / UNIT_BYTES) as u64))
    }

    /// More pages were mapped: beyond the limit others that hold nothing go back for them.
    #[cold]
    fn give_back_instead(&mut self, speed: Speed, pages: u32) {
        for run in self.tiers[speed as usize].arena.trim(pages) {
            self.empty(speed, Some(run));
        }
    }

    /// Frees an object; large pages that hold nothing any more go back to the system.
    ///
    /// # Panics
    /// If no object begins there.
    pub fn free(&mut self, place: Place) {
        let speed = self.speed(place);
        let first = self.first(speed);
        let freed = self.tiers[speed as usize].arena.free(place.at() - first);
        self.empty(speed, freed);
    }

    /// Gives pages of a tier that no object lies in back to the system.
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

    /// Fetches what [`free`](Self::free) reads of the books, in two steps some time apart, for the second finds where it
    /// lies in what the first has asked for. Any place will do.
    #[inline]
    pub fn fetch_books(&self, place: Place, step: FetchStep) {
        let speed = self.speed(place);
        let (arena, at) = (&self.tiers[speed as usize].arena, place.at());
        match step {
            FetchStep::First => arena.fetch_page(at - self.first(speed)),
            FetchStep::Second => arena.fetch_span(at - self.first(speed)),
        }
    }

    /// The tier that a place is in.
    #[inline(always)]
    pub fn speed(&self, place: Place) -> Speed {
        if place.at() >= self.far_at {
            Speed::Far
        } else {
            Speed::Near
        }
    }

    /// Bytes that the object takes, at least those it asked for.
    ///
    /// # Panics
    /// If there is no object.
    #[inline]
    pub fn capacity(&self, place: Place) -> usize {
        let speed = self.speed(place);
        self.tiers[speed as usize]
            .arena
            .capacity(place.at() - self.first(speed))
    }

    /// Whether moving the object within its tier would help to give memory back; if so, others are allocated
    /// where more is in use.
    pub fn set_aside(&mut self, place: Place) -> bool {
        let speed = self.speed(place);
        let first = self.first(speed);
        self.tiers[speed as usize]
            .arena
            .set_aside(place.at() - first)
    }

    /// Chooses pages of a tier that are to become empty, so that objects of other sizes can have them: some that are emptier than
    /// others, of a few that are looked at. Nothing is allocated there until they are empty, or [kept](Self::keep); it is for the
    /// owner of the objects to move those that [lie in them](Self::is_vacated). How many bytes, 0 where none was found.
    pub fn vacate(&mut self, speed: Speed) -> u64 {
        let (bytes, freed) = self.tiers[speed as usize].arena.vacate();
        self.empty(speed, freed);
        bytes
    }

    /// Whether the object lies in pages that are to become empty.
    ///
    /// # Panics
    /// If there is no object.
    pub fn is_vacated(&self, place: Place) -> bool {
        let speed = self.speed(place);
        let first = self.first(speed);
        self.tiers[speed as usize]
            .arena
            .is_vacated(place.at() - first)
    }

    /// Leaves some of those pages as they are: objects are allocated there again. False where there are none.
    pub fn keep(&mut self, speed: Speed) -> bool {
        self.tiers[speed as usize].arena.keep()
    }

    /// Whether an object of `bytes` finds room in a tier beside others of its size, and takes no page.
    pub fn has_slot(&self, speed: Speed, bytes: usize) -> bool {
        self.tiers[speed as usize].arena.has_slot(bytes)
    }

    /// The first `len` bytes of an object.
    ///
    /// # Panics
    /// If they are not memory of objects at all. Whether they are those of this object is not checked.
    #[inline(always)]
    pub fn bytes(&self, place: Place, len: usize) -> &[u8] {
        let at = self.checked(place, len);
        // SAFETY: mapped readable and initialised, as checked, for as long as `self` lives, and written
        // through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.range.start().as_ptr().add(at), len) }
    }

    /// The first `len` bytes of an object, to be written.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    #[inline(always)]
    pub fn bytes_mut(&mut self, place: Place, len: usize) -> &mut [u8] {
        let at = self.checked(place, len);
        // SAFETY: as in `bytes`, mapped writable, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.range.start().as_ptr().add(at), len) }
    }

    /// Makes bytes of an object zero, `range` of those that it takes. Large pages that are anonymous are not written for that: they
    /// come as zeros when they are read or written next.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn zero(&mut self, place: Place, range: std::ops::Range<usize>) {
        let at = self.checked(place, range.end);
        let is_anonymous = self.speed(place) == Speed::Near || self.far.is_anonymous();
        let first = (at + range.start).next_multiple_of(LARGE_PAGE_BYTES);
        let end = (at + range.end) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        let start = self.range.start().as_ptr();
        // SAFETY: whole pages of the range, mapped, as checked, within an object that is borrowed uniquely, and anonymous.
        let is_zero = first < end
            && is_anonymous
            && unsafe { address::try_empty(start.add(first), end - first) }.is_ok();
        let bytes = self.bytes_mut(place, range.end);
        if is_zero {
            bytes[range.start..first - at].fill(0);
            bytes[end - at..].fill(0);
        } else {
            bytes[range].fill(0);
        }
    }

    /// Copies `len` bytes of one object to another, each from a place within it on.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes), or if the two overlap.
    pub fn copy(&mut self, from: (Place, usize), to: (Place, usize), len: usize) {
        let [from, to] = [from, to]
            .map(|(place, within)| self.checked(place, within.saturating_add(len)) + within);
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

    /// What a tier holds.
    pub fn used(&self, speed: Speed) -> TierUse {
        self.tiers[speed as usize].arena.used()
    }

    /// Allows a tier to hold as much from now on. What it holds above that stays until it is moved.
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
    fn checked(&self, place: Place, len: usize) -> usize {
        let at = place.at();
        let speed = self.speed(place);
        let within = at - self.first(speed);
        let mapped = self.tiers[speed as usize].mapped_bytes;
        assert!(
            within <= mapped && len <= mapped - within,
            "memory of objects"
        );
        at
    }
}
