//! The errors of a database, one variant per family of operations.

use std::{io, path::PathBuf};

use tierra_memory::emulation::EmulationError;

use crate::{ConfigError, engine, sql};

/// Why an operation on a database failed. After every error the tables are as they were before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory is missing, not a database, newer than this program, damaged, or in use.
    #[error(transparent)]
    Open(#[from] engine::OpenError),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The far memory to emulate is invalid.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// A statement failed.
    #[error(transparent)]
    Sql(#[from] sql::SqlError),
    /// A table could not be created or dropped.
    #[error(transparent)]
    Table(#[from] engine::TableError),
    /// A bulk load failed and was undone.
    #[error(transparent)]
    Load(#[from] engine::LoadError),
    /// A backup could not be written, read or restored.
    #[error(transparent)]
    Backup(#[from] engine::BackupError),
    /// The database is open in this process, with other options than those asked for.
    #[error("{}: open in this process with another {option}: use the same, or leave it out", dir.display())]
    Shared {
        /// The directory.
        dir: PathBuf,
        /// The option.
        option: &'static str,
    },
    /// The process is a fork of the one that opened the database.
    #[error("{}", engine::StorageError::Forked)]
    Forked,
    /// The threads that run queries could not be started.
    #[error("cannot start the threads that run queries: {0}")]
    Threads(#[source] io::Error),
    /// [`Database::sql`](crate::Database::sql), which blocks, was called in async code.
    #[error("Database::sql blocks and was called in async code: await Database::sql_async instead")]
    InsideRuntime,
}
