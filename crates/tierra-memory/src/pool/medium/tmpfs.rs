//! A file in memory: it outlives the process and nothing more.
//!
//! Invariant: a store is as durable as it gets once it is made, for the page cache is the file.

use std::fs::File;
use std::io;

use rustix::fs::fstatfs;
use rustix::mm::MapFlags;

use super::{Medium, MediumKind};
use crate::address::{self, map_fixed};
use crate::durability::Durability;
use crate::emulation;
use crate::persist::{self, Processor};

#[derive(Debug)]
pub(super) struct Tmpfs;

impl Tmpfs {
    /// Whether the file lies on tmpfs or ramfs.
    pub(super) fn holds(file: &File) -> io::Result<bool> {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58F6;
        // The field's width and sign differ among systems; the low 32 bits are the number.
        let magic = fstatfs(file)?.f_type as u64 & 0xFFFF_FFFF;
        Ok([TMPFS, RAMFS].contains(&magic))
    }
}

impl Medium for Tmpfs {
    fn kind(&self) -> MediumKind {
        MediumKind::Tmpfs
    }

    fn durability(&self) -> Durability {
        Durability::ProcessOnly
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
            map_fixed(file, at, offset, len_bytes, MapFlags::SHARED)?;
            address::advise_large_pages(at, len_bytes);
        }
        Ok(())
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    unsafe fn flush(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        emulation::flushed(start, len_bytes as usize);
        Ok(())
    }

    unsafe fn fence(&self, _: *const u8, _: u64) -> io::Result<()> {
        // Streaming stores of this thread must be in memory before another publishes them.
        persist::fence();
        Ok(())
    }

    fn processor(&self) -> Option<Processor> {
        Some(Processor::that_only_fences())
    }

    fn shares_fences(&self) -> bool {
        true
    }

    unsafe fn stage(&self, _: &File, start: *const u8, _: u64, len_bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.persist(start, len_bytes) }
    }

    fn settle(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}
