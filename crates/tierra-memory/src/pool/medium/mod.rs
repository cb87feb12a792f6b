//! What a pool's bytes lie on, as one small trait with a file per kind.
//!
//! The kinds differ in how a store becomes durable and in nothing else. For what is overwritten in place:
//! `flush` sends bytes on their way, `fence` waits for those of its thread, `persist` is both. For what
//! has no reference yet: `stage` begins, `settle` waits for everything staged by any thread before.
//!
//! A pool that is recorded ([`crate::recording`]) has the code of the medium it stands for, over a twin
//! of the processor or the kernel that writes down what it is asked.

pub(super) mod choose;
mod dax;
mod device;
mod file;
mod read_only;
mod tmpfs;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::backing;
use crate::durability::Durability;
use crate::persist::Processor;

/// The kind of a pool's medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumKind {
    /// A file system on persistent memory, mapped with `MAP_SYNC`: stores go to the medium itself.
    Dax,
    /// Persistent memory, or other memory that is set aside, as a device without a file system.
    Device,
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
            MediumKind::Device => "dax device",
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

    /// Bytes that can be mapped, and lost, on their own only; a power of two, a page at least.
    fn unit_bytes(&self) -> u64 {
        crate::base_page_bytes() as u64
    }

    /// Bytes of the file.
    fn len_bytes(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    /// Has space for `[from, to)` of the file, which it extends; what it holds stays.
    fn allocate(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        backing::allocate(file, from, to)
    }

    /// Gives the space of `[from, to)` of the file back, which holds zeros then, and has to be had again before it is
    /// written. `false` where there is none to give.
    fn give_back(&self, file: &File, from: u64, to: u64) -> io::Result<bool> {
        backing::give_back(file, from, to)
    }

    /// Called after the file grew and before the new part is mapped.
    fn grown(&self, file: &File) -> io::Result<()>;

    /// Writes zeros where whole units were lost, durably, before they are mapped again.
    fn clear(&self, file: &File, offset: u64, len_bytes: usize) -> io::Result<()> {
        // Whole pages through the file: that is how the kernel has an error of the medium cleared.
        file.write_all_at(&vec![0; len_bytes], offset)?;
        file.sync_data()
    }

    /// The same through the mapping, where there is no other way.
    ///
    /// # Safety
    /// `[at, at + len_bytes)` must be whole units, mapped from this medium's file, and hold nothing in use.
    unsafe fn clear_mapped(&self, _at: *mut u8, _len_bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Whether bytes are stored through the mapping. Otherwise [`Medium::write`] writes them.
    fn is_stored_to(&self) -> bool {
        true
    }

    /// Writes bytes to the file at `offset`, which is mapped. Nobody else may read or write that place meanwhile.
    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Prepares a range that an earlier process stored, and that is believed because it was read, for [`Medium::flush`].
    ///
    /// # Safety
    /// As for [`Medium::flush`], and `start` must be mapped from `offset` of `file`. Nobody may write the range meanwhile.
    unsafe fn believe(&self, _: &File, _: *const u8, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

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
