//! A file that is only read: this process sees what it stores there, and the file never does.
//!
//! Invariant: the mapping is private, so no store reaches the file.

use std::fs::File;
use std::io;

use rustix::mm::MapFlags;

use super::{Medium, MediumKind};
use crate::address::map_fixed;
use crate::durability::Durability;

#[derive(Debug)]
pub(super) struct ReadOnly {
    /// What the file lies on.
    kind: MediumKind,
}

impl ReadOnly {
    pub(super) fn new(kind: MediumKind) -> ReadOnly {
        ReadOnly { kind }
    }
}

impl Medium for ReadOnly {
    fn kind(&self) -> MediumKind {
        self.kind
    }

    fn durability(&self) -> Durability {
        match self.kind {
            MediumKind::Tmpfs => Durability::ProcessOnly,
            _ => Durability::Page,
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
        unsafe { map_fixed(file, at, offset, len_bytes, MapFlags::PRIVATE) }
    }

    fn allocate(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    unsafe fn flush(&self, _: *const u8, _: u64) -> io::Result<()> {
        Ok(())
    }

    unsafe fn fence(&self, _: *const u8, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn shares_fences(&self) -> bool {
        false
    }

    unsafe fn stage(&self, _: &File, _: *const u8, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn settle(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}
