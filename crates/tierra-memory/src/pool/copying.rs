//! Copying bytes of a pool into near memory, as a storage engine does that reads its files into frames.
//!
//! ```text
//! mapped     a copy from the mapping                        any medium
//! buffered   read() from the file, through the page cache   any medium with a file
//! direct     read() from the device, past the page cache    a file system with O_DIRECT
//! ```
//! Source: Mustafa et al., "Implications of Non-Volatile Memory as Primary Storage for Database Management Systems"
//! (SAMOS 2016), section 3: its storage engines copy blocks through the file system, or from a mapping.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Extent, MediumKind, Pool};
use crate::emulation::begin_read;

/// Devices are read in whole units of this many bytes, into memory that begins with one.
const UNIT_BYTES: usize = 4096;

/// How bytes of a pool get into near memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMethod {
    /// They are copied from the mapping.
    Mapped,
    /// They are read from the file through the page cache.
    Buffered,
    /// They are read from the device, past the page cache.
    Direct,
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mapped => "mapped",
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        })
    }
}

/// A method that a pool's medium does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {medium} cannot be read '{method}': {why}")]
pub struct CopyMethodError {
    path: String,
    medium: MediumKind,
    method: CopyMethod,
    why: &'static str,
}

/// A part of a pool's bytes, copied into memory of its own, and zeros behind it.
pub struct Copied {
    start: NonNull<u8>,
    layout: Layout,
    /// Within the memory.
    bytes: Range<usize>,
}

// SAFETY: the memory belongs to the value, and nothing writes there once it is made.
unsafe impl Send for Copied {}
// SAFETY: as above.
unsafe impl Sync for Copied {}

impl Copied {
    /// Memory of `len_bytes` bytes, filled by `fill`, in which `bytes` are the copied ones. `fill` gets it uninitialised and
    /// returns how much of its beginning it has written; what is left becomes zeros.
    fn filled(
        len_bytes: usize,
        bytes: Range<usize>,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<usize>,
    ) -> io::Result<Copied> {
        let mut unfilled = Unfilled::allocate(len_bytes, bytes)?;
        let written = fill(unfilled.memory())?;
        // SAFETY: `fill` has written so many bytes.
        Ok(unsafe { unfilled.filled(written) })
    }

    /// Bytes of memory that it occupies.
    pub fn memory_bytes(&self) -> usize {
        self.layout.size()
    }
}

/// The memory of a [`Copied`] that is not written yet.
pub(super) struct Unfilled(Copied);

impl Unfilled {
    fn allocate(len_bytes: usize, bytes: Range<usize>) -> io::Result<Unfilled> {
        debug_assert!(bytes.start <= bytes.end && bytes.end <= len_bytes);
        let layout = Layout::from_size_align(len_bytes.max(1), UNIT_BYTES)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        Ok(Unfilled(Copied {
            start,
            layout,
            bytes,
        }))
    }

    /// All of it.
    pub(super) fn memory(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the memory was allocated with this size, and is this value's alone. Uninitialised bytes may be uninitialised.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.start.as_ptr().cast(), self.0.layout.size())
        }
    }

    /// The memory, of which the first `written` bytes are kept; what is left becomes zeros.
    ///
    /// # Safety
    /// The first `written` bytes are written.
    pub(super) unsafe fn filled(mut self, written: usize) -> Copied {
        self.memory()[written..].fill(MaybeUninit::new(0));
        self.0
    }
}

/// A read of a pool's file that fetches a range of an extent.
pub(super) struct FileRead<'a> {
    pub(super) file: &'a File,
    /// Where in the file it begins, and how many bytes it has: those of the range, and what whole units need beside them.
    pub(super) offset: u64,
    pub(super) len_bytes: usize,
    /// Bytes of the memory that count once they are read.
    pub(super) written: usize,
    memory_bytes: usize,
    /// Where the range and the zeros lie in the memory.
    bytes: Range<usize>,
}

impl FileRead<'_> {
    /// Memory to read into.
    pub(super) fn allocate(&self) -> io::Result<Unfilled> {
        Unfilled::allocate(self.memory_bytes, self.bytes.clone())
    }

    /// Reads from here on what a read of `done` bytes left out.
    pub(super) fn complete(&self, memory: &mut [MaybeUninit<u8>], done: usize) -> io::Result<()> {
        let rest = &mut memory[done..self.len_bytes];
        read(self.file, rest, self.offset + done as u64)
    }
}

impl Deref for Copied {
    type Target = [u8];

    /// The copied bytes and the zeros behind them.
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the memory, which was initialised when it was filled.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(self.bytes.start), self.bytes.len())
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Copied({} bytes)", self.bytes.len())
    }
}

impl Pool {
    /// Whether the pool's medium has a method.
    ///
    /// # Errors
    /// [`CopyMethodError`] if it has not, with what to use instead.
    pub fn check_copy_method(&self, method: CopyMethod) -> Result<(), CopyMethodError> {
        let why = match (method, self.medium()) {
            (CopyMethod::Mapped, _) => return Ok(()),
            (_, MediumKind::Device) => "a device has no read(); use 'mapped' or 'in-place'",
            (_, _) if self.recorder.is_some() => "it is simulated; use 'mapped' or 'in-place'",
            (CopyMethod::Buffered, _) => return Ok(()),
            (CopyMethod::Direct, medium) if medium.is_memory() => {
                "a file in memory has no device below; use 'buffered', 'mapped' or 'in-place'"
            }
            (CopyMethod::Direct, _) => match self.direct_file() {
                Ok(_) => return Ok(()),
                Err(_) => "its file system has no O_DIRECT; use 'buffered', 'mapped' or 'in-place'",
            },
        };
        Err(CopyMethodError {
            path: self.path.display().to_string(),
            medium: self.medium(),
            method,
            why,
        })
    }

    /// Copies a range of an extent's payload, and `zeros` zeros behind it. Emulated far memory is waited for, as for a read in order.
    ///
    /// # Errors
    /// Those of the system: an unreadable medium, no such method.
    ///
    /// # Panics
    /// If the range does not lie in the extent, or the extent not in the pool.
    pub fn copy_out(
        &self,
        extent: Extent,
        range: Range<usize>,
        zeros: usize,
        method: CopyMethod,
    ) -> io::Result<Copied> {
        let stored = &self.bytes(extent)[range.clone()];
        let _reading = begin_read(stored);
        let Some(file_read) = self.file_read(extent, range, zeros, method)? else {
            let len_bytes = stored.len();
            return Copied::filled(len_bytes + zeros, 0..len_bytes + zeros, |memory| {
                memory[..len_bytes].write_copy_of_slice(stored);
                Ok(len_bytes)
            });
        };
        let mut unfilled = file_read.allocate()?;
        file_read.complete(unfilled.memory(), 0)?;
        // SAFETY: the read was complete.
        Ok(unsafe { unfilled.filled(file_read.written) })
    }

    /// The read by which a method fetches a range of an extent and `zeros` zeros behind it; `None` if it reads no file.
    pub(super) fn file_read(
        &self,
        extent: Extent,
        range: Range<usize>,
        zeros: usize,
        method: CopyMethod,
    ) -> io::Result<Option<FileRead<'_>>> {
        let len_bytes = range.len();
        let offset = extent.offset + range.start as u64;
        Ok(Some(match method {
            CopyMethod::Mapped => return Ok(None),
            CopyMethod::Buffered => FileRead {
                file: &self.file,
                offset,
                len_bytes,
                written: len_bytes,
                memory_bytes: len_bytes + zeros,
                bytes: 0..len_bytes + zeros,
            },
            CopyMethod::Direct => {
                let skipped = (offset % UNIT_BYTES as u64) as usize;
                let end = skipped + len_bytes;
                let read_bytes = end.next_multiple_of(UNIT_BYTES);
                FileRead {
                    file: self.direct_file()?,
                    offset: offset - skipped as u64,
                    len_bytes: read_bytes,
                    written: end,
                    memory_bytes: (end + zeros).max(read_bytes),
                    bytes: skipped..end + zeros,
                }
            }
        }))
    }

    /// The pool's file, opened to read past the page cache.
    fn direct_file(&self) -> io::Result<&File> {
        if let Some(file) = self.direct.get() {
            return Ok(file);
        }
        // The file itself, wherever its path leads by now.
        let opened = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(opened, flags, Mode::empty())?);
        Ok(self.direct.get_or_init(|| file))
    }
}

/// Fills all of `memory` from the file's `offset`.
fn read(file: &File, memory: &mut [MaybeUninit<u8>], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < memory.len() {
        match rustix::io::pread(file, &mut memory[done..], offset + done as u64) {
            Ok(([], _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((read, _)) => done += read.len(),
            Err(Errno::INTR) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}
