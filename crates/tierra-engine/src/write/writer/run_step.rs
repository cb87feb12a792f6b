//! Makes a run of keys from segments that no run lists, joined with small runs.

use std::sync::Arc;

use tierra_column::FormatError;

use crate::error::StorageError;
use crate::index::key::{Entry, KeyRun, MergeError, merge, store_run};
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::table::Table;
use crate::table::version::TableVersion;

/// A run with at most this many times the rows of those after it is joined with them.
const JOINED_TIMES: u64 = 2;
/// The most rows of a joined run: near memory holds the new run, packed, until it is written.
const RUN_ROWS_MAX: u64 = 1 << 27;
/// The most rows sorted at a time: near memory holds 16 bytes of each.
const SORTED_ROWS_MAX: u64 = 1 << 23;
/// A run to be made.
pub(super) struct RunStep {
    /// The version that has these segments.
    version: Arc<TableVersion>,
    /// The segments whose keys are read.
    segments: Vec<Arc<Segment>>,
    /// Runs that it replaces.
    pub(super) replaced: Vec<Arc<KeyRun>>,
    /// The tiers for its copies.
    pub(super) tier_ids: Vec<TierId>,
}

/// Why a run was not made.
pub(super) enum RunError {
    Storage(StorageError),
    /// A run that it was to replace is damaged.
    Damaged(Arc<KeyRun>, FormatError),
}

impl<E: Into<StorageError>> From<E> for RunError {
    fn from(error: E) -> Self {
        Self::Storage(error.into())
    }
}

impl RunStep {
    /// Makes the run, on any thread.
    pub(super) fn run(
        &self,
        storage: &Arc<Storage>,
        table: &Table,
    ) -> Result<Arc<KeyRun>, RunError> {
        let (key, spec) = (table.key().ok_or(StorageError::Closed)?, table.spec());
        table.check_alive()?;
        let rows = self.segments.iter().map(|segment| segment.rows());
        let mut entries: Vec<Entry> = Vec::with_capacity(rows.sum());
        for segment in &self.segments {
            if storage.is_closing() {
                return Err(StorageError::Closed.into());
            }
            let read = || key.segment_entries(spec, &self.version, segment);
            entries.extend(storage.read_validated(read)??);
        }
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
        let built =
            storage.read_validated(|| merge(&self.replaced, &entries, storage.closing()))?;
        let built = built.map_err(|error| match error {
            MergeError::Damaged(run, error) => RunError::Damaged(run, error),
            MergeError::Interrupted => StorageError::Closed.into(),
        })?;
        let replaced = self.replaced.iter();
        let listed = replaced.flat_map(|run| run.entry().segments.iter().copied());
        let new = self.segments.iter().map(|segment| segment.id());
        let mut segments: Vec<u32> = new.chain(listed).collect();
        segments.sort_unstable();
        Ok(store_run(
            storage,
            table.id(),
            &self.tier_ids,
            segments,
            built,
        )?)
    }

    /// Segments that no run lists, with the last runs if these are to be joined with them or with each other; `None` if there is
    /// nothing to do.
    pub(super) fn next(
        version: Arc<TableVersion>,
        tier_ids: Vec<TierId>,
        is_readable: impl Fn(&Segment) -> bool,
    ) -> Option<Self> {
        let runs = version.keys.runs().iter();
        let runs: Vec<_> = runs.filter(|run| !run.is_given_up()).collect();
        let is_listed = |segment: &Segment| runs.iter().any(|run| run.covers(segment.id()));
        let (mut segments, mut rows) = (Vec::new(), 0);
        let unlisted = version.segments.iter();
        for segment in unlisted.filter(|segment| is_readable(segment) && !is_listed(segment)) {
            if rows + segment.rows() as u64 > SORTED_ROWS_MAX {
                break;
            }
            rows += segment.rows() as u64;
            segments.push(segment.clone());
        }
        let mut replaced = Vec::new();
        for run in runs.iter().rev() {
            let is_first = segments.is_empty() && replaced.is_empty();
            let is_small = run.rows() <= JOINED_TIMES * rows && run.rows() + rows <= RUN_ROWS_MAX;
            if !is_first && !is_small {
                break;
            }
            rows += run.rows();
            replaced.push(Arc::clone(run));
        }
        let is_work = !segments.is_empty() || replaced.len() > 1;
        is_work.then(|| Self {
            version: version.clone(),
            segments,
            replaced,
            tier_ids,
        })
    }
}
