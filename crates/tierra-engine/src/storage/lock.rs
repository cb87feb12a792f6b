//! The file LOCK of a database directory: one process at a time.
//!
//! Invariant: only the holder of a [`DirectoryLock`] for writing may touch the directory. Any number of processes may share the
//! lock to read; then none writes. It is the operating system's lock (flock), so it ends with its process in any case. The
//! process id in the file only serves the error message. Links are not followed. A fork shares the lock and leaves it alone.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::OpenError;
use crate::storage::process::OwnProcess;

/// The file's name in the directory.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Held while a database is open.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    /// `None` if the file system or the permissions keep every process that uses the lock from writing.
    file: Option<File>,
    /// Why the database is read-only, if it is.
    read_only: Option<String>,
    owner: OwnProcess,
}

impl DirectoryLock {
    /// Takes the lock; the error names the holder. Writes nothing yet.
    pub(crate) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        match open(dir, true) {
            Ok(file) => Self::lock(dir, file, FlockOperation::NonBlockingLockExclusive, None),
            Err(source) => Err(refused(dir, source)),
        }
    }

    /// As [`Self::acquire`] if the directory can be written; else, or if `read_only` is set, a lock shared by readers.
    pub(crate) fn acquire_to_open(dir: &Path, read_only: bool) -> Result<Self, OpenError> {
        let why = match read_only {
            true => "it was opened so".to_owned(),
            false => match open(dir, true) {
                Ok(file) => {
                    let exclusive = FlockOperation::NonBlockingLockExclusive;
                    return Self::lock(dir, file, exclusive, None);
                }
                Err(error) if is_unwritable(&error) => {
                    format!("{}: {error}", dir.join(LOCK_FILE).display())
                }
                Err(source) => return Err(refused(dir, source)),
            },
        };
        match open(dir, false) {
            Ok(file) => {
                let shared = FlockOperation::NonBlockingLockShared;
                Self::lock(dir, file, shared, Some(why))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_unwritable(&error) => {
                Ok(Self {
                    file: None,
                    read_only: Some(why),
                    owner: OwnProcess::this(),
                })
            }
            Err(source) => Err(refused(dir, source)),
        }
    }

    fn lock(
        dir: &Path,
        mut file: File,
        how: FlockOperation,
        read_only: Option<String>,
    ) -> Result<Self, OpenError> {
        match flock(&file, how) {
            // A creation that failed has removed it meanwhile: it locks nothing.
            Ok(()) if !is_named(dir, &file) => Err(OpenError::Locked {
                dir: dir.to_owned(),
                holder: "not known".to_owned(),
            }),
            Ok(()) => Ok(Self {
                file: Some(file),
                read_only,
                owner: OwnProcess::this(),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // A holder that has not yet written its id is a holder, too.
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let holder = if holder.is_empty() {
                    "not known".to_owned()
                } else {
                    holder.to_owned()
                };
                Err(OpenError::Locked {
                    dir: dir.to_owned(),
                    holder,
                })
            }
            Err(errno) => Err(OpenError::Io {
                path: dir.join(LOCK_FILE),
                source: errno.into(),
            }),
        }
    }

    /// Why the database is read-only; `None` if it can be written.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Whether this process is a fork of the one that took the lock. Then the lock is the parent's.
    pub(crate) fn is_forked(&self) -> bool {
        self.owner.is_forked()
    }

    /// Writes the process id into the file, once the whole directory has been checked. It is only for messages: a full disk does not
    /// keep a database from being opened, which may have tables to drop.
    pub(crate) fn sign(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| self.read_only.is_none()) else {
            return;
        };
        let holder = format!("{}\n", std::process::id());
        let written = file.write_all_at(holder.as_bytes(), 0);
        let signed = written.and_then(|()| file.set_len(holder.len() as u64));
        if let Err(error) = signed {
            tracing::warn!(%error, "LOCK does not say which process has the database open");
        }
    }
}

impl Drop for DirectoryLock {
    /// Unlocks explicitly: closing the file is not enough, because a process that another thread is about to start has a copy of
    /// the descriptor, and with it the lock, until it runs its own program. A fork must not unlock: it has the same lock as its
    /// parent, whose database others could then open.
    fn drop(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_forked()) else {
            return;
        };
        if let Err(error) = flock(file, FlockOperation::Unlock) {
            tracing::warn!(%error, "the database directory stays locked until the process ends");
        }
    }
}

/// Whether the directory's LOCK is this file.
fn is_named(dir: &Path, file: &File) -> bool {
    let number = |found: io::Result<Metadata>| found.map(|found| (found.dev(), found.ino()));
    let named = number(std::fs::symlink_metadata(dir.join(LOCK_FILE)));
    named.is_ok() && named.ok() == number(file.metadata()).ok()
}

fn open(dir: &Path, to_write: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(to_write).create(to_write);
    options.truncate(false).mode(0o600);
    let no_link = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = options.custom_flags(no_link).open(dir.join(LOCK_FILE))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("no regular file: remove it")),
    }
}

fn is_unwritable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn refused(dir: &Path, source: io::Error) -> OpenError {
    let path = dir.join(LOCK_FILE);
    match source.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => OpenError::Link { path },
        _ => OpenError::Io { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_although_others_have_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(dir.path()).unwrap();
        let inherited = lock.file.as_ref().unwrap().try_clone().unwrap();
        let refused = DirectoryLock::acquire(dir.path());
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
        drop(lock);
        DirectoryLock::acquire(dir.path()).unwrap();
        drop(inherited);
    }

    #[test]
    fn a_fork_leaves_the_lock_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let parent = DirectoryLock::acquire(dir.path()).unwrap();
        // A fork has a copy of the descriptor, and remembers who took the lock.
        let fork = DirectoryLock {
            file: Some(parent.file.as_ref().unwrap().try_clone().unwrap()),
            read_only: None,
            owner: OwnProcess::other(),
        };
        assert!(fork.is_forked() && !parent.is_forked());
        drop(fork);
        let refused = DirectoryLock::acquire(dir.path());
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
        drop(parent);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn readers_share_and_keep_writers_out() {
        let dir = tempfile::tempdir().unwrap();
        drop(DirectoryLock::acquire(dir.path()).unwrap());
        let one = DirectoryLock::acquire_to_open(dir.path(), true).unwrap();
        let two = DirectoryLock::acquire_to_open(dir.path(), true).unwrap();
        assert!(one.read_only().is_some() && two.read_only().is_some());
        let refused = DirectoryLock::acquire_to_open(dir.path(), false);
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
        drop((one, two));
        let writer = DirectoryLock::acquire_to_open(dir.path(), false).unwrap();
        assert!(writer.read_only().is_none());
        let refused = DirectoryLock::acquire_to_open(dir.path(), true);
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
    }
}
