//! A DAX file system: the mapping is the persistent memory.
//!
//! Invariant: `MAP_SYNC` keeps the file's block map durable before a page becomes writable, so flush
//! and fence are all that a store needs.

use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Medium, MediumKind};
use crate::address::{self, map_fixed};
use crate::durability::Durability;
use crate::persist::{Flush, Instructions, Lines, Processor};
use crate::recording::Recorder;

const FLAGS: MapFlags = MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC);

/// `I` carries out the flushes: the processor or, over any file, a recorder.
#[derive(Debug)]
pub(super) struct Dax<I> {
    instructions: I,
    flags: MapFlags,
    kind: MediumKind,
}

impl Dax<Processor> {
    pub(super) fn new(instructions: Processor) -> Self {
        Dax {
            instructions,
            flags: FLAGS,
            kind: MediumKind::Dax,
        }
    }

    /// Over a file in memory: the same instructions at the same moments, and nothing more durable.
    pub(super) fn emulated(instructions: Processor) -> Self {
        Dax {
            instructions,
            flags: MapFlags::SHARED,
            kind: MediumKind::EmulatedDax,
        }
    }

    /// Over a device, which has nothing that `MAP_SYNC` could keep.
    pub(super) fn of_device(instructions: Processor) -> Self {
        Dax {
            instructions,
            flags: MapFlags::SHARED,
            kind: MediumKind::Device,
        }
    }

    /// Whether the kernel maps this file with `MAP_SYNC` and this processor can flush a line.
    pub(super) fn supports(file: &File) -> bool {
        let page_bytes = crate::base_page_bytes();
        // SAFETY: a new mapping at an address the kernel chooses, never accessed and unmapped below.
        let mapped = unsafe {
            mmap(
                std::ptr::null_mut(),
                page_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                FLAGS,
                file,
                0,
            )
        };
        let Ok(start) = mapped else { return false };
        // SAFETY: the mapping just made; no pointer into it exists.
        let unmapped = unsafe { munmap(start, page_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping just made can be unmapped");
        Flush::best().is_some()
    }
}

impl Dax<Recorder> {
    pub(super) fn recorded(instructions: Recorder) -> Self {
        Dax {
            instructions,
            flags: MapFlags::SHARED,
            kind: MediumKind::Dax,
        }
    }
}

impl<I: Instructions> Medium for Dax<I> {
    fn kind(&self) -> MediumKind {
        self.kind
    }

    fn durability(&self) -> Durability {
        match self.kind {
            MediumKind::EmulatedDax => Durability::ProcessOnly,
            _ => Durability::CacheLine,
        }
    }

    unsafe fn map(
        &self,
        file: &File,
        at: *mut u8,
        offset: u64,
        len_bytes: usize,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            map_fixed(file, at, offset, len_bytes, self.flags)?;
            if self.kind == MediumKind::EmulatedDax {
                address::advise_large_pages(at, len_bytes);
            }
        }
        Ok(())
    }

    fn grown(&self, file: &File) -> io::Result<()> {
        // The file's length is not part of what MAP_SYNC keeps.
        self.instructions.sync_length(file)
    }

    unsafe fn flush(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        // SAFETY: mapped by the caller's promise; a mapped length fits usize.
        unsafe {
            self.instructions
                .flush(Lines::of(start, len_bytes as usize))
        };
        Ok(())
    }

    unsafe fn fence(&self, _: *const u8, _: u64) -> io::Result<()> {
        self.instructions.fence();
        Ok(())
    }

    fn processor(&self) -> Option<Processor> {
        self.instructions.processor()
    }

    fn shares_fences(&self) -> bool {
        true
    }

    unsafe fn stage(&self, _: &File, start: *const u8, _: u64, len_bytes: u64) -> io::Result<()> {
        // A fence orders only the flushes of its own thread, and the one that settles may be
        // another: so each stage ends with its own, and nothing is left to settle.
        // SAFETY: the caller's promise is passed on.
        unsafe { self.persist(start, len_bytes) }
    }

    fn settle(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}
