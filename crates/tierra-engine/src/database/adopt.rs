//! Turns a directory that was copied, restored or moved into a database of its own.
//!
//! Pools outside of the directory belong to the original: they are copied into the directory. Then the directory file is
//! replaced; it names a new database, these pools, and the former names that their manifests use. Then the manifests are
//! published anew. So an interruption leaves the copy unchanged, or a database that finishes its adoption when it is opened.
//!
//! Invariant: no byte of a pool that belongs to another directory is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tierra_memory::{Pool, PoolError, PoolOptions};

use crate::database::Database;
use crate::database::open::{self, OpenAccess};
use crate::database::opening;
use crate::error::OpenError;
use crate::manifest::DatabaseId;
use crate::storage::directory::{
    self, CreationState, DatabaseDirectory, TierLine, TierState, io_error,
};
use crate::storage::lock::DirectoryLock;
use crate::storage::options::DatabaseOptions;

/// Options of an adoption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptOptions {
    /// Takes over the pools of a directory that no longer exists: that directory was moved here from another file system.
    pub take: bool,
    /// Continues from the present state although a newer one is known to be missing; the newer one is then lost permanently.
    pub stale: bool,
    /// Paths of moved pools by tier name; if the directory file is lost, of all pools outside of the directory.
    pub pools: Vec<(String, PathBuf)>,
}

/// The result of an adoption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Tiers whose pools were copied, and the paths of the copies.
    pub copied: Vec<(String, PathBuf)>,
    /// Tiers whose pools now belong to this directory.
    pub taken: Vec<(String, PathBuf)>,
}

impl Database {
    /// Makes a copied, restored or moved directory a database with an identity and pools of its own. The original must be closed
    /// meanwhile. Call it again after an interruption. Blocks.
    ///
    /// # Errors [`OpenError`]: any defect of the copy remains.
    pub fn adopt(
        dir: &Path,
        options: &DatabaseOptions,
        how: &AdoptOptions,
    ) -> Result<Adopted, OpenError> {
        let directory = match opening::found(dir, options) {
            Err(error @ (OpenError::DirectoryFile { .. } | OpenError::NotADatabase { .. })) => {
                open::rebuild(dir, &how.pools, options).ok_or(error)?
            }
            found => found?,
        };
        let lock = DirectoryLock::acquire(dir)?;
        let mut directory = DatabaseDirectory::read(dir, options.recorder.as_ref())
            .ok()
            .flatten()
            .unwrap_or(directory);
        opening::unfinished(dir, directory.file().state)?;
        if directory.file().state == CreationState::Creating {
            return Err(OpenError::Unfinished {
                dir: dir.to_owned(),
            });
        }
        let mut adopted = Adopted::default();
        if directory.file().former.is_none() {
            adopted = take_over(&mut directory, options, how)?;
        }
        drop(lock);
        // Opening publishes what the directory file now says.
        drop(Self::open(dir, options)?);
        Ok(adopted)
    }
}

/// Copies pools and names the copies in the directory file.
fn take_over(
    directory: &mut DatabaseDirectory,
    options: &DatabaseOptions,
    how: &AdoptOptions,
) -> Result<Adopted, OpenError> {
    let mut adopted = Adopted::default();
    match try_to_take_over(directory, options, how, &mut adopted) {
        Ok(()) => Ok(adopted),
        Err(error) => {
            // A change that was not synced may have happened: then the copies are named, and opening goes on with the adoption.
            let dir = directory.dir();
            let read = DatabaseDirectory::read(dir, options.recorder.as_ref());
            if matches!(read, Ok(Some(read)) if read.file().former.is_none()) {
                forget(dir, &adopted);
            }
            Err(error)
        }
    }
}

fn try_to_take_over(
    directory: &mut DatabaseDirectory,
    options: &DatabaseOptions,
    how: &AdoptOptions,
    adopted: &mut Adopted,
) -> Result<(), OpenError> {
    let dir = directory.dir().to_owned();
    let mut next = directory.file().clone();
    for tier in &mut next.tiers {
        if let Some((_, path)) = how.pools.iter().find(|(name, _)| *name == tier.name) {
            tier.path = directory.written(path).map_err(io_error(path))?;
        }
    }
    if how.stale {
        next.lineage = None;
    }
    let recorder = options.recorder.as_ref();
    // The database is opened as if all pools were its own.
    let mut moved = DatabaseDirectory::without_file(&dir, recorder, next.clone());
    let here = directory::identity_of(&dir).map_err(io_error(&dir))?;
    let mut interrupted = Vec::new();
    let named: Vec<PathBuf> = next.tiers.iter().map(|tier| tier.path.clone()).collect();
    for tier in &mut next.tiers {
        let path = moved.path_of(tier);
        if moved.is_inside(&path) {
            continue;
        }
        // An addition that was interrupted: no manifest names the tier, and its pool is the original's to remove.
        if tier.state == TierState::Adding && open::is_empty(&path, options) {
            interrupted.push(tier.name.clone());
            continue;
        }
        let Some(its) = open::identity_of_pool(&moved, tier, options)? else {
            continue;
        };
        if directory::is_same(&its, &here) {
            continue;
        }
        if how.take && !open::is_there(&its) {
            tier.state = TierState::Taken;
            adopted.taken.push((tier.name.clone(), path));
            continue;
        }
        let copy = copy_pool(&dir, tier, &path, &named)?;
        tier.path = PathBuf::from(&copy);
        adopted.copied.push((tier.name.clone(), dir.join(copy)));
    }
    next.tiers.retain(|tier| !interrupted.contains(&tier.name));
    // A database that cannot be opened is not adopted.
    next.former = Some(next.database);
    moved = DatabaseDirectory::without_file(&dir, recorder, next.clone());
    let access = OpenAccess {
        degraded: options.degraded,
        read_only: true,
    };
    let pools = open::find(&moved, options, true);
    let found = open::read_manifest(&moved, pools, access)?;
    next.database = DatabaseId::random();
    if how.stale {
        next.lineage = found.published.manifest().lineage.last().copied();
    }
    drop(found);
    let changed = directory.change(|file| {
        let sequence = file.sequence;
        *file = next;
        file.sequence = sequence;
    });
    changed.map_err(|(path, source)| OpenError::Io { path, source })
}

/// Removes unused copies.
fn forget(dir: &Path, adopted: &Adopted) {
    for (_, path) in &adopted.copied {
        debug_assert!(path.starts_with(dir));
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "an unused copy could not be removed");
        }
    }
}

/// Copies a pool into the directory, durably, or finds the copy that an interrupted adoption made; returns the copy's name there.
/// What the directory file has `named` is no such copy.
fn copy_pool(
    dir: &Path,
    tier: &TierLine,
    from: &Path,
    named: &[PathBuf],
) -> Result<String, OpenError> {
    let read_only = PoolOptions {
        read_only: true,
        ..PoolOptions::default()
    };
    // The pool is not open for writing.
    let original = Pool::open(from, &read_only)?;
    let new = dir.join(format!("{}.pool.adopting", tier.name));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&new)(error)),
        // Left by an interrupted adoption.
        _ => {}
    }
    let copied = || -> io::Result<String> {
        let mut number = 1;
        let name = loop {
            let name = match number {
                1 => format!("{}.pool", tier.name),
                _ => format!("{}-{number}.pool", tier.name),
            };
            let there = dir.join(&name);
            if fs::symlink_metadata(&there).is_err() {
                copy_file(from, &new)?;
                fs::rename(&new, &there)?;
                break name;
            }
            if !named.contains(&PathBuf::from(&name)) && is_copy(from, &there)? {
                break name;
            }
            number += 1;
        };
        let synced = File::open(dir)?.sync_all();
        if synced.is_err() {
            // Report the first error.
            let _ = fs::remove_file(dir.join(&name));
        }
        synced.map(|()| name)
    };
    let copied = copied();
    drop(original);
    copied.map_err(|source| {
        // Report the first error.
        let _ = fs::remove_file(&new);
        OpenError::from(PoolError::Io {
            path: new,
            doing: "copy the pool",
            source,
        })
    })
}

/// Whether both files have the same bytes, durably.
fn is_copy(from: &Path, there: &Path) -> io::Result<bool> {
    const STEP_BYTES: usize = 1 << 20;
    if !fs::symlink_metadata(there)?.is_file() {
        return Ok(false);
    }
    let (mut from, mut there) = (File::open(from)?, File::open(there)?);
    if from.metadata()?.len() != there.metadata()?.len() {
        return Ok(false);
    }
    let mut bytes = [Vec::new(), Vec::new()];
    loop {
        for (file, bytes) in [&mut from, &mut there].into_iter().zip(&mut bytes) {
            bytes.clear();
            file.by_ref().take(STEP_BYTES as u64).read_to_end(bytes)?;
        }
        match bytes[0] == bytes[1] {
            false => return Ok(false),
            true if bytes[0].is_empty() => break,
            true => {}
        }
    }
    there.sync_all()?;
    Ok(true)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}
