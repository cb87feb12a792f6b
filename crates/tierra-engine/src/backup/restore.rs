//! Makes a database of a backup.
//!
//! The directory file names the pools before they are made, and says "restoring". Extents are written into the pools, tails into
//! logs, and one manifest names all of them. Then the database is opened as every other, and only if that finds no fault, the
//! directory file says "ready". Until then nothing opens the directory but another restore, which begins anew.
//!
//! Invariant: after an error the directory is as it was. After a kill it holds nothing that counts, and pools that another restore
//! removes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tierra_memory::faults::Stop;
use tierra_memory::{Pool, PoolError, PoolOptions};

use super::contents::{Contents, StoredTable};
use super::frames::Run;
use super::read::{Backup, Reading, check_crc};
use super::{BackupProgress, BackupSummary};
use crate::calibration::LOG_METHOD;
use crate::database::open::owned_by;
use crate::database::{self, Database, Opened, opening};
use crate::deleted::row_ids::RowIds;
use crate::error::{BackupError, OpenError, StorageError};
use crate::manifest::{
    DatabaseId, ExtentEntry, ExtentId, LogEntry, Manifest, TableEntry, TierEntry, lineage_mark,
};
use crate::spec::replicas::TierId;
use crate::storage::access::Access;
use crate::storage::directory::{
    self, CreationState, DatabaseDirectory, DirectoryFile, TierLine, TierState, io_error,
};
use crate::storage::extent::{OwnedExtent, Owner};
use crate::storage::lock::DirectoryLock;
use crate::storage::options::DatabaseOptions;
use crate::storage::tier::Tier;
use crate::storage::tiers::Tiers;
use crate::tail::{Commit, Record, TailLog};
use crate::write::writer::{Published, Unsettled};

/// The version of a restored database's first manifest.
const FIRST_VERSION: u64 = 1;

/// How a backup is restored.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// Where the pools of tiers are made, by the tiers' names; the others are made in the directory.
    pub pools: Vec<(String, PathBuf)>,
    /// Ends it early; nothing is left of it.
    pub stop: Stop,
}

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// What was restored.
    pub backup: BackupSummary,
    /// The tiers and their new pools.
    pub pools: Vec<(String, PathBuf)>,
    /// Tiers that cannot be read as they were, each with the reason: they are read in place.
    pub in_place: Vec<(String, String)>,
}

impl Backup {
    /// Makes a database of the backup, with an identity and pools of its own, in a directory that is empty or does not exist. One in
    /// which a restore was interrupted is begun anew. `progress` is called after each MiB. Blocks.
    ///
    /// # Errors
    /// [`BackupError`]: the directory is in use or not empty, the backup is damaged, a pool cannot be made or is full. Nothing is
    /// left behind.
    pub fn restore(
        &self,
        dir: &Path,
        options: &DatabaseOptions,
        how: &RestoreOptions,
        progress: impl FnMut(BackupProgress),
    ) -> Result<Restored, BackupError> {
        self.check_tiers(how)?;
        let occupied = || BackupError::Occupied {
            dir: dir.to_owned(),
        };
        // What an interrupted restore left, if anything.
        let left = || -> Result<Option<DatabaseDirectory>, BackupError> {
            let begun = opening::begun(dir, options).map_err(|error| match error {
                // Something else may be left of that database.
                OpenError::DirectoryFile { .. } => occupied(),
                error => error.into(),
            })?;
            let may_restore = match &begun {
                Some(begun) => begun.file().state == CreationState::Restoring,
                None => directory::is_vacant(dir)?,
            };
            match may_restore {
                true => Ok(begun),
                false => Err(occupied()),
            }
        };
        left()?;
        let was_there = dir.exists();
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let parent = fs::canonicalize(dir).map_err(io_error(dir))?;
        if let Some(parent) = parent.parent() {
            let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(io_error(parent))?;
        }
        let lock = DirectoryLock::acquire(dir)?;
        // The directory may have changed before it was locked.
        let before = left()?;
        // That of the interrupted one was never a database's.
        let id = before.as_ref().map(|before| before.file().database);
        let id = id.unwrap_or_else(DatabaseId::random);
        let mut file = DirectoryFile {
            state: CreationState::Restoring,
            ..DirectoryFile::new(id)
        };
        if let Some(before) = &before {
            file.sequence = before.file().sequence;
            opening::remove_pools(before, options)?;
        }
        let made = DatabaseDirectory::without_file(dir, options.recorder.as_ref(), file);
        let made = self.make(made, lock, options, how, progress);
        if made.is_err() {
            undo(dir, id, was_there, options);
        }
        made
    }

    fn check_tiers(&self, how: &RestoreOptions) -> Result<(), BackupError> {
        let is_known = |name: &String| self.tiers().any(|tier| tier == name);
        let mut given = how.pools.iter().map(|(name, _)| name);
        match given.find(|name| !is_known(name)) {
            None => Ok(()),
            Some(tier) => Err(BackupError::Tier {
                tier: tier.clone(),
                known: self.tiers().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    fn make(
        &self,
        mut directory: DatabaseDirectory,
        lock: DirectoryLock,
        options: &DatabaseOptions,
        how: &RestoreOptions,
        progress: impl FnMut(BackupProgress),
    ) -> Result<Restored, BackupError> {
        let dir = directory.dir().to_owned();
        let near = database::near_memory(options)?;
        let mut restored = Restored {
            backup: self.summary(),
            ..Restored::default()
        };
        let tiers = self.make_tiers(&mut directory, options, how, &mut restored)?;
        let writing = Writing {
            backup: self,
            tiers: &tiers,
            reading: self.reading(&how.stop, progress),
            next_extent_id: self.contents.manifest.next_extent_id,
            fresh: Vec::new(),
        };
        let (tables, fresh) = writing.tables()?;
        let from = &self.contents.manifest;
        let first = Manifest {
            version: FIRST_VERSION - 1,
            database: directory.file().database,
            directory_identity: directory::identity_of(&dir).map_err(io_error(&dir))?,
            ..Manifest::default()
        };
        let next = Manifest {
            tables,
            commit: from.commit,
            next_table_id: from.next_table_id,
            next_extent_id: from.next_extent_id,
            last_tier_id: from.last_tier_id,
            ..first.clone()
        };
        let mut published = Published::new(first, Vec::new(), []);
        published.publish(&tiers, next, fresh)?;
        let unsettled = Unsettled {
            superseded: Vec::new(),
            is_behind: false,
            most_behind_first: Vec::new(),
            goes_on_without: false,
        };
        let opened = Opened {
            directory,
            lock,
            near,
            tiers,
            published,
            unsettled,
        };
        let database = Database::start(options, opened)?;
        self.compare(&database)?;
        opening::finish(&database)?;
        Ok(restored)
    }

    /// Names the tiers in the directory file, and makes their pools.
    fn make_tiers(
        &self,
        directory: &mut DatabaseDirectory,
        options: &DatabaseOptions,
        how: &RestoreOptions,
        restored: &mut Restored,
    ) -> Result<Tiers, BackupError> {
        let Contents {
            manifest, accesses, ..
        } = &self.contents;
        let mut lines = Vec::with_capacity(manifest.tiers.len());
        for tier in &manifest.tiers {
            let path = path_of(directory.dir(), tier, options, how)?;
            let written = directory.written(&path).map_err(io_error(&path))?;
            if lines.iter().any(|line: &TierLine| line.path == written) {
                return Err(PoolError::Exists { path }.into());
            }
            // What is named is taken for the restore's own, should it be interrupted.
            Pool::check_free(&path, &directory.pool_options(&tier.name, &path, options))?;
            lines.push(TierLine {
                name: tier.name.clone(),
                pool_id: lineage_mark(),
                state: TierState::Adding,
                access: Access::default(),
                path: written,
            });
        }
        let named = directory.change(|file| file.tiers = lines.clone());
        named.map_err(|(path, source)| OpenError::Io { path, source })?;
        let mut tiers = Tiers::default();
        for ((tier, line), access) in manifest.tiers.iter().zip(&mut lines).zip(accesses) {
            let path = directory.path_of(line);
            let pool_options = PoolOptions {
                id: Some(line.pool_id),
                ..directory.pool_options(&line.name, &path, options)
            };
            let pool = Pool::create(&path, &pool_options)?;
            match access.check(&pool) {
                Ok(()) => line.access = *access,
                Err(why) => restored.in_place.push((tier.name.clone(), why.to_string())),
            }
            restored.pools.push((tier.name.clone(), path));
            tiers
                .open
                .push(Tier::new(tier.id, tier.name.as_str(), pool, line.access));
        }
        let named = directory.change(|file| file.tiers = lines);
        named.map_err(|(path, source)| OpenError::Io { path, source })?;
        Ok(tiers)
    }

    /// Whether the restored tables can be read, and have the rows that were backed up.
    fn compare(&self, database: &Database) -> Result<(), BackupError> {
        let tables = self.contents.manifest.tables.iter();
        for (entry, stored) in tables.zip(&self.contents.tables) {
            let failed = |what: String| BackupError::Table {
                path: self.path().to_owned(),
                table: entry.spec.name.clone(),
                what,
            };
            let table = database.table(&entry.spec.name);
            let table = table.ok_or_else(|| failed("it is not there".to_owned()))?;
            table
                .check_complete()
                .map_err(|why| failed(why.to_string()))?;
            let rows = table.snapshot().rows();
            if rows != stored.rows {
                return Err(failed(format!("{rows} rows in place of {}", stored.rows)));
            }
        }
        Ok(())
    }
}

/// Where the pool of a tier is made.
fn path_of(
    dir: &Path,
    tier: &TierEntry,
    options: &DatabaseOptions,
    how: &RestoreOptions,
) -> Result<PathBuf, OpenError> {
    let mut given = how.pools.iter();
    let given = given.find(|(of, _)| *of == tier.name);
    let first = options.pool_path.as_ref();
    let first = first.filter(|_| tier.id == TierId::FIRST);
    let path = match given.map(|(_, path)| path).or(first) {
        Some(path) => path.clone(),
        // The first tier's is POOL_FILE.
        None => dir.join(format!("{}.pool", tier.name)),
    };
    std::path::absolute(&path).map_err(io_error(&path))
}

/// The entries of the tables, and what they name.
type Written = (Vec<Arc<TableEntry>>, Vec<Arc<OwnedExtent>>);

/// Writes what a backup holds into new pools.
struct Writing<'a, P> {
    backup: &'a Backup,
    tiers: &'a Tiers,
    reading: Reading<'a, P>,
    next_extent_id: u64,
    fresh: Vec<Arc<OwnedExtent>>,
}

impl<P: FnMut(BackupProgress)> Writing<'_, P> {
    /// Writes all extents and logs.
    fn tables(mut self) -> Result<Written, BackupError> {
        let backup = self.backup;
        let Contents {
            manifest,
            extents,
            tables,
            ..
        } = &backup.contents;
        let owners = manifest.tables.iter().flat_map(|table| owned_by(table));
        let owners: HashMap<ExtentId, Owner> = owners.collect();
        for extent in extents {
            let id = extent.id;
            let from = backup.located(extent)?;
            self.extent(id, owners[&id], &manifest.extents[&id], from)?;
        }
        let mut entries = Vec::with_capacity(tables.len());
        for (entry, table) in manifest.tables.iter().zip(tables) {
            entries.push(Arc::new(self.tail(entry, table)?));
        }
        Ok((entries, self.fresh))
    }

    /// Writes all copies of an extent.
    fn extent(
        &mut self,
        id: ExtentId,
        owner: Owner,
        entry: &ExtentEntry,
        (backup, run): (&Backup, &Run),
    ) -> Result<(), BackupError> {
        let placement: Vec<TierId> = entry.copies.iter().map(|copy| copy.tier).collect();
        let mut writer = self.tiers.allocate(id, &placement, run.len_bytes, owner)?;
        for place in run.places() {
            let out = &mut writer[place.range.clone()];
            self.reading.frame(backup, &place, out)?;
            writer.copy_up_to(place.range.end);
        }
        let extent = writer.finish()?;
        for copy in extent.copies() {
            // That of what lies in the pool now.
            let label = copy.pool().label(copy.extent())?;
            check_crc(backup, run, label.payload_crc.unwrap_or_default())?;
        }
        self.fresh.push(extent);
        Ok(())
    }

    /// Writes a table's tail into a new log, and returns the table's entry.
    fn tail(
        &mut self,
        entry: &TableEntry,
        stored: &StoredTable,
    ) -> Result<TableEntry, BackupError> {
        let mut entry = entry.clone();
        let mut log = TailLog::starting_at(0);
        let commit = Commit {
            // The manifest that names the log includes them.
            number: self.backup.contents.manifest.commit,
            follows: FIRST_VERSION - 1,
        };
        for batch in &stored.tail {
            let rows = self.reading.batch(&entry.spec, batch)?;
            let record = Record::of(&RowIds::default(), Some(&rows));
            let mut record = record.map_err(|source| BackupError::Rows {
                table: entry.spec.name.clone(),
                source,
            })?;
            if !log.fits(record.len_bytes()) {
                let added = self.log_extent(&entry, &mut log, &record)?;
                entry.tail.logs.push(added);
            }
            log.append(&LOG_METHOD, &mut record, commit)
                .map_err(StorageError::from)?;
        }
        log.mark(&LOG_METHOD).map_err(StorageError::from)?;
        entry.tail.first_sequence = 0;
        entry.tail.reached = log.next_sequence();
        Ok(entry)
    }

    /// Continues a log in a new extent with room for the record.
    fn log_extent(
        &mut self,
        entry: &TableEntry,
        log: &mut TailLog,
        record: &Record,
    ) -> Result<LogEntry, BackupError> {
        let added = LogEntry {
            extent: ExtentId(self.next_extent_id),
            epoch: FIRST_VERSION,
        };
        self.next_extent_id += 1;
        let writer = self.tiers.allocate(
            added.extent,
            &entry.placement.everywhere(),
            log.next_extent_bytes(record),
            Owner::Log(entry.id),
        )?;
        let extent = writer.finish_log()?;
        log.prepare(added, &extent).map_err(StorageError::from)?;
        log.continue_in(added, &extent)
            .map_err(StorageError::from)?;
        self.fresh.push(extent);
        Ok(added)
    }
}

/// Removes what the failed restore of this database made. Errors are only logged: the first one is reported.
fn undo(dir: &Path, id: DatabaseId, was_there: bool, options: &DatabaseOptions) {
    if let Err(error) = try_undo(dir, id, was_there, options) {
        // The directory file names what is left, for the next restore.
        tracing::warn!(dir = %dir.display(), %error, "what was left of a restore could not be removed");
    }
}

fn try_undo(
    dir: &Path,
    id: DatabaseId,
    was_there: bool,
    options: &DatabaseOptions,
) -> Result<(), BackupError> {
    let _lock = DirectoryLock::acquire(dir)?;
    let directory = match opening::begun(dir, options)? {
        Some(directory) => directory,
        // It was not even written.
        None => {
            DatabaseDirectory::without_file(dir, options.recorder.as_ref(), DirectoryFile::new(id))
        }
    };
    if directory.file().database == id {
        opening::remove_pools(&directory, options)?;
        directory.abandon(was_there);
    }
    Ok(())
}
