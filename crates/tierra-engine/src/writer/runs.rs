//! Runs of keys follow the segments: they are made in the background after a commit, joined while they are small, and made
//! again where they turn out to be damaged.
//!
//! A run is joined with those before it while each of them has at most twice as many rows, and all together not too many
//! for one; so a table has logarithmically many, and a key is written again logarithmically often. Dictionary merges
//! change no row's number, and so no run.
//!
//! Invariant: copy on write. One manifest names the new run instead of those that it replaces; until then rows without a run
//! are in near memory, and a run that was given up stays with whoever reads until others list all of its rows.

use std::sync::Arc;

use tierra_column::FormatError;

use super::Writer;
use super::index::{Job, Work};
use crate::error::{ScanError, StorageError};
use crate::key::{Entry, KeyRun, MergeError, merge, store_run};
use crate::manifest::TableEntry;
use crate::replicas::TierId;
use crate::segment::Segment;
use crate::storage::Storage;
use crate::table::Table;
use crate::version::TableVersion;

/// A run with at most this many times the rows of those behind it is joined with them.
const JOINED_TIMES: u64 = 2;
/// Rows that joining ends with: near memory holds the new run, packed, until it is written.
const RUN_ROWS_MAX: u64 = 1 << 27;
/// Rows that are sorted at a time: near memory holds 16 bytes of each.
const SORTED_ROWS_MAX: u64 = 1 << 23;
/// Stands for the key where failures of columns are remembered.
const KEY: usize = usize::MAX;

/// A run that is to be made.
pub(super) struct RunStep {
    /// Has these segments.
    version: Arc<TableVersion>,
    /// Whose keys are read.
    segments: Vec<Arc<Segment>>,
    /// Runs that it replaces.
    replaced: Vec<Arc<KeyRun>>,
    /// Where copies of it are to lie.
    homes: Vec<TierId>,
}

/// Why a run was not made.
pub(super) enum RunError {
    Storage(StorageError),
    /// One that it was to replace is damaged.
    Damaged(Arc<KeyRun>, FormatError),
}

impl<E: Into<StorageError>> From<E> for RunError {
    fn from(error: E) -> Self {
        Self::Storage(error.into())
    }
}

impl Writer {
    /// The next run to make of a table's keys.
    pub(super) fn next_run(&self, table: &Arc<Table>) -> Option<Job> {
        table.key()?;
        table.check_alive().ok()?;
        let version = table.current();
        let id = (table.id(), KEY);
        if !self.unbuilt.is_due(id, 0, version.rows()) {
            return None;
        }
        let is_readable = |segment: &Segment| !self.unbuilt.is_left_out(id, segment.id());
        let step = next_step(version, table.key_homes(), is_readable)?;
        Some(Job {
            table: table.clone(),
            work: Work::Run(step),
        })
    }

    /// Names a run that was made, or remembers why there is none.
    pub(super) fn publish_run(
        &mut self,
        table: &Arc<Table>,
        step: &RunStep,
        made: Result<Arc<KeyRun>, RunError>,
    ) {
        let name = &table.spec().name;
        let published = match made {
            // It is made again where its copies are to lie by now.
            Ok(run) if !self.lies_at_home(table, &run, step) => Ok(()),
            Ok(run) => self.name_run(table, step, &run),
            Err(RunError::Damaged(run, error)) => {
                if run.give_up() {
                    tracing::warn!(table = name, %error, "a part of the index of keys is damaged: it is built again");
                }
                Ok(())
            }
            Err(RunError::Storage(error)) => Err(error),
        };
        let id = (table.id(), KEY);
        match published {
            Ok(()) | Err(StorageError::Closed | StorageError::Dropped { .. }) => {}
            Err(StorageError::Scan(error)) if let ScanError::Damaged { segment, .. } = *error => {
                // Its keys stay out of runs, all others need not.
                self.unbuilt.leave_out(id, segment);
                tracing::warn!(table = name, %error, "the keys of a segment could not be indexed");
            }
            Err(error) => {
                self.unbuilt.note(id, 0, table.current().rows());
                tracing::warn!(table = name, %error, "an index of keys could not be stored");
            }
        }
    }

    fn lies_at_home(&self, table: &Table, run: &KeyRun, step: &RunStep) -> bool {
        let tiers = self.storage.tiers();
        let mut copies = run.extent().copies().iter();
        table.key_homes() == step.homes && copies.all(|copy| tiers.get(copy.tier()).is_some())
    }

    fn name_run(
        &mut self,
        table: &Arc<Table>,
        step: &RunStep,
        run: &Arc<KeyRun>,
    ) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let is_replaced = |old: &Arc<KeyRun>| {
            let mut replaced = step.replaced.iter();
            replaced.any(|replaced| Arc::ptr_eq(replaced.entry(), old.entry()))
        };
        let left = current.keys.runs().iter().filter(|old| !is_replaced(old));
        let (given_up, kept): (Vec<_>, Vec<_>) = left.cloned().partition(|old| old.is_given_up());
        let mut runs = kept;
        runs.push(run.clone());
        entry.runs = runs.iter().map(|run| run.entry().clone()).collect();
        let next = self.published.with_table(entry);
        self.publish(next, vec![run.extent().clone()])?;
        let is_listed = |id: &u32| runs.iter().any(|run| run.covers(*id));
        let is_needed = |old: &Arc<KeyRun>| !old.entry().segments.iter().all(is_listed);
        let needed: Vec<_> = given_up.into_iter().filter(is_needed).collect();
        runs.extend(needed);
        table.publish(TableVersion {
            segments: current.segments.clone(),
            dictionaries: current.dictionaries.clone(),
            indexes: current.indexes.clone(),
            tail: current.tail.clone(),
            keys: current.keys.with_rows_in_runs(runs),
        });
        Ok(())
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
            entries.extend(storage.whole(read)??);
        }
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
        let built = storage.whole(|| merge(&self.replaced, &entries, storage.closing()))?;
        let built = built.map_err(|error| match error {
            MergeError::Damaged(run, error) => RunError::Damaged(run, error),
            MergeError::Interrupted => StorageError::Closed.into(),
        })?;
        let replaced = self.replaced.iter();
        let listed = replaced.flat_map(|run| run.entry().segments.iter().copied());
        let new = self.segments.iter().map(|segment| segment.id());
        let mut segments: Vec<u32> = new.chain(listed).collect();
        segments.sort_unstable();
        Ok(store_run(table, segments, built)?)
    }
}

/// Segments that no run lists, with the last runs as far as these are to be joined with them, or among themselves; `None`
/// where everything is as it should be.
fn next_step(
    version: Arc<TableVersion>,
    homes: Vec<TierId>,
    is_readable: impl Fn(&Segment) -> bool,
) -> Option<RunStep> {
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
    is_work.then(|| RunStep {
        version: version.clone(),
        segments,
        replaced,
        homes,
    })
}
