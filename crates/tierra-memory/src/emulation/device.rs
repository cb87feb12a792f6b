//! Several far memories at once, told apart by the ranges that each counts as its own.
//!
//! Number 0 is near memory, number 1 the far memory that was described to [`set`](super::set): far pools belong to it, and
//! what [`count_as_far`](super::count_as_far) registers. The others are [`FarDevice`]s.
//!
//! Invariant: a number belongs to one description as long as a device or a range with it lives.

use std::sync::Arc;

use super::description::FarMemory;
use super::error::EmulationError;
use super::far::Cover;
use super::numbers::{DEFAULT, MAX_DEVICES};
use super::switch;

/// A far memory of its own, beside the one described to [`set`](super::set).
///
/// Its ranges are slow while emulation is on, as slow as it was described. Two memories of unlike speed, or of two
/// sockets, are two devices. Clones are the same device; it is gone with its last clone and range.
///
/// ```
/// use tierra_memory::Region;
/// use tierra_memory::emulation::{self, FarDevice, FarMemory};
///
/// let (fast, slow) = (Region::near(64 << 20)?, Region::near(64 << 20)?);
/// let expander = FarDevice::new(FarMemory::CXL)?;
/// let modules = FarDevice::new(FarMemory::OPTANE)?;
/// let ranges = [expander.count(&fast[..])?, modules.count(&slow[..])?];
/// emulation::set(Some(FarMemory::UNLIMITED))?; // on: everything else is as fast as it is
/// // lookups in `fast` wait 250 ns, lookups in `slow` 300
/// emulation::set(None)?;
/// drop(ranges);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FarDevice(Arc<Number>);

/// The number that a device holds, and what has it.
#[derive(Debug)]
struct Number {
    number: u8,
    far: FarMemory,
}

impl Drop for Number {
    fn drop(&mut self) {
        switch::remove(usize::from(self.number));
    }
}

impl FarDevice {
    /// A device without ranges.
    ///
    /// # Errors
    /// [`EmulationError::Senseless`] if it cannot be emulated, or is described as all memory;
    /// [`EmulationError::TooManyDevices`] if six others live.
    pub fn new(far: FarMemory) -> Result<FarDevice, EmulationError> {
        far.check()?;
        if far.everywhere {
            return Err(EmulationError::Senseless {
                field: "far",
                value: "everything".into(),
                expected: "'registered': a device is the memory that it counts".into(),
            });
        }
        let number = switch::add(far).ok_or(EmulationError::TooManyDevices {
            most: MAX_DEVICES - DEFAULT - 1,
        })?;
        let number = number as u8;
        Ok(FarDevice(Arc::new(Number { number, far })))
    }

    /// Has the memory of `values` belong to the device until the range is dropped, which must be before the memory is
    /// freed. Ranges grow outwards to pages of 2 MiB, and take precedence over [`count_as_far`](super::count_as_far).
    ///
    /// # Errors
    /// [`EmulationError::Overlap`] if some of it belongs to another device.
    pub fn count<T>(&self, values: &[T]) -> Result<FarRange, EmulationError> {
        let start = values.as_ptr().addr();
        let mut cover = Cover::new(self.number(), start);
        cover.grow(start + size_of_val(values))?;
        Ok(FarRange {
            cover,
            _device: Some(self.clone()),
        })
    }

    /// How it was described.
    pub fn far(&self) -> &FarMemory {
        &self.0.far
    }

    fn number(&self) -> usize {
        usize::from(self.0.number)
    }
}

/// Memory that counts as far until this is dropped. Made by [`count_as_far`] and [`FarDevice::count`].
#[derive(Debug)]
#[must_use = "memory counts as far only as long as this lives"]
pub struct FarRange {
    cover: Cover,
    /// Dropped after what it covers.
    _device: Option<FarDevice>,
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
        let mut range = FarRange::of(None, start);
        range.cover_up_to(start + len_bytes);
        range
    }

    /// No bytes at `start` of a device, or of the usual far memory, to be grown.
    pub(crate) fn of(device: Option<&FarDevice>, start: usize) -> FarRange {
        FarRange {
            cover: Cover::new(device.map_or(DEFAULT, FarDevice::number), start),
            _device: device.cloned(),
        }
    }

    /// Covers everything below `end` as well; a range never shrinks.
    pub(crate) fn cover_up_to(&mut self, end: usize) {
        let covered = self.cover.grow(end);
        debug_assert!(
            covered.is_ok(),
            "at most 127 ranges in one part, 63 of a device, and none of another"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::far::{device, is_covered};
    use super::super::numbers::NEAR;
    use super::*;
    use crate::LARGE_PAGE_BYTES;
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
        let (a, b) = (one.number(), other.number());
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
    fn a_device_knows_its_description_and_its_ranges_grow() {
        let region = Region::near(4 * LARGE_PAGE_BYTES).unwrap();
        let start = region.as_ptr().addr();
        let part = |at: usize| device(start + at * LARGE_PAGE_BYTES);
        let expander = FarDevice::new(FarMemory::CXL).unwrap();
        assert_eq!(*expander.far(), FarMemory::CXL);
        let number = expander.number();
        let mut range = FarRange::of(Some(&expander), start);
        // The range holds it.
        drop(expander);
        assert_eq!([0, 1].map(part), [NEAR; 2]);
        range.cover_up_to(start + LARGE_PAGE_BYTES);
        assert_eq!([0, 1].map(part), [number, NEAR]);
        range.cover_up_to(start + 2 * LARGE_PAGE_BYTES);
        assert_eq!([0, 1, 2].map(part), [number, number, NEAR]);
        drop(range);
        assert_eq!([0, 1].map(part), [NEAR; 2]);
    }

    #[test]
    fn addresses_beyond_user_space_are_near() {
        assert!(!is_covered(usize::MAX));
        assert!(!is_covered(1 << 48));
        drop(count_as_far::<u8>(&[]));
    }
}
