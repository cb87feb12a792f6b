//! A database's directory: what lies in it, what it knows of itself, and the checks before anything is believed.
//!
//! ```text
//! DIR/LOCK           locked while open; the holder's process id
//! DIR/database       what the database is called by, its newest lineage mark, and where the pools of its tiers lie
//! DIR/database.copy  the same once more
//! DIR/far.pool       the first tier's pool, unless it lies elsewhere (tmpfs, a DAX file system)
//! DIR/calibration, DIR/replication   what was measured on this machine, if somebody did
//! DIR/scrub          how far the scrubber has come
//! DIR/tierra.toml    options, where the user wrote some; read by the caller of `Database::open`
//! ```
//!
//! The directory file is replaced as a whole, `database` first. Whichever of the two is whole and newer counts; where neither
//! is, pools in the directory that are whole and know of each other stand in for both ([`crate::database::open`]).
//!
//! Invariant: a directory that is refused is left as it was found. What the file says is durable before anything is done that
//! needs it: a pool is named before it is made, and until nothing is left of it.

mod file;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tierra_memory::directory::Directory;
use tierra_memory::simulation::Recorder;
use tierra_memory::{Pool, PoolError, PoolOptions};

pub(crate) use self::file::{DirectoryFile, State, TierLine, TierState};
use self::file::{Fault, is_path};
use crate::error::OpenError;
pub(crate) use crate::manifest::HomeDirectory;
use crate::storage::options::DatabaseOptions;

const CONFIG_FILE: &str = "tierra.toml";
/// The first tier's pool, where it lies in the directory.
pub(crate) const POOL_FILE: &str = "far.pool";
/// The directory file and its twin.
const FILES: [&str; 2] = ["database", "database.copy"];

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Whether a database could be created here: nothing there, or a directory that is empty but for the options with which it is to
/// be opened, and for what a creation leaves that had hardly begun.
pub(crate) fn is_vacant(dir: &Path) -> Result<bool, OpenError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(io_error(dir))?.file_name();
                let is_left = |file: &str| {
                    let name = name.to_str();
                    name.and_then(|name| name.strip_suffix(".new")) == Some(file)
                };
                if name != CONFIG_FILE
                    && name != crate::storage::lock::LOCK_FILE
                    && !FILES.into_iter().any(is_left)
                {
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

/// A directory by device and inode, as far as it is one.
pub(crate) fn home_of(dir: &Path) -> io::Result<HomeDirectory> {
    let metadata = fs::metadata(dir)?;
    Ok(HomeDirectory {
        device: metadata.dev(),
        inode: metadata.ino(),
        path: fs::canonicalize(dir)?,
    })
}

/// Whether it is one directory, whatever it is called by now.
pub(crate) fn is_same(one: &HomeDirectory, other: &HomeDirectory) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

/// The directory of a database, and what its file says.
#[derive(Debug)]
pub(crate) struct Home {
    directory: Directory,
    file: DirectoryFile,
}

impl Home {
    /// Reads the directory file or its twin; `None` where there is neither.
    ///
    /// # Errors
    /// [`OpenError::Missing`], [`OpenError::NotADatabase`] where there is no directory; [`OpenError::DirectoryFile`] where both
    /// are damaged.
    pub(crate) fn read(dir: &Path, recorder: Option<&Recorder>) -> Result<Option<Home>, OpenError> {
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
            (Some(file), _) => Ok(Some(Home { directory, file })),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Of a database without a file: what is to be written.
    pub(crate) fn without_file(
        dir: &Path,
        recorder: Option<&Recorder>,
        file: DirectoryFile,
    ) -> Home {
        Home {
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

    /// Replaces the file by a changed one, durably on return. On an error it is as it was, or changed: the next reader
    /// can do with either.
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
        // Of a database that is being created nothing could be lost.
        if self.file.state == State::Ready
            && let Err(error) = self.directory.replace(twin, &bytes)
        {
            let path = self.directory.join(twin);
            tracing::warn!(path = %path.display(), %error, "the twin of the directory file is not up to date");
        }
        Ok(())
    }

    /// Makes durable what is believed: a process that was killed may have left the file's name in a cache.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn believe(&self) -> io::Result<()> {
        self.directory.sync()
    }

    /// How a pool is opened, or made, that lies there.
    pub(crate) fn pool_options(&self, path: &Path, options: &DatabaseOptions) -> PoolOptions {
        let recorder = self
            .own_name(path)
            .map(|name| self.directory.recorder_of(name));
        PoolOptions {
            capacity_bytes: options.capacity_bytes,
            at_version: options.to_version,
            machine: options.machine.clone(),
            recorder: recorder.flatten(),
            ..PoolOptions::default()
        }
    }

    /// The name of a file that lies in the directory itself.
    fn own_name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.strip_prefix(self.dir()).ok()?.to_str()?;
        (!name.contains('/')).then_some(name)
    }

    /// Writes the twin again where it is not what the file is.
    pub(crate) fn restore_twin(&self) {
        let bytes = self.file.encode();
        for name in FILES {
            let is_right = self.directory.read(name).is_ok_and(|found| found == bytes);
            if !is_right && let Err(error) = self.directory.replace(name, &bytes) {
                let path = self.directory.join(name);
                tracing::warn!(path = %path.display(), %error, "the directory file could not be written anew");
            }
        }
    }

    /// Where the pool of a tier lies.
    pub(crate) fn path_of(&self, tier: &TierLine) -> PathBuf {
        // An absolute one stands for itself.
        self.dir().join(&tier.path)
    }

    /// Whether a file lies in the directory itself, links followed: then a copy of the directory has a copy of it.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        let resolved = fs::canonicalize(path).or_else(|_| resolve_parent(path));
        let dir = fs::canonicalize(self.dir());
        matches!((resolved, dir), (Ok(path), Ok(dir)) if path.starts_with(&dir))
    }

    /// How the path of a pool is written down.
    ///
    /// # Errors
    /// One that has a line end cannot be.
    pub(crate) fn written(&self, path: &Path) -> io::Result<PathBuf> {
        let absolute = std::path::absolute(path)?;
        let resolved = resolve_parent(&absolute);
        let dir = fs::canonicalize(self.dir());
        let inside = match (&resolved, &dir) {
            (Ok(path), Ok(dir)) => path.strip_prefix(dir).ok().map(Path::to_owned),
            _ => None,
        };
        let written = inside.unwrap_or(absolute);
        match is_path(&written) {
            true => Ok(written),
            false => {
                let path = written.display();
                Err(io::Error::other(format!(
                    "{path:?} cannot be the path of a pool"
                )))
            }
        }
    }

    /// Removes what a creation of a pool left that was cut short, if it is certain to be that.
    ///
    /// # Errors
    /// The system's, in removing it.
    pub(crate) fn remove_remains(
        &self,
        tier: &TierLine,
        options: &DatabaseOptions,
    ) -> Result<(), PoolError> {
        let path = self.path_of(tier);
        let pool = match Pool::open(&path, &self.pool_options(&path, options)) {
            Ok(pool) => pool,
            Err(_) => {
                if Pool::is_interrupted_creation(&path, tier.pool_id).unwrap_or(false) {
                    self.remove(&path)?;
                }
                return Ok(());
            }
        };
        if pool.id() == tier.pool_id && pool.root().is_none() {
            self.discard(&pool)?;
        }
        Ok(())
    }

    /// Makes a pool none any more that holds nothing: of a device its beginning is cleared, a file is removed.
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

    /// Undoes a creation that failed. Errors are ignored: the first one counts.
    pub(crate) fn abandon(self) {
        for name in FILES.into_iter().chain([crate::storage::lock::LOCK_FILE]) {
            let _ = self.directory.remove(name);
        }
        let _ = fs::remove_dir(self.dir());
    }
}

/// A path whose last part may not be there, or be a link, all before it resolved.
fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
        _ => Ok(absolute),
    }
}

/// One of the two files; `None` where there is none.
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
