//! Folders for an experiment's files, which do not outlive their lab for long.
//!
//! A lab removes its folder at its end. A killed lab cannot. So a folder holds a file that is locked while its lab lives, and
//! every lab that starts removes the folders beside its own whose file is not locked.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::error::{At, LabError};

const PREFIX: &str = "tierra-lab-";
const LOCK: &str = "lock";

/// A folder of this lab.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    /// Locked while it is open, which is until this process ends in any way.
    _lock: File,
}

impl Scratch {
    /// A new folder in `parent`. Folders that killed labs left there are removed.
    pub(crate) fn new(parent: &Path) -> Result<Scratch, LabError> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(parent)
            .at(parent)?;
        // Locked before it gets its name: an unlocked file means that its lab has ended.
        let unnamed = folder.path().join("lock.new");
        let lock = File::create(&unnamed).at(&unnamed)?;
        lock.lock().at(&unnamed)?;
        fs::rename(&unnamed, folder.path().join(LOCK)).at(folder.path())?;
        Ok(Scratch {
            folder,
            _lock: lock,
        })
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes folders of killed labs. Those that cannot be read or removed belong to another user and stay.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let folder = entry.path();
        let lock = File::open(folder.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_lab_left_goes_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("tierra-lab-killed");
        let other = parent.path().join("tierra-lab-without-a-lock");
        for folder in [&left, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("data"), "x").unwrap();
        }
        fs::write(left.join(LOCK), "").unwrap();
        let in_use = Scratch::new(parent.path()).unwrap();
        assert!(!left.exists() && other.exists());
        let second = Scratch::new(parent.path()).unwrap();
        assert!(in_use.path().exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
