//! A database's directory: what lies in it, and the checks before anything is believed.
//!
//! ```text
//! DIR/LOCK       locked while open; the holder's process id
//! DIR/far.pool   the far tier's pool, or
//! DIR/far.path   the path of that pool where it lies elsewhere (tmpfs, a DAX file system)
//! DIR/calibration  group sizes measured on this machine, if somebody did
//! DIR/tierra.toml  options, if somebody wrote them down; read by whoever opens the database
//! ```
//!
//! Invariant: a directory that is refused is left as it was found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;

const CONFIG_FILE: &str = "tierra.toml";
const POOL_FILE: &str = "far.pool";
const POOL_PATH_FILE: &str = "far.path";

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Whether a database could be created here: nothing there, or a directory that is empty but for
/// the options with which it is to be opened.
pub(crate) fn is_vacant(dir: &Path) -> Result<bool, OpenError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                if entry.map_err(io_error(dir))?.file_name() != CONFIG_FILE {
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

/// Makes the directory, and says where its pool goes. `elsewhere` is remembered in it.
pub(crate) fn prepare(dir: &Path, elsewhere: Option<&Path>) -> Result<PathBuf, OpenError> {
    if !is_vacant(dir)? {
        return Err(OpenError::Exists {
            dir: dir.to_owned(),
        });
    }
    fs::create_dir_all(dir).map_err(io_error(dir))?;
    let Some(elsewhere) = elsewhere else {
        return Ok(dir.join(POOL_FILE));
    };
    let pool = std::path::absolute(elsewhere).map_err(io_error(elsewhere))?;
    let Some(text) = pool.to_str() else {
        return Err(OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "the pool's path is not UTF-8",
        });
    };
    let remember = dir.join(POOL_PATH_FILE);
    fs::write(&remember, format!("{text}\n")).map_err(io_error(&remember))?;
    Ok(pool)
}

/// Undoes [`prepare`] after the pool could not be created. Errors are ignored: the first one
/// counts.
pub(crate) fn abandon(dir: &Path) {
    for file in [POOL_PATH_FILE, crate::lock::LOCK_FILE] {
        let _ = fs::remove_file(dir.join(file));
    }
    let _ = fs::remove_dir(dir);
}

/// Where the pool of an existing database lies.
pub(crate) fn find_pool(dir: &Path) -> Result<PathBuf, OpenError> {
    let not_a_database = |why| OpenError::NotADatabase {
        dir: dir.to_owned(),
        why,
    };
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => return Err(not_a_database("it is no directory")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing {
                dir: dir.to_owned(),
            });
        }
        Err(error) => return Err(io_error(dir)(error)),
    }
    let here = dir.join(POOL_FILE);
    if here.try_exists().map_err(io_error(&here))? {
        return Ok(here);
    }
    let remembered = dir.join(POOL_PATH_FILE);
    match fs::read_to_string(&remembered) {
        Ok(path) => match path.strip_suffix('\n') {
            Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
            _ => Err(not_a_database(
                "far.path does not hold a path and a line end",
            )),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(not_a_database("it has neither far.pool nor far.path"))
        }
        Err(error) => Err(io_error(&remembered)(error)),
    }
}
