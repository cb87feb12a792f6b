//! Any other file system: stores go to the page cache and reach the device page by page.
//!
//! Invariant: nothing counts as durable before the kernel confirmed it. Staging starts write-back
//! without waiting, so that a load's many extents share one wait in `settle`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::mm::{MapFlags, MsyncFlags, msync};

use super::{Medium, MediumKind, map_fixed};
use crate::emulation;
use crate::pool::Durability;

#[derive(Debug)]
pub(super) struct PageCache;

impl Medium for PageCache {
    fn kind(&self) -> MediumKind {
        MediumKind::File
    }

    fn durability(&self) -> Durability {
        Durability::Page
    }

    unsafe fn map(
        &self,
        file: &File,
        at: *mut u8,
        offset: u64,
        len_bytes: usize,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { map_fixed(file, at, offset, len_bytes, MapFlags::SHARED) }
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        // `settle` makes the length durable with the rest, before anything is published.
        Ok(())
    }

    unsafe fn stage(
        &self,
        file: &File,
        start: *const u8,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()> {
        let _writing = emulation::begin_write(start, len_bytes as usize);
        // Small extents wait for `settle`; write-back of each would only split its work.
        const WORTH_STARTING_BYTES: u64 = 1 << 20;
        if len_bytes >= WORTH_STARTING_BYTES {
            // SAFETY: a system call on an open file that touches no memory of this process.
            let started = unsafe {
                libc::sync_file_range(
                    file.as_raw_fd(),
                    offset as libc::off64_t,
                    len_bytes as libc::off64_t,
                    libc::SYNC_FILE_RANGE_WRITE,
                )
            };
            if started != 0 {
                // A head start, not a promise: `settle` reports what cannot be written.
                tracing::debug!(error = %io::Error::last_os_error(), "write-back not started");
            }
        }
        Ok(())
    }

    fn settle(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    unsafe fn persist(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        let _writing = emulation::begin_write(start, len_bytes as usize);
        let lead = start.addr() % rustix::param::page_size();
        let first = start.wrapping_sub(lead).cast_mut().cast();
        // SAFETY: mapped by the caller's promise, and mappings consist of whole pages.
        Ok(unsafe { msync(first, len_bytes as usize + lead, MsyncFlags::SYNC) }?)
    }
}
