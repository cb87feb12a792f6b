//! Reading a backup.
//!
//! Invariant: no byte of a frame is used before the frame's checksum was compared.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use rustix::fs::OFlags;
use tierra_memory::LINE_BYTES;
use tierra_memory::faults::Stop;

use super::contents::{Contents, StoredBatch, StoredExtent};
use super::envelope::{End, Line, invalid, read_first};
use super::frames::{FRAME_BYTES, Place, Run, unpack};
use super::partial_file::PartialFile;
use super::{BackupProgress, BackupSummary};
use crate::error::BackupError;
use crate::manifest::ExtentId;
use crate::spec::TableSpec;
use crate::tail;

/// The contents of a backup are read as a whole.
const CONTENTS_BYTES_MOST: u64 = 1 << 32;

/// A backup in a file, whose contents are known to be whole. Its frames are checked as they are read.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    id: u128,
    pub(super) contents: Contents,
    /// Where each extent is among those of the contents.
    places: HashMap<ExtentId, usize>,
    /// That on which it builds.
    older: Option<Box<Backup>>,
}

impl Backup {
    /// Opens a backup, and checks what it says about itself. Those on which it builds are sought beside it.
    ///
    /// # Errors
    /// [`BackupError`]: there is no such file, it is no backup, was cut short, or is damaged.
    pub fn open(path: &Path) -> Result<Backup, BackupError> {
        Self::open_with(path, &[])
    }

    /// The same, with the files of backups on which it builds and that are not beside it.
    ///
    /// # Errors
    /// As [`Backup::open`].
    pub fn open_with(path: &Path, older: &[PathBuf]) -> Result<Backup, BackupError> {
        let given = older.iter().map(|path| Self::open_alone(path));
        let mut given = given.collect::<Result<Vec<_>, _>>()?;
        let mut chain = vec![Self::open_alone(path)?];
        while let Some(last) = chain.last()
            && let Some(older) = &last.contents.older
        {
            let missing = |what: String| BackupError::Older {
                path: last.path.clone(),
                older: older.name.clone(),
                what,
            };
            if chain.iter().any(|newer| newer.id == older.id) {
                return Err(missing("which builds on it".to_owned()));
            }
            let next = match given.iter().position(|given| given.id == older.id) {
                Some(at) => given.swap_remove(at),
                None => {
                    let beside = last.path.with_file_name(&older.name);
                    let beside = Self::open_alone(&beside)
                        .map_err(|error| missing(format!("which cannot be opened: {error}")))?;
                    match beside.id == older.id {
                        true => beside,
                        false => return Err(missing("and the file is another one".to_owned())),
                    }
                }
            };
            chain.push(next);
        }
        let join = |older: Backup, newer: Backup| Backup {
            older: Some(Box::new(older)),
            ..newer
        };
        // The oldest is the last one.
        let backup = chain.into_iter().rev().reduce(join);
        let backup = backup.expect("there is one");
        for extent in &backup.contents.extents {
            backup.located(extent)?;
        }
        Ok(backup)
    }

    /// Makes a file of a backup that arrives as [`Database::backup_to`](crate::Database::backup_to) sends it; checked and durable on
    /// return. `progress` is called after some MiB each. Blocks.
    ///
    /// # Errors
    /// [`BackupError`]: the file exists or cannot be written, what arrives is no whole backup. Nothing is left behind.
    pub fn receive(
        from: &mut dyn Read,
        file: &Path,
        stop: &Stop,
        mut progress: impl FnMut(BackupProgress),
    ) -> Result<BackupSummary, BackupError> {
        let mut to = PartialFile::create(file)?;
        let mut bytes = vec![0; FRAME_BYTES];
        loop {
            if stop.is_stopped() {
                return Err(BackupError::Stopped);
            }
            let len = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(BackupError::Stream { source }),
            };
            to.write(&bytes[..len])?;
            let arrived = to.position();
            progress(BackupProgress {
                bytes: arrived,
                of_bytes: arrived,
            });
        }
        let arrived = Self::open(to.partial())?;
        arrived.check(stop, progress)?;
        let summary = arrived.contents.summary(arrived.file_bytes);
        to.finish()?;
        Ok(summary)
    }

    /// The backup without that on which it builds.
    fn open_alone(path: &Path) -> Result<Backup, BackupError> {
        let failed = || BackupError::io("read", path);
        // It may be a pipe, which nobody writes to.
        let mut options = File::options();
        options
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(failed())?;
        let metadata = file.metadata().map_err(failed())?;
        let file_bytes = metadata.len();
        let no_backup = |what| BackupError::NotABackup {
            path: path.to_owned(),
            what,
        };
        if !metadata.is_file() {
            return Err(no_backup("it is no file"));
        }
        if file_bytes < LINE_BYTES as u64 {
            return Err(no_backup("it is too short"));
        }
        let mut line: Line = [0; LINE_BYTES];
        file.read_exact_at(&mut line, 0).map_err(failed())?;
        let id = read_first(path, &line)?;
        file.read_exact_at(&mut line, file_bytes - LINE_BYTES as u64)
            .map_err(failed())?;
        let end = End::read(path, &line, file_bytes, id)?;
        if end.contents_bytes > CONTENTS_BYTES_MOST {
            let what = "the list of its contents is longer than any";
            return Err(invalid(path, end.contents_at, what));
        }
        let mut bytes = vec![0; end.contents_bytes as usize];
        file.read_exact_at(&mut bytes, end.contents_at)
            .map_err(failed())?;
        if crc32c::crc32c(&bytes) != end.contents_crc {
            let what = "the list of its contents does not match its checksum";
            return Err(invalid(path, end.contents_at, what));
        }
        let contents = Contents::decode(&bytes, LINE_BYTES as u64, end.contents_at);
        let contents = contents.map_err(|source| BackupError::Contents {
            path: path.to_owned(),
            source,
        })?;
        let places = contents.extents.iter().enumerate();
        Ok(Backup {
            places: places.map(|(at, extent)| (extent.id, at)).collect(),
            contents,
            path: path.to_owned(),
            file,
            file_bytes,
            id,
            older: None,
        })
    }

    pub(super) fn id(&self) -> u128 {
        self.id
    }

    /// The backup that has an extent's frames, and their run.
    pub(super) fn located<'a>(
        &'a self,
        extent: &'a StoredExtent,
    ) -> Result<(&'a Backup, &'a Run), BackupError> {
        let (mut backup, mut found) = (self, extent);
        while found.is_older {
            let of = |extent: &StoredExtent| (extent.run.len_bytes, extent.run.crc);
            let older = backup.older.as_deref();
            let next = older.and_then(|older| {
                let at = older.places.get(&extent.id)?;
                Some((older, &older.contents.extents[*at]))
            });
            let next = next.filter(|(_, other)| of(other) == of(extent));
            (backup, found) = next.ok_or_else(|| BackupError::Older {
                path: backup.path.clone(),
                older: backup
                    .contents
                    .older
                    .as_ref()
                    .map_or_else(String::new, |o| o.name.clone()),
                what: format!("which does not have extent {}", extent.id.0),
            })?;
        }
        Ok((backup, &found.run))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    pub fn summary(&self) -> BackupSummary {
        self.contents.summary(self.file_bytes)
    }

    /// When it was begun, in microseconds since 1970.
    pub fn when_us(&self) -> u64 {
        self.contents.when_us
    }

    /// The names of its tiers.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.contents
            .manifest
            .tiers
            .iter()
            .map(|tier| tier.name.as_str())
    }

    /// The tables that it holds, and how many rows each has.
    pub fn tables(&self) -> impl Iterator<Item = (&TableSpec, u64)> {
        let specs = self.contents.manifest.tables.iter();
        let rows = self.contents.tables.iter().map(|table| table.rows);
        specs.map(|entry| &*entry.spec).zip(rows)
    }

    /// Reads all of it, and compares it with its checksums. Blocks.
    ///
    /// # Errors
    /// [`BackupError`]: bytes that are not those that were written; `stop` was used.
    pub fn check(
        &self,
        stop: &Stop,
        progress: impl FnMut(BackupProgress),
    ) -> Result<(), BackupError> {
        let mut reading = self.reading(stop, progress);
        for extent in &self.contents.extents {
            let (backup, run) = self.located(extent)?;
            reading.check(backup, run)?;
        }
        let tables = self.contents.tables.iter();
        for (table, entry) in tables.zip(&self.contents.manifest.tables) {
            for batch in &table.tail {
                reading.batch(&entry.spec, batch)?;
            }
        }
        Ok(())
    }

    /// A reader of its frames.
    pub(super) fn reading<'a, P: FnMut(BackupProgress)>(
        &'a self,
        stop: &'a Stop,
        progress: P,
    ) -> Reading<'a, P> {
        Reading {
            backup: self,
            stop,
            progress,
            told: BackupProgress {
                bytes: 0,
                of_bytes: self.contents.len_bytes(),
            },
            stored: Vec::new(),
        }
    }
}

/// Reads the frames of a backup.
pub(super) struct Reading<'a, P> {
    backup: &'a Backup,
    stop: &'a Stop,
    progress: P,
    told: BackupProgress,
    /// A frame as it is stored.
    stored: Vec<u8>,
}

impl<P: FnMut(BackupProgress)> Reading<'_, P> {
    /// Reads a frame of a backup into `out`, which is as long as what it holds.
    pub(super) fn frame(
        &mut self,
        backup: &Backup,
        place: &Place,
        out: &mut [u8],
    ) -> Result<(), BackupError> {
        if self.stop.is_stopped() {
            return Err(BackupError::Stopped);
        }
        let path = &backup.path;
        self.stored.resize(place.frame.stored_bytes as usize, 0);
        let read = backup.file.read_exact_at(&mut self.stored, place.at);
        read.map_err(BackupError::io("read", path))?;
        if crc32c::crc32c(&self.stored) != place.frame.crc {
            let what = "what lies there does not match its checksum: it is damaged";
            return Err(invalid(path, place.at, what));
        }
        unpack(&self.stored, out).map_err(|what| invalid(path, place.at, what))?;
        self.told.bytes += out.len() as u64;
        (self.progress)(self.told);
        Ok(())
    }

    /// Compares a run with its checksums.
    fn check(&mut self, backup: &Backup, run: &Run) -> Result<(), BackupError> {
        let (mut crc, mut frame) = (0, vec![0; FRAME_BYTES]);
        for place in run.places() {
            let raw = &mut frame[..place.range.len()];
            self.frame(backup, &place, raw)?;
            crc = crc32c::crc32c_append(crc, raw);
        }
        check_crc(backup, run, crc)
    }

    /// The rows of a batch.
    pub(super) fn batch(
        &mut self,
        spec: &TableSpec,
        batch: &StoredBatch,
    ) -> Result<RecordBatch, BackupError> {
        let mut bytes = MutableBuffer::new(0);
        for place in batch.run.places() {
            bytes.resize(place.range.end, 0);
            let out = &mut bytes.as_slice_mut()[place.range.clone()];
            self.frame(self.backup, &place, out)?;
        }
        check_crc(self.backup, &batch.run, crc32c::crc32c(&bytes))?;
        let rows = tail::decode(&spec.schema(), &Buffer::from(bytes));
        let rows = rows.map_err(|source| BackupError::Rows {
            table: spec.name.clone(),
            source,
        })?;
        match rows.num_rows() == batch.rows as usize {
            true => Ok(rows),
            false => Err(BackupError::Table {
                path: self.backup.path.clone(),
                table: spec.name.clone(),
                what: format!("{} rows in place of {}", rows.num_rows(), batch.rows),
            }),
        }
    }
}

/// Compares the checksum of a run's bytes.
pub(super) fn check_crc(backup: &Backup, run: &Run, crc: u32) -> Result<(), BackupError> {
    match crc == run.crc {
        true => Ok(()),
        false => Err(invalid(
            &backup.path,
            run.at,
            "what begins there does not match its checksum as a whole",
        )),
    }
}
