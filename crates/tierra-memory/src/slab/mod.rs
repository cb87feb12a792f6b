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

use crate::address::{self, AddressRange};
use crate::emulation::FarRange;
use crate::far::{FarPages, FarSource};
use crate::topology::Speed;
use crate::{LARGE_PAGE_BYTES, RegionError};

use arena::Arena;
pub use arena::TierUse;
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
                tracing::warn!(%error, ?speed, "no more memory for records");
                return false;
            }
            *mapped_bytes = to;
            if speed == Speed::Far {
                counted.cover_up_to(start.addr() + to);
            }
            true
        })?;
        Some(Place(((first + at) / UNIT_BYTES) as u64))
    }

    /// Frees an object; large pages that hold nothing any more go back to the system.
    ///
    /// # Panics
    /// If no object begins there.
    pub fn free(&mut self, place: Place) {
        let speed = self.speed(place);
        let first = self.first(speed);
        if let Some((page, pages)) = self.tiers[speed as usize].arena.free(place.at() - first) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::NodeId;

    fn memory() -> RecordMemory {
        RecordMemory::new(&RecordMemoryOptions::default()).unwrap()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(Speed, usize),
        Free(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let speed = prop_oneof![Just(Speed::Near), Just(Speed::Far)];
        let bytes = prop_oneof![5 => 0usize..300, 2 => 0usize..20_000, 1 => 0usize..5_000_000];
        let step = prop_oneof![
            3 => (speed, bytes).prop_map(|(speed, bytes)| Step::Allocate(speed, bytes)),
            2 => (0usize..1000).prop_map(Step::Free),
        ];
        prop::collection::vec(step, 1..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn objects_keep_what_was_written_and_do_not_overlap(steps in steps()) {
            let mut memory = memory();
            let mut objects: Vec<(Place, usize, u8)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Allocate(speed, bytes) => {
                        let place = memory.allocate(speed, bytes).unwrap();
                        prop_assert_eq!(memory.speed(place), speed);
                        prop_assert_eq!(memory.capacity(place), RecordMemory::rounded(bytes));
                        memory.bytes_mut(place, bytes).fill(number as u8);
                        objects.push((place, bytes, number as u8));
                    }
                    Step::Free(at) if !objects.is_empty() => {
                        let (place, bytes, byte) = objects.swap_remove(at % objects.len());
                        prop_assert!(memory.bytes(place, bytes).iter().all(|&found| found == byte));
                        memory.free(place);
                    }
                    Step::Free(_) => {}
                }
            }
            let mut ends = BTreeMap::new();
            let mut used = [0; 2];
            for &(place, bytes, byte) in &objects {
                prop_assert!(memory.bytes(place, bytes).iter().all(|&found| found == byte));
                ends.insert(place.at(), place.at() + memory.capacity(place));
                used[memory.speed(place) as usize] += memory.capacity(place) as u64;
            }
            prop_assert!(ends.values().zip(ends.keys().skip(1)).all(|(end, next)| end <= next));
            for speed in [Speed::Near, Speed::Far] {
                let tier = memory.used(speed);
                prop_assert_eq!(tier.object_bytes, used[speed as usize]);
                prop_assert!(tier.held_bytes >= tier.object_bytes + tier.vacant_bytes);
                prop_assert!(tier.vacant_bytes <= 8 << 20, "a span of each class, and what was freed");
            }
            for (place, ..) in objects {
                memory.free(place);
            }
            for speed in [Speed::Near, Speed::Far] {
                // A span of each class may stay.
                let held = memory.used(speed).held_bytes;
                prop_assert!(memory.used(speed).objects == 0 && held < 6 << 20, "{}", held);
                prop_assert!(memory.used(speed).vacant_bytes <= held);
            }
        }
    }

    #[test]
    fn a_limit_holds_and_nothing_is_lost_at_it() {
        let mut memory = memory();
        memory.set_limit(Speed::Near, 1 << 20);
        let mut places = Vec::new();
        while let Some(place) = memory.allocate(Speed::Near, 1000) {
            places.push(place);
        }
        let used = memory.used(Speed::Near);
        assert!(
            used.held_bytes <= 1 << 20 && used.object_bytes > 9 << 16,
            "{used:?}"
        );
        assert!(memory.allocate(Speed::Near, 1 << 20).is_none());
        assert!(memory.allocate(Speed::Far, 1 << 20).is_some());
        memory.free(places[0]);
        assert!(memory.allocate(Speed::Near, 1000).is_some());
    }

    #[test]
    fn freed_memory_goes_back_to_the_system() {
        let mut memory = memory();
        let places: Vec<Place> = (0..100_000)
            .map(|_| memory.allocate(Speed::Near, 1000).unwrap())
            .collect();
        for &place in &places {
            memory.bytes_mut(place, 1000).fill(1);
        }
        let first = places[0];
        for place in places {
            memory.free(place);
        }
        // Emptied pages read as zeros; the span that stays does not.
        let zeros = memory
            .bytes(first, 90 << 20)
            .iter()
            .filter(|&&byte| byte == 0)
            .count();
        assert!(zeros > 85 << 20, "{zeros}");
    }

    #[test]
    #[should_panic(expected = "an object begins here")]
    fn freeing_twice_is_found_out() {
        let mut memory = memory();
        let places = [0; 2].map(|_| memory.allocate(Speed::Near, 100).unwrap());
        memory.free(places[0]);
        memory.free(places[0]);
    }

    #[test]
    #[should_panic(expected = "memory of objects")]
    fn no_place_reaches_outside() {
        let mut memory = memory();
        memory.allocate(Speed::Near, 100).unwrap();
        memory.bytes(Place::from_number((1 << 40) - 1), 16);
    }

    #[test]
    fn where_half_is_vacant_objects_can_be_gathered() {
        for bytes in [48, 100, 1000, 5000] {
            let mut memory = memory();
            let all: Vec<_> = (0..20_000)
                .map(|_| memory.allocate(Speed::Near, bytes).unwrap())
                .collect();
            // Three of five go, at random: no span loses three quarters of what it has.
            let mut objects = Vec::new();
            for (place, number) in all.into_iter().zip(1u64..) {
                if number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 1023 < 615 {
                    memory.free(place);
                } else {
                    objects.push(place);
                }
            }
            let is_sparse = |memory: &RecordMemory| {
                let used = memory.used(Speed::Near);
                used.held_bytes > 2 * used.object_bytes + (128 << 10)
            };
            assert!(is_sparse(&memory), "{:?}", memory.used(Speed::Near));
            for at in 0..60_000 {
                let object = &mut objects[at % 7000];
                if is_sparse(&memory) && memory.set_aside(*object) {
                    let to = memory.allocate(Speed::Near, bytes).unwrap();
                    memory.free(std::mem::replace(object, to));
                }
            }
            assert!(!is_sparse(&memory), "{:?}", memory.used(Speed::Near));
        }
    }

    #[test]
    fn all_objects_go_at_once() {
        let mut memory = memory();
        for round in 0..3 {
            let sizes = [16usize, 100, 4000, 20_000, 3 << 20];
            let speeds = [Speed::Near, Speed::Far];
            let all = (0..200).map(|at| (sizes[at % 5], speeds[at % 2], at as u8));
            let places: Vec<_> = all
                .map(|(bytes, speed, byte)| {
                    let place = memory.allocate(speed, bytes).unwrap();
                    memory.bytes_mut(place, bytes).fill(byte | 1);
                    (place, bytes, byte | 1)
                })
                .collect();
            for &(place, bytes, byte) in &places {
                let found = memory.bytes(place, bytes);
                assert!(found.iter().all(|&found| found == byte), "round {round}");
            }
            memory.clear();
            for speed in speeds {
                let expected = TierUse {
                    limit_bytes: u64::MAX,
                    ..TierUse::default()
                };
                assert_eq!(memory.used(speed), expected);
            }
            let mut freed = places
                .iter()
                .flat_map(|&(place, bytes, _)| memory.bytes(place, bytes));
            assert!(freed.all(|&byte| byte == 0), "pages are given back");
        }
    }

    fn in_directory(directory: &std::path::Path) -> Result<RecordMemory, RegionError> {
        RecordMemory::new(&RecordMemoryOptions {
            far: FarSource::Directory(directory.into()),
            ..Default::default()
        })
    }

    #[test]
    fn a_file_holds_objects_as_far_memory_does() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = in_directory(directory.path()).unwrap();
        let mut places = Vec::new();
        for at in 0..3000 {
            let place = memory.allocate(Speed::Far, 2000).unwrap();
            assert_eq!(memory.speed(place), Speed::Far);
            memory.bytes_mut(place, 2000).fill(at as u8);
            places.push(place);
        }
        for (at, &place) in places.iter().enumerate() {
            assert!(
                memory
                    .bytes(place, 2000)
                    .iter()
                    .all(|&byte| byte == at as u8)
            );
        }
        places.into_iter().for_each(|place| memory.free(place));
        // What it has grown to it uses again.
        let mapped = memory.tiers[Speed::Far as usize].mapped_bytes;
        assert!(memory.allocate(Speed::Far, 5_000_000).is_some());
        assert_eq!(memory.tiers[Speed::Far as usize].mapped_bytes, mapped);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_file_system_is_no_signal() {
        let shared = std::path::Path::new("/dev/shm");
        if !shared.is_dir() {
            println!("there is no tmpfs at /dev/shm: nothing is filled");
            return;
        }
        let mut memory = in_directory(shared).unwrap();
        let small = memory.allocate(Speed::Far, 100).unwrap();
        // More than any machine's memory, which tmpfs refuses at once.
        assert_eq!(memory.allocate(Speed::Far, 4 << 40), None);
        memory.bytes_mut(small, 100).fill(7);
        assert!(memory.allocate(Speed::Far, 100).is_some());
        assert!(memory.allocate(Speed::Near, 4 << 10).is_some());
    }

    #[test]
    fn a_node_that_there_is_not_is_refused() {
        let options = RecordMemoryOptions {
            far: FarSource::Node(NodeId(1023)),
            ..Default::default()
        };
        assert!(matches!(
            RecordMemory::new(&options),
            Err(RegionError::Node { .. })
        ));
    }
}
