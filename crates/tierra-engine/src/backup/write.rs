//! Writing a backup of an open database.
//!
//! Invariant: every extent in the file matches the checksum that it has in its pool. Which rows there are is decided by the pinned
//! version of each table alone.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::buffer::MutableBuffer;
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use tierra_memory::emulation::begin_read;
use tierra_memory::{ExtentLabel, LINE_BYTES};

use super::contents::{Contents, OlderBackup, StoredBatch, StoredExtent, StoredTable};
use super::destination::{Destination, Stream};
use super::envelope::{End, first_line, random_id};
use super::frames::{FRAME_BYTES, Packed, Run, pack};
use super::partial_file::PartialFile;
use super::read::Backup;
use super::{BackupOptions, BackupProgress, BackupSummary, Compression};
use crate::database::Database;
use crate::database::open::owned_by;
use crate::deleted::image::Image;
use crate::error::BackupError;
use crate::manifest::{
    CopyEntry, DeletedEntry, DirectoryIdentity, ExtentEntry, ExtentId, Manifest, StoredRange,
    TableEntry, TailEntry,
};
use crate::scrub::{self, ScrubOptions, ScrubReport};
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::table::requests::{Pinned, PinnedTable, Request};
use crate::tail;

/// Frames that are compressed at a time, by a thread each.
const THREADS_MOST: usize = 16;

impl Database {
    /// Writes a backup of all tables, as of one commit, into a new file; durable on return. Reads and writes go on meanwhile, and
    /// no commit waits for it. `progress` is called after some MiB each. Blocks.
    ///
    /// ```
    /// # use tierra_engine::{Backup, BackupOptions, Database, DatabaseOptions, RestoreOptions};
    /// # let scratch = tempfile::tempdir()?;
    /// # let dir = scratch.path();
    /// # let options = DatabaseOptions::default();
    /// let database = Database::create(&dir.join("db"), &options)?;
    /// database.backup(&dir.join("monday"), &BackupOptions::default(), |_| {})?;
    ///
    /// let backup = Backup::open(&dir.join("monday"))?;
    /// backup.restore(&dir.join("copy"), &options, &RestoreOptions::default(), |_| {})?;
    /// let copy = Database::open(&dir.join("copy"), &options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BackupError`]: the file exists or cannot be written, a table cannot be read, bytes are damaged in all copies. Nothing is
    /// left behind.
    pub fn backup(
        &self,
        file: &Path,
        options: &BackupOptions,
        progress: impl FnMut(BackupProgress),
    ) -> Result<BackupSummary, BackupError> {
        if self.storage().directory().is_own(file) {
            return Err(BackupError::OwnFile {
                path: file.to_owned(),
            });
        }
        let since = options.since.as_deref().map(Backup::open).transpose()?;
        let file = Destination::File(PartialFile::create(file)?);
        self.write_backup(file, since, options, progress)
    }

    /// As [`Database::backup`], but sends the bytes of the file to `to`, from the first to the last. It is a backup only with its last
    /// line: [`Backup::receive`] makes a file of what arrives.
    ///
    /// # Errors
    /// As [`Database::backup`], and if the bytes are not taken. What was sent until then is no backup.
    pub fn backup_to(
        &self,
        to: &mut (dyn Write + Send),
        options: &BackupOptions,
        progress: impl FnMut(BackupProgress),
    ) -> Result<BackupSummary, BackupError> {
        let since = options.since.as_deref().map(Backup::open).transpose()?;
        let stream = Destination::Stream(Stream { to, at: 0 });
        self.write_backup(stream, since, options, progress)
    }

    fn write_backup(
        &self,
        mut file: Destination<'_>,
        since: Option<Backup>,
        options: &BackupOptions,
        progress: impl FnMut(BackupProgress),
    ) -> Result<BackupSummary, BackupError> {
        let when = SystemTime::now().duration_since(UNIX_EPOCH);
        let pinned = self
            .requests()
            .ask(|reply| Request::Pin { reply })
            .and_then(|pinned| pinned)?;
        for pinned in &pinned.tables {
            pinned.table.check_complete()?;
        }
        let older = since.map(|since| Older::of(since, &pinned.manifest));
        let older = older.transpose()?;
        let id = random_id();
        file.write(&first_line(id))?;
        let mut writing = Writing {
            database: self,
            options,
            threads: match options.compression {
                Compression::None => 1,
                Compression::Zstd => self.storage().threads.get().min(THREADS_MOST),
            },
            file,
            older,
            commit: pinned.commit,
            next_extent_id: pinned.manifest.next_extent_id,
            extents: Vec::new(),
            made: Vec::new(),
            progress,
            told: BackupProgress {
                bytes: 0,
                of_bytes: bytes_of(&pinned),
            },
        };
        let when_us = when.map_or(0, |when| when.as_micros() as u64);
        let contents = writing.contents(&pinned, when_us)?;
        writing.finish(&contents, id)
    }
}

/// About how many bytes the backup will have.
fn bytes_of(pinned: &Pinned) -> u64 {
    let of_table = |table: &PinnedTable| {
        let extents = table.stored.extents.iter();
        let sealed = extents.filter(|extent| !matches!(extent.owner(), Owner::Log(_)));
        sealed.map(|extent| extent.len_bytes()).sum::<u64>() + table.version.tail.bytes()
    };
    pinned.tables.iter().map(of_table).sum()
}

/// A backup being written.
struct Writing<'a, 'w, P> {
    database: &'a Database,
    options: &'a BackupOptions,
    threads: usize,
    file: Destination<'w>,
    /// The last commit of the backup.
    commit: u64,
    /// Above those of the pinned manifest.
    next_extent_id: u64,
    older: Option<Older>,
    /// What was written, in the order of the file.
    extents: Vec<StoredExtent>,
    /// Extents that only the backup has.
    made: Vec<(ExtentId, ExtentEntry)>,
    progress: P,
    told: BackupProgress,
}

impl<P: FnMut(BackupProgress)> Writing<'_, '_, P> {
    /// Writes all tables.
    fn contents(&mut self, pinned: &Pinned, when_us: u64) -> Result<Contents, BackupError> {
        let mut entries = Vec::with_capacity(pinned.tables.len());
        for table in &pinned.tables {
            entries.push(Arc::new(self.table(table)?));
        }
        let mut tables = Vec::with_capacity(pinned.tables.len());
        for table in &pinned.tables {
            tables.push(StoredTable {
                rows: table.version.rows(),
                tail: self.tail(table)?,
            });
        }
        let directory = self.database.storage().directory();
        let access = |name: &str| {
            let mut lines = directory.file().tiers.iter();
            let line = lines.find(|line| line.name == name);
            line.map(|line| line.access).unwrap_or_default()
        };
        let tiers = pinned.manifest.tiers.iter();
        let accesses = tiers.map(|tier| access(&tier.name)).collect();
        drop(directory);
        Ok(Contents {
            when_us,
            older: self.older.as_ref().map(|older| older.names.clone()),
            accesses,
            extents: std::mem::take(&mut self.extents),
            tables,
            manifest: self.manifest(&pinned.manifest, entries),
        })
    }

    /// The manifest of the backup: that of the database, with these tables, and without places.
    fn manifest(&self, of: &Manifest, tables: Vec<Arc<TableEntry>>) -> Manifest {
        let mut manifest = Manifest {
            tables,
            commit: self.commit,
            directory_identity: DirectoryIdentity::default(),
            next_extent_id: self.next_extent_id,
            extents: Default::default(),
            ..of.clone()
        };
        let made: HashMap<ExtentId, &ExtentEntry> =
            self.made.iter().map(|(id, entry)| (*id, entry)).collect();
        let entry = |id: &ExtentId| {
            let entry = of.extents.get(id).or_else(|| made.get(id).copied());
            let entry =
                entry.expect("every extent that was written is of the manifest, or was made");
            let copies = entry
                .copies
                .iter()
                .map(|copy| CopyEntry { offset: 0, ..*copy });
            ExtentEntry {
                copies: copies.collect(),
                ..*entry
            }
        };
        let ids: BTreeSet<ExtentId> = manifest.tables.iter().flat_map(|t| t.extents()).collect();
        manifest.extents = ids.iter().map(|id| (*id, entry(id))).collect();
        manifest
    }

    /// Writes a table's extents, and returns its entry.
    fn table(&mut self, pinned: &PinnedTable) -> Result<TableEntry, BackupError> {
        let version = &pinned.version;
        let mut entry = TableEntry::clone(&pinned.stored.entry);
        entry.tail = TailEntry {
            segment_id: version.tail.segment_id,
            ..TailEntry::default()
        };
        entry.deleted.clear();
        let held = pinned.stored.extents.iter();
        let held: HashMap<ExtentId, &Arc<OwnedExtent>> =
            held.map(|extent| (extent.id(), extent)).collect();
        let ids: BTreeSet<ExtentId> = entry.extents().collect();
        let mut lost = BTreeSet::new();
        for id in ids {
            let extent = held.get(&id);
            let is_written = match extent {
                Some(extent) => self.extent(&entry, extent)?,
                None => false,
            };
            // Parts of indexes are built again.
            let is_of_index = entry.parts.iter().any(|part| part.extent == id)
                || entry.runs.iter().any(|run| run.extent == id);
            if !is_written && is_of_index {
                entry.parts.retain(|part| part.extent != id);
                entry.runs.retain(|run| run.extent != id);
            } else if !is_written {
                lost.insert(id);
            }
        }
        // Replicas are made again of others.
        for segment in &mut entry.segments {
            if segment.extents.iter().any(|id| lost.contains(id)) {
                Arc::make_mut(segment).forget(|id| !lost.contains(&id));
            }
        }
        if let Some(extent) = entry.extents().find(|id| lost.contains(id)) {
            return Err(BackupError::Damaged {
                table: entry.spec.name.clone(),
                extent: extent.0,
            });
        }
        self.deletions(&mut entry, pinned)?;
        Ok(entry)
    }

    /// Writes an extent from a copy that matches its checksum. Returns whether there is one.
    fn extent(&mut self, entry: &TableEntry, extent: &OwnedExtent) -> Result<bool, BackupError> {
        if let Some(crc) = self.older.as_ref().and_then(|older| older.crc_of(extent)) {
            let run = Run {
                at: 0,
                len_bytes: extent.len_bytes(),
                crc,
                frames: Vec::new(),
            };
            self.told.bytes += run.len_bytes;
            self.push(extent.id(), true, run);
            return Ok(true);
        }
        for copy in extent.copies() {
            if self.copy(extent.id(), copy)? {
                return Ok(true);
            }
        }
        // Copies that are damaged in different places make up one that is whole.
        let (mut report, options) = (ScrubReport::default(), ScrubOptions::default());
        scrub::scrub_extent(
            self.database.catalog(),
            &options,
            entry,
            extent,
            &mut report,
        );
        for copy in extent.copies() {
            if self.copy(extent.id(), copy)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a copy of an extent, if it matches its checksum. Returns whether it does.
    fn copy(&mut self, id: ExtentId, copy: &ExtentCopy) -> Result<bool, BackupError> {
        let label = copy.pool().label(copy.extent());
        let Ok(ExtentLabel {
            payload_crc: Some(crc),
            ..
        }) = label
        else {
            return Ok(false);
        };
        if !self.file.goes_back() && copy.pool().verify_extent(copy.extent()).is_err() {
            return Ok(false);
        }
        let (position, told) = (self.file.position(), self.told.bytes);
        let run = self.run(copy)?;
        let is_right = run.crc == crc;
        copy.pool().count_check(run.len_bytes, is_right);
        match is_right {
            true => self.push(id, false, run),
            false => {
                tracing::warn!(
                    tier = &**copy.tier_name(),
                    extent = id.0,
                    "a copy does not match its checksum, and is not backed up"
                );
                self.file.go_back(position)?;
                self.told.bytes = told;
            }
        }
        Ok(is_right)
    }

    /// Writes the bitmaps of a table's deleted rows into an extent, and names it in the entry. Deleted rows of the tail are left out
    /// of the backup.
    fn deletions(
        &mut self,
        entry: &mut TableEntry,
        pinned: &PinnedTable,
    ) -> Result<(), BackupError> {
        let tail_id = pinned.version.tail.segment_id;
        let deletions = pinned.version.deletions.iter();
        let sealed = deletions.filter(|(segment, _)| *segment != tail_id);
        let images: Vec<Image> = sealed.map(|(id, rows)| Image::of(id, rows)).collect();
        if images.is_empty() {
            return Ok(());
        }
        let extent = ExtentId(self.next_extent_id);
        self.next_extent_id += 1;
        let mut bytes = Vec::new();
        for image in &images {
            let stored = image.bytes();
            let place = StoredRange {
                extent,
                offset: bytes.len() as u64,
                len_bytes: stored.len() as u64,
            };
            bytes.extend(stored);
            bytes.resize(bytes.len().next_multiple_of(LINE_BYTES), 0);
            let deleted = DeletedEntry {
                rows: image.rows(),
                commit: self.commit,
                place,
            };
            entry.deleted.insert(image.segment(), deleted);
        }
        let run = self.run(&bytes)?;
        self.push(extent, false, run);
        let copies = entry.placement.everywhere().into_iter();
        let copies = copies.map(|tier| CopyEntry { tier, offset: 0 });
        let made = ExtentEntry {
            len_bytes: bytes.len() as u64,
            copies: copies.collect(),
        };
        self.made.push((extent, made));
        Ok(())
    }

    /// Writes the rows of a table's tail that are not deleted.
    fn tail(&mut self, pinned: &PinnedTable) -> Result<Vec<StoredBatch>, BackupError> {
        let version = &pinned.version;
        let failed = |source| BackupError::Rows {
            table: pinned.table.spec().name.clone(),
            source,
        };
        let deleted = version.deletions.of(version.tail.segment_id);
        let mut stored = Vec::new();
        for batch in version.tail.batches() {
            let is_left = |row: usize| {
                let row = batch.first_row as usize + row;
                deleted.is_none_or(|deleted| !deleted.contains(row))
            };
            let rows = left(&batch.rows, is_left).map_err(failed)?;
            if rows.num_rows() == 0 {
                continue;
            }
            let mut bytes = MutableBuffer::new(0);
            tail::encode(&rows, &mut bytes).map_err(failed)?;
            stored.push(StoredBatch {
                rows: rows.num_rows() as u32,
                run: self.run(&bytes)?,
            });
        }
        Ok(stored)
    }

    fn push(&mut self, id: ExtentId, is_older: bool, run: Run) {
        self.extents.push(StoredExtent { id, is_older, run });
    }

    /// Writes bytes as frames.
    fn run(&mut self, bytes: &[u8]) -> Result<Run, BackupError> {
        let mut run = Run {
            at: self.file.position(),
            len_bytes: bytes.len() as u64,
            crc: 0,
            frames: Vec::with_capacity(bytes.len().div_ceil(FRAME_BYTES)),
        };
        for some in bytes.chunks(self.threads * FRAME_BYTES) {
            if self.options.stop.is_stopped() {
                return Err(BackupError::Stopped);
            }
            for packed in packed(some, self.options.compression) {
                self.file.write(&packed.bytes)?;
                run.crc = crc32c::crc32c_combine(run.crc, packed.raw_crc, packed.raw_bytes);
                run.frames.push(packed.frame);
            }
            self.told.bytes += some.len() as u64;
            self.told.of_bytes = self.told.of_bytes.max(self.told.bytes);
            (self.progress)(self.told);
        }
        Ok(run)
    }

    /// Writes the contents and the last line, and gives the file its name.
    fn finish(mut self, contents: &Contents, id: u128) -> Result<BackupSummary, BackupError> {
        let (at, bytes) = (self.file.position(), contents.encode());
        debug_assert!(Contents::decode(&bytes, LINE_BYTES as u64, at).is_ok());
        self.file.write(&bytes)?;
        let end = End {
            contents_at: at,
            contents_bytes: bytes.len() as u64,
            contents_crc: crc32c::crc32c(&bytes),
            id,
        };
        self.file.write(&end.line())?;
        let summary = contents.summary(self.file.position());
        self.file.finish()?;
        Ok(summary)
    }
}

impl Contents {
    /// What a backup of this length with these contents holds.
    pub(super) fn summary(&self, file_bytes: u64) -> BackupSummary {
        BackupSummary {
            tables: self.tables.len() as u64,
            rows: self.tables.iter().map(|table| table.rows).sum(),
            table_bytes: self.len_bytes(),
            file_bytes,
            commit: self.manifest.commit,
        }
    }
}

/// The backup that a new one builds on.
struct Older {
    names: OlderBackup,
    /// Owner, length and checksum of each of its extents.
    extents: HashMap<ExtentId, (Owner, u64, u32)>,
}

impl Older {
    /// # Errors
    /// [`BackupError::Since`], if it is not of an earlier state of this database.
    fn of(backup: Backup, manifest: &Manifest) -> Result<Older, BackupError> {
        let from = &backup.contents.manifest;
        let is_earlier = from.database == manifest.database
            && manifest.lineage.starts_with(&from.lineage)
            && from.version <= manifest.version;
        let path = backup.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let (true, Some(name)) = (is_earlier, name) else {
            return Err(BackupError::Since {
                path: path.to_owned(),
            });
        };
        let owners = from.tables.iter().flat_map(|table| owned_by(table));
        let owners: HashMap<ExtentId, Owner> = owners.collect();
        let extents = backup.contents.extents.iter();
        let extents = extents.map(|extent| {
            let StoredExtent { id, run, .. } = extent;
            (*id, (owners[id], run.len_bytes, run.crc))
        });
        Ok(Older {
            extents: extents.collect(),
            names: OlderBackup {
                id: backup.id(),
                name: name.to_owned(),
            },
        })
    }

    /// The checksum of an extent that it has. Numbers of extents are not used twice, but for those of bitmaps, which only a backup
    /// has.
    fn crc_of(&self, extent: &OwnedExtent) -> Option<u32> {
        let (owner, len_bytes, crc) = self.extents.get(&extent.id())?;
        let is_it = |copy: &Arc<ExtentCopy>| {
            let label = copy.pool().label(copy.extent());
            label.is_ok_and(|label| label.payload_crc == Some(*crc))
        };
        let is_same = (*owner, *len_bytes) == (extent.owner(), extent.len_bytes())
            && !matches!(owner, Owner::Deleted(_))
            && extent.copies().iter().any(is_it);
        is_same.then_some(*crc)
    }
}

/// The frames of some bytes, each made by a thread of its own if there are several.
fn packed(bytes: &[u8], compression: Compression) -> Vec<Packed> {
    let _reading = begin_read(bytes);
    if bytes.len() <= FRAME_BYTES {
        return vec![pack(bytes, compression)];
    }
    thread::scope(|scope| {
        let frames = bytes.chunks(FRAME_BYTES);
        let threads = frames.map(|raw| scope.spawn(move || pack(raw, compression)));
        let threads: Vec<_> = threads.collect();
        let packed = threads.into_iter().map(|thread| match thread.join() {
            Ok(packed) => packed,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        packed.collect()
    })
}

/// The rows that are left, without memory that only the others need.
fn left(rows: &RecordBatch, is_left: impl Fn(usize) -> bool) -> Result<RecordBatch, ArrowError> {
    let all = 0..rows.num_rows();
    if all.clone().all(&is_left) {
        return tail::compact(rows);
    }
    let mask = all.map(|row| Some(is_left(row))).collect();
    tail::compact(&filter_record_batch(rows, &mask)?)
}
