//! The small files of a directory, and the names in it: which changes are durable, and when.
//!
//! A file system makes contents and names durable each by a call of its own, and promises nothing about what it was not
//! asked for. So an owner of files in a directory beside its pools declares here what is to be durable, and a
//! power cut can be simulated that takes the rest away ([`crate::simulation`]): with a recorder each call is made, and
//! written down in the same trace as the stores to the pools.
//!
//! ```
//! use tierra_memory::directory::Directory;
//!
//! let dir = tempfile::tempdir()?;
//! let directory = Directory::new(dir.path(), None);
//! directory.replace("tiers", b"far far.pool\n")?; // durable on return: the old content is there, or this
//! assert_eq!(directory.read("tiers")?, b"far far.pool\n");
//! directory.remove("tiers")?;
//! directory.sync()?; // now it is gone
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: no link is followed, nothing is written to a file that was there before, and a new file is its owner's alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::recording::{FileStep, Recorder};

/// A directory whose files are written by one process. Names are those of files directly in it.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    recorder: Option<Recorder>,
}

impl Directory {
    /// The directory at this path, which may not exist yet. A recorder records all calls.
    pub fn new(path: &Path, recorder: Option<&Recorder>) -> Directory {
        Directory {
            path: path.to_owned(),
            recorder: recorder.cloned(),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of one of its files.
    pub fn join(&self, name: &str) -> PathBuf {
        debug_assert!(!name.is_empty() && !name.contains('/'), "a name: {name}");
        self.path.join(name)
    }

    /// For [`PoolOptions::recorder`](crate::PoolOptions::recorder) of the pool whose file has this name, if the directory is recorded.
    pub fn recorder_of(&self, name: &str) -> Option<Recorder> {
        let recorder = self.recorder.as_ref();
        recorder.map(|recorder| recorder.of_file(name))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// Those of the file system; a symbolic link is one.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes a new file. Neither its name nor its content is durable yet.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::AlreadyExists`] if there is anything of that name.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(self.join(name))?;
        self.record(|| FileStep::created(name));
        file.write_all(bytes)?;
        self.record(|| FileStep::written(name, bytes));
        Ok(())
    }

    /// Makes the content of a file durable, not its name.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync_file(&self, name: &str) -> io::Result<()> {
        self.open(name)?.sync_all()?;
        self.record(|| FileStep::synced(name));
        Ok(())
    }

    /// Renames a file, replacing a file of the new name. Not durable yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.join(from), self.join(to))?;
        self.record(|| FileStep::renamed(from, to));
        Ok(())
    }

    /// Removes a file, a pool's as well. Not durable yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.join(name))?;
        self.record(|| FileStep::removed(name));
        Ok(())
    }

    /// Makes the names and the files they refer to durable, not the content of those files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)?;
        self.record(|| FileStep::DirectorySynced);
        Ok(())
    }

    /// Gives a file new content, durably on return: after a power cut before, it holds what it did or this, whole. It
    /// is written as `NAME.new` first, and what an earlier attempt left there goes.
    ///
    /// # Errors
    /// Those of the file system: the file holds what it did, or this.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let next = format!("{name}.new");
        match self.remove(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let written = self
            .write_new(&next, bytes)
            .and_then(|()| self.sync_file(&next))
            .and_then(|()| self.rename(&next, name));
        if let Err(error) = written {
            // The first error is reported.
            let _ = self.remove(&next);
            return Err(error);
        }
        self.sync()
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NOFOLLOW);
        options.open(self.join(name))
    }

    fn record(&self, step: impl FnOnce() -> FileStep) {
        if let Some(recorder) = &self.recorder {
            recorder.file_step(step());
        }
    }
}

/// Makes the names of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let path = if path.as_os_str().is_empty() {
        here
    } else {
        path
    };
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path(), None);
        fs::write(directory.join("tiers.new"), b"left over").unwrap();
        directory.replace("tiers", b"one").unwrap();
        directory.replace("tiers", b"two").unwrap();
        assert_eq!(directory.read("tiers").unwrap(), b"two");
        let mode = fs::metadata(directory.join("tiers")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = directory.write_new("tiers", b"three").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        directory.remove("tiers").unwrap();
        directory.sync().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = other.path().join("theirs");
        fs::write(&theirs, b"theirs").unwrap();
        let directory = Directory::new(dir.path(), None);
        for name in ["tiers", "tiers.new"] {
            symlink(&theirs, directory.join(name)).unwrap();
        }
        assert!(directory.read("tiers").is_err());
        assert!(directory.sync_file("tiers").is_err());
        assert!(directory.write_new("tiers", b"ours").is_err());
        directory.replace("tiers", b"ours").unwrap();
        assert_eq!(fs::read(theirs).unwrap(), b"theirs");
        assert_eq!(directory.read("tiers").unwrap(), b"ours");
    }
}
