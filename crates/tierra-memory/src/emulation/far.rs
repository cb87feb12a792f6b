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
//! Invariant: a part counts as far exactly as long as some [`Cover`] of it lives, and as a device's exactly as long
//! as one of that device does.

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use super::EmulationError;
use super::numbers::{DEFAULT, NEAR};
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

/// Address space that counts as one memory's until this is dropped.
#[derive(Debug)]
pub(super) struct Cover {
    number: usize,
    first: usize,
    end: usize,
}

impl Cover {
    /// No bytes at `start`, to be grown, of the memory of that number.
    pub(super) fn new(number: usize, start: usize) -> Cover {
        let first = (start >> PART_BITS).min(PARTS);
        Cover {
            number,
            first,
            end: first,
        }
    }

    /// Covers everything below `end` as well; it never shrinks.
    ///
    /// # Errors
    /// [`EmulationError::Overlap`] where another device's memory begins. What lies before it is covered.
    pub(super) fn grow(&mut self, end: usize) -> Result<(), EmulationError> {
        let end = end.div_ceil(LARGE_PAGE_BYTES).min(PARTS);
        while self.end < end {
            let covered =
                COVERED[self.end].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |covers| {
                    self.covered(covers)
                });
            if covered.is_err() {
                return Err(EmulationError::Overlap {
                    address: self.end << PART_BITS,
                });
            }
            self.end += 1;
        }
        Ok(())
    }

    /// A part's word with this range; `None` if it cannot have it.
    fn covered(&self, covers: u16) -> Option<u16> {
        if self.number == DEFAULT {
            return covers.checked_add(OF_DEFAULT);
        }
        let (number, ranges) = (self.number as u16, covers & ALL_OF_DEVICE);
        let is_free = ranges == 0 || covers & NUMBER == number;
        (is_free && ranges != ALL_OF_DEVICE).then(|| (covers & !NUMBER | number) + OF_DEVICE)
    }

    /// A part's word without this range.
    fn uncovered(&self, covers: u16) -> u16 {
        if self.number == DEFAULT {
            return covers - OF_DEFAULT;
        }
        let left = covers - OF_DEVICE;
        // A part without ranges of a device has no number.
        if left & ALL_OF_DEVICE == 0 {
            left & ALL_OF_DEFAULT
        } else {
            left
        }
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        for covered in &COVERED[self.first..self.end] {
            let _ = covered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |covers| {
                Some(self.uncovered(covers))
            });
        }
    }
}
