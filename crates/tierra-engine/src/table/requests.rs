//! The requests to the writer, and the way there: a queue, or for a small commit the caller's own thread.
//!
//! Invariant: a commit that is made at once overtakes no request that was sent before it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::time::Instant;

use arrow::array::RecordBatch;
use tierra_column::Encoding;

use crate::deleted::numbering::Numbering;
use crate::deleted::row_ids::RowIds;
use crate::error::{CommitError, StorageError, TableError, TierError};
use crate::index::key::LoadedKeys;
use crate::manifest::{Manifest, TableEntry};
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::spec::replicas::{ReplicaPlacement, Replicas};
use crate::storage::access::Access;
use crate::storage::extent::OwnedExtent;
use crate::storage::process::OwnProcess;
use crate::table::Table;
use crate::table::load_merge_lock::{LoadPass, MergePass};
use crate::table::near_object::NearChange;
use crate::table::version::TableVersion;
use crate::tail::Record;

/// How far a table was brought to a replica placement: missing replicas are encoded, segment by segment; then all get their
/// copies; then surplus ones are given up.
#[derive(Debug)]
pub(crate) struct PlacingStep {
    /// What was done, was done for this placement. For another one all begins anew: nothing is given up before that has what it wants.
    pub(crate) placement: Arc<ReplicaPlacement>,
    /// The segment that was done last.
    pub(crate) after: Option<u32>,
    pub(crate) gives_up: bool,
    pub(crate) left_out: Option<Box<LeftOut>>,
}

/// What stays as it is because it is damaged, while the rest of its table goes on.
#[derive(Debug)]
pub(crate) struct LeftOut {
    segments: BTreeSet<u32>,
    /// The first damage.
    error: StorageError,
}

impl PlacingStep {
    /// The first step to the placement that a table has now.
    pub(crate) fn first(table: &Table) -> PlacingStep {
        PlacingStep {
            placement: table.placement(),
            after: None,
            gives_up: false,
            left_out: None,
        }
    }

    /// This step, or the first one if the table has another placement by now.
    pub(crate) fn or_first(self, table: &Table) -> PlacingStep {
        match Arc::ptr_eq(&self.placement, &table.placement()) {
            true => self,
            false => PlacingStep::first(table),
        }
    }

    /// Notes that something, of a segment where one is named, is damaged and stays as it is. Returns whether that is news.
    pub(crate) fn leave_out(&mut self, segment: Option<u32>, error: StorageError) -> bool {
        let is_first = self.left_out.is_none();
        let left_out = self.left_out.get_or_insert_with(|| {
            Box::new(LeftOut {
                segments: BTreeSet::new(),
                error,
            })
        });
        segment.map_or(is_first, |segment| left_out.segments.insert(segment))
    }

    /// Whether a segment stays as it is.
    pub(crate) fn leaves_out(&self, segment: u32) -> bool {
        let left_out = self.left_out.as_ref();
        left_out.is_some_and(|left_out| left_out.segments.contains(&segment))
    }

    /// The error if this was the last step, and anything was left out.
    pub(crate) fn end(self) -> Result<(), StorageError> {
        self.left_out.map_or(Ok(()), |left_out| Err(left_out.error))
    }
}

/// Rows that go.
#[derive(Clone, Default)]
pub(crate) struct SeenRows {
    pub(crate) ids: RowIds,
    /// What the ids mean; `None` if there are none.
    pub(crate) numbering: Option<Arc<Numbering>>,
}

/// What a commit does to a table through its log.
pub(crate) struct TableChange {
    pub(crate) table: Arc<Table>,
    pub(crate) deleted: SeenRows,
    pub(crate) rows: Option<TailRows>,
    /// All of that, encoded.
    pub(crate) record: Record,
}

/// Rows for the tail.
pub(crate) struct TailRows {
    pub(crate) batch: RecordBatch,
    /// Their normalized keys, if the table has a primary key.
    pub(crate) keys: Option<Vec<u64>>,
}

/// A commit through logs. Answered with its number.
pub(crate) struct Commit {
    /// Of different tables, ordered by id.
    pub(crate) changes: Vec<TableChange>,
    pub(crate) reply: SyncSender<Result<u64, CommitError>>,
}

/// What a commit does to a table by a manifest.
pub(crate) struct BulkChange {
    pub(crate) table: Arc<Table>,
    pub(crate) deleted: SeenRows,
    pub(crate) load: Option<Load>,
}

/// A commit by one manifest.
pub(crate) struct BulkCommit {
    /// Of different tables.
    pub(crate) changes: Vec<BulkChange>,
}

/// Encoded segments that a commit adds.
pub(crate) struct Load {
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

/// All tables as of one commit, and what is stored of them. The space of what it names stays allocated as long as it lives.
pub(crate) struct Pinned {
    /// The newest manifest.
    pub(crate) manifest: Manifest,
    /// The number of the last commit, which may be in a log.
    pub(crate) commit: u64,
    /// In the manifest's order.
    pub(crate) tables: Vec<PinnedTable>,
}

/// A table as of one commit.
pub(crate) struct PinnedTable {
    // Before the table, so that it drops first: the last reference to a dropped table then finds its space unused.
    pub(crate) version: Arc<TableVersion>,
    pub(crate) stored: TableExtents,
    pub(crate) table: Arc<Table>,
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
    Commit(Commit),
    /// Answered with the commit's number.
    Bulk {
        commit: BulkCommit,
        reply: SyncSender<Result<u64, CommitError>>,
    },
    /// Removes all rows of tables. Answered with their number.
    Truncate {
        tables: Vec<Arc<Table>>,
        passes: Vec<MergePass>,
        reply: SyncSender<Result<u64, TableError>>,
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
    /// Goes on with that; without `reply`, in the background.
    GoOnPlacing {
        table: Arc<Table>,
        step: PlacingStep,
        reply: Option<SyncSender<Result<(), TableError>>>,
    },
    /// Answered with all extents that the newest manifest names, and their tables.
    Extents {
        reply: SyncSender<Vec<TableExtents>>,
    },
    /// Answered with all tables as of the last commit.
    Pin {
        reply: SyncSender<Result<Pinned, StorageError>>,
    },
    /// Checks what only the writer writes, and repairs it if `repair` is set. Answered with the number of damaged copies.
    CheckOwn {
        repair: bool,
        reply: SyncSender<Result<u64, StorageError>>,
    },
    /// Answered when the table has all its copies.
    Repair {
        table: Arc<Table>,
        reply: SyncSender<Result<(), TableError>>,
    },
    /// Answered when writing is allowed.
    BeginWriting {
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Not answered: missing copies are made in the background.
    MakeCopies {
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
    /// Answered when all earlier requests are done, those in the background as well.
    Wait {
        reply: SyncSender<()>,
    },
    /// Not answered: the last reference to a dropped table is gone.
    GiveBack,
    /// Not answered: pages were lost, or a copy cannot be repaired. Data that only the writer writes (logs' rows, manifests) is
    /// rewritten, and other replicas of chunks are read.
    Losses,
    /// Which replicas are read is to be chosen anew, because a tier was lost, or costs something else. Answered, if at all, when they
    /// are.
    ChooseReplicas {
        reply: Option<SyncSender<()>>,
    },
    /// From the writer to itself: goes on with that.
    GoOnChoosing,
    /// From the writer to itself: a background job has ended.
    JobEnded,
    /// Not answered: a commit that was made at once has left something to do, or something to wait for.
    GoOn,
    /// Not answered: the thread ends.
    Close,
}

/// Makes commits on the thread that asks for them. To hand one over to the writer's thread and wait takes several times as long as
/// to write it.
pub(crate) trait CommitAtOnce: Send + Sync {
    /// Makes a commit and answers it; gives it back if anything else is under way, or if it would take long. Waits for the devices of
    /// logs only if the caller may block.
    fn commit(&self, commit: Commit, may_block: bool) -> Result<(), Commit>;
}

/// The way to the writer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Requests {
    sender: Sender<Request>,
    /// Requests that were sent and that the writer has not begun.
    waiting: Arc<AtomicUsize>,
    at_once: Arc<dyn CommitAtOnce>,
    owner: OwnProcess,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("waiting", &self.waiting)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// The requests that wait for the writer.
pub(crate) struct Queue {
    receiver: Receiver<Request>,
    waiting: Arc<AtomicUsize>,
}

impl Queue {
    /// Waits for a request, if `until` is given no longer than that. It waits on until [`Queue::begin`].
    pub(crate) fn next(&self, until: Option<Instant>) -> Result<Request, RecvTimeoutError> {
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.receiver.recv_timeout(left)
            }
            None => self
                .receiver
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Notes that the writer begins a request that [`Queue::next`] returned.
    pub(crate) fn begin(&self) {
        self.waiting.fetch_sub(1, Ordering::Release);
    }

    /// A request that is there, begun.
    pub(crate) fn try_next(&self) -> Result<Request, TryRecvError> {
        let request = self.receiver.try_recv()?;
        self.begin();
        Ok(request)
    }
}

impl Requests {
    /// The way to a writer, which makes commits at once through `at_once`.
    pub(crate) fn new(at_once: Arc<dyn CommitAtOnce>) -> (Self, Queue) {
        let (sender, receiver) = channel();
        let waiting = Arc::<AtomicUsize>::default();
        let queue = Queue {
            receiver,
            waiting: waiting.clone(),
        };
        let requests = Self {
            sender,
            waiting,
            at_once,
            owner: OwnProcess::this(),
        };
        (requests, queue)
    }

    /// Whether requests wait for the writer, which come first.
    pub(crate) fn have_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Sends the writer a request and blocks until it answers.
    pub(crate) fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<T>) -> Request,
    ) -> Result<T, StorageError> {
        // The writer drops a request unanswered only when it ends.
        self.ask_for(request)?
            .recv()
            .map_err(|_| StorageError::Closed)
    }

    /// Sends the writer a request, whose answer is to be received.
    pub(crate) fn ask_for<T>(
        &self,
        request: impl FnOnce(SyncSender<T>) -> Request,
    ) -> Result<Receiver<T>, StorageError> {
        self.check_owner()?;
        let (reply, answer) = sync_channel(1);
        self.put(request(reply))?;
        Ok(answer)
    }

    /// Makes a commit, on this thread where that is possible. Blocks. Returns its number.
    pub(crate) fn commit(&self, changes: Vec<TableChange>) -> Result<u64, CommitError> {
        self.check_owner()?;
        let (reply, answer) = sync_channel(1);
        if let Err(commit) = self.at_once.commit(Commit { changes, reply }, true) {
            self.put(Request::Commit(commit))?;
        }
        answer.recv().map_err(|_| StorageError::Closed)?
    }

    /// Makes a commit without waiting for a device or another thread; gives the changes back if that is not possible.
    pub(crate) fn try_commit(
        &self,
        changes: Vec<TableChange>,
    ) -> Result<Result<u64, CommitError>, Vec<TableChange>> {
        if self.check_owner().is_err() {
            return Err(changes);
        }
        let (reply, answer) = sync_channel(1);
        match self.at_once.commit(Commit { changes, reply }, false) {
            Ok(()) => Ok(answer
                .recv()
                .unwrap_or_else(|_| Err(StorageError::Closed.into()))),
            Err(commit) => Err(commit.changes),
        }
    }

    /// Sends the writer a request that has no answer.
    pub(crate) fn send(&self, request: Request) {
        // A writer that has ended has nothing left to do.
        let _ = self.put(request);
    }

    fn put(&self, request: Request) -> Result<(), StorageError> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let sent = self.sender.send(request);
        sent.map_err(|_| StorageError::Closed)
    }

    /// A fork has no writer that could answer.
    fn check_owner(&self) -> Result<(), StorageError> {
        match self.owner.is_forked() {
            true => Err(StorageError::Forked),
            false => Ok(()),
        }
    }
}
