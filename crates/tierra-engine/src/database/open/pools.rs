//! Finds the pools of a database: looks where the directory file says, opens them, and rejects those of other databases.
//!
//! A pool inside the directory is copied and moved with it. One outside belongs to one directory, which its manifest names, so a
//! copy of the directory cannot write to the original's pools. A tier is identified by its pool's number, regardless of the path.
//!
//! Invariant: nothing here writes.

use std::path::PathBuf;
use std::sync::Arc;

use tierra_memory::{Extent, Pool, PoolError, PoolOptions};

use crate::error::OpenError;
use crate::manifest::{DatabaseId, DirectoryIdentity, Manifest};
use crate::storage::access::Access;
use crate::storage::directory::{
    self, CreationState, DatabaseDirectory, DirectoryFile, TierLine, TierState,
};
use crate::storage::extent::Owner;
use crate::storage::options::DatabaseOptions;
use crate::storage::tier::Tier;
use crate::storage::tiers::{MissingTier, Tiers};

/// A pool that the directory file names, and the result of opening it.
pub(crate) struct FoundPool {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) state: TierState,
    /// Whether it lies inside the directory.
    pub(crate) is_inside: bool,
    pub(crate) opened: Result<Arc<Pool>, PoolError>,
    pub(crate) options: PoolOptions,
}

/// A pool and the manifest that it publishes.
pub(super) struct Candidate {
    pub(super) pool: Arc<Pool>,
    pub(super) root: Extent,
    pub(super) manifest: Manifest,
}

/// Opens the pools that the directory file names, in its order.
pub(crate) fn find(
    directory: &DatabaseDirectory,
    options: &DatabaseOptions,
    read_only: bool,
) -> Vec<FoundPool> {
    let open = |tier: &TierLine| {
        let path = directory.path_of(tier);
        let options = PoolOptions {
            read_only,
            ..directory.pool_options(&tier.name, &path, options)
        };
        FoundPool {
            name: tier.name.clone(),
            state: tier.state,
            is_inside: directory.is_inside(&path),
            opened: Pool::open(&path, &options),
            path,
            options,
        }
    };
    directory.file().tiers.iter().map(open).collect()
}

/// Whether the creation of the database was interrupted before anything was stored.
pub(crate) fn is_unfinished(directory: &DatabaseDirectory, found: &[FoundPool]) -> bool {
    let is_empty = |found: &FoundPool| match &found.opened {
        Ok(pool) => pool.root().is_none(),
        Err(error) => is_loss(error),
    };
    directory.file().state == CreationState::Creating && found.iter().all(is_empty)
}

/// Whether the error counts as the loss of the pool, so that others may replace it. Errors that may be temporary, or that depend
/// on permissions, are no loss: they are reported.
pub(super) fn is_loss(error: &PoolError) -> bool {
    use rustix::io::Errno;
    match error {
        PoolError::Missing { .. }
        | PoolError::Device { .. }
        | PoolError::NotAPool { .. }
        | PoolError::Damaged { .. }
        | PoolError::LostPublication { .. }
        | PoolError::Truncated { .. } => true,
        PoolError::Io { source, .. } => {
            let losses = [
                Errno::IO,
                Errno::NXIO,
                Errno::NODEV,
                Errno::REMOTEIO,
                Errno::STALE,
                Errno::TIMEDOUT,
                Errno::BADMSG,
                Errno::HWPOISON,
                Errno::NOTDIR,
                Errno::SHUTDOWN,
                Errno::UCLEAN,
            ];
            let code = source.raw_os_error();
            losses
                .iter()
                .any(|errno| code == Some(errno.raw_os_error()))
        }
        _ => false,
    }
}

/// The manifest that a pool publishes, and its extent.
pub(super) fn read_root(
    directory: &DatabaseDirectory,
    pool: &Pool,
) -> Result<(Extent, Manifest), OpenError> {
    let dir = || directory.dir().to_owned();
    let Some(root) = pool.root() else {
        return Err(OpenError::NotADatabase {
            dir: dir(),
            why: "its creation was interrupted",
        });
    };
    if pool.verify_extent(root)? != Owner::Manifest.tag() {
        return Err(OpenError::NotADatabase {
            dir: dir(),
            why: "its pool holds something else",
        });
    }
    let manifest = Manifest::decode(pool.bytes(root));
    let manifest = manifest.map_err(|source| OpenError::Manifest { dir: dir(), source })?;
    Ok((root, manifest))
}

/// The error for a pool whose newest manifest is unreadable and has no copy in another tier. It says what to do.
pub(super) fn unreadable(
    directory: &DatabaseDirectory,
    pool: &Pool,
    source: OpenError,
) -> OpenError {
    match source {
        OpenError::Pool(_) | OpenError::Manifest { .. } => OpenError::Unreadable {
            dir: directory.dir().to_owned(),
            version: pool.version(),
            before: pool.version_before(),
            source: Box::new(source),
        },
        other => other,
    }
}

/// Checks that the database may use a pool with this manifest.
pub(super) fn check_owner(
    directory: &DatabaseDirectory,
    here: &DirectoryIdentity,
    found: &FoundPool,
    manifest: &Manifest,
) -> Result<(), OpenError> {
    let DirectoryFile {
        database, former, ..
    } = *directory.file();
    if manifest.database != database && Some(manifest.database) != former {
        return Err(OpenError::OtherPool {
            dir: directory.dir().to_owned(),
            tier: found.name.clone(),
            path: found.path.clone(),
        });
    }
    check_identity(directory, here, found, &manifest.directory_identity)
}

/// Checks that the database may use a pool that belongs to that directory.
pub(super) fn check_identity(
    directory: &DatabaseDirectory,
    here: &DirectoryIdentity,
    found: &FoundPool,
    its: &DirectoryIdentity,
) -> Result<(), OpenError> {
    if found.is_inside || found.state == TierState::Taken || directory::is_same(its, here) {
        return Ok(());
    }
    Err(OpenError::Elsewhere {
        dir: directory.dir().to_owned(),
        pool: found.path.clone(),
        directory: its.path.clone(),
        is_there: is_there(its),
    })
}

/// The directory that a pool belongs to; `None` if the pool is lost.
///
/// # Errors
/// [`OpenError::OtherPool`], or why it cannot be opened.
pub(crate) fn identity_of_pool(
    directory: &DatabaseDirectory,
    tier: &TierLine,
    options: &DatabaseOptions,
) -> Result<Option<DirectoryIdentity>, OpenError> {
    let options = PoolOptions {
        read_only: true,
        machine: options.machine.clone(),
        ..PoolOptions::default()
    };
    let path = directory.path_of(tier);
    let pool = match Pool::open(&path, &options) {
        Ok(pool) => pool,
        Err(error) if is_loss(&error) && !matches!(error, PoolError::Device { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let (_, manifest) = read_root(directory, &pool)?;
    match manifest.database == directory.file().database {
        true => Ok(Some(manifest.directory_identity)),
        false => Err(OpenError::OtherPool {
            dir: directory.dir().to_owned(),
            tier: tier.name.clone(),
            path,
        }),
    }
}

/// Whether a pool has never published anything, or its creation was interrupted before it was one.
pub(crate) fn is_empty(path: &std::path::Path, options: &DatabaseOptions) -> bool {
    let options = PoolOptions {
        read_only: true,
        machine: options.machine.clone(),
        ..PoolOptions::default()
    };
    match Pool::open(path, &options) {
        Ok(pool) => pool.root().is_none(),
        Err(PoolError::Missing { .. } | PoolError::NotAPool { .. }) => true,
        Err(_) => false,
    }
}

/// Whether a pool's manifest names this directory.
pub(crate) fn is_of(directory: &DatabaseDirectory, pool: &Pool) -> bool {
    let here = directory::identity_of(directory.dir());
    let manifest = read_root(directory, pool);
    matches!((here, manifest), (Ok(here), Ok((_, manifest))) if directory::is_same(&manifest.directory_identity, &here))
}

/// Whether a directory still exists at its path.
pub(crate) fn is_there(directory: &DirectoryIdentity) -> bool {
    directory::identity_of(&directory.path).is_ok_and(|found| directory::is_same(&found, directory))
}

/// How scans reach a tier's blocks, by the directory file; in place if its pool now lies where that cannot be done.
fn access_of(directory: &DatabaseDirectory, name: &str, pool: &Pool) -> Access {
    let lines = &directory.file().tiers;
    let line = lines.iter().find(|line| line.name == name);
    let access = line.map_or_else(Access::default, |line| line.access);
    match access.check(pool) {
        Ok(()) => access,
        Err(error) => {
            tracing::warn!(tier = name, %error, "the tier is read in place");
            Access::InPlace
        }
    }
}

/// Matches pools to tiers by the pool's number. Pools of no tier of the manifest are left alone: their addition, or the removal
/// of their tier, was interrupted.
pub(super) fn match_tiers(
    directory: &DatabaseDirectory,
    manifest: &Manifest,
    mut pools: Vec<(String, PathBuf, Arc<Pool>)>,
    failures: &[(String, PathBuf, OpenError)],
) -> Tiers {
    let mut tiers = Tiers::default();
    for entry in &manifest.tiers {
        let (id, name) = (entry.id, Arc::from(&*entry.name));
        let found = pools
            .iter()
            .position(|(_, _, pool)| pool.id() == entry.pool_id);
        if let Some(at) = found {
            let (_, _, pool) = pools.swap_remove(at);
            let access = access_of(directory, &name, &pool);
            tiers.open.push(Tier::new(id, name, pool, access));
            continue;
        }
        let failure = failures.iter().find(|(name, _, _)| *name == entry.name);
        let line = directory
            .file()
            .tiers
            .iter()
            .find(|tier| tier.name == entry.name);
        let why = match (failure, line) {
            (Some((_, _, error)), _) => error.to_string(),
            (None, Some(line)) => {
                format!(
                    "{}: the pool of another tier",
                    directory.path_of(line).display()
                )
            }
            (None, None) => "the directory does not say where it is".to_owned(),
        };
        tiers.missing.push(MissingTier {
            id,
            name,
            pool_id: entry.pool_id,
            why: why.into(),
        });
    }
    for (name, path, _) in pools {
        tracing::warn!(tier = name, path = %path.display(), "a pool of no tier of the database is left alone");
    }
    tiers
}

/// Rebuilds a directory file of which both copies are lost from the pools in the directory and the given ones. They must all
/// belong to one database and be all that its newest manifest names. If some say that they belong to this directory, others are left
/// alone: an adoption that was interrupted leaves copies of another database's.
pub(crate) fn rebuild(
    dir: &std::path::Path,
    given: &[(String, PathBuf)],
    options: &DatabaseOptions,
) -> Option<DatabaseDirectory> {
    let read_only = PoolOptions {
        read_only: true,
        machine: options.machine.clone(),
        ..PoolOptions::default()
    };
    let recorder = options.recorder.as_ref();
    let nothing = DirectoryFile::new(DatabaseId::default());
    let directory = DatabaseDirectory::without_file(dir, recorder, nothing);
    let entries = std::fs::read_dir(dir).ok()?;
    let inside = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let paths = inside.chain(given.iter().map(|(_, path)| path.clone()));
    let mut found = Vec::new();
    for path in paths.filter(|path| path.is_file()) {
        if let Ok(pool) = Pool::open(&path, &read_only)
            && let Ok((_, manifest)) = read_root(&directory, &pool)
        {
            found.push((path, pool.id(), manifest));
        }
    }
    let here = directory::identity_of(dir).ok()?;
    let of_here = found
        .iter()
        .find(|(_, _, manifest)| directory::is_same(&manifest.directory_identity, &here));
    if let Some(database) = of_here.map(|(_, _, manifest)| manifest.database) {
        found.retain(|(_, _, manifest)| manifest.database == database);
    }
    let (_, _, newest) = found
        .iter()
        .max_by_key(|(_, _, manifest)| manifest.version)?;
    let is_ours =
        |manifest: &Manifest| manifest.database == newest.database && newest.continues(manifest);
    if !found.iter().all(|(_, _, manifest)| is_ours(manifest)) {
        return None;
    }
    let line = |tier: &crate::manifest::TierEntry| {
        let mut found = found.iter();
        let (path, ..) = found.find(|(_, pool_id, _)| *pool_id == tier.pool_id)?;
        Some(TierLine {
            name: tier.name.clone(),
            pool_id: tier.pool_id,
            state: TierState::There,
            access: Access::default(),
            path: directory.written(path).ok()?,
        })
    };
    let tiers: Option<Vec<TierLine>> = newest.tiers.iter().map(line).collect();
    let file = DirectoryFile {
        state: CreationState::Ready,
        lineage: newest.lineage.last().copied(),
        tiers: tiers?,
        ..DirectoryFile::new(newest.database)
    };
    tracing::warn!(dir = %dir.display(), "the directory file is lost: it is rebuilt from the pools");
    Some(DatabaseDirectory::without_file(dir, recorder, file))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_may_pass_by_itself_is_no_loss() {
        let of = |errno: rustix::io::Errno| {
            is_loss(&PoolError::Io {
                path: "p".into(),
                doing: "open the pool",
                source: io::Error::from(errno),
            })
        };
        use rustix::io::Errno;
        for errno in [Errno::IO, Errno::NODEV, Errno::STALE] {
            assert!(of(errno), "{errno}");
        }
        for errno in [
            Errno::ACCESS,
            Errno::PERM,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::INTR,
        ] {
            assert!(!of(errno), "{errno}");
        }
    }
}
