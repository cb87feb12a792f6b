//! Creating and opening a pool.
//!
//! Invariant: opening uses nothing of a file before it is validated, and changes nothing but a line of header or
//! superblock whose twin is valid.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::{FlockOperation, flock, fstatvfs};

use super::counters::Counts;
use super::layout::{FIRST_EXTENT, GRAIN_BYTES, HEADER_OFFSETS, SLOT_OFFSETS};
use super::medium::Medium;
use super::path::PoolPath;
use super::space::Space;
use super::superblock::Publication;
use super::{Pool, PoolError, PoolOptions};
use crate::address::AddressRange;
use crate::backing;
use crate::directory::sync_directory;
use crate::emulation::FarRange;
use crate::recording::FileStep;
use crate::signal::Watched;
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
        let at = PoolPath(path);
        if let Some((file, device)) = at.find_device(options)? {
            return Self::create_on_device(file, &device, path, options);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => PoolError::Exists {
                    path: path.to_owned(),
                },
                _ => at.io("create the pool", source),
            })?;
        record(options, FileStep::created);
        let created = Self::format(file, path, options);
        if created.is_err() {
            // The first error is reported.
            if std::fs::remove_file(path).is_ok() {
                record(options, FileStep::removed);
            }
        }
        created
    }

    /// Whether [`Pool::create`] would find a file there.
    ///
    /// # Errors
    /// [`PoolError::Exists`] if so, [`PoolError::Device`], [`PoolError::Io`].
    pub fn check_free(path: &Path, options: &PoolOptions) -> Result<(), PoolError> {
        if PoolPath(path).find_device(options)?.is_some() || path.symlink_metadata().is_err() {
            return Ok(());
        }
        Err(PoolError::Exists {
            path: path.to_owned(),
        })
    }

    fn format(file: File, path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        let at = PoolPath(path);
        at.lock(&file)?;
        // Whoever takes it for what an interrupted creation left removes it under the same lock.
        let is_named = at.names(&file).map_err(|e| at.io("find it again", e))?;
        if !is_named {
            return Err(PoolError::InUse {
                path: path.to_owned(),
            });
        }
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
        let publication = Publication::none(id);
        for (offset, line) in publication.lines() {
            file.write_all_at(&line, offset)
                .map_err(|source| at.io("write the pool's header", source))?;
        }
        record(options, |name| {
            FileStep::written(name, &first_bytes(id, len_bytes as usize))
        });
        file.sync_all()
            .map_err(|source| at.io("make the pool's header durable", source))?;
        record(options, FileStep::synced);
        sync_directory(path.parent().unwrap_or(Path::new(".")))
            .map_err(|source| at.io("make the pool's name durable", source))?;
        record(options, |_| FileStep::DirectorySynced);
        let medium = at.medium_of(&file, options)?;
        let pool = Self::assemble(file, medium, path, options, len_bytes, limit_bytes)?;
        Ok(Arc::new(pool.holding(
            id,
            Space::new(len_bytes),
            publication,
        )))
    }

    /// Opens a pool and changes nothing of it, but that a damaged line of header or superblock is rewritten from a valid twin; what it publishes is durable on return. The live extents are given by [`Pool::retain`]; until then nothing
    /// is free, and an allocation grows the file.
    ///
    /// # Errors
    /// [`PoolError::Missing`], [`PoolError::InUse`], [`PoolError::NotAPool`], [`PoolError::Device`],
    /// [`PoolError::NewerFormat`], [`PoolError::Damaged`], [`PoolError::LostPublication`], [`PoolError::NoVersion`],
    /// [`PoolError::Truncated`], [`PoolError::Io`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        Self::open_file(path, options, false)
    }

    /// [`Pool::open`] of a truncated file: it is extended with zeros to its length, and nothing else is changed. Only for
    /// callers that have the lost content elsewhere.
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
        let at = PoolPath(path);
        let file = OpenOptions::new()
            .read(true)
            .write(!options.read_only)
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
            if options.read_only {
                return Err(at.device("a device cannot be opened for reading alone".to_owned()));
            }
            return Self::open_device(file, &device, path, options);
        }
        if !metadata.is_file() {
            return Err(at.not_a_pool("no regular file"));
        }
        match options.read_only {
            true => at.lock_to_read(&file)?,
            false => at.lock(&file)?,
        }
        if metadata.len() < LINE_BYTES as u64 {
            return Err(at.not_a_pool("too short for a header"));
        }
        // Only whole grains count: a file's ragged end cannot be an extent's.
        let len_bytes = metadata.len() - metadata.len() % GRAIN_BYTES;
        let [header, twin] = HEADER_OFFSETS;
        let id = at.check_headers(&[at.read_line(&file, header)?, at.read_line(&file, twin)?])?;
        if len_bytes < FIRST_EXTENT {
            return Err(PoolError::Truncated {
                path: path.to_owned(),
                len_bytes: metadata.len(),
                expected_bytes: FIRST_EXTENT,
            });
        }
        let mut slots = [[[0; LINE_BYTES]; 2]; 2];
        for (slot, offsets) in slots.iter_mut().zip(SLOT_OFFSETS) {
            for (line, offset) in slot.iter_mut().zip(offsets) {
                *line = at.read_line(&file, offset)?;
            }
        }
        let publication = at.check_slots(&slots, id, options.at_version)?;
        let pool_bytes = publication.pool_bytes();
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
            .make_durable(options)
    }

    /// The pool of a path that was read.
    pub(super) fn holding(mut self, id: u64, space: Space, publication: Publication) -> Pool {
        self.id = id;
        self.space = Mutex::new(space);
        self.publication = Mutex::new(publication);
        self
    }

    /// Makes what it publishes durable: a process that was killed may have left that in the caches. It was read and is
    /// used, so a power cut must not revert it once space is reused because of it. Then twins are made equal: valid
    /// ones first made durable, so that no power cut finds both torn.
    pub(super) fn make_durable(self, options: &PoolOptions) -> Result<Arc<Pool>, PoolError> {
        let at = PoolPath(&self.path);
        self.persist_slots()
            .map_err(|source| at.io("make its superblock durable", source))?;
        let torn = self.torn_lines();
        for _ in 0..torn {
            self.count_check(LINE_BYTES as u64, false);
        }
        // A caller that opens an earlier version has not published yet.
        if options.at_version.is_none() && self.check_superblock(true)? {
            tracing::warn!(
                pool = %self.path.display(), torn,
                "lines of header or superblock were restored from their twins"
            );
        }
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
        let at = PoolPath(path);
        let align_bytes = LARGE_PAGE_BYTES.max(medium.unit_bytes() as usize);
        let range = AddressRange::reserve_at_most(
            (limit_bytes as usize).next_multiple_of(align_bytes),
            len_bytes as usize,
            align_bytes,
        )
        .map_err(|source| at.io("reserve addresses (is `ulimit -v` too low?)", source))?;
        let watched = Watched::new(range.start().as_ptr().addr(), medium.unit_bytes())
            .map_err(|source| at.io("have memory errors reported", source))?;
        let far_device = options.far_device.as_ref();
        let far = FarRange::of(far_device, range.start().as_ptr().addr());
        let pool = Pool {
            path: path.to_owned(),
            file,
            direct: OnceLock::new(),
            medium,
            far: (options.speed == Speed::Far).then(|| Mutex::new(far)),
            limit_bytes: limit_bytes.min(range.len_bytes() as u64),
            watched,
            range,
            mapped_bytes: AtomicU64::new(0),
            id: 0,
            speed: options.speed,
            far_device: options.far_device.clone(),
            node: options.node,
            space: Mutex::new(Space::unknown(len_bytes)),
            publication: Mutex::new(Publication::none(0)),
            staged: Mutex::default(),
            counts: Counts::default(),
            lost: Mutex::default(),
            has_lost: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            recorder: options.recorder.clone(),
            poisoned: AtomicBool::new(false),
            read_only: options.read_only,
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

/// The most bytes the file may have, and so the addresses to reserve.
fn limit_bytes(file: &File, options: &PoolOptions, len_bytes: u64) -> io::Result<u64> {
    /// An address space of 47 bits holds this many times over.
    const MAX_BYTES: u64 = 16 << 40;
    /// For a file system that does not say how large it is.
    const UNTOLD_BYTES: u64 = 1 << 40;
    // Pages of the machine and grains of the pool: what is mapped must be whole in both.
    let unit = GRAIN_BYTES.max(crate::base_page_bytes() as u64);
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
    Ok((wanted.min(MAX_BYTES) / unit * unit).max(len_bytes))
}

/// The number that a new pool gets.
pub(super) fn new_id(path: &Path, options: &PoolOptions) -> u64 {
    let drawn = || RandomState::new().hash_one(path);
    options.id.unwrap_or_else(drawn)
}

/// The first bytes of a new pool.
pub(super) fn first_bytes(id: u64, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; FIRST_EXTENT as usize];
    for (offset, line) in Publication::none(id).lines() {
        bytes[offset as usize..][..line.len()].copy_from_slice(&line);
    }
    bytes.resize(len_bytes, 0);
    bytes
}

/// Records a step on the file of a pool that is being made, if there is a recorder.
fn record(options: &PoolOptions, step: impl FnOnce(&str) -> FileStep) {
    if let Some(recorder) = &options.recorder {
        recorder.pool_step(step);
    }
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
