//! What a pool's bytes lie on, as one small trait with a file per kind.
//!
//! The kinds differ in how a store becomes durable and in nothing else. For what is overwritten in place:
//! `flush` sends bytes on their way, `fence` waits for those of its thread, `persist` is both. For what
//! nobody knows of yet: `stage` begins, `settle` waits for everything staged by any thread before.
//!
//! A pool that is recorded ([`crate::simulation`]) has the code of the medium it stands for, over a twin
//! of the processor or the kernel that writes down what it is asked.

mod dax;
mod file;
mod tmpfs;

use std::fmt;
use std::fs::File;
use std::io;

pub(super) use crate::address::map_fixed;
use crate::persist::{Flush, Processor};
use crate::pool::Durability;
use crate::simulation::Recorder;

/// The kind of a pool's medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumKind {
    /// A file system on persistent memory, mapped with `MAP_SYNC`: stores go to the medium itself.
    Dax,
    /// A file in memory that is written as if it were [`MediumKind::Dax`], to measure what that takes.
    EmulatedDax,
    /// A file in memory.
    Tmpfs,
    /// Any other file system: stores go to the page cache.
    File,
}

impl MediumKind {
    /// Whether the file is memory: tmpfs, whatever it is taken for.
    pub(crate) fn is_memory(self) -> bool {
        matches!(self, MediumKind::Tmpfs | MediumKind::EmulatedDax)
    }
}

impl fmt::Display for MediumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediumKind::Dax => "dax",
            MediumKind::EmulatedDax => "dax, emulated",
            MediumKind::Tmpfs => "tmpfs",
            MediumKind::File => "file",
        })
    }
}

/// How bytes of a pool are mapped and made durable.
pub(crate) trait Medium: fmt::Debug + Send + Sync {
    fn kind(&self) -> MediumKind;

    fn durability(&self) -> Durability;

    /// Maps `len_bytes` of the file from `offset` over the reservation at `at`.
    ///
    /// # Safety
    /// `[at, at + len_bytes)` must be reserved by the caller and hold nothing in use.
    unsafe fn map(&self, file: &File, at: *mut u8, offset: u64, len_bytes: usize)
    -> io::Result<()>;

    /// Called after the file grew and before the new part is used.
    fn grown(&self, file: &File) -> io::Result<()>;

    /// Sends a range on its way; [`Medium::fence`] waits for it.
    ///
    /// # Safety
    /// `[start, start + len_bytes)` must be mapped from this medium's file.
    unsafe fn flush(&self, start: *const u8, len_bytes: u64) -> io::Result<()>;

    /// Returns when all that this thread flushed is durable; `[start, start + len_bytes)` covers it.
    ///
    /// # Safety
    /// As for [`Medium::flush`].
    unsafe fn fence(&self, start: *const u8, len_bytes: u64) -> io::Result<()>;

    /// Flushes and fences one range.
    ///
    /// # Safety
    /// As for [`Medium::flush`].
    unsafe fn persist(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            self.flush(start, len_bytes)?;
            self.fence(start, len_bytes)
        }
    }

    /// Who flushes and fences, where that is a processor and can therefore not fail.
    fn processor(&self) -> Option<Processor> {
        None
    }

    /// Whether a fence is the processor's, and so serves all pools of which that is true.
    fn shares_fences(&self) -> bool;

    /// Begins to make a range durable that no reader of the medium knows of yet.
    ///
    /// # Safety
    /// `[start, start + len_bytes)` must be mapped from `file`, where `offset` is.
    unsafe fn stage(
        &self,
        file: &File,
        start: *const u8,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()>;

    /// Returns when all that was staged before, by any thread, is durable.
    fn settle(&self, file: &File) -> io::Result<()>;
}

/// Finds out what a file lies on. DAX first: the kernel grants `MAP_SYNC` only where it is true.
/// `flush` is the instruction that is asked for, `emulate_dax` whether tmpfs is written as DAX is.
pub(crate) fn detect(
    file: &File,
    flush: Option<Flush>,
    emulate_dax: bool,
) -> io::Result<Box<dyn Medium>> {
    let processor = || match flush {
        None => Ok(Processor::best()),
        Some(how) => Processor::flushing_by(how).ok_or_else(|| {
            let what = format!("this processor has no {how}");
            io::Error::new(io::ErrorKind::Unsupported, what)
        }),
    };
    if dax::Dax::supports(file) {
        Ok(Box::new(dax::Dax::new(processor()?)))
    } else if !tmpfs::Tmpfs::holds(file)? {
        Ok(Box::new(file::PageCache::new()))
    } else if emulate_dax {
        Ok(Box::new(dax::Dax::emulated(processor()?)))
    } else {
        Ok(Box::new(tmpfs::Tmpfs))
    }
}

/// The medium that a recorder stands for, whatever the file lies on.
pub(crate) fn recorded(recorder: &Recorder) -> Box<dyn Medium> {
    let recorder = recorder.clone();
    match recorder.durability() {
        Durability::CacheLine => Box::new(dax::Dax::recorded(recorder)),
        _ => Box::new(file::PageCache::recorded(recorder)),
    }
}
