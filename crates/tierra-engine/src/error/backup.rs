//! Why a backup cannot be written, read or restored.

use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use tierra_memory::PoolError;

use super::{OpenError, StorageError, UnavailableError};
use crate::manifest::ManifestError;

/// A backup could not be written, read or restored. Nothing is left behind, and the database, or the backup, is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The name of the file is taken.
    #[error("{}: there already: a backup replaces no file; choose another name, or remove that file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The name is one of the database's own.
    #[error("{}: the database keeps this name for itself: choose another one, outside its directory", path.display())]
    OwnFile {
        /// The file.
        path: PathBuf,
    },
    /// The name under which the file is written is in use.
    #[error("{}: another backup is being written there: choose another name", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A backup could not be sent, or did not arrive.
    #[error("the backup did not get through: {source}")]
    Stream {
        /// What went wrong on the way.
        source: io::Error,
    },
    /// Bytes to be backed up match their checksum in no copy.
    #[error(
        "table {table:?}: no copy of extent {extent} matches its checksum: `tierra verify` says what is damaged, and `tierra salvage` \
         copies everything else"
    )]
    Damaged {
        /// The table.
        table: String,
        /// The number of the extent.
        extent: u64,
    },
    /// A table that cannot be read as a whole.
    #[error(transparent)]
    Unavailable(#[from] UnavailableError),
    /// Rows that cannot be encoded or decoded.
    #[error("table {table:?}: {source}")]
    Rows {
        /// The table.
        table: String,
        /// What is wrong.
        source: ArrowError,
    },
    /// The caller stopped it.
    #[error("stopped; nothing is left of it")]
    Stopped,
    /// The file is none.
    #[error("{}: no backup: {what}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What shows that.
        what: &'static str,
    },
    /// Another version of Tierra wrote the file.
    #[error(
        "{}: a backup of format version {found}, but this Tierra reads only version 1: restore it with the Tierra that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u8,
    },
    /// Bytes of the file that are not those that were written.
    #[error("{}: byte {at}: {what}; restore from another backup", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// What the file says that it holds cannot be.
    #[error("{}: the list of its contents: {source}; restore from another backup", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ManifestError,
    },
    /// The backup to build on is not one of an earlier state of the database.
    #[error(
        "{}: not a backup of an earlier state of this database, so another one cannot build on it: take a whole backup",
        path.display()
    )]
    Since {
        /// The older backup.
        path: PathBuf,
    },
    /// The backup that this one builds on is not found.
    #[error("{}: builds on the backup {older:?}, {what}; it is sought beside it, and among those of --older", path.display())]
    Older {
        /// The backup.
        path: PathBuf,
        /// The name of the file of the other.
        older: String,
        /// What was found in its place.
        what: String,
    },
    /// The directory to restore into is in use, or not empty.
    #[error("{}: not empty: a backup is restored into a directory that is empty or does not exist", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
    },
    /// A path for the pool of a tier that the backup does not have.
    #[error("the backup has no tier {tier:?}: its tiers are {known}")]
    Tier {
        /// The tier.
        tier: String,
        /// Those of the backup.
        known: String,
    },
    /// The restored table is not what was backed up.
    #[error("{}: table {table:?} does not come back: {what}; restore from another backup", path.display())]
    Table {
        /// The backup.
        path: PathBuf,
        /// The table.
        table: String,
        /// What is wrong.
        what: String,
    },
    /// The database could not be made.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// The tables could not be read or written.
    #[error(transparent)]
    Storage(Box<StorageError>),
}

impl BackupError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
        let path = path.to_owned();
        move |source| BackupError::Io {
            doing,
            path,
            source,
        }
    }
}

impl From<OpenError> for BackupError {
    fn from(error: OpenError) -> Self {
        Self::Open(Box::new(error))
    }
}

impl From<StorageError> for BackupError {
    fn from(error: StorageError) -> Self {
        Self::Storage(Box::new(error))
    }
}

impl From<PoolError> for BackupError {
    fn from(error: PoolError) -> Self {
        StorageError::from(error).into()
    }
}
