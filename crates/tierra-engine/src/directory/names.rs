//! Small files of one directory. No link is followed, and what is made is its owner's alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tierra_memory::simulation::Recorder;

const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;

/// A directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn new(path: &Path, _recorder: Option<&Recorder>) -> Directory {
        Directory {
            path: path.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .custom_flags(NO_LINK)
            .open(self.join(name))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.custom_flags(NO_LINK).open(self.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.join(name))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.join(from), self.join(to))
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        match self.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let replaced = self
            .write_new(&new, bytes)
            .and_then(|()| self.rename(&new, name));
        if replaced.is_err() {
            // The first error is the one to tell.
            let _ = self.remove(&new);
        }
        replaced.and_then(|()| self.sync())
    }
}
