//! Creating and opening a pool on a DAX device, which has no length, no content and no directory that system calls could query.
//!
//! Invariant: a device that holds anything is not written to before it is recognised as a pool, and what it was not asked to
//! hold stays as it is. A device's pool grows over it as a file does: what is behind its length is not mapped.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::interrupted_creation::is_left;
use super::layout::{FIRST_EXTENT, HEADER_OFFSETS, LineBytes, PoolHeader, SLOT_OFFSETS};
use super::medium::{MediumKind, choose};
use super::open::{INITIAL_BYTES, new_id};
use super::path::PoolPath;
use super::space::Space;
use super::superblock::Publication;
use super::{Pool, PoolError, PoolOptions};
use crate::LINE_BYTES;
use crate::topology::{self, DaxDevice};

impl PoolPath<'_> {
    /// The device at the path, open, if there is one.
    pub(super) fn find_device(
        &self,
        options: &PoolOptions,
    ) -> Result<Option<(File, DaxDevice)>, PoolError> {
        let metadata = match std::fs::metadata(self.0) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.io("find out what it is", source)),
        };
        let Some(device) = self.device_of(&metadata, options)? else {
            return Ok(None);
        };
        let file = OpenOptions::new().read(true).write(true).open(self.0);
        let file = file.map_err(|source| self.io("open the device", source))?;
        Ok(Some((file, device)))
    }

    /// The device that this is; `None` for a file.
    pub(super) fn device_of(
        &self,
        metadata: &Metadata,
        options: &PoolOptions,
    ) -> Result<Option<DaxDevice>, PoolError> {
        let is_device = metadata.file_type().is_char_device();
        if !is_device && options.machine.is_none() {
            return Ok(None);
        }
        let machine = options.machine.as_deref().unwrap_or(Path::new("/"));
        match topology::dax_device_of(machine, metadata.rdev()) {
            Ok(None) if is_device => Err(self.device("it is no DAX device".to_owned())),
            Ok(found) => Ok(found),
            Err(error) => Err(self.device(error.to_string())),
        }
    }

    pub(super) fn device(&self, what: String) -> PoolError {
        PoolError::Device {
            path: self.0.to_owned(),
            what,
        }
    }

    /// What mappings of the device are aligned to.
    fn unit_bytes(&self, device: &DaxDevice) -> Result<u64, PoolError> {
        let page_bytes = crate::base_page_bytes() as u64;
        // Kernels that do not say align to large pages, or fail to map.
        let align_bytes = device.align_bytes.unwrap_or(crate::LARGE_PAGE_BYTES as u64);
        match align_bytes.is_power_of_two() && align_bytes >= page_bytes {
            true => Ok(align_bytes),
            false => Err(self.device(format!(
                "sysfs says that it is mapped in units of {align_bytes} bytes, which is no power of two of {page_bytes} at least"
            ))),
        }
    }
}

impl Pool {
    pub(super) fn create_on_device(
        file: File,
        device: &DaxDevice,
        path: &Path,
        options: &PoolOptions,
    ) -> Result<Arc<Pool>, PoolError> {
        let mut pool = Self::map_device(file, device, path, options)?;
        pool.limit_to(options.capacity_bytes);
        let len_bytes = pool.len_bytes();
        if let Some(by) = pool.occupant() {
            return Err(PoolError::Occupied {
                path: path.to_owned(),
                by,
            });
        }
        let id = new_id(path, options);
        let publication = Publication::none(id);
        pool.store_new(&publication)
            .map_err(|source| pool.io("write the pool's header", source))?;
        Ok(Arc::new(pool.holding(
            id,
            Space::new(len_bytes),
            publication,
        )))
    }

    pub(super) fn open_device(
        file: File,
        device: &DaxDevice,
        path: &Path,
        options: &PoolOptions,
    ) -> Result<Arc<Pool>, PoolError> {
        let at = PoolPath(path);
        let mut pool = Self::map_device(file, device, path, options)?;
        let headers = HEADER_OFFSETS.map(|at| pool.line(at));
        if headers.iter().all(Option::is_none) {
            return Err(at.damaged("its beginning cannot be read"));
        }
        // What the medium cannot read any more is as good as damaged.
        let line = |line: Option<LineBytes>| line.unwrap_or([0xFF; LINE_BYTES]);
        let id = at.check_headers(&headers.map(line))?;
        let slots = SLOT_OFFSETS.map(|twins| twins.map(|at| line(pool.line(at))));
        let publication = at.check_slots(&slots, id, options.at_version)?;
        let pool_bytes = publication.pool_bytes();
        if pool_bytes > pool.capacity_bytes() {
            return Err(PoolError::Truncated {
                path: path.to_owned(),
                len_bytes: pool.capacity_bytes(),
                expected_bytes: pool_bytes,
            });
        }
        if !pool_bytes.is_multiple_of(pool.unit_bytes()) {
            let unit_bytes = pool.unit_bytes();
            return Err(at.device(format!(
                "it is mapped in units of {unit_bytes} bytes now, and its pool was made with smaller ones: set its alignment back"
            )));
        }
        if pool_bytes > pool.len_bytes() {
            pool.map_up_to(pool_bytes)?;
        }
        pool.limit_to(options.capacity_bytes);
        let len_bytes = pool.len_bytes();
        pool.holding(id, Space::unknown(len_bytes), publication)
            .make_durable(options)
    }

    /// The device's first bytes, mapped; it may grow to all of it.
    fn map_device(
        file: File,
        device: &DaxDevice,
        path: &Path,
        options: &PoolOptions,
    ) -> Result<Pool, PoolError> {
        let at = PoolPath(path);
        at.lock(&file)?;
        let unit_bytes = at.unit_bytes(device)?;
        let limit_bytes = device.bytes / unit_bytes * unit_bytes;
        let len_bytes = INITIAL_BYTES.next_multiple_of(unit_bytes).min(limit_bytes);
        if len_bytes <= FIRST_EXTENT {
            return Err(at.full(limit_bytes));
        }
        let medium = choose::device(device, unit_bytes, options.flush)
            .map_err(|source| at.io("choose how to flush", source))?;
        Self::assemble(file, medium, path, options, len_bytes, limit_bytes)
    }

    /// Clears what an interrupted creation of a pool with this id, or its removal, left on a device. `false` if it is something else, or
    /// no device.
    ///
    /// # Errors
    /// [`PoolError::Device`], [`PoolError::InUse`], [`PoolError::Io`].
    pub fn clear_interrupted_device(
        path: &Path,
        id: u64,
        options: &PoolOptions,
    ) -> Result<bool, PoolError> {
        let Some((file, device)) = PoolPath(path).find_device(options)? else {
            return Ok(false);
        };
        let pool = Self::map_device(file, &device, path, options)?;
        let is_left = is_left(pool.raw_bytes(0, FIRST_EXTENT), id);
        if is_left {
            pool.discard()?;
        }
        Ok(is_left)
    }

    /// Keeps to the capacity that was asked for, in whole units, as far as it is not reached yet.
    fn limit_to(&mut self, capacity_bytes: Option<u64>) {
        let unit_bytes = self.unit_bytes();
        let most_bytes = capacity_bytes.map_or(u64::MAX, |bytes| bytes / unit_bytes * unit_bytes);
        self.limit_bytes = self.limit_bytes.min(most_bytes.max(self.len_bytes()));
    }

    /// A line of a device whose pages may fail.
    fn line(&self, offset: u64) -> Option<LineBytes> {
        let mut line = [0; LINE_BYTES];
        line.copy_from_slice(self.raw_bytes(offset, LINE_BYTES as u64));
        let lost = self.refuse_if_lost(self.address(offset), LINE_BYTES as u64);
        lost.is_ok().then_some(line)
    }

    /// What a device holds before a pool is made on it, if that is anything.
    fn occupant(&self) -> Option<&'static str> {
        let beginning = self.raw_bytes(0, FIRST_EXTENT);
        let is_pool = self
            .line(0)
            .is_some_and(|line| PoolHeader::decode(&line).is_ok());
        let is_empty = beginning.iter().all(|byte| *byte == 0);
        match (is_pool, is_empty) {
            (true, _) => Some("a pool"),
            (false, false) => Some("something else than a pool"),
            (false, true) => None,
        }
    }

    /// Makes it no pool any more: a file is removed, a device's beginning cleared. For who made it, and nothing names it.
    ///
    /// # Errors
    /// [`PoolError::Io`].
    pub fn discard(&self) -> Result<(), PoolError> {
        let discarded = match self.medium() {
            MediumKind::Device => {
                // The header last: while it is there, what is left is known for what it is.
                let line = LINE_BYTES as u64;
                [line..FIRST_EXTENT, 0..line]
                    .into_iter()
                    .try_for_each(|range| {
                        let zeros =
                            &[0; FIRST_EXTENT as usize][..(range.end - range.start) as usize];
                        // SAFETY: header and slots are mapped, and the caller has nothing left there.
                        unsafe { self.copy(range.start, zeros).persist() }.map(drop)
                    })
            }
            _ => std::fs::remove_file(&self.path),
        };
        discarded.map_err(|source| self.io("discard the pool", source))
    }
}
