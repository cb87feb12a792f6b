//! The state that all tables of an open database share: the tiers, the near memory budget, the lock.
//!
//! Invariant: as long as any table or snapshot lives, the pools stay mapped and the directory locked, so no reader sees bytes
//! that another process has reused.

pub(crate) mod access;
pub(crate) mod directory;
pub(crate) mod extent;
pub(crate) mod faults;
pub(crate) mod frames;
pub(crate) mod lock;
pub(crate) mod losses;
pub(crate) mod options;
pub(crate) mod process;
pub(crate) mod read_checks;
pub(crate) mod revalidation;
pub(crate) mod tier;
pub(crate) mod tiers;
pub(crate) mod verified;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tierra_memory::replication::Method;
use tierra_memory::{NearMemory, PoolError};

use crate::calibration::{self, Calibration, LOG_METHOD};
use crate::error::{ScanError, StorageError};
use crate::manifest::ExtentId;
use crate::spec::replicas::TierId;
use crate::storage::directory::DatabaseDirectory;
use crate::storage::extent::Owner;
use crate::storage::lock::DirectoryLock;
use crate::storage::losses::{Losses, ReadStamp};
use crate::storage::options::DatabaseOptions;
use crate::storage::tiers::{CopiesWriter, Tiers};

/// The most reads of something while pages are being lost: each read finds losses that an earlier one had not touched.
pub(crate) const READS_MOST: usize = 1000;

/// Shared as `Arc`.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The database's directory.
    pub(crate) dir: PathBuf,
    tiers: ArcSwap<Tiers>,
    /// The losses of the tiers, whichever are open.
    losses: Arc<Losses>,
    next_extent_id: AtomicU64,
    /// Near memory for copies of chunks and indexes.
    pub(crate) near: NearMemory,
    /// Threads that encode a load.
    pub(crate) threads: NonZeroUsize,
    /// Gates start with it.
    pub(crate) calibration: Arc<Calibration>,
    /// How logs are written.
    pub(crate) log_method: Method,
    closing: AtomicBool,
    /// Bytes of rows committed since the database was opened, in arrow's form.
    taken_bytes: AtomicU64,
    /// The directory file. The writer changes it.
    directory: Mutex<DatabaseDirectory>,
    /// Whether the first write needs no preparation: see `write/writer/writability.rs`.
    pub(crate) is_settled: AtomicBool,
    lock: DirectoryLock,
    /// Also used to open the pools of tiers that are added.
    pub(crate) options: DatabaseOptions,
    /// Background work begins once this is free.
    #[cfg(test)]
    pub(crate) held_by_test: std::sync::Mutex<()>,
}

impl Storage {
    // All of these are set once, when a database is opened.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        directory: DatabaseDirectory,
        tiers: Tiers,
        next_extent_id: u64,
        near: NearMemory,
        threads: NonZeroUsize,
        calibration: Arc<Calibration>,
        lock: DirectoryLock,
        options: DatabaseOptions,
    ) -> Arc<Self> {
        let dir = directory.dir().to_owned();
        let log_method = calibration::method_of(&dir).unwrap_or(LOG_METHOD);
        Arc::new(Self {
            dir,
            losses: tiers.losses.clone(),
            tiers: ArcSwap::from_pointee(tiers),
            next_extent_id: AtomicU64::new(next_extent_id),
            near,
            threads,
            calibration,
            log_method,
            closing: AtomicBool::new(false),
            taken_bytes: AtomicU64::new(0),
            directory: Mutex::new(directory),
            is_settled: AtomicBool::new(true),
            lock,
            options,
            #[cfg(test)]
            held_by_test: std::sync::Mutex::default(),
        })
    }

    /// The directory file.
    pub(crate) fn directory(&self) -> MutexGuard<'_, DatabaseDirectory> {
        // Changed as a whole: a panic leaves nothing half done.
        self.directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is a fork of the one that opened the database.
    pub(crate) fn is_forked(&self) -> bool {
        self.lock.is_forked()
    }

    /// Why the database is read-only; `None` if it can be written.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.lock.read_only()
    }

    /// Fails if the database cannot be written.
    pub(crate) fn check_writable(&self) -> Result<(), StorageError> {
        match self.read_only() {
            None => Ok(()),
            Some(why) => Err(StorageError::ReadOnly {
                dir: self.dir.clone(),
                why: why.to_owned(),
            }),
        }
    }

    /// Whether unrequested changes may be published.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire) && self.read_only().is_none()
    }

    /// The current tiers.
    pub(crate) fn tiers(&self) -> Arc<Tiers> {
        self.tiers.load_full()
    }

    /// What pools have lost since they were opened.
    pub(crate) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Whether nothing that was read since may have been a lost page. Otherwise notes the loss; the caller reads again, and each
    /// lost page is restored, or reported, when it is read.
    #[inline]
    pub(crate) fn validate(&self, seen: ReadStamp) -> bool {
        let is_valid = self.losses.validate(seen, self.tiers.load().readable());
        if !is_valid {
            self.note_losses();
        }
        is_valid
    }

    /// Notes truncated files that no read may have touched yet.
    pub(crate) fn check_files(&self) {
        let mut were_cut = false;
        for tier in self.tiers().readable() {
            were_cut |= tier.pool.is_truncated().unwrap_or_else(|error| {
                tracing::error!(tier = &*tier.name, %error, "the length of a tier's file could not be checked");
                false
            });
        }
        if were_cut {
            self.note_losses();
        }
    }

    /// Notes losses and calls the listeners.
    #[cold]
    pub(crate) fn note_losses(&self) {
        self.losses.note(self.tiers().readable());
    }

    /// Calls `read` until nothing was lost while it read, and returns its result.
    ///
    /// # Errors
    /// [`ScanError::Lost`], if pages are lost faster than they are read.
    pub(crate) fn read_validated<T>(&self, mut read: impl FnMut() -> T) -> Result<T, ScanError> {
        for _ in 0..READS_MOST {
            let seen = self.losses.begin_read();
            let value = read();
            if self.validate(seen) {
                return Ok(value);
            }
        }
        Err(self.lost_while_read())
    }

    /// The error if reading again does not help.
    pub(crate) fn lost_while_read(&self) -> ScanError {
        let tiers = self.tiers();
        let tiers: Vec<&str> = tiers.readable().map(|tier| &*tier.name).collect();
        ScanError::Lost {
            tier: tiers.join(", "),
        }
    }

    /// Called by the writer when tiers are added or dropped.
    pub(crate) fn set_tiers(&self, tiers: Tiers) {
        self.tiers.store(Arc::new(tiers));
    }

    /// Adds to the bytes of committed rows.
    pub(crate) fn note_taken(&self, bytes: u64) {
        // A statistic.
        self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of all rows committed since the database was opened.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Allocates a new extent in each of these tiers that is present.
    pub(crate) fn allocate(
        &self,
        placement: &[TierId],
        len_bytes: u64,
        owner: Owner,
    ) -> Result<CopiesWriter, PoolError> {
        // Only uniqueness counts.
        let id = ExtentId(self.next_extent_id.fetch_add(1, Ordering::Relaxed));
        self.tiers().allocate(id, placement, len_bytes, owner)
    }

    #[cfg(test)]
    pub(crate) fn wait_for_tests(&self) {
        drop(self.held_by_test.lock());
    }

    /// Marks the database as closing.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether background work should be left undone.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Set once background work should end.
    pub(crate) fn closing(&self) -> &AtomicBool {
        &self.closing
    }
}
