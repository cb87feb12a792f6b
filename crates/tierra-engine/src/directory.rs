//! A database's directory: what lies in it, and the checks before anything is believed.
//!
//! ```text
//! DIR/LOCK       locked while open; the holder's process id
//! DIR/far.pool   the far tier's pool, or
//! DIR/far.path   the path of that pool where it lies elsewhere (tmpfs, a DAX file system)
//! DIR/tiers      further tiers: a line for each, its name, a blank, and the path of its pool
//! DIR/calibration  group sizes measured on this machine, if somebody did
//! DIR/tierra.toml  options, if somebody wrote them down; read by whoever opens the database
//! ```
//!
//! Invariant: a directory that is refused is left as it was found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::tiers::FIRST_NAME;

const CONFIG_FILE: &str = "tierra.toml";
const POOL_FILE: &str = "far.pool";
const POOL_PATH_FILE: &str = "far.path";
const TIERS_FILE: &str = "tiers";

/// Where the pool of a tier should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolPlace {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

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

/// Where the pools of an existing database lie, the first tier's first.
pub(crate) fn find_pools(dir: &Path) -> Result<Vec<PoolPlace>, OpenError> {
    let path = find_first(dir);
    let others = read_tiers(dir)?;
    let path = match path {
        // The other tiers may have all that was there.
        Err(OpenError::NotADatabase { .. }) if !others.is_empty() => dir.join(POOL_FILE),
        path => path?,
    };
    let name = FIRST_NAME.to_owned();
    let first = PoolPlace { name, path };
    Ok(std::iter::once(first).chain(others).collect())
}

/// The further tiers that the directory names.
pub(crate) fn read_tiers(dir: &Path) -> Result<Vec<PoolPlace>, OpenError> {
    let path = dir.join(TIERS_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(io_error(&path)(error)),
    };
    let mut places: Vec<PoolPlace> = Vec::new();
    for line in text.lines() {
        let place = line.split_once(' ').filter(|(name, path)| {
            is_tier_name(name)
                && *name != FIRST_NAME
                && !path.is_empty()
                && places.iter().all(|place| place.name != *name)
        });
        let Some((name, path)) = place else {
            return Err(OpenError::TiersFile {
                path,
                line: line.to_owned(),
            });
        };
        places.push(PoolPlace {
            name: name.to_owned(),
            path: PathBuf::from(path),
        });
    }
    Ok(places)
}

/// Names the further tiers, all at once: what was named before is there, or this.
pub(crate) fn write_tiers(dir: &Path, places: &[PoolPlace]) -> Result<(), (PathBuf, io::Error)> {
    let (path, next) = (dir.join(TIERS_FILE), dir.join("tiers.new"));
    let mut text = String::new();
    for PoolPlace { name, path } in places {
        let Some(path) = path.to_str().filter(|path| !path.contains('\n')) else {
            let error = io::Error::other("a pool's path has to be UTF-8, in one line");
            return Err((path.clone(), error));
        };
        text.push_str(&format!("{name} {path}\n"));
    }
    let written = fs::write(&next, text)
        .and_then(|()| fs::File::open(&next)?.sync_all())
        .and_then(|()| fs::rename(&next, &path))
        .and_then(|()| fs::File::open(dir)?.sync_all());
    written.map_err(|error| (path, error))
}

/// Whether a tier can have this name.
pub(crate) fn is_tier_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Where the pool of the first tier lies.
fn find_first(dir: &Path) -> Result<PathBuf, OpenError> {
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
