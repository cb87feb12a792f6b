//! The demo's directory: the database of an earlier demo is replaced, any other is never changed.

use std::{fs, io, path::Path};

use tierra::engine::OpenError;

use crate::cli::{CommandError, open::OpenOptions};

/// The file that marks a demo's database.
const MARK: &str = "made-by-tierra-demo";

/// Makes `dir` missing or empty.
pub(super) fn clear(dir: &Path, open: &OpenOptions) -> Result<(), CommandError> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CommandError::file("read", dir, error)),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    if !dir.join(MARK).exists() {
        return Err(CommandError::NotADemo(dir.to_owned()));
    }
    // It fails if a shell has the database open, because the shell must not lose its files. A demo that was killed early may
    // have left no database; that is not an error.
    if let Err(CommandError::Database(error)) = open.open(dir)
        && matches!(*error, tierra::Error::Open(OpenError::Locked { .. }))
    {
        return Err(CommandError::Database(error));
    }
    fs::remove_dir_all(dir).map_err(|error| CommandError::file("remove", dir, error))
}

/// Marks the database in `dir` as the demo's.
pub(super) fn mark(dir: &Path) -> Result<(), CommandError> {
    let file = dir.join(MARK);
    fs::write(&file, "").map_err(|error| CommandError::file("create", file, error))
}
