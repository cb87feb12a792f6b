//! A table: its declaration, its current version and its methods.
//!
//! Every method that writes sends a request to the database's one writer thread and blocks until the change is durable: from
//! async code, call it through `spawn_blocking`. Reading starts with [`Table::snapshot`], which takes no lock.
//!
//! Invariant: the version only moves forward, and only the writer moves it.

pub(crate) mod catalog;
pub(crate) mod input;
pub(crate) mod load_merge_lock;
pub(crate) mod near_object;
pub(crate) mod requests;
pub(crate) mod snapshot;
pub(crate) mod version;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use arrow::datatypes::SchemaRef;
use tierra_column::LogicalType;
use tierra_memory::{MemoryGate, Speed};

use crate::calibration::LookupKind;
use crate::dictionaries::TableDictionaries;
use crate::error::{StorageError, TableError, UnavailableError};
use crate::index::key::KeyColumns;
use crate::spec::TableSpec;
use crate::spec::replicas::{ReplicaPlacement, Replicas, TierId};
use crate::storage::Storage;
use crate::table::input::Input;
use crate::table::load_merge_lock::LoadMergeLock;
use crate::table::requests::{Request, Requests};
use crate::table::version::TableVersion;

/// The part of a table that cannot be read.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// Rows, or something that reading any row needs. The version of such a table is incomplete.
    Rows(UnavailableError),
    /// Chunks of some columns.
    Columns(UnavailableError),
}

impl Missing {
    pub(crate) fn why(&self) -> &UnavailableError {
        match self {
            Self::Rows(why) | Self::Columns(why) => why,
        }
    }
}

/// A table of an open [`Database`](crate::Database). Shared as `Arc`.
pub struct Table {
    id: u64,
    spec: Arc<TableSpec>,
    schema: SchemaRef,
    /// The columns' types, side by side.
    types: Box<[LogicalType]>,
    input: Input,
    key: Option<KeyColumns>,
    current: ArcSwap<TableVersion>,
    placement: ArcSwap<ReplicaPlacement>,
    dictionaries: TableDictionaries,
    load_merge_lock: Arc<LoadMergeLock>,
    /// Gates for reading single cells, near and far.
    cell_gates: [MemoryGate; 2],
    next_segment_id: AtomicU32,
    dropped: AtomicBool,
    /// Why a part of the table is missing; empty if the table is complete.
    missing: OnceLock<Missing>,
    storage: Arc<Storage>,
    requests: Requests,
}

impl Table {
    pub(crate) fn new(
        id: u64,
        spec: Arc<TableSpec>,
        placement: ReplicaPlacement,
        version: TableVersion,
        next_segment_id: u32,
        storage: Arc<Storage>,
        requests: Requests,
    ) -> Arc<Self> {
        let schema = spec.schema();
        Arc::new(Self {
            id,
            input: Input::new(spec.clone(), schema.clone()),
            key: KeyColumns::of(
                &spec,
                storage.calibration.gate(LookupKind::Key, Speed::Near),
            ),
            dictionaries: TableDictionaries::new(
                &version.dictionaries,
                storage.calibration.clone(),
            ),
            types: spec.columns.iter().map(|column| column.ty).collect(),
            spec,
            schema,
            current: ArcSwap::from_pointee(version),
            placement: ArcSwap::from_pointee(placement),
            load_merge_lock: Arc::default(),
            cell_gates: [Speed::Near, Speed::Far]
                .map(|speed| storage.calibration.gate(LookupKind::Cell, speed)),
            next_segment_id: AtomicU32::new(next_segment_id),
            dropped: AtomicBool::new(false),
            missing: OnceLock::new(),
            storage,
            requests,
        })
    }

    /// Records what cannot be read; requests that need it fail with this reason. Called before the table is shared.
    pub(crate) fn lacks(&self, missing: Missing) {
        // Set once: a table does not become complete again while it is open.
        let _ = self.missing.set(missing);
    }

    /// Checks that the rows can be read. Single columns may still be unavailable; reading one of those fails.
    ///
    /// # Errors [`UnavailableError`]: rows lie in a missing tier, or are damaged.
    #[inline]
    pub fn check_available(&self) -> Result<(), UnavailableError> {
        match self.missing.get() {
            Some(Missing::Rows(why)) => Err(why.clone()),
            Some(Missing::Columns(_)) | None => Ok(()),
        }
    }

    /// Checks that the whole table can be read, so that it can be written: new rows are checked against all others, and a
    /// manifest lists the whole table.
    ///
    /// # Errors [`UnavailableError`]: a part of the table lies in a missing tier, or is damaged.
    pub(crate) fn check_complete(&self) -> Result<(), UnavailableError> {
        match self.missing.get() {
            Some(Missing::Rows(why) | Missing::Columns(why)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Unique in the database and never reused: a table that is dropped and created again gets another id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The table's declaration.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    pub(crate) fn shared_spec(&self) -> Arc<TableSpec> {
        self.spec.clone()
    }

    /// The schema of the table's batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The tiers in which the table's extents should have copies.
    pub(crate) fn placement(&self) -> Arc<ReplicaPlacement> {
        self.placement.load_full()
    }

    /// Places the copies of new extents there from now on.
    pub(crate) fn move_to(&self, placement: ReplicaPlacement) {
        self.placement.store(Arc::new(placement));
    }

    /// The columns' types.
    pub(crate) fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// Changes the tiers in which the table has copies, and the encodings of these, then makes and drops copies until the placement
    /// is reached: on return all rows lie there. Chunks keep the encoding that they have where none is asked for. Queries and appends go on meanwhile, unless they wait for the one writer. If it is interrupted, the next
    /// open restarts it. Blocks.
    ///
    /// # Errors [`TableError::Replicas`]: nothing has changed. [`TableError::Storage`]: the placement has changed, but some
    /// copies are missing; the rows lie where they did.
    pub fn set_replicas(self: &Arc<Self>, replicas: &Replicas) -> Result<(), TableError> {
        self.requests.ask(|reply| Request::Place {
            table: self.clone(),
            replicas: replicas.clone(),
            reply,
        })?
    }

    /// The tiers in which the table should have copies.
    pub fn replicas(&self) -> Replicas {
        self.storage.tiers().names(&self.placement(), &self.spec)
    }

    /// Seals the tail into a segment, as happens automatically when the tail is full. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]; the table is unchanged.
    pub fn seal(self: &Arc<Self>) -> Result<(), TableError> {
        Ok(self.requests.ask(|reply| Request::Seal {
            table: self.clone(),
            reply,
        })??)
    }

    /// Writes a new generation of every dictionary that has a delta, and the chunks that use it. This happens automatically when
    /// a delta exceeds a tenth. Waits for loads to end. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]; the table is unchanged.
    pub fn merge_dictionaries(self: &Arc<Self>) -> Result<(), TableError> {
        let pass = self.load_merge_lock.enter_merge();
        Ok(self.requests.ask(|reply| Request::Merge {
            table: self.clone(),
            pass,
            reply,
        })??)
    }

    /// Asks the writer to make missing copies in the background.
    pub(crate) fn ask_for_missing_copies(self: &Arc<Self>) {
        self.requests.send(Request::MakeCopies {
            table: self.clone(),
        });
    }

    /// Asks the writer to build the missing parts of the table's indexes.
    pub(crate) fn ask_for_indexes(self: &Arc<Self>) {
        if self.has_indexes() && self.check_complete().is_ok() {
            self.requests.send(Request::Index {
                table: self.clone(),
            });
        }
    }

    /// Whether the table has any index, of a column or of its keys.
    pub(crate) fn has_indexes(&self) -> bool {
        self.key.is_some() || self.spec.indexed_columns().next().is_some()
    }

    /// The tiers in which the key index should have copies.
    pub(crate) fn key_tiers(&self) -> Vec<TierId> {
        let first = self.spec.primary_key.first();
        let placement = self.placement();
        match first {
            Some(column) => placement.of_column(*column),
            None => placement.table.clone(),
        }
    }

    /// Asks the writer to copy indexes to near memory. Called after [`Self::ask_for_near_copies`]: columns that request a near
    /// copy come first.
    pub(crate) fn ask_for_index_copies(self: &Arc<Self>) {
        if self.has_indexes() {
            self.requests.send(Request::CopyIndexesNear {
                table: self.clone(),
            });
        }
    }

    /// Asks the writer to copy these segments to near memory, one by one, while the budget lasts.
    pub(crate) fn ask_for_near_copies(self: &Arc<Self>, segments: impl IntoIterator<Item = u32>) {
        for segment in segments {
            self.requests.send(Request::CopyNear {
                table: self.clone(),
                segment,
            });
        }
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn key(&self) -> Option<&KeyColumns> {
        self.key.as_ref()
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The channel to the writer.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Must be called before any thread other than the writer writes.
    pub(crate) fn begin_writing(&self) -> Result<(), StorageError> {
        match self.storage.is_settled() {
            true => Ok(()),
            false => self.requests.ask(|reply| Request::BeginWriting { reply })?,
        }
    }

    #[cfg(test)]
    pub(crate) fn shared_storage(&self) -> Arc<Storage> {
        self.storage.clone()
    }

    pub(crate) fn dictionaries(&self) -> &TableDictionaries {
        &self.dictionaries
    }

    pub(crate) fn load_merge_lock(&self) -> &Arc<LoadMergeLock> {
        &self.load_merge_lock
    }

    /// The gate for reading cells of chunks in a tier of this speed.
    pub(crate) fn cell_gate(&self, speed: Speed) -> &MemoryGate {
        match (&self.cell_gates, speed) {
            ([near, _], Speed::Near) => near,
            ([_, far], Speed::Far) => far,
        }
    }

    pub(crate) fn current(&self) -> Arc<TableVersion> {
        self.current.load_full()
    }

    /// Called by the writer only.
    pub(crate) fn publish(&self, version: TableVersion) {
        self.current.store(Arc::new(version));
    }

    /// A segment id that was never used before. The id of a load that fails is not reused.
    pub(crate) fn new_segment_id(&self) -> Result<u32, StorageError> {
        let next = |id: u32| id.checked_add(1);
        let taken = self
            .next_segment_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map_err(|_| StorageError::SegmentIds {
            table: self.spec.name.clone(),
        })
    }

    /// The next segment id: every published one is smaller.
    pub(crate) fn next_segment_id(&self) -> u32 {
        self.next_segment_id.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    /// Fails if the table was dropped.
    pub(crate) fn check_alive(&self) -> Result<(), StorageError> {
        match self.dropped.load(Ordering::Relaxed) {
            false => Ok(self.check_complete()?),
            true => Err(StorageError::Dropped {
                table: self.spec.name.clone(),
            }),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // If a snapshot outlived DROP TABLE, the table's space becomes free here.
        if *self.dropped.get_mut() {
            let version = TableVersion::without_rows(self.spec.columns.len(), 0);
            self.current.store(Arc::new(version));
            self.requests.send(Request::GiveBack);
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} {:?})", self.id, self.spec.name)
    }
}
