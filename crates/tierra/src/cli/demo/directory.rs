//! The demo's directory: an earlier demo's database is replaced, anybody else's never touched.

use std::{fs, io, path::Path};

use tierra::engine::OpenError;

use crate::cli::{CommandError, open::OpenOptions};

/// The file that tells a demo's database from any other.
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
    // Fails if a shell still has it open, which must not lose its files. A demo that was killed
    // early may have left no database: that is no reason to refuse.
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
