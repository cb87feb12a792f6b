//! What the writer can be asked for, and the way to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use arrow::array::RecordBatch;
use tierra_column::Encoding;

use crate::error::{AppendError, LoadError, StorageError, TableError, TierError};
use crate::index::key::LoadedKeys;
use crate::manifest::TableEntry;
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::spec::replicas::Replicas;
use crate::storage::extent::OwnedExtent;
use crate::table::Table;
use crate::table::gate::{LoadPass, MergePass};
use crate::table::near_object::NearChange;
use crate::table::version::TableVersion;
use crate::tail::Record;

/// Rows for the tail.
pub(crate) struct Append {
    pub(crate) table: Arc<Table>,
    pub(crate) batch: RecordBatch,
    /// The same rows, encoded.
    pub(crate) record: Record,
    /// Images of the rows' keys, where the table has one.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) reply: SyncSender<Result<(), AppendError>>,
}

/// Encoded segments that a load wants to be committed.
pub(crate) struct Load {
    pub(crate) table: Arc<Table>,
    pub(crate) segments: Vec<EncodedSegment>,
    /// The keys of their rows, where the table has a primary key.
    pub(crate) keys: Option<LoadedKeys>,
    /// Kept until they are: their codes belong to the dictionaries as they are now.
    pub(crate) pass: Option<LoadPass>,
}

/// A segment that is durable but not yet published.
#[derive(Debug)]
pub(crate) struct EncodedSegment {
    pub(crate) segment: Arc<Segment>,
    /// By column.
    pub(crate) encodings: Vec<Encoding>,
}

/// A table as the newest manifest has it, and its extents.
pub(crate) struct TableExtents {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) extents: Vec<Arc<OwnedExtent>>,
}

/// What the writer can be asked for. Each is answered once, unless the database closes first.
pub(crate) enum Request {
    Create {
        spec: TableSpec,
        replicas: Replicas,
        reply: SyncSender<Result<Arc<Table>, TableError>>,
    },
    /// As `Create`, but the table appears with its first rows.
    Begin {
        spec: TableSpec,
        replicas: Replicas,
        reply: SyncSender<Result<Arc<Table>, TableError>>,
    },
    Drop {
        names: Vec<String>,
        reply: SyncSender<Result<(), TableError>>,
    },
    Append(Append),
    Load {
        load: Load,
        reply: SyncSender<Result<(), LoadError>>,
    },
    Seal {
        table: Arc<Table>,
        reply: SyncSender<Result<(), StorageError>>,
    },
    Merge {
        table: Arc<Table>,
        pass: MergePass,
        reply: SyncSender<Result<(), StorageError>>,
    },
    AddTier {
        name: String,
        pool: PathBuf,
        reply: SyncSender<Result<(), TierError>>,
    },
    DropTier {
        name: String,
        reply: SyncSender<Result<(), TierError>>,
    },
    /// Other tiers for a table; answered when its copies are there.
    Place {
        table: Arc<Table>,
        replicas: Replicas,
        reply: SyncSender<Result<(), TableError>>,
    },
    /// Answered with all extents that the newest manifest names, and the tables they belong to.
    Extents {
        reply: SyncSender<Vec<TableExtents>>,
    },
    /// Answered with how many copies of what only the writer writes are damaged; these are repaired, if asked for.
    CheckOwn {
        repair: bool,
        reply: SyncSender<Result<u64, StorageError>>,
    },
    /// Answered when a table has the copies that it should have.
    Repair {
        table: Arc<Table>,
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Answered when something may be written.
    BeginWriting {
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Not answered: makes copies that are missing, in the background.
    Heal {
        table: Arc<Table>,
    },
    /// Not answered: indexes are a convenience. Built in the background.
    Index {
        table: Arc<Table>,
    },
    /// Not answered: the index of a version's keys is built in the background, while lookups scan.
    IndexKeys {
        table: Arc<Table>,
        version: Arc<TableVersion>,
    },
    /// Not answered: near copies are a convenience.
    CopyNear {
        table: Arc<Table>,
        segment: u32,
    },
    /// Answered when objects of a table are read from these near copies, or where they are stored.
    PlaceNear {
        table: Arc<Table>,
        changes: Vec<NearChange>,
        reply: SyncSender<()>,
    },
    /// Not answered: indexes' near copies, once columns that wish for one have theirs.
    CopyIndexesNear {
        table: Arc<Table>,
    },
    /// Answered when everything asked for before has been done.
    Wait {
        reply: SyncSender<()>,
    },
    /// Not answered: the last holder of a table that was dropped is gone.
    GiveBack,
    /// Not answered: pages were lost. What only the writer writes is written anew: logs' rows, manifests.
    Losses,
    /// Of the writer to itself: background work is over.
    JobEnded,
    /// Not answered: the thread ends.
    Close,
}

/// The way to the writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Requests(Sender<Request>);

impl Requests {
    pub(crate) fn new(sender: Sender<Request>) -> Self {
        Self(sender)
    }

    /// Sends the writer a request and blocks until it answers.
    pub(crate) fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<T>) -> Request,
    ) -> Result<T, StorageError> {
        let (reply, answer) = sync_channel(1);
        self.0
            .send(request(reply))
            .map_err(|_| StorageError::Closed)?;
        // The writer drops a request unanswered only when it ends.
        answer.recv().map_err(|_| StorageError::Closed)
    }

    /// Sends the writer a request that has no answer.
    pub(crate) fn send(&self, request: Request) {
        // A writer that is gone has nothing left to do.
        let _ = self.0.send(request);
    }
}
