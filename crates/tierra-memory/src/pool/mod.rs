//! A pool: the one durable file of a tier, read in place and published by one 8-byte store, which is then made once more.
//!
//! The protocol, which the borrow checker cannot see because it spans processes and restarts:
//! 1. [`Pool::allocate`] hands out space that nothing else names; its [`ExtentWriter`] is the only
//!    one who touches it, and dropping it unfinished gives the space back.
//! 2. [`ExtentWriter::finish`] seals the extent: from now on it is immutable (a log: only
//!    [`Pool::write`] changes it) and may be shared. It returns a [`Finished`], which nothing else makes.
//! 3. [`Pool::publish`] takes one, and so cannot be asked for what was not finished: it becomes the root. Root and all that it names, by whatever means the
//!    owner has, are *live*; they survive a crash at any moment.
//! 4. [`Pool::free`] is called for what neither the published root nor a reader names any more. After
//!    a reopen, [`Pool::retain`] is told what is live, and everything else is free.
//!
//! Invariant: bytes in live extents are never overwritten but in logs; everything below
//! [`Pool::len_bytes`] is allocated by the file system and mapped. `docs/file-format.md`, chapter
//! "Pool", draws the layout.

mod allocation;
pub(crate) mod backing;
pub(crate) mod copies;
mod counters;
mod device;
pub(crate) mod entry;
mod error;
mod layout;
mod lost;
mod medium;
mod open;
mod place;
mod publication;
#[cfg(test)]
mod refusal;
mod remains;
mod repair;
pub(crate) mod space;
mod stored;
mod undo;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use copies::{Asked, Below, Copies, Replica, Written as WrittenToCopies};
pub use counters::{Counters, Written};
pub use error::{PoolError, PublishError};
pub use lost::Fault;
pub use medium::MediumKind;
pub(crate) use place::Place;
pub use repair::ExtentLabel;
pub(crate) use stored::Persisted;
pub use undo::{Transaction, UndoLog};
pub use writer::{ExtentWriter, Finished};

use crate::LINE_BYTES;
use crate::address::AddressRange;
use crate::checksum;
use crate::emulation::{self, FarRange};
use crate::faults::{Watched, trouble};
use crate::persist::Flush;
use crate::simulation::Recorder;
use crate::smaps;
use crate::topology::{NodeId, Speed};
use allocation::Space;
use counters::Counts;
use layout::{EXTENT_HEADER_BYTES, ExtentHeader, ExtentKind, FIRST_EXTENT, GRAIN_BYTES};
use lost::{Lost, Staged};
use medium::Medium;
use publication::Publication;

/// What a pool's content survives once it is persisted, and at what grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A power cut; line by line, by flush and fence.
    CacheLine,
    /// A power cut; page by page, by the kernel's write-back.
    Page,
    /// The end of the process, by a kill as well, but no power cut.
    ProcessOnly,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::CacheLine => "cache line",
            Durability::Page => "page",
            Durability::ProcessOnly => "process only",
        })
    }
}

/// How to create or open a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The most bytes the pool's file may have; `None`: as many as the file system.
    pub capacity_bytes: Option<u64>,
    /// The speed of the memory below, as the caller knows it: a pool is far unless told otherwise.
    pub speed: Speed,
    /// Binds the pages of a pool on tmpfs to a NUMA node, for instance one without CPUs. Media of
    /// their own place ignore it.
    pub node: Option<NodeId>,
    /// The number that ties extents to their pool; `None`: drawn at random. Only for creation.
    pub id: Option<u64>,
    /// Only for opening: go back to this version on purpose, if one of the two last publications is it, whatever the other is. The next
    /// publication comes in the place of that one; until then the file is as it was, and is opened without this as before.
    pub at_version: Option<u64>,
    /// The instruction that flushes lines, where the medium needs one; `None`: the best this processor
    /// has. One that it does not have is an error.
    pub flush: Option<Flush>,
    /// Where the machine is described that DAX devices are looked up in, as for [`Topology::discover_in`]; `None`: `/`. A file stands
    /// in for the device of its number there.
    ///
    /// [`Topology::discover_in`]: crate::Topology::discover_in
    pub machine: Option<PathBuf>,
    /// On tmpfs: flushes and fences as on DAX, to measure what persistent memory would ask for. It makes
    /// nothing more durable, and [`Pool::medium`] says so. Other media ignore it.
    pub emulate_dax: bool,
    /// To open a file that cannot be written, or must not be: others may read it at the same time, and nobody has it open to
    /// write. What is restored ([`Pool::restore`]) is so in this process alone; nothing else can be written.
    pub read_only: bool,
    /// Looks on at all that is stored, flushed, fenced and read. Then the pool takes itself for one on
    /// the medium that the recorder stands for, and nothing of it is durable: for simulations only.
    pub recorder: Option<Recorder>,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            capacity_bytes: None,
            speed: Speed::Far,
            node: None,
            id: None,
            at_version: None,
            flush: None,
            machine: None,
            emulate_dax: false,
            read_only: false,
            recorder: None,
        }
    }
}

/// A payload's place in its pool. A 64-byte header that describes it precedes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Extent {
    /// Bytes from the pool's beginning to the payload's, a multiple of 64.
    pub offset: u64,
    /// Bytes of the payload.
    pub len_bytes: u64,
}

/// A durable file, mapped into a reserved address range. Shared as `Arc<Pool>`.
#[derive(Debug)]
pub struct Pool {
    path: PathBuf,
    file: File,
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
    node: Option<NodeId>,
    space: Mutex<Space>,
    publication: Mutex<Publication>,
    /// Runs that were staged since the last publication, by offset. Locked behind `lost`.
    staged: Mutex<BTreeMap<u64, Staged>>,
    lost: Mutex<Lost>,
    counts: Counts,
    /// Whether pages are lost, or about to be known as such.
    has_lost: AtomicBool,
    /// How often pages were healed that hold several extents.
    healed: AtomicU64,
    /// Looks on, if the pool is simulated.
    recorder: Option<Recorder>,
    /// A write to the device failed: what it holds is unknown, so nothing is published any more.
    poisoned: AtomicBool,
    /// Opened with [`PoolOptions::read_only`].
    read_only: bool,
}

impl Pool {
    /// The payload of a sealed extent, in place, line-aligned.
    ///
    /// The caller keeps the protocol above: the extent stays live as long as the slice is used, and
    /// while a log is written no slice of it is held.
    /// A page of it that is lost reads as zeros, and [`Pool::fault_epoch`] tells.
    ///
    /// # Panics
    /// If the extent does not lie in the pool. Extents that come from outside, such as a manifest's,
    /// are believed only after [`Pool::check_extent`].
    #[inline]
    pub fn bytes(&self, extent: Extent) -> &[u8] {
        let end = extent.offset.checked_add(extent.len_bytes);
        assert!(
            end.is_some_and(|end| end <= self.mapped_bytes.load(Ordering::Acquire)),
            "an extent is checked before it is read: {extent:?}"
        );
        if let Some(recorder) = &self.recorder {
            recorder.read(extent.offset, extent.len_bytes);
        }
        self.raw_bytes(extent.offset, extent.len_bytes)
    }

    /// Bytes that are mapped and, by the protocol, not written while the slice is used.
    #[inline]
    pub(crate) fn raw_bytes(&self, offset: u64, len_bytes: u64) -> &[u8] {
        debug_assert!(offset + len_bytes <= self.len_bytes());
        // SAFETY: the range is mapped readable as long as the pool lives and not written, as the
        // callers see to. Any byte is a valid u8.
        unsafe { std::slice::from_raw_parts(self.address(offset), len_bytes as usize) }
    }

    /// Whether an extent is what it says: its place can hold one and its header is whole, names this
    /// pool, this place and this length, and of the root the checksum that was published. Returns its owner. Costs one line, reads
    /// no payload.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`].
    pub fn check_extent(&self, extent: Extent) -> Result<u64, PoolError> {
        self.believed_header(extent).map(|header| header.owner)
    }

    fn believed_header(&self, extent: Extent) -> Result<ExtentHeader, PoolError> {
        let header = self.header(extent)?;
        match self.contradicts_publication(extent, header.payload_crc) {
            false => Ok(header),
            true => Err(self.bad(extent, "another root than the one that was published")),
        }
    }

    /// Whether an extent can lie there, and the line that should be its header is none of any extent: what follows may be
    /// believed only for checksums of its own.
    pub fn has_damaged_header(&self, extent: Extent) -> bool {
        let Ok(start) = self.check_bounds(extent) else {
            return false;
        };
        let mut line = [0; LINE_BYTES];
        line.copy_from_slice(self.bytes(Extent {
            offset: start,
            len_bytes: EXTENT_HEADER_BYTES,
        }));
        ExtentHeader::decode(&line).is_err()
    }

    /// [`Pool::check_extent`], and a sealed extent's payload against its CRC32C. Returns the owner.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`].
    pub fn verify_extent(&self, extent: Extent) -> Result<u64, PoolError> {
        let header = self.believed_header(extent)?;
        let _reading = emulation::begin_read(self.bytes(extent));
        if header.kind == ExtentKind::Sealed {
            let is_whole = checksum::append(0, self.bytes(extent)) == header.payload_crc;
            self.count_check(extent.len_bytes, is_whole);
            if !is_whole {
                return Err(self.fails_checksum(extent));
            }
        }
        Ok(header.owner)
    }

    /// The payload of a sealed extent is not what its header says.
    pub(crate) fn fails_checksum(&self, extent: Extent) -> PoolError {
        let what = "its payload fails its checksum; restore it from a copy";
        self.bad(extent, what)
    }

    /// Overwrites a part of a log, durably on return. One writer at a time per log.
    ///
    /// # Errors
    /// [`PoolError::Lost`]: of what was written, nothing counts.
    /// [`PoolError::OutsideLog`], [`PoolError::BadExtent`] if the extent is no log (see
    /// [`ExtentWriter::finish_log`]), [`PoolError::Io`] or [`PoolError::Poisoned`].
    pub fn write(&self, extent: Extent, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        self.check_place(extent, at, bytes.len() as u64)?;
        self.refuse_if_read_only()?;
        self.refuse_if_poisoned()?;
        // SAFETY: the range lies in a live extent, checked above, hence mapped and writable; by the
        // protocol nobody else reads or writes it now.
        let stored = unsafe { self.copy(extent.offset + at, bytes) };
        let persisted = stored.persist();
        persisted
            .map(|_| ())
            .map_err(|source| self.poison("write to the log", source))
    }

    /// Makes durable what a log holds from its beginning: after an open, for what was read and is now
    /// believed. A process that was killed in [`Pool::write`] may have left it in the caches, where a
    /// power cut would take it back.
    ///
    /// # Errors
    /// As [`Pool::write`].
    pub fn persist_log(&self, extent: Extent, len_bytes: u64) -> Result<(), PoolError> {
        self.check_place(extent, 0, len_bytes)?;
        self.refuse_if_poisoned()?;
        // SAFETY: the range lies in a live extent, checked above, hence mapped.
        let believed = unsafe { self.stored_before(extent.offset, len_bytes) };
        let persisted = believed.persist();
        persisted
            .map(|_| ())
            .map_err(|source| self.poison("make a log durable", source))
    }

    /// Whether the extent is a log that has `[at, at + len_bytes)`.
    fn check_place(&self, extent: Extent, at: u64, len_bytes: u64) -> Result<(), PoolError> {
        let end = at.checked_add(len_bytes);
        if end.is_none_or(|end| end > extent.len_bytes) {
            return Err(PoolError::OutsideLog {
                path: self.path.clone(),
                extent,
                at,
                len_bytes,
            });
        }
        if self.header(extent)?.kind != ExtentKind::Log {
            return Err(self.bad(extent, "sealed, and no log to write to"));
        }
        Ok(())
    }

    /// What the content survives.
    pub fn durability(&self) -> Durability {
        self.medium.durability()
    }

    /// What the pool lies on.
    pub fn medium(&self) -> MediumKind {
        self.medium.kind()
    }

    /// The speed of the memory below, as told when it was opened.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Bytes of the pages that back most of what was touched so far, as the kernel says.
    pub fn page_size_bytes(&self) -> usize {
        smaps::page_size_bytes(self.address(0).addr(), self.len_bytes() as usize)
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

    /// Whether an extent can lie there, whatever does.
    pub fn has_room_for(&self, extent: Extent) -> bool {
        self.check_bounds(extent).is_ok()
    }

    /// Where an extent's header lies, if its place can hold it.
    fn check_bounds(&self, extent: Extent) -> Result<u64, PoolError> {
        let start = extent
            .offset
            .checked_sub(EXTENT_HEADER_BYTES)
            .filter(|start| *start >= FIRST_EXTENT && start % GRAIN_BYTES == 0)
            .ok_or_else(|| self.bad(extent, "no extent can lie there"))?;
        layout::span_bytes(extent.len_bytes)
            .and_then(|span| start.checked_add(span))
            .filter(|end| *end <= self.len_bytes())
            .ok_or_else(|| self.bad(extent, "it reaches beyond the end of the pool"))?;
        Ok(start)
    }

    /// The header of an extent, checked.
    fn header(&self, extent: Extent) -> Result<ExtentHeader, PoolError> {
        let start = self.check_bounds(extent)?;
        if let Some(recorder) = &self.recorder {
            recorder.read(start, EXTENT_HEADER_BYTES);
        }
        let mut line = [0; LINE_BYTES];
        // SAFETY: the header precedes the payload, inside the mapping as just checked.
        unsafe {
            std::ptr::copy_nonoverlapping(self.address(start), line.as_mut_ptr(), LINE_BYTES);
        }
        let header = ExtentHeader::decode(&line).map_err(|what| self.bad(extent, what))?;
        if header.pool_id != self.id {
            Err(self.bad(extent, "its header belongs to another pool"))
        } else if header.payload_offset != extent.offset {
            Err(self.bad(extent, "its header belongs to another place"))
        } else if header.payload_bytes != extent.len_bytes {
            Err(self.bad(extent, "its header says another length"))
        } else {
            Ok(header)
        }
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

    fn io(&self, doing: &'static str, source: io::Error) -> PoolError {
        if let Some(offset) = Pool::lost_page(&source) {
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
        if Pool::lost_page(&source).is_none() {
            self.write_no_more();
        }
        self.io(doing, source)
    }

    pub(crate) fn write_no_more(&self) {
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

/// Locks past a panic elsewhere: what these locks guard is changed only in steps that cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
