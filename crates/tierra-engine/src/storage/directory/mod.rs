//! A database's directory: its files, what it records about the database, and the checks before anything is used.
//!
//! ```text
//! DIR/LOCK           locked while open; the holder's process id
//! DIR/database       the database's id, its newest lineage mark, and the paths of its tiers' pools
//! DIR/database.copy  the same
//! DIR/far.pool       the first tier's pool, unless it lies elsewhere (tmpfs, a DAX file system)
//! DIR/calibration, DIR/replication   measurements of this machine, if there are any
//! DIR/scrub          the scrubber's position
//! DIR/tierra.toml    the user's options, if any; read by the caller of `Database::open`
//! ```
//!
//! The directory file is replaced as a whole, `database` first. The newer whole one of the two counts. If neither is whole, pools
//! in the directory that are whole and know of each other replace both ([`crate::database::open`]).
//!
//! Invariant: a directory that is rejected is left as it was found. The file's content is durable before any step that needs it:
//! a pool is named before it is made, and until nothing is left of it.

mod file;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tierra_memory::directory::Directory;
use tierra_memory::simulation::Recorder;
use tierra_memory::{Pool, PoolError, PoolOptions};

pub(crate) use self::file::{CreationState, DirectoryFile, TierLine, TierState};
use self::file::{Fault, is_path};
use crate::calibration::{CALIBRATION_FILE, PROFILE_FILE};
use crate::error::OpenError;
pub(crate) use crate::manifest::DirectoryIdentity;
use crate::storage::lock::LOCK_FILE;
use crate::storage::options::DatabaseOptions;

const CONFIG_FILE: &str = "tierra.toml";
/// The scrubber's position.
pub(crate) const SCRUB_FILE: &str = "scrub";
/// The first tier's pool, if it lies in the directory.
pub(crate) const POOL_FILE: &str = "far.pool";
/// The directory file and its copy.
const FILES: [&str; 2] = ["database", "database.copy"];
/// The other files that the database itself writes, besides pools.
const OTHER_FILES: [&str; 4] = [LOCK_FILE, SCRUB_FILE, CALIBRATION_FILE, PROFILE_FILE];

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Whether a database can be created here: the directory does not exist, or is empty except for the options file and what a
/// creation leaves that had hardly begun.
pub(crate) fn is_vacant(dir: &Path) -> Result<bool, OpenError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(io_error(dir))?.file_name();
                let is_left = |file: &str| {
                    let name = name.to_str();
                    name.and_then(|name| name.strip_suffix(".new")) == Some(file)
                };
                if name != CONFIG_FILE && name != LOCK_FILE && !FILES.into_iter().any(is_left) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(OpenError::NotADatabase {
                dir: dir.to_owned(),
                why: "it is no directory",
            })
        }
        Err(error) => Err(io_error(dir)(error)),
    }
}

/// Whether a tier can have this name.
pub(crate) fn is_tier_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Identifies a directory by device and inode.
pub(crate) fn identity_of(dir: &Path) -> io::Result<DirectoryIdentity> {
    let metadata = fs::metadata(dir)?;
    Ok(DirectoryIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        path: fs::canonicalize(dir)?,
    })
}

/// Whether both are the same directory, regardless of the path.
pub(crate) fn is_same(one: &DirectoryIdentity, other: &DirectoryIdentity) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

/// A database's directory and the content of its file.
#[derive(Debug)]
pub(crate) struct DatabaseDirectory {
    directory: Directory,
    file: DirectoryFile,
}

impl DatabaseDirectory {
    /// Reads the directory file or its copy; `None` if there is neither.
    ///
    /// # Errors
    /// [`OpenError::Missing`], [`OpenError::NotADatabase`] if there is no directory; [`OpenError::DirectoryFile`] if both files
    /// are damaged.
    pub(crate) fn read(
        dir: &Path,
        recorder: Option<&Recorder>,
    ) -> Result<Option<DatabaseDirectory>, OpenError> {
        let not_a_directory = || OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "it is no directory",
        };
        match fs::metadata(dir) {
            Ok(found) if !found.is_dir() => return Err(not_a_directory()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::Missing {
                    dir: dir.to_owned(),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(not_a_directory());
            }
            Err(error) => return Err(io_error(dir)(error)),
        }
        let directory = Directory::new(dir, recorder);
        let mut newest: Option<DirectoryFile> = None;
        let mut failure = None;
        for name in FILES {
            match read_file(&directory, name) {
                Ok(Some(file)) => {
                    let is_newer = |newest: &DirectoryFile| file.sequence > newest.sequence;
                    if newest.as_ref().is_none_or(is_newer) {
                        newest = Some(file);
                    }
                }
                Ok(None) => {}
                Err(error @ OpenError::DirectoryFile { .. }) => {
                    tracing::warn!("{error}");
                    failure.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match (newest, failure) {
            (Some(file), _) => Ok(Some(DatabaseDirectory { directory, file })),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// The directory of a database without a file, and the content to be written.
    pub(crate) fn without_file(
        dir: &Path,
        recorder: Option<&Recorder>,
        file: DirectoryFile,
    ) -> DatabaseDirectory {
        DatabaseDirectory {
            directory: Directory::new(dir, recorder),
            file,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self) -> &DirectoryFile {
        &self.file
    }

    /// Replaces the file by a changed one, durably on return. After an error the file is either unchanged or changed; both are
    /// valid.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn change(
        &mut self,
        change: impl FnOnce(&mut DirectoryFile),
    ) -> Result<(), (PathBuf, io::Error)> {
        let mut next = self.file.clone();
        change(&mut next);
        next.sequence += 1;
        let bytes = next.encode();
        let [first, twin] = FILES;
        self.directory
            .replace(first, &bytes)
            .map_err(|error| (self.directory.join(first), error))?;
        self.file = next;
        // A database that is being created has nothing to lose.
        if self.file.state == CreationState::Ready
            && let Err(error) = self.directory.replace(twin, &bytes)
        {
            let path = self.directory.join(twin);
            tracing::warn!(path = %path.display(), %error, "the copy of the directory file is not up to date");
        }
        Ok(())
    }

    /// Makes the file durable before it is relied on: a killed process may have left its name only in a cache.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.directory.sync()
    }

    /// The options for opening or making a tier's pool at this path.
    pub(crate) fn pool_options(
        &self,
        tier: &str,
        path: &Path,
        options: &DatabaseOptions,
    ) -> PoolOptions {
        let recorder = self
            .own_name(path)
            .map(|name| self.directory.recorder_of(name));
        PoolOptions {
            capacity_bytes: options.capacity_bytes,
            far_device: options.far_device(tier).cloned(),
            at_version: options.to_version,
            machine: options.machine.clone(),
            recorder: recorder.flatten(),
            ..PoolOptions::default()
        }
    }

    /// The file name of a path directly in the directory.
    fn own_name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.strip_prefix(self.dir()).ok()?.to_str()?;
        (!name.contains('/')).then_some(name)
    }

    /// Rewrites the directory file or its copy if it differs.
    pub(crate) fn restore_both_files(&self) {
        let bytes = self.file.encode();
        for name in FILES {
            let is_valid = self.directory.read(name).is_ok_and(|found| found == bytes);
            if !is_valid && let Err(error) = self.directory.replace(name, &bytes) {
                let path = self.directory.join(name);
                tracing::warn!(path = %path.display(), %error, "the directory file could not be rewritten");
            }
        }
    }

    /// The path of a tier's pool.
    pub(crate) fn path_of(&self, tier: &TierLine) -> PathBuf {
        // An absolute path replaces the directory's.
        self.dir().join(&tier.path)
    }

    /// Whether a file lies in the directory, after resolving links: then a copy of the directory contains a copy of the file.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        let resolved = fs::canonicalize(path).or_else(|_| resolve_parent(path));
        let dir = fs::canonicalize(self.dir());
        matches!((resolved, dir), (Ok(path), Ok(dir)) if path.starts_with(&dir))
    }

    /// The path from the directory to a file that may not exist yet, after resolving links; `None` if it lies elsewhere.
    fn path_inside(&self, path: &Path) -> Option<PathBuf> {
        let resolved = resolve_parent(path).ok()?;
        let dir = fs::canonicalize(self.dir()).ok()?;
        resolved.strip_prefix(dir).ok().map(Path::to_owned)
    }

    /// Whether the database keeps this file for itself: what else is written there it replaces.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        let inside = self.path_inside(path);
        inside.is_some_and(|path| is_own_name(&path))
    }

    /// The form in which a pool's path is stored.
    ///
    /// # Errors
    /// A path with a line end cannot be stored, and the database's own files are no pools.
    pub(crate) fn written(&self, path: &Path) -> io::Result<PathBuf> {
        let written = match self.path_inside(path) {
            Some(inside) => inside,
            None => std::path::absolute(path)?,
        };
        let refused = |why: &str| {
            let path = written.display();
            Err(io::Error::other(format!(
                "{path:?} cannot be the path of a pool{why}"
            )))
        };
        if is_own_name(&written) {
            return refused(": the database keeps this name for itself");
        }
        match is_path(&written) {
            true => Ok(written),
            false => refused(""),
        }
    }

    /// Removes the remains of an interrupted creation of a pool, if they are certain to be that.
    ///
    /// # Errors
    /// The system's, from the removal.
    pub(crate) fn remove_remains(
        &self,
        tier: &TierLine,
        options: &DatabaseOptions,
    ) -> Result<(), PoolError> {
        let path = self.path_of(tier);
        match Pool::open(&path, &self.pool_options(&tier.name, &path, options)) {
            Ok(pool) if pool.id() == tier.pool_id && pool.root().is_none() => self.discard(&pool),
            Ok(_) => Ok(()),
            Err(_) => self.remove_interrupted(&path, tier, options),
        }
    }

    /// Removes what an interrupted creation of the tier's pool left; nothing else.
    fn remove_interrupted(
        &self,
        path: &Path,
        tier: &TierLine,
        options: &DatabaseOptions,
    ) -> Result<(), PoolError> {
        let pool_options = self.pool_options(&tier.name, path, options);
        if let Ok(true) = Pool::clear_interrupted_device(path, tier.pool_id, &pool_options) {
            return Ok(());
        }
        match Pool::interrupted_creation(path, tier.pool_id) {
            // Locked until it is removed.
            Ok(Some(_left)) => self.remove(path),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Removes a pool that holds nothing: the beginning of a device is cleared, a file is removed.
    pub(crate) fn discard(&self, pool: &Pool) -> Result<(), PoolError> {
        match pool.medium() {
            tierra_memory::MediumKind::Device => pool.discard(),
            _ => self.remove(pool.path()),
        }
    }

    fn remove(&self, path: &Path) -> Result<(), PoolError> {
        let removed = match self.own_name(path) {
            Some(name) => self
                .directory
                .remove(name)
                .and_then(|()| self.directory.sync()),
            None => fs::remove_file(path),
        };
        removed.map_err(|source| PoolError::Io {
            path: path.to_owned(),
            doing: "remove what was left of the pool",
            source,
        })
    }

    /// Undoes a failed creation, and removes the directory unless it `was_there` before. Errors are ignored: the first one counts.
    pub(crate) fn abandon(self, was_there: bool) {
        for name in FILES.into_iter().chain([LOCK_FILE]) {
            let _ = self.directory.remove(name);
        }
        if !was_there {
            let _ = fs::remove_dir(self.dir());
        }
    }
}

/// Whether the database keeps this name in its directory for itself.
fn is_own_name(inside: &Path) -> bool {
    let Some(name) = inside.to_str() else {
        return false;
    };
    let name = name.strip_suffix(".new").unwrap_or(name);
    name == CONFIG_FILE || FILES.contains(&name) || OTHER_FILES.contains(&name)
}

/// A path with links resolved in all but its last part, which need not exist.
fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
        _ => Ok(absolute),
    }
}

/// One of the two files; `None` if it does not exist.
fn read_file(directory: &Directory, name: &str) -> Result<Option<DirectoryFile>, OpenError> {
    let path = directory.join(name);
    let fault = |line, what| OpenError::DirectoryFile {
        path: path.clone(),
        line,
        what,
    };
    let bytes = match fs::symlink_metadata(&path) {
        Ok(found) if found.len() > file::LEN_MAX => {
            return Err(fault(1, format!("it is {} bytes long", found.len())));
        }
        Ok(found) if found.is_symlink() => return Err(OpenError::Link { path }),
        Ok(_) => directory.read(name),
        Err(error) => Err(error),
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&path)(error)),
    };
    match DirectoryFile::parse(&bytes) {
        Ok(file) => Ok(Some(file)),
        Err(Fault::Version(found)) => Err(OpenError::DirectoryVersion { path, found }),
        Err(Fault::Line(line, what)) => Err(fault(line, what)),
    }
}
