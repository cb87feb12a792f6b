//! Which memory counts as far, and as which: a word per 2 MiB of address space.
//!
//! Far pools register what they map, and experiments any memory they hold, so that one structure can be
//! measured near and far without a copy. A mode asks for every load of every lookup, so the question must
//! cost one load from a table that stays in the nearest cache: 4 KiB of it stand for 4 GiB. Pools and regions
//! begin and end at large pages; anything smaller is rounded outwards and takes its neighbours along.
//!
//! ```text
//!   15        9 8          3 2      0
//!   │ ranges   │ ranges of  │ its   │
//!   │ of the   │ a device   │ number│
//!   │ usual one│            │       │
//! ```
//!
//! Invariant: a part counts as far exactly as long as some [`FarRange`] over it lives, and as a device's exactly as long
//! as one of that device does.

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use super::EmulationError;
use super::device::{DEFAULT, FarDevice, NEAR};
use crate::LARGE_PAGE_BYTES;

/// Addresses of user space that the kernel hands out unasked.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "x86_64") { 47 } else { 48 };
const PART_BITS: u32 = LARGE_PAGE_BYTES.trailing_zeros();
const PARTS: usize = 1 << (ADDRESS_BITS - PART_BITS);

/// What covers each part. Never touched, so never backed by memory, but where something is far.
static COVERED: [AtomicU16; PARTS] = [const { AtomicU16::new(0) }; PARTS];

const NUMBER: u16 = 0b111;
/// One range of a device, and all that a part can have.
const OF_DEVICE: u16 = 1 << 3;
const ALL_OF_DEVICE: u16 = 0x3F << 3;
/// One range of the usual far memory, and all that a part can have.
const OF_DEFAULT: u16 = 1 << 9;
const ALL_OF_DEFAULT: u16 = 0x7F << 9;

/// Which loads a mode has to look closer at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Concern {
    /// None: far memory, if any, answers loads at once.
    None,
    /// Those of memory that counts as far.
    Covered,
    /// All: everything is far, or is recorded.
    Everything,
}

static CONCERN: AtomicU8 = AtomicU8::new(Concern::None as u8);

/// Whether a mode has to look closer at a load.
#[inline(always)]
pub(super) fn concerns_load(address: usize) -> bool {
    const NONE: u8 = Concern::None as u8;
    const COVERED: u8 = Concern::Covered as u8;
    match CONCERN.load(Ordering::Relaxed) {
        NONE => false,
        COVERED => is_covered(address),
        _ => true,
    }
}

pub(super) fn set_concern(concern: Concern) {
    CONCERN.store(concern as u8, Ordering::Relaxed);
}

/// Whether the address lies in a range that counts as far.
#[inline(always)]
pub(crate) fn is_covered(address: usize) -> bool {
    covers(address) != 0
}

/// The number of the memory that an address belongs to.
#[inline(always)]
pub(super) fn device(address: usize) -> usize {
    match covers(address) {
        0 => NEAR,
        covers if covers & ALL_OF_DEVICE != 0 => usize::from(covers & NUMBER),
        _ => DEFAULT,
    }
}

#[inline(always)]
fn covers(address: usize) -> u16 {
    COVERED
        .get(address >> PART_BITS)
        .map_or(0, |covered| covered.load(Ordering::Relaxed))
}

/// Memory that counts as far until this is dropped. Made by [`count_as_far`] and [`FarDevice::count`].
#[derive(Debug)]
#[must_use = "memory counts as far only as long as this lives"]
pub struct FarRange {
    first: usize,
    end: usize,
    device: Option<FarDevice>,
}

/// Has the memory of `values` count as far. Drop what it returns before the memory is freed, or what
/// comes to lie there counts as far as well. What a [`FarDevice`] counts stays that device's.
///
/// ```
/// use tierra_memory::{Region, emulation::count_as_far};
///
/// let region = Region::near(64 << 20)?;
/// let far = count_as_far(&region[..]);
/// // lookups in `region` are slow while emulation is on
/// drop(far);
/// # Ok::<(), tierra_memory::RegionError>(())
/// ```
pub fn count_as_far<T>(values: &[T]) -> FarRange {
    FarRange::new(values.as_ptr().addr(), size_of_val(values))
}

impl FarRange {
    /// Bytes at `start` of the usual far memory, to be grown.
    pub(crate) fn new(start: usize, len_bytes: usize) -> FarRange {
        let mut range = FarRange::empty(start, None);
        range.cover_up_to(start + len_bytes);
        range
    }

    /// Bytes of a device.
    pub(super) fn of_device(
        device: FarDevice,
        start: usize,
        len_bytes: usize,
    ) -> Result<FarRange, EmulationError> {
        let mut range = FarRange::empty(start, Some(device));
        // What is covered before an overlap is found is given back when the range is dropped.
        range.cover(start + len_bytes)?;
        Ok(range)
    }

    fn empty(start: usize, device: Option<FarDevice>) -> FarRange {
        let first = (start >> PART_BITS).min(PARTS);
        FarRange {
            first,
            end: first,
            device,
        }
    }

    /// Covers everything below `end` as well; a range never shrinks.
    pub(crate) fn cover_up_to(&mut self, end: usize) {
        let covered = self.cover(end);
        debug_assert!(
            covered.is_ok(),
            "127 ranges in one part, or devices that overlap"
        );
    }

    fn cover(&mut self, end: usize) -> Result<(), EmulationError> {
        let end = end.div_ceil(LARGE_PAGE_BYTES).min(PARTS);
        while self.end < end {
            let changed =
                COVERED[self.end].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |covers| {
                    match &self.device {
                        None => covers.checked_add(OF_DEFAULT),
                        Some(device) => {
                            let (number, ranges) =
                                (u16::from(device.number()), covers & ALL_OF_DEVICE);
                            let is_free = ranges == 0 || covers & NUMBER == number;
                            (is_free && ranges != ALL_OF_DEVICE)
                                .then(|| (covers & !NUMBER | number) + OF_DEVICE)
                        }
                    }
                });
            if changed.is_err() {
                return Err(EmulationError::Overlap {
                    address: self.end << PART_BITS,
                });
            }
            self.end += 1;
        }
        Ok(())
    }
}

impl Drop for FarRange {
    fn drop(&mut self) {
        let one = if self.device.is_some() {
            OF_DEVICE
        } else {
            OF_DEFAULT
        };
        for covered in &COVERED[self.first..self.end] {
            // A part without ranges of a device is all zero again but for those of the usual one.
            let _ = covered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |covers| {
                let left = covers - one;
                Some(if left & ALL_OF_DEVICE == 0 {
                    left & ALL_OF_DEFAULT
                } else {
                    left
                })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn ranges_cover_and_uncover_to_the_page() {
        let region = Region::near(4 * LARGE_PAGE_BYTES).unwrap();
        let start = region.as_ptr().addr();
        let part = |at: usize| is_covered(start + at * LARGE_PAGE_BYTES);
        let middle = &region[LARGE_PAGE_BYTES..2 * LARGE_PAGE_BYTES + 1];
        let outer = count_as_far(middle);
        assert_eq!([0, 1, 2, 3].map(part), [false, true, true, false]);
        let inner = count_as_far(&middle[..8]);
        drop(outer);
        assert_eq!([0, 1, 2, 3].map(part), [false, true, false, false]);
        drop(inner);
        assert_eq!([0, 1, 2, 3].map(part), [false; 4]);
        assert!(is_covered(start + 2 * LARGE_PAGE_BYTES - 1) == part(1));
    }

    #[test]
    fn a_range_grows() {
        let region = Region::near(4 * LARGE_PAGE_BYTES).unwrap();
        let start = region.as_ptr().addr();
        let part = |at: usize| is_covered(start + at * LARGE_PAGE_BYTES);
        let mut range = FarRange::new(start, 0);
        assert_eq!([0, 1, 2].map(part), [false; 3]);
        range.cover_up_to(start + LARGE_PAGE_BYTES);
        range.cover_up_to(start + LARGE_PAGE_BYTES);
        range.cover_up_to(start + 2 * LARGE_PAGE_BYTES);
        assert_eq!([0, 1, 2].map(part), [true, true, false]);
        drop(range);
        assert_eq!([0, 1, 2].map(part), [false; 3]);
    }

    #[test]
    fn devices_have_their_own_parts_and_do_not_overlap() {
        use crate::emulation::FarMemory;
        let region = Region::near(6 * LARGE_PAGE_BYTES).unwrap();
        let start = region.as_ptr().addr();
        let part = |at: usize| device(start + at * LARGE_PAGE_BYTES);
        let parts = |range: std::ops::Range<usize>| {
            &region[range.start * LARGE_PAGE_BYTES..range.end * LARGE_PAGE_BYTES]
        };
        let (one, other) = (
            FarDevice::new(FarMemory::CXL).unwrap(),
            FarDevice::new(FarMemory::OPTANE).unwrap(),
        );
        let (a, b) = (usize::from(one.number()), usize::from(other.number()));
        assert!(a != b && a > DEFAULT && b > DEFAULT);
        let usual = count_as_far(parts(0..3));
        let first = one.count(parts(1..3)).unwrap();
        let second = other.count(parts(4..6)).unwrap();
        assert_eq!([0, 1, 2, 3, 4, 5].map(part), [DEFAULT, a, a, NEAR, b, b]);
        // What is refused leaves nothing behind.
        let refused = other.count(parts(0..2)).unwrap_err();
        let address = start + LARGE_PAGE_BYTES;
        assert_eq!(refused, EmulationError::Overlap { address });
        assert!(one.count(parts(3..5)).is_err());
        assert_eq!([0, 1, 2, 3, 4, 5].map(part), [DEFAULT, a, a, NEAR, b, b]);
        let again = one.count(parts(2..4)).unwrap();
        drop(first);
        assert_eq!([0, 1, 2, 3].map(part), [DEFAULT, DEFAULT, a, a]);
        drop((again, usual, second));
        assert_eq!([0, 1, 2, 3, 4, 5].map(part), [NEAR; 6]);
    }

    #[test]
    fn addresses_beyond_user_space_are_near() {
        assert!(!is_covered(usize::MAX));
        assert!(!is_covered(1 << ADDRESS_BITS));
        drop(count_as_far::<u8>(&[]));
    }
}
