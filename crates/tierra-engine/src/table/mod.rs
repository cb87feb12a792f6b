//! A table: what it is declared to be, its current version, and the ways in.
//!
//! Every method that writes sends a request to the database's one writer thread and blocks until it
//! is durable: from async code, call them through `spawn_blocking`. Reading starts with
//! [`Table::snapshot`], which takes no lock.
//!
//! Invariant: the version only ever moves forward, and only the writer moves it.

pub(crate) mod catalog;
pub(crate) mod gate;
pub(crate) mod input;
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
use crate::table::gate::Gate;
use crate::table::input::Input;
use crate::table::requests::{Request, Requests};
use crate::table::version::TableVersion;

/// What of a table cannot be read.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// Whole rows, or what reading any needs. What its version has of it is not all.
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
    /// Of its columns, side by side.
    types: Box<[LogicalType]>,
    input: Input,
    key: Option<KeyColumns>,
    current: ArcSwap<TableVersion>,
    placement: ArcSwap<ReplicaPlacement>,
    dictionaries: TableDictionaries,
    gate: Arc<Gate>,
    /// Of reading single cells, near and far ones.
    cell_gates: [MemoryGate; 2],
    next_segment_id: AtomicU32,
    dropped: AtomicBool,
    /// Why some of what it holds is not there, if so.
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
            gate: Arc::default(),
            cell_gates: [Speed::Near, Speed::Far]
                .map(|speed| storage.calibration.gate(LookupKind::Cell, speed)),
            next_segment_id: AtomicU32::new(next_segment_id),
            dropped: AtomicBool::new(false),
            missing: OnceLock::new(),
            storage,
            requests,
        })
    }

    /// What of it cannot be read: whatever needs that is told so. Called before anybody sees the table.
    pub(crate) fn lacks(&self, missing: Missing) {
        // Once: nobody makes it whole again.
        let _ = self.missing.set(missing);
    }

    /// Whether its rows can be read, if perhaps not all columns: a reader of one that is not there is told then.
    ///
    /// # Errors
    /// [`UnavailableError`]: some lie in a tier that is missing, or are damaged.
    #[inline]
    pub fn check_available(&self) -> Result<(), UnavailableError> {
        match self.missing.get() {
            Some(Missing::Rows(why)) => Err(why.clone()),
            Some(Missing::Columns(_)) | None => Ok(()),
        }
    }

    /// Whether all of it can be read, so that it can be written to: what is written is checked against it, and says what it
    /// consists of.
    ///
    /// # Errors
    /// [`UnavailableError`]: something of it lies in a tier that is missing, or is damaged.
    pub(crate) fn check_complete(&self) -> Result<(), UnavailableError> {
        match self.missing.get() {
            Some(Missing::Rows(why) | Missing::Columns(why)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Unique in its database, and never reused: a table that is dropped and created again has
    /// another one.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it is declared to be.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    pub(crate) fn shared_spec(&self) -> Arc<TableSpec> {
        self.spec.clone()
    }

    /// The schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The tiers that its extents should have copies in.
    pub(crate) fn placement(&self) -> Arc<ReplicaPlacement> {
        self.placement.load_full()
    }

    /// New extents get their copies there from now on.
    pub(crate) fn move_to(&self, placement: ReplicaPlacement) {
        self.placement.store(Arc::new(placement));
    }

    /// The types of its columns.
    pub(crate) fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// Gives the table other tiers to have copies in, and makes and drops copies until it has them there: on return all
    /// rows are there. Queries and appends go on meanwhile, as far as they do not wait for the one writer. Restarted by
    /// the next open if it is interrupted. Blocks.
    ///
    /// # Errors
    /// [`TableError::Replicas`]: nothing has changed. [`TableError::Storage`]: the tiers are the table's from now on, but some
    /// copies are missing; the rows are where they were.
    pub fn set_replicas(self: &Arc<Self>, replicas: &Replicas) -> Result<(), TableError> {
        self.requests.ask(|reply| Request::Place {
            table: self.clone(),
            replicas: replicas.clone(),
            reply,
        })?
    }

    /// The tiers that it should have copies in.
    pub fn replicas(&self) -> Replicas {
        let (placement, tiers) = (self.placement(), self.storage.tiers());
        let names = |ids: &[TierId]| ids.iter().map(|id| tiers.name(*id).to_owned()).collect();
        let column =
            |(at, ids): (&usize, &Vec<TierId>)| (self.spec.columns[*at].name.clone(), names(ids));
        Replicas {
            table: names(&placement.table),
            columns: placement.columns.iter().map(column).collect(),
        }
    }

    /// Seals the tail into a segment, as happens by itself when it is full. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]; the table is unchanged.
    pub fn seal(self: &Arc<Self>) -> Result<(), TableError> {
        Ok(self.requests.ask(|reply| Request::Seal {
            table: self.clone(),
            reply,
        })??)
    }

    /// Writes a new generation of every dictionary that has a delta, and the chunks that use it, as
    /// happens by itself when a delta passes a tenth. Waits for loads to end. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]; the table is unchanged.
    pub fn merge_dictionaries(self: &Arc<Self>) -> Result<(), TableError> {
        let pass = self.gate.enter_merge();
        Ok(self.requests.ask(|reply| Request::Merge {
            table: self.clone(),
            pass,
            reply,
        })??)
    }

    /// Has the writer make copies that are missing, later.
    pub(crate) fn ask_to_heal(self: &Arc<Self>) {
        self.requests.send(Request::Heal {
            table: self.clone(),
        });
    }

    /// Has the writer build what is missing of the table's indexes.
    pub(crate) fn ask_for_indexes(self: &Arc<Self>) {
        if self.has_indexes() && self.check_complete().is_ok() {
            self.requests.send(Request::Index {
                table: self.clone(),
            });
        }
    }

    /// Whether it has any index, of a column or of its keys.
    pub(crate) fn has_indexes(&self) -> bool {
        self.key.is_some() || self.spec.indexed_columns().next().is_some()
    }

    /// The tiers in which copies of the index of its keys should lie.
    pub(crate) fn key_tiers(&self) -> Vec<TierId> {
        let first = self.spec.primary_key.first();
        let placement = self.placement();
        first
            .map_or(&placement.table[..], |column| placement.of_column(*column))
            .to_vec()
    }

    /// Has the writer copy indexes near. Asked for after the segments' near copies: a column that
    /// wishes for one comes first.
    pub(crate) fn ask_for_index_copies(self: &Arc<Self>) {
        if self.has_indexes() {
            self.requests.send(Request::CopyIndexesNear {
                table: self.clone(),
            });
        }
    }

    /// Has the writer copy these segments near, one by one, as long as the budget lasts.
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

    /// The way to the writer.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Has to come before anything is written by another thread than the writer.
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

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The gate of cells in chunks of a tier.
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

    /// A segment id that nobody had before. One that a failed load took is lost.
    pub(crate) fn new_segment_id(&self) -> Result<u32, StorageError> {
        let next = |id: u32| id.checked_add(1);
        let taken = self
            .next_segment_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map_err(|_| StorageError::SegmentIds {
            table: self.spec.name.clone(),
        })
    }

    /// The id that is taken next: every published one is smaller.
    pub(crate) fn next_segment_id(&self) -> u32 {
        self.next_segment_id.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    /// Fails once the table was dropped.
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
        // Where a snapshot outlived DROP TABLE, this is when its space is free.
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
