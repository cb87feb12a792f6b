//! Which memory counts as far: a counter per 2 MiB of address space.
//!
//! Far pools register what they map, and experiments any memory they hold, so that one structure can be
//! measured near and far without a copy. A mode asks for every load of every lookup, so the question must
//! cost one load from a table that stays in the nearest cache: 2 KiB of it stand for 4 GiB. Pools and regions
//! begin and end at large pages; anything smaller is rounded outwards and takes its neighbours along.
//!
//! Invariant: a part counts as far exactly as long as some [`FarRange`] over it lives.

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use crate::LARGE_PAGE_BYTES;

/// Addresses of user space that the kernel hands out unasked.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "x86_64") { 47 } else { 48 };
const PART_BITS: u32 = LARGE_PAGE_BYTES.trailing_zeros();
const PARTS: usize = 1 << (ADDRESS_BITS - PART_BITS);

/// How many ranges cover each part. Never touched, so never backed by memory, but where something is far.
static COVERED: [AtomicU16; PARTS] = [const { AtomicU16::new(0) }; PARTS];

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
    COVERED
        .get(address >> PART_BITS)
        .is_some_and(|covered| covered.load(Ordering::Relaxed) != 0)
}

/// Memory that counts as far until this is dropped. Made by [`count_as_far`].
#[derive(Debug)]
#[must_use = "memory counts as far only as long as this lives"]
pub struct FarRange {
    first: usize,
    end: usize,
}

/// Has the memory of `values` count as far. Drop what it returns before the memory is freed, or what
/// comes to lie there counts as far as well.
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
    /// No bytes at `start`, to be grown.
    pub(crate) fn new(start: usize, len_bytes: usize) -> FarRange {
        let first = (start >> PART_BITS).min(PARTS);
        let mut range = FarRange { first, end: first };
        range.cover_up_to(start + len_bytes);
        range
    }

    /// Covers everything below `end` as well; a range never shrinks.
    pub(crate) fn cover_up_to(&mut self, end: usize) {
        let end = end.div_ceil(LARGE_PAGE_BYTES).min(PARTS);
        for covered in COVERED.get(self.end..end).unwrap_or_default() {
            let before = covered.fetch_add(1, Ordering::Relaxed);
            debug_assert!(before < u16::MAX, "65,536 ranges in one part");
        }
        self.end = end.max(self.end);
    }
}

impl Drop for FarRange {
    fn drop(&mut self) {
        for covered in &COVERED[self.first..self.end] {
            covered.fetch_sub(1, Ordering::Relaxed);
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
    fn addresses_beyond_user_space_are_near() {
        assert!(!is_covered(usize::MAX));
        assert!(!is_covered(1 << ADDRESS_BITS));
        drop(count_as_far::<u8>(&[]));
    }
}
