//! Creating and opening databases.
//!
//! Invariant: the directory file says "creating" before anything of the database is made, and "ready" once its first manifest
//! is published. Until then nothing was ever stored, and an interrupted creation continues where it stopped.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tierra_memory::{NearMemory, Pool, PoolError, PoolOptions};

use crate::database::open::{self, OpenAccess};
use crate::database::{self, Database, Opened};
use crate::error::{OpenError, StorageError};
use crate::manifest::{DatabaseId, Manifest, lineage_mark};
use crate::storage::directory::{
    self, CreationState, DatabaseDirectory, DirectoryFile, TierLine, TierState, io_error,
};
use crate::storage::lock::DirectoryLock;
use crate::storage::options::DatabaseOptions;
use crate::storage::tiers::{FIRST_NAME, Tiers};
use crate::write::writer::{Published, Unsettled};

impl Database {
    /// Creates a database in a directory that is empty or does not exist, or continues an interrupted creation.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn create(dir: &Path, options: &DatabaseOptions) -> Result<Arc<Self>, OpenError> {
        let near = database::near_memory(options)?;
        let exists = || OpenError::Exists {
            dir: dir.to_owned(),
        };
        match begun(dir, options)? {
            None if !directory::is_vacant(dir)? => return Err(exists()),
            Some(directory) if directory.file().state == CreationState::Ready => {
                return Err(exists());
            }
            // The creation may have reached its first manifest.
            Some(_) => match Self::open(dir, options) {
                Err(OpenError::Unfinished { .. }) => {}
                opened => return opened,
            },
            None => {}
        }
        Self::create_as(CreationState::Creating, dir, options, near)
    }

    /// Creates a database that counts only once [`finish`] has said so, in a directory that is empty or does not exist, or in
    /// which a salvage was interrupted, whose pools are removed.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub(crate) fn begin_salvage(
        dir: &Path,
        options: &DatabaseOptions,
    ) -> Result<Arc<Self>, OpenError> {
        let near = database::near_memory(options)?;
        match begun(dir, options)? {
            None if directory::is_vacant(dir)? => {}
            Some(directory) if directory.file().state == CreationState::Salvaging => {}
            _ => {
                return Err(OpenError::Exists {
                    dir: dir.to_owned(),
                });
            }
        }
        Self::create_as(CreationState::Salvaging, dir, options, near)
    }

    fn create_as(
        state: CreationState,
        dir: &Path,
        options: &DatabaseOptions,
        near: NearMemory,
    ) -> Result<Arc<Self>, OpenError> {
        let was_there = dir.exists();
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let parent = fs::canonicalize(dir).map_err(io_error(dir))?;
        if let Some(parent) = parent.parent() {
            let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(io_error(parent))?;
        }
        let lock = DirectoryLock::acquire(dir)?;
        let before = begun(dir, options)?;
        let mut file = DirectoryFile {
            state,
            ..DirectoryFile::new(DatabaseId::random())
        };
        if let Some(before) = before {
            let found = before.file().state;
            if found != state {
                unfinished(dir, found)?;
                return Err(OpenError::Exists {
                    dir: dir.to_owned(),
                });
            }
            file.sequence = before.file().sequence;
            match state {
                CreationState::Salvaging => remove_pools(&before, options)?,
                // Nothing was ever stored.
                _ => {
                    for tier in &before.file().tiers {
                        before.remove_remains(tier, options)?;
                    }
                }
            }
        }
        let mut directory = DatabaseDirectory::without_file(dir, options.recorder.as_ref(), file);
        let created = Self::make_first(&mut directory, options);
        let (tiers, first) = match created {
            Ok(created) => created,
            Err(error) => {
                directory.abandon(was_there);
                return Err(error);
            }
        };
        let mut published = Published::new(first.clone(), Vec::new(), []);
        published.publish(&tiers, first, Vec::new())?;
        let unsettled = Unsettled {
            superseded: Vec::new(),
            is_behind: false,
            most_behind_first: Vec::new(),
            goes_on_without: false,
        };
        Self::start(
            options,
            Opened {
                directory,
                lock,
                near,
                tiers,
                published,
                unsettled,
            },
        )
    }

    /// The first tier with its new pool, and the manifest to be published first.
    fn make_first(
        directory: &mut DatabaseDirectory,
        options: &DatabaseOptions,
    ) -> Result<(Tiers, Manifest), OpenError> {
        let dir = directory.dir().to_owned();
        let path = options.pool_path.clone();
        let path = path.unwrap_or_else(|| dir.join(directory::POOL_FILE));
        let path = std::path::absolute(&path).map_err(io_error(&path))?;
        let pool_id = lineage_mark();
        let line = TierLine {
            name: FIRST_NAME.to_owned(),
            pool_id,
            state: TierState::Adding,
            access: Default::default(),
            path: directory.written(&path).map_err(io_error(&path))?,
        };
        let path = directory.path_of(&line);
        let options = PoolOptions {
            id: Some(pool_id),
            ..directory.pool_options(FIRST_NAME, &path, options)
        };
        // What is named is taken for the creation's own, should it be interrupted.
        Pool::check_free(&path, &options)?;
        let named = directory.change(|file| file.tiers.push(line));
        named.map_err(|(path, source)| OpenError::Io { path, source })?;
        let tiers = Tiers::first(Pool::create(&path, &options)?);
        let first = Manifest {
            database: directory.file().database,
            directory_identity: directory::identity_of(&dir).map_err(io_error(&dir))?,
            ..Manifest::default()
        };
        Ok((tiers, first))
    }

    /// Opens the database in a directory. If the file system or the permissions forbid writing, it is opened read-only; then
    /// nothing is published.
    ///
    /// # Errors [`OpenError`]: no such directory, no database, open elsewhere, of another format, truncated or damaged, a copy
    /// that has not been adopted, tiers missing. Nothing is changed then.
    pub fn open(dir: &Path, options: &DatabaseOptions) -> Result<Arc<Self>, OpenError> {
        found(dir, options)?;
        let near = database::near_memory(options)?;
        let lock = DirectoryLock::acquire_to_open(dir, options.read_only)?;
        // The directory may have changed before it was locked.
        let directory = found(dir, options)?;
        unfinished(dir, directory.file().state)?;
        let read_only = lock.read_only().is_some();
        if !read_only {
            directory.sync().map_err(io_error(dir))?;
        }
        if let Some(why) = lock.read_only() {
            tracing::warn!(dir = %dir.display(), why, "the database is open for reading only");
        }
        let pools = open::find(&directory, options, read_only);
        if open::is_unfinished(&directory, &pools) {
            return Err(OpenError::Unfinished {
                dir: dir.to_owned(),
            });
        }
        let access = OpenAccess {
            degraded: options.degraded,
            read_only,
        };
        let found = open::read_manifest(&directory, pools, access)?;
        Self::start(
            options,
            Opened {
                directory,
                lock,
                near,
                tiers: found.tiers,
                published: found.published,
                unsettled: Unsettled {
                    superseded: found.superseded,
                    is_behind: found.is_behind,
                    most_behind_first: found.most_behind_first,
                    goes_on_without: found.goes_on_without,
                },
            },
        )
    }

    /// Opens the database, or creates it if there is none.
    ///
    /// # Errors
    /// As [`Database::create`] and [`Database::open`].
    pub fn open_or_create(dir: &Path, options: &DatabaseOptions) -> Result<Arc<Self>, OpenError> {
        let is_begun =
            || Ok::<_, OpenError>(begun(dir, options)?.map(|directory| directory.file().state));
        match directory::is_vacant(dir)? || is_begun()? == Some(CreationState::Creating) {
            true => Self::create(dir, options),
            false => Self::open(dir, options),
        }
    }
}

/// An error for a directory in which a restore or a salvage was interrupted.
pub(crate) fn unfinished(dir: &Path, state: CreationState) -> Result<(), OpenError> {
    let dir = dir.to_owned();
    match state {
        CreationState::Restoring => Err(OpenError::Restoring { dir }),
        CreationState::Salvaging => Err(OpenError::Salvaging { dir }),
        CreationState::Creating | CreationState::Ready => Ok(()),
    }
}

/// Says that a restored or salvaged database is whole, durably on return.
pub(crate) fn finish(database: &Database) -> Result<(), StorageError> {
    let mut directory = database.storage().directory();
    let ready = directory.change(|file| file.state = CreationState::Ready);
    ready.map_err(|(path, source)| StorageError::Directory { path, source })
}

/// Removes the pools that an unfinished restore or salvage made: those at the paths that it named, with the numbers that it gave them.
/// If the directory was copied meanwhile, those outside of it may be a database's by now: its manifest names another directory.
pub(crate) fn remove_pools(
    directory: &DatabaseDirectory,
    options: &DatabaseOptions,
) -> Result<(), PoolError> {
    for line in &directory.file().tiers {
        let path = directory.path_of(line);
        match Pool::open(&path, &directory.pool_options(&line.name, &path, options)) {
            Ok(pool)
                if pool.id() == line.pool_id
                    && (directory.is_inside(&path) || open::is_of(directory, &pool)) =>
            {
                directory.discard(&pool)?;
            }
            opened => {
                drop(opened);
                directory.remove_remains(line, options)?;
            }
        }
    }
    Ok(())
}

/// The directory file, if there is one with content.
pub(crate) fn begun(
    dir: &Path,
    options: &DatabaseOptions,
) -> Result<Option<DatabaseDirectory>, OpenError> {
    match DatabaseDirectory::read(dir, options.recorder.as_ref()) {
        Err(OpenError::Missing { .. }) => Ok(None),
        read => read,
    }
}

/// The content of a database's directory file, or what its pools say if the file is lost.
pub(crate) fn found(dir: &Path, options: &DatabaseOptions) -> Result<DatabaseDirectory, OpenError> {
    let read = DatabaseDirectory::read(dir, options.recorder.as_ref());
    if let Ok(None) | Err(OpenError::DirectoryFile { .. }) = &read
        && let Some(directory) = open::rebuild(dir, &[], options)
    {
        return Ok(directory);
    }
    read?.ok_or_else(|| OpenError::NotADatabase {
        dir: dir.to_owned(),
        why: "it has no file `database`, and no pools that make up one",
    })
}
