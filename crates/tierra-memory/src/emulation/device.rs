//! Several far memories at once, told apart by the ranges that each counts as its own.
//!
//! Number 0 is near memory, number 1 the far memory that was described to [`set`](super::set): far pools belong to it, and
//! what [`count_as_far`](super::count_as_far) registers. The others are [`FarDevice`]s.
//!
//! Invariant: a number belongs to one description as long as a device or a range with it lives.

use std::sync::Arc;

use super::far::FarRange;
use super::{EmulationError, FarMemory, switch};

/// Near memory's number.
pub(super) const NEAR: usize = 0;
/// The number of the far memory described to `set`.
pub(super) const DEFAULT: usize = 1;
/// Numbers of memories, near memory's included.
pub(super) const MAX_DEVICES: usize = 8;

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

/// The number that a device holds.
#[derive(Debug)]
struct Number(u8);

impl Drop for Number {
    fn drop(&mut self) {
        switch::remove(usize::from(self.0));
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
        Ok(FarDevice(Arc::new(Number(number as u8))))
    }

    /// Has the memory of `values` belong to the device until the range is dropped, which must be before the memory is
    /// freed. Ranges grow outwards to pages of 2 MiB, and take precedence over [`count_as_far`](super::count_as_far).
    ///
    /// # Errors
    /// [`EmulationError::Overlap`] if some of it belongs to another device.
    pub fn count<T>(&self, values: &[T]) -> Result<FarRange, EmulationError> {
        FarRange::of_device(self.clone(), values.as_ptr().addr(), size_of_val(values))
    }

    pub(super) fn number(&self) -> u8 {
        self.0.0
    }
}
