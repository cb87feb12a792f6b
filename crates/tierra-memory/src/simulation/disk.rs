//! Images as files: those of the pools, and the directory that they lie in, if that is recorded.
//!
//! Invariant: what recovery did to an image, the next one does not show.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::files::{Content, Variant};
use crate::recording::Touched;

/// The file of a pool.
pub(super) struct Disk {
    pub(super) path: PathBuf,
    /// `None` before the pool is made.
    file: Option<File>,
    /// The length the file has now.
    len_bytes: u64,
}

impl Disk {
    pub(super) fn empty(path: &Path) -> io::Result<Disk> {
        let mut disk = Disk {
            path: path.to_owned(),
            file: None,
            len_bytes: 0,
        };
        disk.remove()?;
        Ok(disk)
    }

    /// Makes the file, in place of the one that may be there, of the first `len_bytes` of `bytes`.
    pub(super) fn make(&mut self, bytes: &[u8], len_bytes: u64) -> io::Result<()> {
        self.remove()?;
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true);
        let file = file.open(&self.path)?;
        file.write_all_at(&bytes[..len_bytes as usize], 0)?;
        self.file = Some(file);
        self.len_bytes = len_bytes;
        Ok(())
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.file = None;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        if let Some(file) = &self.file
            && len_bytes != self.len_bytes
        {
            file.set_len(len_bytes)?;
            self.len_bytes = len_bytes;
        }
        Ok(())
    }

    /// Writes what the file reaches to.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.file {
            Some(file) if at < self.len_bytes => file.write_all_at(bytes, at),
            _ => Ok(()),
        }
    }

    /// Takes back what recovery, or what came after it, did: it may have written, grown the file, removed
    /// it or made another.
    pub(super) fn put_back(&mut self, durable: &[u8], touched: &Touched) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let is_same = match (file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(ours), Ok(found)) => (ours.dev(), ours.ino()) == (found.dev(), found.ino()),
            _ => false,
        };
        if !is_same {
            return self.make(durable, self.len_bytes);
        }
        file.set_len(self.len_bytes)?;
        for range in &touched.written {
            let end = range.end.min(self.len_bytes).min(durable.len() as u64);
            if range.start < end {
                let bytes = &durable[range.start as usize..end as usize];
                file.write_all_at(bytes, range.start)?;
            }
        }
        Ok(())
    }
}

/// A directory whose files are those of an image. Pools lie elsewhere, and have their names here by links.
pub(super) struct Folder {
    path: PathBuf,
    /// Where the files of pools lie.
    parked: PathBuf,
}

impl Folder {
    pub(super) fn new(path: &Path) -> io::Result<Folder> {
        let parked = path.with_extension("parked");
        fs::create_dir_all(path)?;
        fs::create_dir_all(&parked)?;
        let path = path.to_owned();
        Ok(Folder { path, parked })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file of a pool lies.
    pub(super) fn parked(&self, pool: u8) -> PathBuf {
        self.parked.join(pool.to_string())
    }

    /// Makes the directory what `files` says.
    pub(super) fn show(&self, files: &Variant) -> io::Result<()> {
        let mut missing: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let file = name.to_str().and_then(|name| files.get_key_value(name));
            if let Some((name, content)) = file
                && self.is(&entry.path(), content)?
            {
                missing.remove(name.as_str());
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        for name in missing {
            let path = self.path.join(name);
            match &files[name] {
                Content::Bytes(bytes) => fs::write(path, bytes)?,
                Content::Pool(pool) => fs::hard_link(self.parked(*pool), path)?,
            }
        }
        Ok(())
    }

    fn is(&self, path: &Path, content: &Content) -> io::Result<bool> {
        let found = fs::symlink_metadata(path)?;
        Ok(match content {
            Content::Bytes(bytes) => {
                found.is_file()
                    && found.nlink() == 1
                    && found.len() == bytes.len() as u64
                    && fs::read(path)? == **bytes
            }
            Content::Pool(pool) => {
                let ours = fs::metadata(self.parked(*pool))?;
                (ours.dev(), ours.ino()) == (found.dev(), found.ino())
            }
        })
    }
}
