//! Creating and opening a pool.
//!
//! Invariant: opening believes nothing of a file before it is checked, and changes nothing.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, flock, fstatvfs};
use rustix::io::Errno;

use super::allocation::Space;
use super::backing;
use super::counters::Counts;
use super::layout::{
    FIRST_EXTENT, GRAIN_BYTES, HeaderFault, Line, PoolHeader, SLOT_OFFSETS, Slot, VERSION,
};
use super::medium::{self, Medium};
use super::publication::Publication;
use super::{Pool, PoolError, PoolOptions};
use crate::address::AddressRange;
use crate::emulation::FarRange;
use crate::faults::Watched;
use crate::topology::Speed;
use crate::{LARGE_PAGE_BYTES, LINE_BYTES};

/// Bytes of a new pool, less where its capacity is less.
pub(super) const INITIAL_BYTES: u64 = LARGE_PAGE_BYTES as u64;

impl Pool {
    /// Makes a new, empty pool: a file, or on a DAX device that holds nothing yet.
    ///
    /// # Errors
    /// [`PoolError::Exists`], [`PoolError::Device`], [`PoolError::Occupied`], [`PoolError::Full`], [`PoolError::Io`]. No file is
    /// left behind, and no pool on a device.
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        let at = Place(path);
        if let Some((file, device)) = at.find_device(options)? {
            return Self::create_on_device(file, &device, path, options);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => PoolError::Exists {
                    path: path.to_owned(),
                },
                _ => at.io("create the pool", source),
            })?;
        let created = Self::format(file, path, options);
        if created.is_err() {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(path);
        }
        created
    }

    fn format(file: File, path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        let at = Place(path);
        at.lock(&file)?;
        let limit_bytes = limit_bytes(&file, options, 0)
            .map_err(|e| at.io("ask the file system for its size", e))?;
        let len_bytes = INITIAL_BYTES.min(limit_bytes);
        let full = || at.full(limit_bytes);
        if len_bytes < FIRST_EXTENT + GRAIN_BYTES {
            return Err(full());
        }
        backing::allocate(&file, 0, len_bytes).map_err(|source| {
            if backing::means_full(&source) {
                full()
            } else {
                at.io("allocate space", source)
            }
        })?;
        let id = new_id(path, options);
        file.write_all_at(&PoolHeader { pool_id: id }.encode(), 0)
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_directory(path))
            .map_err(|source| at.io("write the pool's header", source))?;
        let medium = at.medium_of(&file, options)?;
        let pool = Self::assemble(file, medium, path, options, len_bytes, limit_bytes)?;
        Ok(Arc::new(pool.holding(
            id,
            Space::new(len_bytes),
            Publication::none(),
        )))
    }

    /// Opens a pool and changes nothing of it; what it publishes is durable on return. What is live is told by [`Pool::retain`]; until then nothing
    /// is free, and an allocation grows the file.
    ///
    /// # Errors
    /// [`PoolError::Missing`], [`PoolError::InUse`], [`PoolError::NotAPool`], [`PoolError::Device`],
    /// [`PoolError::NewerFormat`], [`PoolError::Damaged`], [`PoolError::Truncated`],
    /// [`PoolError::Io`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        Self::open_file(path, options, false)
    }

    /// [`Pool::open`] of a file that was cut short: it gets its end again, as zeros, and that is all that is changed. Only for who
    /// has what was there elsewhere.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`PoolError::Truncated`] only where nothing is left that says how long the file was.
    pub fn open_cut(path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        Self::open_file(path, options, true)
    }

    fn open_file(
        path: &Path,
        options: &PoolOptions,
        extends: bool,
    ) -> Result<Arc<Pool>, PoolError> {
        let at = Place(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => PoolError::Missing {
                    path: path.to_owned(),
                },
                _ => at.io("open the pool", source),
            })?;
        let metadata = file
            .metadata()
            .map_err(|source| at.io("read the file's length", source))?;
        if let Some(device) = at.device_of(&metadata, options)? {
            return Self::open_device(file, &device, path, options);
        }
        if !metadata.is_file() {
            return Err(at.not_a_pool("no regular file"));
        }
        at.lock(&file)?;
        if metadata.len() < LINE_BYTES as u64 {
            return Err(at.not_a_pool("too short for a header"));
        }
        // Only whole grains count: a file's ragged end cannot be an extent's.
        let len_bytes = metadata.len() - metadata.len() % GRAIN_BYTES;
        let id = at.check_header(&at.read_line(&file, 0)?)?;
        if len_bytes < FIRST_EXTENT {
            return Err(PoolError::Truncated {
                path: path.to_owned(),
                len_bytes: metadata.len(),
                expected_bytes: FIRST_EXTENT,
            });
        }
        let slots = [
            at.read_slot(&file, SLOT_OFFSETS[0])?,
            at.read_slot(&file, SLOT_OFFSETS[1])?,
        ];
        let (publication, pool_bytes) = at.check_slots(&slots, id)?;
        let len_bytes = match len_bytes < pool_bytes {
            true if extends => {
                backing::allocate(&file, len_bytes, pool_bytes)
                    .and_then(|()| file.sync_all())
                    .map_err(|source| at.io("give the file its end again", source))?;
                pool_bytes
            }
            true => {
                return Err(PoolError::Truncated {
                    path: path.to_owned(),
                    len_bytes,
                    expected_bytes: pool_bytes,
                });
            }
            false => len_bytes,
        };
        let limit_bytes = limit_bytes(&file, options, len_bytes)
            .map_err(|e| at.io("ask the file system for its size", e))?;
        let medium = at.medium_of(&file, options)?;
        let pool = Self::assemble(file, medium, path, options, len_bytes, limit_bytes)?;
        pool.holding(id, Space::unknown(len_bytes), publication)
            .believe()
    }

    /// A pool that was read.
    pub(super) fn holding(mut self, id: u64, space: Space, publication: Publication) -> Pool {
        self.id = id;
        self.space = Mutex::new(space);
        self.publication = Mutex::new(publication);
        self
    }

    /// Makes what it publishes durable: a process that was killed may have left that in the caches. It was read, and is
    /// believed, so a power cut must not take it back once space is reused in its name.
    pub(super) fn believe(self) -> Result<Arc<Pool>, PoolError> {
        let at = Place(&self.path);
        self.persist_slots()
            .map_err(|source| at.io("make its superblock durable", source))?;
        Ok(Arc::new(self))
    }

    /// A pool of which the first `len_bytes` are mapped, and nothing is known of what they hold.
    pub(super) fn assemble(
        file: File,
        medium: Box<dyn Medium>,
        path: &Path,
        options: &PoolOptions,
        len_bytes: u64,
        limit_bytes: u64,
    ) -> Result<Pool, PoolError> {
        let at = Place(path);
        let align_bytes = LARGE_PAGE_BYTES.max(medium.unit_bytes() as usize);
        let range = AddressRange::reserve_at_most(
            (limit_bytes as usize).next_multiple_of(align_bytes),
            len_bytes as usize,
            align_bytes,
        )
        .map_err(|source| at.io("reserve addresses (is `ulimit -v` too low?)", source))?;
        let watched = Watched::new(range.start().as_ptr().addr(), medium.unit_bytes())
            .map_err(|source| at.io("have memory errors reported", source))?;
        let far = FarRange::new(range.start().as_ptr().addr(), 0);
        let pool = Pool {
            path: path.to_owned(),
            file,
            medium,
            far: (options.speed == Speed::Far).then(|| Mutex::new(far)),
            limit_bytes: limit_bytes.min(range.len_bytes() as u64),
            watched,
            range,
            mapped_bytes: AtomicU64::new(0),
            id: 0,
            speed: options.speed,
            node: options.node,
            space: Mutex::new(Space::unknown(len_bytes)),
            publication: Mutex::new(Publication::none()),
            staged: Mutex::default(),
            counts: Counts::default(),
            lost: Mutex::default(),
            has_lost: AtomicBool::new(false),
            healed: AtomicU64::new(0),
            recorder: options.recorder.clone(),
            poisoned: AtomicBool::new(false),
        };
        pool.map_up_to(len_bytes)?;
        if let Some(recorder) = &pool.recorder {
            recorder.mapped(pool.address(0), pool.raw_bytes(0, len_bytes));
            // The header and both slots, read from the file.
            recorder.read(0, FIRST_EXTENT);
        }
        Ok(pool)
    }
}

/// A path, to say where something went wrong while there is no pool yet.
pub(super) struct Place<'a>(pub(super) &'a Path);

impl Place<'_> {
    pub(super) fn io(&self, doing: &'static str, source: io::Error) -> PoolError {
        PoolError::Io {
            path: self.0.to_owned(),
            doing,
            source,
        }
    }

    pub(super) fn not_a_pool(&self, what: &'static str) -> PoolError {
        PoolError::NotAPool {
            path: self.0.to_owned(),
            what,
        }
    }

    /// There is no room for even one extent.
    pub(super) fn full(&self, capacity_bytes: u64) -> PoolError {
        PoolError::Full {
            path: self.0.to_owned(),
            wanted_bytes: FIRST_EXTENT + GRAIN_BYTES,
            used_bytes: 0,
            capacity_bytes,
        }
    }

    fn medium_of(&self, file: &File, options: &PoolOptions) -> Result<Box<dyn Medium>, PoolError> {
        match &options.recorder {
            Some(recorder) => Ok(medium::recorded(recorder)),
            None => medium::detect(file, options.flush, options.emulate_dax)
                .map_err(|e| self.io("find out its file system", e)),
        }
    }

    pub(super) fn damaged(&self, what: &'static str) -> PoolError {
        PoolError::Damaged {
            path: self.0.to_owned(),
            what,
        }
    }

    /// One pool, one user. The lock goes with the file descriptor, hence with the process.
    pub(super) fn lock(&self, file: &File) -> Result<(), PoolError> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(PoolError::InUse {
                path: self.0.to_owned(),
            }),
            Err(error) => Err(self.io("lock the pool", error.into())),
        }
    }

    fn read_line(&self, file: &File, offset: u64) -> Result<Line, PoolError> {
        let mut line = [0; LINE_BYTES];
        file.read_exact_at(&mut line, offset)
            .map_err(|source| self.io("read the pool's header", source))?;
        Ok(line)
    }

    /// The pool's id, by its header's line.
    pub(super) fn check_header(&self, line: &Line) -> Result<u64, PoolError> {
        match PoolHeader::decode(line) {
            Ok(header) => Ok(header.pool_id),
            Err(HeaderFault::Magic) => Err(self.not_a_pool("it begins with other bytes")),
            Err(HeaderFault::Newer(found)) => Err(PoolError::NewerFormat {
                path: self.0.to_owned(),
                found,
                supported: VERSION,
            }),
            Err(HeaderFault::Checksum) => Err(self.damaged("its header fails its checksum")),
        }
    }

    /// A slot's line. One that the medium cannot read any more is as good as torn.
    fn read_slot(&self, file: &File, offset: u64) -> Result<Line, PoolError> {
        match self.read_line(file, offset) {
            Err(PoolError::Io { source, .. })
                if source.raw_os_error() == Some(Errno::IO.raw_os_error()) =>
            {
                Ok([0xFF; LINE_BYTES])
            }
            read => read,
        }
    }

    /// The current publication, which is the whole slot with the higher sequence, and how long the file was then at least.
    pub(super) fn check_slots(
        &self,
        lines: &[Line; 2],
        id: u64,
    ) -> Result<(Publication, u64), PoolError> {
        let slots = [
            Slot::decode(&lines[0], 0, id),
            Slot::decode(&lines[1], 1, id),
        ];
        let torn = |index: usize| slots[index].is_none() && lines[index] != [0; LINE_BYTES];
        if torn(0) && torn(1) {
            return Err(self.damaged("both superblock slots fail their checksums"));
        }
        if let Some(index) = (0..2).find(|&index| torn(index)) {
            tracing::warn!(
                pool = %self.0.display(), slot = index,
                "a publication was cut short; the one before it is current"
            );
        }
        let Some(slot) = slots.into_iter().flatten().max_by_key(|slot| slot.sequence) else {
            return Ok((Publication::none(), 0));
        };
        Ok((Publication::of(&slot), slot.pool_bytes))
    }
}

/// The most bytes the file may have, and so the addresses to reserve.
fn limit_bytes(file: &File, options: &PoolOptions, len_bytes: u64) -> io::Result<u64> {
    /// An address space of 47 bits holds this many times over.
    const MOST_BYTES: u64 = 16 << 40;
    /// For a file system that does not say how large it is.
    const UNTOLD_BYTES: u64 = 1 << 40;
    // Pages of the machine and grains of the pool: what is mapped must be whole in both.
    let unit = GRAIN_BYTES.max(rustix::param::page_size() as u64);
    let wanted = match options.capacity_bytes {
        Some(capacity) => capacity,
        None => {
            let system = fstatvfs(file)?;
            match system.f_blocks.saturating_mul(system.f_frsize) {
                0 => UNTOLD_BYTES,
                bytes => bytes,
            }
        }
    };
    Ok((wanted.min(MOST_BYTES) / unit * unit).max(len_bytes))
}

/// The number that a new pool gets.
pub(super) fn new_id(path: &Path, options: &PoolOptions) -> u64 {
    let drawn = || RandomState::new().hash_one(path);
    options.id.unwrap_or_else(drawn)
}

/// Makes a new file's name durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl Drop for Pool {
    /// Closing the file is not enough: a process that another thread is about to start has a copy of
    /// the descriptor until it runs its own program, and with it the lock.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(pool = %self.path.display(), %error, "a pool stays locked until the process ends");
        }
    }
}
