//! The requests to the writer, and the channel that carries them.

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
use crate::storage::access::Access;
use crate::storage::extent::OwnedExtent;
use crate::table::Table;
use crate::table::load_merge_lock::{LoadPass, MergePass};
use crate::table::near_object::NearChange;
use crate::table::version::TableVersion;
use crate::tail::Record;

/// Rows for the tail.
pub(crate) struct Append {
    pub(crate) table: Arc<Table>,
    pub(crate) batch: RecordBatch,
    /// The same rows, encoded.
    pub(crate) record: Record,
    /// The rows' normalized keys, if the table has a primary key.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) reply: SyncSender<Result<(), AppendError>>,
}

/// Encoded segments that a load commits.
pub(crate) struct Load {
    pub(crate) table: Arc<Table>,
    pub(crate) segments: Vec<EncodedSegment>,
    /// The keys of their rows, if the table has a primary key.
    pub(crate) keys: Option<LoadedKeys>,
    /// Held until the commit: the segments' codes belong to the current dictionaries.
    pub(crate) pass: Option<LoadPass>,
}

/// A segment that is durable but not yet published.
#[derive(Debug)]
pub(crate) struct EncodedSegment {
    pub(crate) segment: Arc<Segment>,
    /// By column.
    pub(crate) encodings: Vec<Encoding>,
}

/// A table's entry in the newest manifest, and its extents.
pub(crate) struct TableExtents {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) extents: Vec<Arc<OwnedExtent>>,
}

/// A request to the writer. Each has one answer, unless the database closes first.
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
        access: Access,
        reply: SyncSender<Result<(), TierError>>,
    },
    /// Changes how scans reach a tier's blocks.
    SetAccess {
        name: String,
        access: Access,
        reply: SyncSender<Result<(), TierError>>,
    },
    DropTier {
        name: String,
        reply: SyncSender<Result<(), TierError>>,
    },
    /// Changes a table's replica placement; answered when its copies are there.
    Place {
        table: Arc<Table>,
        replicas: Replicas,
        reply: SyncSender<Result<(), TableError>>,
    },
    /// Answered with all extents that the newest manifest names, and their tables.
    Extents {
        reply: SyncSender<Vec<TableExtents>>,
    },
    /// Checks what only the writer writes, and repairs it if `repair` is set. Answered with the number of damaged copies.
    CheckOwn {
        repair: bool,
        reply: SyncSender<Result<u64, StorageError>>,
    },
    /// Answered when the table has all its copies.
    Repair {
        table: Arc<Table>,
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Answered when writing is allowed.
    BeginWriting {
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Not answered: missing copies are made in the background.
    Heal {
        table: Arc<Table>,
    },
    /// Not answered: indexes are optional and built in the background.
    Index {
        table: Arc<Table>,
    },
    /// Not answered: a version's key index is built in the background, while lookups scan.
    IndexKeys {
        table: Arc<Table>,
        version: Arc<TableVersion>,
    },
    /// Not answered: near copies are optional.
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
    /// Not answered: copies indexes to near memory, after the columns that request a near copy.
    CopyIndexesNear {
        table: Arc<Table>,
    },
    /// Answered when all earlier requests are done.
    Wait {
        reply: SyncSender<()>,
    },
    /// Not answered: the last reference to a dropped table is gone.
    GiveBack,
    /// Not answered: pages were lost. Data that only the writer writes (logs' rows, manifests) is rewritten.
    Losses,
    /// From the writer to itself: a background job has ended.
    JobEnded,
    /// Not answered: the thread ends.
    Close,
}

/// The channel to the writer. Cheap to clone.
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
        // A writer that has ended has nothing left to do.
        let _ = self.0.send(request);
    }
}
