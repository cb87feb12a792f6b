//! A pool: the one durable file of a tier, read in place and published by one 8-byte store. The slot is then written a second time.
//!
//! The protocol, which the borrow checker cannot see because it spans processes and restarts:
//! 1. [`Pool::allocate`] hands out space that nothing else names; its [`ExtentWriter`] is the only
//!    one who touches it, and dropping it unfinished gives the space back.
//! 2. [`ExtentWriter::finish`] seals the extent: from now on it is immutable (a log: only
//!    [`Pool::write`] changes it) and may be shared. It returns a [`Finished`], which nothing else makes.
//! 3. [`Pool::publish`] takes a [`Finished`], so what is not finished cannot be published. Its extent becomes the root. The root
//!    and the extents that it names are *live*: they survive a crash at any moment. How the root names them is the owner's affair.
//! 4. [`Pool::free`] is called for what neither the published root nor a reader names any more. After
//!    a reopen, [`Pool::retain`] is given what is live, and everything else is free.
//!
//! Invariant: bytes in live extents are never overwritten but in logs; everything below
//! [`Pool::len_bytes`] is allocated by the file system and mapped. `docs/file-format.md`, chapter
//! "Pool", draws the layout.

mod allocation;
mod checked_log;
pub(crate) mod copies;
mod copying;
mod counters;
mod device;
pub(crate) mod entry;
mod error;
mod extent;
mod file_reads;
mod interrupted_creation;
mod layout;
mod log;
mod lost;
mod lost_pages;
mod medium;
mod open;
mod options;
mod path;
mod publication;
mod reading;
mod repair;
mod space;
mod stored;
mod superblock;
#[cfg(test)]
mod tests;
mod undo;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

pub(crate) use checked_log::CheckedLog;
pub(crate) use copies::{Copies, PersistLayer, Replica, ViaPool, WrittenRange};
pub use copying::{Copied, CopyMethod, CopyMethodError};
pub use counters::{Counters, Written};
pub use error::{PoolError, PublishError};
pub use extent::Extent;
pub use file_reads::{BegunRead, FileReads};
pub use lost::Fault;
pub use medium::MediumKind;
pub use options::PoolOptions;
pub use repair::ExtentLabel;
pub(crate) use stored::Persisted;
pub use undo::{Transaction, UndoLog};
pub use writer::{ExtentWriter, Finished};

use crate::address::AddressRange;
pub use crate::durability::Durability;
use crate::emulation::{FarDevice, FarRange};
use crate::lock::lock;
use crate::recording::Recorder;
use crate::signal::Watched;
use crate::topology::{NodeId, Speed};
use crate::{smaps, trouble};
use counters::Counts;
use lost::{Lost, Staged, lost_page};
use medium::Medium;
use space::Space;
use superblock::Publication;

/// A durable file, mapped into a reserved address range. Shared as `Arc<Pool>`.
#[derive(Debug)]
pub struct Pool {
    path: PathBuf,
    file: File,
    /// The file once more, for reads past the page cache.
    direct: OnceLock<File>,
    medium: Box<dyn Medium>,
    /// The mapped bytes of a far pool, which emulation slows. Before the range, so that what comes
    /// to lie there afterwards is not far.
    far: Option<Mutex<FarRange>>,
    /// Catches faults of the mapped bytes; before the range as well.
    watched: Watched,
    range: AddressRange,
    /// Bytes of the file that are allocated and mapped; only grows.
    mapped_bytes: AtomicU64,
    limit_bytes: u64,
    id: u64,
    speed: Speed,
    far_device: Option<FarDevice>,
    node: Option<NodeId>,
    space: Mutex<Space>,
    publication: Mutex<Publication>,
    /// Runs that were staged since the last publication, by offset. Locked behind `lost`.
    staged: Mutex<BTreeMap<u64, Staged>>,
    lost: Mutex<Lost>,
    counts: Counts,
    /// Whether pages are lost, or about to be known as such.
    has_lost: AtomicBool,
    /// How often pages were cleared that hold several extents.
    cleared: AtomicU64,
    /// Looks on, if the pool is simulated.
    recorder: Option<Recorder>,
    /// A write to the device failed: what it holds is unknown, so nothing is published any more.
    poisoned: AtomicBool,
    /// Opened with [`PoolOptions::read_only`].
    read_only: bool,
}

impl Pool {
    /// Bytes that are mapped and, by the protocol, not written while the slice is used.
    #[inline]
    pub(crate) fn raw_bytes(&self, offset: u64, len_bytes: u64) -> &[u8] {
        debug_assert!(offset + len_bytes <= self.len_bytes());
        // SAFETY: the range is mapped readable as long as the pool lives and not written, as the
        // callers see to. Any byte is a valid u8.
        unsafe { std::slice::from_raw_parts(self.address(offset), len_bytes as usize) }
    }

    /// What the content survives.
    pub fn durability(&self) -> Durability {
        self.medium.durability()
    }

    /// What the pool lies on.
    pub fn medium(&self) -> MediumKind {
        self.medium.kind()
    }

    /// The speed of the memory below, as given when it was opened.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// The far memory that it is taken for while far memory is emulated, as given when it was opened; `None`: that which is
    /// emulated then, and near memory for a near pool.
    pub fn far_device(&self) -> Option<&FarDevice> {
        let is_far = self.speed == Speed::Far;
        self.far_device.as_ref().filter(|_| is_far)
    }

    /// Bytes of the pages that back most of what was touched so far, as the kernel says.
    pub fn page_size_bytes(&self) -> usize {
        smaps::page_size_bytes(self.address(0).addr(), self.len_bytes() as usize)
    }

    /// What was written and found since the pool was opened.
    pub fn counters(&self) -> Counters {
        self.counts.so_far()
    }

    /// Counts a check of some of the pool's bytes, made by a caller that has their checksum.
    /// [`Pool::verify_extent`] counts its own.
    pub fn count_check(&self, bytes: u64, is_valid: bool) {
        self.counts.checked(bytes, is_valid);
    }

    /// Bytes of the file, free space included.
    pub fn len_bytes(&self) -> u64 {
        self.mapped_bytes.load(Ordering::Acquire)
    }

    /// Bytes in extents, their headers and rounding included. Before [`Pool::retain`], the space
    /// not yet known to be free counts as well.
    pub fn used_bytes(&self) -> u64 {
        lock(&self.space).used_bytes()
    }

    /// The most bytes the file may have.
    pub fn capacity_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What is mapped, and lost, at a time.
    pub(crate) fn unit_bytes(&self) -> u64 {
        self.medium.unit_bytes()
    }

    /// The number that ties its extents to it, wherever the file is.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a byte of the pool lies in memory.
    #[inline]
    pub(crate) fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.range.len_bytes() as u64);
        self.range.start().as_ptr().wrapping_add(offset as usize)
    }

    /// The file below, to be damaged.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn bad(&self, extent: Extent, what: &'static str) -> PoolError {
        PoolError::BadExtent {
            path: self.path.clone(),
            extent,
            what,
        }
    }

    pub(super) fn lost_at(&self, offset: u64) -> PoolError {
        PoolError::Lost {
            path: self.path.clone(),
            offset,
        }
    }

    fn io(&self, doing: &'static str, source: io::Error) -> PoolError {
        if let Some(offset) = lost_page(&source) {
            return self.lost_at(offset);
        }
        PoolError::Io {
            path: self.path.clone(),
            doing,
            source,
        }
    }

    /// After a failed write-back the kernel may call the lost pages clean, so trying again would
    /// succeed and lie.
    fn poison(&self, doing: &'static str, source: io::Error) -> PoolError {
        // What a lost page holds is known: nothing.
        if lost_page(&source).is_none() {
            self.stop_writing();
        }
        self.io(doing, source)
    }

    pub(crate) fn stop_writing(&self) {
        self.poisoned.store(true, Ordering::Release);
        trouble::happened();
    }

    /// Whether its device refused a write since it was opened: it is only read any more.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Whether it was opened with [`PoolOptions::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn refuse_if_read_only(&self) -> Result<(), PoolError> {
        match self.read_only {
            false => Ok(()),
            true => Err(PoolError::ReadOnly {
                path: self.path.clone(),
            }),
        }
    }

    fn refuse_if_poisoned(&self) -> Result<(), PoolError> {
        if self.is_poisoned() {
            return Err(PoolError::Poisoned {
                path: self.path.clone(),
            });
        }
        Ok(())
    }
}
