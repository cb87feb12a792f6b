//! Any other file system: stores go to the page cache and reach the device page by page.
//!
//! Invariant: nothing counts as durable before the kernel confirmed it. Staging starts write-back
//! without waiting, so that a load's many extents share one wait in `settle`.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, MsyncFlags, msync};

use super::{Medium, MediumKind};
use crate::address::map_fixed;
use crate::durability::Durability;
use crate::emulation;
use crate::recording::Recorder;

/// Who writes pages back: the kernel, or its simulated twin.
pub(super) trait WriteBack: fmt::Debug + Send + Sync {
    /// Returns when all of the file is durable, its length included.
    fn sync_file(&self, file: &File) -> io::Result<()>;

    /// Returns when the pages of a range are durable.
    ///
    /// # Safety
    /// `[start, start + len_bytes)` must be mapped from a file.
    unsafe fn sync_range(&self, start: *const u8, len_bytes: usize) -> io::Result<()>;
}

/// The kernel that this runs on.
#[derive(Debug)]
pub(super) struct Kernel;

impl WriteBack for Kernel {
    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    unsafe fn sync_range(&self, start: *const u8, len_bytes: usize) -> io::Result<()> {
        let lead = start.addr() % crate::base_page_bytes();
        let first = start.wrapping_sub(lead).cast_mut().cast();
        // SAFETY: mapped by the caller's promise, and mappings consist of whole pages.
        Ok(unsafe { msync(first, len_bytes + lead, MsyncFlags::SYNC) }?)
    }
}

impl WriteBack for Recorder {
    fn sync_file(&self, _: &File) -> io::Result<()> {
        self.file_synced();
        Ok(())
    }

    unsafe fn sync_range(&self, start: *const u8, len_bytes: usize) -> io::Result<()> {
        self.range_synced(start, len_bytes);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct PageCache<W> {
    write_back: W,
}

impl PageCache<Kernel> {
    pub(super) fn new() -> Self {
        PageCache { write_back: Kernel }
    }
}

impl PageCache<Recorder> {
    pub(super) fn recorded(write_back: Recorder) -> Self {
        PageCache { write_back }
    }
}

impl<W: WriteBack> Medium for PageCache<W> {
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

    /// The kernel keeps files in folios of up to 2 MiB. A store through the mapping makes a whole one dirty, and all of it goes to
    /// the device with the next sync: 450 us for a record, and 85 if it was written (ext4, Linux 6.18).
    fn is_stored_to(&self) -> bool {
        false
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        // `settle` makes the length durable with the rest, before anything is published.
        Ok(())
    }

    /// A device may have refused these pages. The kernel takes them for written after that, and would not write them again.
    unsafe fn believe(
        &self,
        file: &File,
        start: *const u8,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()> {
        const STEP_BYTES: u64 = 1 << 20;
        for at in (0..len_bytes).step_by(STEP_BYTES as usize) {
            let step = STEP_BYTES.min(len_bytes - at) as usize;
            // SAFETY: inside the caller's range, which is mapped and not written by others. It is copied first: the kernel
            // would read and write the same page.
            let bytes =
                unsafe { std::slice::from_raw_parts(start.add(at as usize), step) }.to_vec();
            file.write_all_at(&bytes, offset + at)?;
        }
        Ok(())
    }

    unsafe fn flush(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        emulation::flushed(start, len_bytes as usize);
        Ok(())
    }

    unsafe fn fence(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        // Once for all that was flushed: pages between are written sooner than they had to be.
        // SAFETY: mapped by the caller's promise.
        unsafe { self.write_back.sync_range(start, len_bytes as usize)? };
        emulation::fenced();
        Ok(())
    }

    fn shares_fences(&self) -> bool {
        false
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
        self.write_back.sync_file(file)
    }
}
