//! The errors of databases and tables: one enum per operation family. Each says what failed, where, and what to do about it.
//!
//! Invariant: an operation that returned an error changed nothing that is visible to others, unless the error says that the
//! outcome is unknown ([`StorageError::Unknown`]).

mod backup;
mod input;
mod log;
mod open;

use std::io;
use std::path::PathBuf;

use tierra_column::bits::Level;
use tierra_column::{EncodeError, FilterError, FormatError, PostingsError};
use tierra_memory::replication::ReplicationError;
use tierra_memory::{CopyMethodError, PoolError, RegionError};

pub use self::backup::BackupError;
pub use self::input::InputError;
pub use self::log::LogError;
pub use self::open::OpenError;
pub use crate::manifest::ManifestError;
pub use crate::spec::SpecError;
use crate::spec::replicas::ReplicasError;
use crate::spec::replicas::TIERS_MOST;
use tierra_column::bits::BLOCK_LEN;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Creating or opening a database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Creating or dropping a table, sealing its tail, merging its dictionaries.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Appending rows.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Committing changes.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Loading in bulk.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Scanning.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Finding rows by key and reading them.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Writing, reading or restoring a backup.
    #[error(transparent)]
    Backup(#[from] BackupError),
}

/// Stored bytes of a table that cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DamageError {
    /// A chunk's header.
    #[error("column {column:?}, segment {segment}: {source}")]
    Chunk {
        /// The column.
        column: String,
        /// Id of the segment.
        segment: u32,
        /// What is wrong.
        source: FormatError,
    },
    /// An extent without a copy in any tier.
    #[error("extent {extent} has no copy in any tier: restore the database from a backup")]
    NoCopy {
        /// Its number.
        extent: u64,
    },
    /// The copies of a log.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// A dictionary piece.
    #[error("the dictionary of column {column:?}: {source}")]
    Dictionary {
        /// The column.
        column: String,
        /// What is wrong.
        source: FormatError,
    },
    /// A part of an inverted index.
    #[error("the index of column {column:?}: {source}")]
    Index {
        /// The column.
        column: String,
        /// What is wrong.
        source: FormatError,
    },
    /// A bitmap of deleted rows.
    #[error("the deleted rows of segment {segment}: {source}")]
    Deleted {
        /// Id of the segment.
        segment: u32,
        /// What is wrong.
        source: FormatError,
    },
    /// The tail log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An extent with another owner, or none.
    #[error("an extent at {offset} belongs to owner {found:#x}, the manifest says {expected:#x}")]
    Owner {
        /// Offset of the extent in the pool.
        offset: u64,
        /// Owner that the manifest implies.
        expected: u64,
        /// Owner in the extent's header.
        found: u64,
    },
    /// The pool does not hold what the manifest names.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// A table, or a column of it, that cannot be used at present. All others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnavailableError {
    /// Readable again as soon as tiers are back.
    #[error(
        "table {table:?} has rows{} that lie in no other tier than {missing}: bring the file back and open the database again, \
         restore it from a backup, or drop the table",
        of_column(column.as_deref())
    )]
    Missing {
        /// The table.
        table: String,
        /// The column, if the other columns can be read.
        column: Option<String>,
        /// The tiers, each with what was found in its place.
        missing: String,
    },
    /// Its data is damaged in all copies.
    #[error(
        "table {table:?} has rows{} that cannot be read: {what}; restore the database from a backup, or drop the table",
        of_column(column.as_deref())
    )]
    Damaged {
        /// The table.
        table: String,
        /// The column, if the other columns can be read.
        column: Option<String>,
        /// What is wrong, where, and how to salvage the rest.
        what: String,
    },
}

impl UnavailableError {
    /// The same error for one column.
    pub(crate) fn of_column(&self, name: &str) -> UnavailableError {
        let mut other = self.clone();
        let (Self::Missing { column, .. } | Self::Damaged { column, .. }) = &mut other;
        *column = Some(name.to_owned());
        other
    }
}

fn of_column(column: Option<&str>) -> String {
    column.map_or_else(String::new, |column| format!(" of column {column:?}"))
}

/// The durable part of an operation failed; nothing of it is visible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The pool is full or its device failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The copies of a log cannot be written as one.
    #[error(transparent)]
    Replication(ReplicationError),
    /// A copy that differs from its source: no other copy was dropped for it.
    #[error("{}: what was copied to byte {offset} is not what was read: verify the database, and the device", path.display())]
    Copy {
        /// The pool.
        path: PathBuf,
        /// Offset of the copy in it.
        offset: u64,
    },
    /// No near memory.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Values that the column's encoding cannot hold.
    #[error("column {column:?}: {source}")]
    Encode {
        /// The column.
        column: String,
        /// What is wrong.
        source: EncodeError,
    },
    /// An index that cannot be built.
    #[error("the index of column {column:?}: {source}")]
    Index {
        /// The column.
        column: String,
        /// What is wrong.
        source: PostingsError,
    },
    /// Stored bytes that had to be read are damaged.
    #[error(transparent)]
    Scan(Box<ScanError>),
    /// A chunk that was just written cannot be opened.
    #[error(transparent)]
    Damage(#[from] DamageError),
    /// The database was closed.
    #[error("the database is closed: open it again")]
    Closed,
    /// The process is a fork of the one that opened the database.
    #[error(
        "the database was opened before the process forked: it belongs to the parent; open it in the child after the parent closes it, or start the child without fork"
    )]
    Forked,
    /// The database is read-only.
    #[error("{}: open for reading only ({why}): nothing can be written", dir.display())]
    ReadOnly {
        /// The database.
        dir: PathBuf,
        /// Why.
        why: String,
    },
    /// A device failed in a write, and does not say what it stored.
    #[error("whether this was stored is unknown until the database is opened again: {source}")]
    Unknown {
        /// What failed.
        source: Box<StorageError>,
    },
    /// The directory file could not be written.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A tier of the table is missing.
    #[error(transparent)]
    Unavailable(#[from] UnavailableError),
    /// The table was dropped meanwhile.
    #[error("table {table:?} was dropped meanwhile")]
    Dropped {
        /// The table.
        table: String,
    },
    /// Rows were being written to a tier that was dropped meanwhile.
    #[error("tier {tier:?} was dropped while these rows were written to it: load them again")]
    TierDropped {
        /// The tier.
        tier: String,
    },
    /// Another table of this name was committed first.
    #[error("table {table:?} was created meanwhile: load into it")]
    Created {
        /// The table.
        table: String,
    },
    /// There are no segment ids left.
    #[error("table {table:?} used up its 2^32 segments: copy it into a new table")]
    SegmentIds {
        /// The table.
        table: String,
    },
}

impl From<ReplicationError> for StorageError {
    fn from(error: ReplicationError) -> Self {
        match error {
            ReplicationError::Pool(error) => Self::Pool(error),
            error => Self::Replication(error),
        }
    }
}

impl From<ScanError> for StorageError {
    fn from(error: ScanError) -> Self {
        Self::Scan(Box::new(error))
    }
}

/// An error of an operation that writes.
pub(crate) trait Outcome: From<StorageError> {
    /// The same error after a device failure: it is unknown whether the write is durable.
    fn unknown(self) -> Self;
}

impl Outcome for StorageError {
    fn unknown(self) -> Self {
        Self::Unknown {
            source: Box::new(self),
        }
    }
}

macro_rules! outcome {
    ($($error:ty),*) => {
        $(impl Outcome for $error {
            fn unknown(self) -> Self {
                match self {
                    Self::Storage(error) => Self::Storage(error.unknown()),
                    error => error,
                }
            }
        })*
    };
}

outcome!(TableError, TierError, AppendError, LoadError, CommitError);

/// A table could not be created, dropped or maintained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The name is taken.
    #[error("table {table:?} exists already: drop it first, or choose another name")]
    Exists {
        /// The table.
        table: String,
    },
    /// No such table.
    #[error("there is no table {table:?}")]
    Unknown {
        /// The name asked for.
        table: String,
    },
    /// The specification breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The replica placement is impossible.
    #[error(transparent)]
    Replicas(#[from] ReplicasError),
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A tier could not be added or dropped; the database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// An invalid name.
    #[error("{name:?} cannot name a tier: use 1 to 64 letters, digits, '-' and '_'")]
    Name {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("tier {name:?} exists already: choose another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// A name with a meaning of its own where tiers are named.
    #[error("{name:?} means something else where tiers are named: choose another name")]
    Reserved {
        /// The name.
        name: String,
    },
    /// The database has the most tiers allowed.
    #[error("the database has {TIERS_MOST} tiers already: drop one first")]
    Many,
    /// No such tier.
    #[error("there is no tier {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The tier's pool is missing.
    #[error("tier {name:?} is missing ({why}): bring it back first")]
    Missing {
        /// The tier.
        name: String,
        /// What was found instead of its pool.
        why: String,
    },
    /// The tier's medium cannot be read in the way that was asked for.
    #[error(transparent)]
    Access(#[from] CopyMethodError),
    /// Tables have copies there.
    #[error("tier {name:?} is to hold copies of {tables}: give them other tiers first")]
    InUse {
        /// The tier.
        name: String,
        /// The tables' names.
        tables: String,
    },
    /// The last tier cannot be dropped.
    #[error("tier {name:?} is the only one that is there: add another first")]
    Last {
        /// The tier.
        name: String,
    },
    /// The directory could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A row with the key of another row.
#[derive(Debug, thiserror::Error)]
#[error("table {table:?} has a row with primary key {key} already: keys are unique")]
pub struct DuplicateKeyError {
    /// The table.
    pub table: String,
    /// The key in SQL's form: `(column = value, ..)`.
    pub key: String,
}

/// Rows could not be appended; the table is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The rows do not fit the table.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A duplicate key.
    #[error(transparent)]
    DuplicateKey(#[from] DuplicateKeyError),
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Looking up the key failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// Changes could not be committed; no table is changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Rows that do not fit their table.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A key of a row that is there after the commit's own deletions.
    #[error(transparent)]
    DuplicateKey(#[from] DuplicateKeyError),
    /// A row that was to be deleted is gone: another commit deleted it.
    #[error(
        "table {table:?}: row {row} was changed by another commit since the snapshot was taken: try again with a new one"
    )]
    Conflict {
        /// The table.
        table: String,
        /// The row.
        row: u64,
    },
    /// The snapshot, in which the row was to be seen, never had it.
    #[error("table {table:?}: row {row} is not in the snapshot that the change names")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row.
        row: u64,
    },
    /// One commit has two changes of a table.
    #[error("table {table:?} is changed twice in one commit: join the changes")]
    TableTwice {
        /// The table.
        table: String,
    },
    /// More rows than a transaction can hold before it is committed.
    #[error(
        "a transaction may append {most} rows to table {table:?}, and this one has more: commit what it has, or load the rows \
         by a statement of its own"
    )]
    TooManyRows {
        /// The table.
        table: String,
        /// How many it may append.
        most: u64,
    },
    /// A table that was begun appears with its first rows, which no other table's changes may come with.
    #[error("table {table:?} has no rows yet: append its first ones by a commit of their own")]
    Begun {
        /// The table.
        table: String,
    },
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Looking up the key failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

impl From<LoadError> for CommitError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Input(error) => error.into(),
            LoadError::DuplicateKey(error) => error.into(),
            LoadError::Storage(error) => error.into(),
            LoadError::Lookup(error) => error.into(),
            LoadError::Undone => StorageError::Closed.into(),
        }
    }
}

/// Of a commit that deletes nothing, in one table.
impl From<CommitError> for AppendError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Input(error) => error.into(),
            CommitError::DuplicateKey(error) => error.into(),
            CommitError::Storage(error) => error.into(),
            CommitError::Lookup(error) => error.into(),
            CommitError::Conflict { table, row } | CommitError::UnknownRow { table, row } => {
                LookupError::UnknownRow { table, row }.into()
            }
            CommitError::TableTwice { table }
            | CommitError::TooManyRows { table, .. }
            | CommitError::Begun { table } => StorageError::Created { table }.into(),
        }
    }
}

/// A load failed and was undone; the table is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The rows do not fit the table.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A duplicate key.
    #[error(transparent)]
    DuplicateKey(#[from] DuplicateKeyError),
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Looking up the key failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// `push` after an error.
    #[error("the load failed before and was undone: start a new one")]
    Undone,
}

/// Why [`Loader::push_columns`](crate::Loader::push_columns) failed.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsError<E> {
    /// The table or the pool rejected the rows.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The source could not read them.
    #[error("{0}")]
    Source(E),
}

impl<E> From<StorageError> for ColumnsError<E> {
    fn from(error: StorageError) -> Self {
        Self::Load(error.into())
    }
}

impl From<AppendError> for LoadError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Input(error) => error.into(),
            AppendError::DuplicateKey(error) => error.into(),
            AppendError::Storage(error) => error.into(),
            AppendError::Lookup(error) => error.into(),
        }
    }
}

impl From<LoadError> for AppendError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Input(error) => error.into(),
            LoadError::DuplicateKey(error) => error.into(),
            LoadError::Storage(error) => error.into(),
            LoadError::Lookup(error) => error.into(),
            LoadError::Undone => StorageError::Closed.into(),
        }
    }
}

/// A scan found something that it cannot read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A block's bytes are not those that were written.
    #[error("table {table:?}, column {column:?}, segment {segment}, block {block} (rows {} to {} of the segment): {source}", block * BLOCK_LEN, (block + 1) * BLOCK_LEN - 1)]
    Damaged {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Id of the segment.
        segment: u32,
        /// Number of the block in its chunk.
        block: usize,
        /// What is wrong.
        source: FormatError,
    },
    /// Memory loses pages faster than they can be restored.
    #[error(
        "pages of a tier ({tier}) are lost again and again while they are read: replace the module or file that fails, and open the database again"
    )]
    Lost {
        /// The tiers that may be affected.
        tier: String,
    },
    /// A tier of the table is missing.
    #[error(transparent)]
    Unavailable(#[from] UnavailableError),
    /// A tier cannot be read in the way that was asked for.
    #[error(transparent)]
    Access(#[from] CopyMethodError),
    /// The CPU lacks instructions that were asked for.
    #[error("this CPU has no {0}: use 'auto', which takes what it has")]
    Level(Level),
    /// A filter that the column cannot evaluate.
    #[error("table {table:?}, column {column:?}: {source}")]
    Filter {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// What is wrong.
        source: FilterError,
    },
    /// Arrow could not build the result.
    #[error("table {table:?}: {source}")]
    Arrow {
        /// The table.
        table: String,
        /// What is wrong.
        source: arrow::error::ArrowError,
    },
}

/// Rows could not be found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The table has no primary key.
    #[error("table {table:?} has no primary key: declare one, or filter by a column")]
    NoPrimaryKey {
        /// The table.
        table: String,
    },
    /// The keys are of other types than the key's columns.
    #[error("table {table:?}: its key has {expected}, but {found} was given")]
    KeyShape {
        /// The table.
        table: String,
        /// Types of the key's columns.
        expected: String,
        /// Types given.
        found: String,
    },
    /// This snapshot does not contain the row.
    #[error("table {table:?}: row {row} is not in this snapshot")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row asked for.
        row: u64,
    },
    /// No near memory for the key's index.
    #[error("the key's index: {0}")]
    Index(String),
    /// Stored bytes are damaged, or the result cannot be built.
    #[error(transparent)]
    Scan(#[from] ScanError),
}
