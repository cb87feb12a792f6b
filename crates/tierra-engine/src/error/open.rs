//! Why a database cannot be created, opened or adopted.

use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::{PoolError, TopologyError};

use super::{DamageError, LogError, StorageError};
use crate::manifest::ManifestError;

/// A database could not be created or opened. Its directory is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such directory.
    #[error("{0}: no such database directory: check the path, or make a new database there: tierra sql --create --db {0}", dir.display())]
    Missing {
        /// The requested directory.
        dir: PathBuf,
    },
    /// Not a database.
    #[error(
        "{0}: not a Tierra database ({why}); in an empty directory, `tierra sql --create --db {0}` makes one",
        dir.display()
    )]
    NotADatabase {
        /// The requested directory.
        dir: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Creating a database failed because the directory is not empty.
    #[error("{}: not empty: open the database there, or choose another directory", dir.display())]
    Exists {
        /// The requested directory.
        dir: PathBuf,
    },
    /// Another process, or this one, has the database open.
    #[error("{}: open in another process (process id {holder}): close it there first", dir.display())]
    Locked {
        /// The requested directory.
        dir: PathBuf,
        /// The process id in the lock file.
        holder: String,
    },
    /// An error of the operating system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The pool cannot be created or opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The machine's memory could not be surveyed.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The manifest cannot be trusted.
    #[error("{}: {source}", dir.display())]
    Manifest {
        /// The database.
        dir: PathBuf,
        /// What is wrong.
        source: ManifestError,
    },
    /// The newest manifest is damaged in all tiers.
    #[error(
        "{}: its newest state, version {version}, cannot be read: {source}; restore the database from a backup{}",
        dir.display(), way_back(dir, *before)
    )]
    Unreadable {
        /// The database.
        dir: PathBuf,
        /// The version of that state.
        version: u64,
        /// The previous version, if it is known.
        before: Option<u64>,
        /// What is wrong.
        source: Box<OpenError>,
    },
    /// Both the directory file and its copy are damaged, and the pools in the directory do not suffice to rebuild them.
    #[error(
        "{}:{line}: {what}; its copy is damaged, too. Restore one of them from a backup, or rebuild both from the pools: \
         tierra adopt {} --moved TIER=FILE for each pool that lies elsewhere",
        path.display(), dir_of(path)
    )]
    DirectoryFile {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Another version of Tierra wrote the directory file.
    #[error(
        "{}: format version {found}, but this Tierra reads only version 1: open the database with the Tierra that wrote it",
        path.display()
    )]
    DirectoryVersion {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// A file of the database is a symbolic link.
    #[error("{}: a symbolic link, which is not followed: remove it", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The creation was interrupted.
    #[error(
        "{0}: its creation was interrupted before anything was stored: `tierra sql --create --db {0}` goes on with it",
        dir.display()
    )]
    Unfinished {
        /// The database.
        dir: PathBuf,
    },
    /// The database is being restored from a backup, or that was interrupted.
    #[error(
        "{0}: it is being restored from a backup, or that was interrupted and nothing of it counts: run `tierra restore FILE --db {0}` \
         again, which begins anew, or remove the directory",
        dir.display()
    )]
    Restoring {
        /// The database.
        dir: PathBuf,
    },
    /// A salvage copies into the database, or that was interrupted.
    #[error(
        "{0}: a salvage copies into it, or that was interrupted and not all is there: run `tierra salvage DIR {0}` again, which begins \
         anew, or remove the directory",
        dir.display()
    )]
    Salvaging {
        /// The database.
        dir: PathBuf,
    },
    /// A pool outside of the directory belongs to another directory.
    #[error(
        "{}: its pool {} belongs to the database in {}{}",
        dir.display(), pool.display(), directory.display(), what_to_adopt(dir, *is_there)
    )]
    Elsewhere {
        /// The directory to be opened.
        dir: PathBuf,
        /// The pool.
        pool: PathBuf,
        /// The directory that it belongs to.
        directory: PathBuf,
        /// Whether that directory exists.
        is_there: bool,
    },
    /// Tiers are missing, and the options do not allow that.
    #[error(
        "{}: tiers are missing: {missing}; bring them back, or open without them: --degraded (in {}: degraded = true); \
         data that is only there cannot be read then",
        dir.display(), dir.join("tierra.toml").display()
    )]
    Degraded {
        /// The database.
        dir: PathBuf,
        /// The tiers, each with what was found in its place.
        missing: String,
    },
    /// The state found is known to be older than what was committed.
    #[error(
        "{0}: {1} is not the newest version: it has version {version}, and newer ones were written ({missing}); bring those tiers \
         back. If they are lost, continue from this version: tierra adopt {0} --stale",
        dir.display(), pool.display()
    )]
    Stale {
        /// The database.
        dir: PathBuf,
        /// The newest pool found.
        pool: PathBuf,
        /// Its version.
        version: u64,
        /// The tiers that are missing.
        missing: String,
    },
    /// The pools were copied at different moments.
    #[error(
        "{}: {} has version {version} and {} version {other_version}: they were not copied at one moment; copy them while the \
         database is closed",
        dir.display(), newest.display(), other.display()
    )]
    Torn {
        /// The database.
        dir: PathBuf,
        /// The pool with the newest version.
        newest: PathBuf,
        /// That version.
        version: u64,
        /// Another pool.
        other: PathBuf,
        /// Its version.
        other_version: u64,
    },
    /// A database could not be adopted.
    #[error("{}: its adoption is not finished: {source}; run `tierra adopt {}` again", dir.display(), dir.display())]
    Adoption {
        /// The database.
        dir: PathBuf,
        /// What failed.
        source: Box<StorageError>,
    },
    /// Two tiers were each written without the other.
    #[error(
        "{}: the pools {} and {} were both written to while the other was missing: keep one of the two, and move the other away", dir.display(), newest.display(), other.display()
    )]
    Diverged {
        /// The database.
        dir: PathBuf,
        /// The pool with the most publications.
        newest: PathBuf,
        /// Another pool that does not lead to it.
        other: PathBuf,
    },
    /// A tier's pool belongs to another database.
    #[error(
        "{}: the pool {} of tier {tier:?} belongs to another database: put the right file back, or move it away", dir.display(), path.display()
    )]
    OtherPool {
        /// The database.
        dir: PathBuf,
        /// The tier.
        tier: String,
        /// The file.
        path: PathBuf,
    },
    /// Logs continue after the newest manifest found: a newer one is lost.
    #[error(
        "{}: table {table:?}: {source}: a newer state of the database was lost with the pool or the page that held it; put back what is \
         missing, restore the database from a backup, or go back to what is there: tierra repair --db {} --to-version N", dir.display(), dir.display()
    )]
    Ahead {
        /// The database.
        dir: PathBuf,
        /// A table with such a log.
        table: String,
        /// What was found.
        source: LogError,
    },
    /// An older version of the database could not be made the newest.
    #[error("{}: could not go back: {source}; it can be tried again", dir.display())]
    GoBack {
        /// The database.
        dir: PathBuf,
        /// What went wrong.
        source: Box<StorageError>,
    },
    /// A table cannot be repaired because its pool fails writes.
    #[error("{}: table {table:?}: {source}", dir.display())]
    Table {
        /// The database.
        dir: PathBuf,
        /// The table.
        table: String,
        /// What is wrong.
        source: DamageError,
    },
}

fn dir_of(path: &Path) -> std::path::Display<'_> {
    path.parent().unwrap_or(path).display()
}

fn way_back(dir: &Path, before: Option<u64>) -> String {
    let dir = dir.display();
    before.map_or_else(String::new, |before| {
        format!(", or go back to version {before}, as far as that is still there: tierra repair --db {dir} --to-version {before}")
    })
}

fn what_to_adopt(dir: &Path, is_there: bool) -> String {
    let dir = dir.display();
    match is_there {
        true => format!(": open that one, or give this copy pools of its own: tierra adopt {dir}"),
        false => format!(
            ", which is not there any more: if this is that directory, moved, let it keep its pools: tierra adopt {dir} --take; \
             if it is a copy, give it pools of its own: tierra adopt {dir}"
        ),
    }
}
