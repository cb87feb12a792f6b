//! A DAX device without a file system, such as `/dev/dax0.0`: nothing but memory that can be mapped.
//!
//! There is no `read`, `write`, `fallocate`, `ftruncate` or `fsync`; `flock` works, for it is the kernel's and not the device's.
//! So the length is what sysfs says, space is there from the beginning, with whatever an earlier pool left in it, and the error of a
//! page is cleared by stores or not at all.
//!
//! Invariant: what is mapped begins and ends at multiples of the device's alignment, which is also what the kernel takes
//! away when a line of it fails. There is no block map that could be lost, so flush and fence are all that a store needs
//! without `MAP_SYNC`.

use std::fs::File;
use std::io;

use super::dax::Dax;
use super::{Medium, MediumKind};
use crate::durability::Durability;
use crate::persist::Processor;
use crate::topology::DaxDevice;
use crate::{LINE_BYTES, arch};

#[derive(Debug)]
pub(super) struct Device {
    /// Maps, flushes and fences as on a DAX file system.
    memory: Dax<Processor>,
    len_bytes: u64,
    unit_bytes: u64,
    durability: Durability,
}

impl Device {
    pub(super) fn new(device: &DaxDevice, unit_bytes: u64, instructions: Processor) -> Self {
        debug_assert!(unit_bytes.is_power_of_two());
        Device {
            memory: Dax::of_device(instructions),
            len_bytes: device.bytes,
            unit_bytes,
            durability: device.durability(),
        }
    }
}

impl Medium for Device {
    fn kind(&self) -> MediumKind {
        MediumKind::Device
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    unsafe fn map(
        &self,
        file: &File,
        at: *mut u8,
        offset: u64,
        len_bytes: usize,
    ) -> io::Result<()> {
        debug_assert!(
            (at.addr() as u64 | offset | len_bytes as u64).is_multiple_of(self.unit_bytes)
        );
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.map(file, at, offset, len_bytes) }
    }

    fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    fn len_bytes(&self, _: &File) -> io::Result<u64> {
        Ok(self.len_bytes)
    }

    fn allocate(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn give_back(&self, _: &File, _: u64, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn clear(&self, _: &File, _: u64, _: usize) -> io::Result<()> {
        Ok(())
    }

    unsafe fn clear_mapped(&self, at: *mut u8, len_bytes: usize) -> io::Result<()> {
        const ZEROS: &[u8] = &[0; 1 << 16];
        for start in (0..len_bytes).step_by(ZEROS.len()) {
            let step = ZEROS.len().min(len_bytes - start);
            // SAFETY: inside the caller's range, in whole lines.
            unsafe { arch::stream_words(at.add(start), &ZEROS[..step]) };
        }
        // SAFETY: mapped by the caller's promise.
        unsafe { self.memory.fence(at, len_bytes as u64)? };
        // Stores of whole lines clear errors on some memory. Elsewhere the signal comes again, and with it the loss.
        for line in (0..len_bytes).step_by(LINE_BYTES) {
            // SAFETY: inside the caller's range; faults of it are caught.
            unsafe { at.add(line).read_volatile() };
        }
        Ok(())
    }

    unsafe fn flush(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.flush(start, len_bytes) }
    }

    unsafe fn fence(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.fence(start, len_bytes) }
    }

    fn processor(&self) -> Option<Processor> {
        self.memory.processor()
    }

    fn shares_fences(&self) -> bool {
        self.memory.shares_fences()
    }

    unsafe fn stage(
        &self,
        file: &File,
        start: *const u8,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.stage(file, start, offset, len_bytes) }
    }

    fn settle(&self, file: &File) -> io::Result<()> {
        self.memory.settle(file)
    }
}
