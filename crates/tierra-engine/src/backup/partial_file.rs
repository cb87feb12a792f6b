//! A file that gets its name when it is whole and durable.
//!
//! It grows as `NAME.partial`, which is locked meanwhile. The beginning of a backup that a killed process left under that name is
//! written over; anything else there is an error.
//!
//! Invariant: nothing that was there before under `NAME` is replaced, nor what is no backup under `NAME.partial`; no link is followed,
//! and after an error nothing is left of the new file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};

use super::envelope::may_begin;
use crate::error::BackupError;

/// After this many bytes the file is synced: what waits to be written must not grow so far that commits on the same disk wait for it.
const SYNC_BYTES: u64 = 8 << 20;

/// A file being written.
#[derive(Debug)]
pub(super) struct PartialFile {
    file: File,
    /// Under which name.
    partial: PathBuf,
    /// The name that it gets.
    path: PathBuf,
    /// Where the next byte goes.
    at: u64,
    not_synced_bytes: u64,
    is_finished: bool,
}

impl PartialFile {
    pub(super) fn create(path: &Path) -> Result<PartialFile, BackupError> {
        // Errors name it even if the process changes its directory.
        let path = std::path::absolute(path).map_err(BackupError::io("write", path))?;
        let Some(name) = path.file_name().filter(|_| !ends_as_directory(&path)) else {
            let source = io::ErrorKind::IsADirectory.into();
            return Err(BackupError::io("write", &path)(source));
        };
        if fs::symlink_metadata(&path).is_ok() {
            return Err(BackupError::Exists { path });
        }
        let mut partial = OsString::from(name);
        partial.push(".partial");
        let partial = path.with_file_name(partial);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        options.truncate(false).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let file = options
            .open(&partial)
            .map_err(BackupError::io("write", &partial))?;
        let failed = || BackupError::io("write", &partial);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(BackupError::Busy { path: partial }),
            Err(errno) => return Err(failed()(errno.into())),
        }
        // Its last writer may have given it its name, or removed it, before this lock.
        let is_it = fs::symlink_metadata(&partial)
            .ok()
            .zip(file.metadata().ok());
        let is_it = is_it.is_some_and(|(named, opened)| {
            opened.is_file() && (named.dev(), named.ino()) == (opened.dev(), opened.ino())
        });
        if !is_it {
            return Err(BackupError::Busy { path: partial });
        }
        if !is_left_over(&file).map_err(failed())? {
            return Err(BackupError::Exists { path: partial });
        }
        file.set_len(0).map_err(failed())?;
        Ok(PartialFile {
            file,
            partial,
            path,
            at: 0,
            not_synced_bytes: 0,
            is_finished: false,
        })
    }

    /// The name that it will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name that it has.
    pub(super) fn partial(&self) -> &Path {
        &self.partial
    }

    /// Where the next byte goes.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.try_write(bytes)
            .map_err(BackupError::io("write", &self.partial))
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.at += bytes.len() as u64;
        self.not_synced_bytes += bytes.len() as u64;
        if self.not_synced_bytes >= SYNC_BYTES {
            self.file.sync_data()?;
            self.not_synced_bytes = 0;
        }
        Ok(())
    }

    /// Forgets what was written from there on.
    pub(super) fn go_back(&mut self, to: u64) -> Result<(), BackupError> {
        debug_assert!(to <= self.at);
        let moved = self.file.seek(SeekFrom::Start(to)).map(drop);
        moved.map_err(BackupError::io("write", &self.partial))?;
        self.at = to;
        Ok(())
    }

    /// Makes it durable, and gives it its name, durably.
    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        let durable = self
            .file
            .set_len(self.at)
            .and_then(|()| self.file.sync_all());
        durable.map_err(BackupError::io("write", &self.partial))?;
        self.rename()?;
        self.is_finished = true;
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(BackupError::io("sync", parent))
    }

    fn rename(&self) -> Result<(), BackupError> {
        use rustix::io::Errno;
        let renamed = renameat_with(CWD, &self.partial, CWD, &self.path, RenameFlags::NOREPLACE);
        let exists = || BackupError::Exists {
            path: self.path.clone(),
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(exists()),
            // The file system cannot rename so.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
                if fs::symlink_metadata(&self.path).is_ok() =>
            {
                Err(exists())
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::rename(&self.partial, &self.path)
                    .map_err(BackupError::io("rename", &self.partial))
            }
            Err(errno) => Err(BackupError::io("rename", &self.partial)(errno.into())),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // The first error is reported.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Whether `file` is new, or the beginning of a backup that has no other name. A power cut before its first sync may have left zeros.
fn is_left_over(file: &File) -> io::Result<bool> {
    const ZEROS_MOST: u64 = 2 * SYNC_BYTES;
    if (1..=ZEROS_MOST).contains(&file.metadata()?.len()) {
        let mut bytes = Vec::new();
        let mut all: &File = file;
        all.take(ZEROS_MOST).read_to_end(&mut bytes)?;
        all.rewind()?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(file.metadata()?.nlink() == 1);
        }
    }
    let mut beginning = [0; 8];
    let mut length = 0;
    while length < beginning.len() {
        match file.read_at(&mut beginning[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(may_begin(&beginning[..length]) && file.metadata()?.nlink() == 1)
}

fn ends_as_directory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        // A killed process left more than will be there.
        let left = [b"TIERRABK".as_slice(), &[9; 100]].concat();
        fs::write(dir.path().join("b.partial"), left).unwrap();
        let mut file = PartialFile::create(&path).unwrap();
        file.write(b"first, ").unwrap();
        let at = file.position();
        file.write(b"wrong and long").unwrap();
        file.go_back(at).unwrap();
        file.write(b"second").unwrap();
        assert_eq!(names(dir.path()), ["b.partial"]);
        let busy = PartialFile::create(&path).unwrap_err();
        assert!(matches!(busy, BackupError::Busy { .. }), "{busy}");
        file.finish().unwrap();
        assert_eq!(names(dir.path()), ["b"]);
        assert_eq!(fs::read(&path).unwrap(), b"first, second");
        let exists = PartialFile::create(&path).unwrap_err();
        assert!(matches!(exists, BackupError::Exists { .. }), "{exists}");
    }

    #[test]
    fn what_is_no_beginning_of_a_backup_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("b"), dir.path().join("b.partial"));
        for content in [b"precious".as_slice(), b"TIERRABE and more", b"TIERR!"] {
            fs::write(&partial, content).unwrap();
            let exists = PartialFile::create(&path).unwrap_err();
            assert!(
                matches!(&exists, BackupError::Exists { path } if *path == partial),
                "{exists}"
            );
            assert_eq!(fs::read(&partial).unwrap(), content);
        }
        // Another name of the same file.
        fs::write(&partial, b"TIERRABK of monday").unwrap();
        fs::hard_link(&partial, dir.path().join("monday")).unwrap();
        assert!(PartialFile::create(&path).is_err());
        assert_eq!(
            fs::read(dir.path().join("monday")).unwrap(),
            b"TIERRABK of monday"
        );
        fs::remove_file(&partial).unwrap();
        // A process was killed before it wrote anything, or more than this; or the power was cut.
        for left in [b"".as_slice(), b"TIER", &[0; 64]] {
            fs::write(&partial, left).unwrap();
            drop(PartialFile::create(&path).unwrap());
            assert_eq!(names(dir.path()), ["monday"]);
        }
    }

    #[test]
    fn an_unfinished_file_leaves_nothing_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let mut file = PartialFile::create(&path).unwrap();
        file.write(b"half").unwrap();
        drop(file);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        let mut file = PartialFile::create(&path).unwrap();
        file.write(b"whole").unwrap();
        // Another made a file of that name meanwhile.
        fs::write(&path, b"other").unwrap();
        let exists = file.finish().unwrap_err();
        assert!(matches!(exists, BackupError::Exists { .. }), "{exists}");
        assert_eq!(names(dir.path()), ["b"]);
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn a_full_disk_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        let mut file = PartialFile::create(&path).unwrap();
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = file.write(&[1; 5000]).unwrap_err();
        assert!(full.to_string().contains("No space left"), "{full}");
        drop(file);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn no_link_is_followed_and_no_directory_written() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("precious"), b"kept").unwrap();
        let link = dir.path().join("b.partial");
        std::os::unix::fs::symlink(dir.path().join("precious"), &link).unwrap();
        assert!(PartialFile::create(&dir.path().join("b")).is_err());
        assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"kept");
        assert!(PartialFile::create(&dir.path().join("c/")).is_err());
        assert!(PartialFile::create(dir.path()).is_err());
    }
}
