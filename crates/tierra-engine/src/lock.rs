//! One process at a time: the file LOCK of a database directory.
//!
//! Invariant: whoever holds a [`DirectoryLock`] is the only one that may touch the directory. The
//! lock is the operating system's (flock), so it ends with its process, however that ends; the
//! process id in the file serves the error message only.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

/// Name of the file inside the directory.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Held while a database is open.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Takes the lock, or says who holds it. Writes nothing yet.
    pub(crate) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(LOCK_FILE);
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = open.map_err(|source| OpenError::Io {
            path: path.clone(),
            source,
        })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // A holder that has not yet written its id is still a holder.
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
                path,
                source: errno.into(),
            }),
        }
    }

    /// Says who holds it, once everything about the directory is believed.
    pub(crate) fn sign(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{}", std::process::id())
    }
}
impl Drop for DirectoryLock {
    /// Closing the file is not enough: a process that another thread is about to start has a copy of
    /// the descriptor until it runs its own program, and with it the lock.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(%error, "the database directory stays locked until the process ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_whoever_else_has_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(dir.path()).unwrap();
        let inherited = lock.file.try_clone().unwrap();
        let refused = DirectoryLock::acquire(dir.path());
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
        drop(lock);
        DirectoryLock::acquire(dir.path()).unwrap();
        drop(inherited);
    }
}
