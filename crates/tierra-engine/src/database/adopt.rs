//! A directory that was copied, restored or moved becomes a database of its own.
//!
//! What lies in pools outside of the directory, which belong to the original, is copied into pools in it. Then the directory file is
//! replaced, which names a new database, these pools, and what the manifests in them are still called by; then the manifests are
//! published anew. So whatever is cut short leaves the copy as it was, or a database that finishes its adoption when it is opened.
//!
//! Invariant: no byte of a pool that belongs to another directory is written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tierra_memory::{Pool, PoolError, PoolOptions};

use crate::database::Database;
use crate::database::open::{self, Access};
use crate::database::opening;
use crate::error::OpenError;
use crate::manifest::DatabaseId;
use crate::storage::directory::{self, Home, State, TierLine, TierState, io_error};
use crate::storage::lock::DirectoryLock;
use crate::storage::options::DatabaseOptions;

/// How a directory is adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptOptions {
    /// Lets it keep pools of a directory that is not there any more: this is that one, moved to another file system.
    pub take: bool,
    /// Goes on from what is there although something newer is known to be missing: that is lost for good then.
    pub stale: bool,
    /// Where pools lie that were moved, by their tiers' names; with a directory file that is lost, all that lie outside.
    pub pools: Vec<(String, PathBuf)>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Tiers whose pools were copied, and where they lie now.
    pub copied: Vec<(String, PathBuf)>,
    /// Tiers whose pools belong to this directory from now on.
    pub taken: Vec<(String, PathBuf)>,
}

impl Database {
    /// Makes a copied, restored or moved directory a database of its own, with an identity and pools of its own. The original has to
    /// be closed meanwhile. Interrupted, it is to be called again. Blocks.
    ///
    /// # Errors
    /// [`OpenError`]: what is wrong with the copy is so still.
    pub fn adopt(
        dir: &Path,
        options: &DatabaseOptions,
        how: &AdoptOptions,
    ) -> Result<Adopted, OpenError> {
        let home = match opening::found(dir, options) {
            Err(error @ (OpenError::DirectoryFile { .. } | OpenError::NotADatabase { .. })) => {
                open::rebuild(dir, &how.pools, options).ok_or(error)?
            }
            found => found?,
        };
        let lock = DirectoryLock::acquire(dir)?;
        let mut home = Home::read(dir, options.recorder.as_ref())
            .ok()
            .flatten()
            .unwrap_or(home);
        if home.file().state == State::Creating {
            return Err(OpenError::Unfinished {
                dir: dir.to_owned(),
            });
        }
        let mut adopted = Adopted::default();
        if home.file().former.is_none() {
            adopted = take_over(&mut home, options, how)?;
        }
        drop(lock);
        // Opening publishes what the directory says by now.
        drop(Self::open(dir, options)?);
        Ok(adopted)
    }
}

/// Copies pools, and has the directory name the copies.
fn take_over(
    home: &mut Home,
    options: &DatabaseOptions,
    how: &AdoptOptions,
) -> Result<Adopted, OpenError> {
    let dir = home.dir().to_owned();
    let mut next = home.file().clone();
    for tier in &mut next.tiers {
        if let Some((_, path)) = how.pools.iter().find(|(name, _)| *name == tier.name) {
            tier.path = home.written(path).map_err(io_error(path))?;
        }
    }
    if how.stale {
        next.lineage = None;
    }
    let recorder = options.recorder.as_ref();
    // As it would be opened, were all pools its own.
    let mut moved = Home::without_file(&dir, recorder, next.clone());
    let here = directory::home_of(&dir).map_err(io_error(&dir))?;
    let mut adopted = Adopted::default();
    for tier in &mut next.tiers {
        let path = moved.path_of(tier);
        if moved.is_inside(&path) {
            continue;
        }
        let Some(its) = open::home_of_pool(&moved, tier, options)? else {
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
        let copy = copy_pool(&dir, tier, &path)?;
        tier.path = PathBuf::from(&copy);
        adopted.copied.push((tier.name.clone(), dir.join(copy)));
    }
    // What cannot be opened is not adopted.
    next.former = Some(next.database);
    moved = Home::without_file(&dir, recorder, next.clone());
    let access = Access {
        degraded: options.degraded,
        read_only: true,
    };
    let pools = open::find(&moved, options, true);
    let found = open::read_manifest(&moved, pools, access);
    let found = found.inspect_err(|_| forget(&dir, &adopted))?;
    next.database = DatabaseId::random();
    if how.stale {
        next.lineage = found.published.manifest().lineage.last().copied();
    }
    drop(found);
    let changed = home.change(|file| {
        let sequence = file.sequence;
        *file = next;
        file.sequence = sequence;
    });
    changed.map_err(|(path, source)| OpenError::Io { path, source })?;
    Ok(adopted)
}

/// Removes copies that are of no use.
fn forget(dir: &Path, adopted: &Adopted) {
    for (_, path) in &adopted.copied {
        debug_assert!(path.starts_with(dir));
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "a copy that is of no use stays");
        }
    }
}

/// Copies a pool into the directory, durably; the copy's name there.
fn copy_pool(dir: &Path, tier: &TierLine, from: &Path) -> Result<String, OpenError> {
    let read_only = PoolOptions {
        read_only: true,
        ..PoolOptions::default()
    };
    // No writer has it open.
    let original = Pool::open(from, &read_only)?;
    let new = dir.join(format!("{}.pool.adopting", tier.name));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&new)(error)),
        // Of an adoption that was interrupted.
        _ => {}
    }
    let copied = copy_file(from, &new).and_then(|()| {
        let name = (1..).find_map(|number| {
            let name = match number {
                1 => format!("{}.pool", tier.name),
                _ => format!("{}-{number}.pool", tier.name),
            };
            let is_free = fs::symlink_metadata(dir.join(&name)).is_err();
            is_free.then_some(name)
        });
        let name = name.unwrap_or_default();
        fs::rename(&new, dir.join(&name))?;
        File::open(dir)?.sync_all()?;
        Ok(name)
    });
    drop(original);
    copied.map_err(|source| {
        // The first error is the one to tell.
        let _ = fs::remove_file(&new);
        OpenError::from(PoolError::Io {
            path: new,
            doing: "copy the pool",
            source,
        })
    })
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}
