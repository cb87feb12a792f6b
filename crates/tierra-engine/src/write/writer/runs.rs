//! Runs of keys, made in the background after a commit, joined while they are small, and rebuilt when they turn out to be
//! damaged.
//!
//! A run is joined with those before it while each has at most twice as many rows and all together are not too large for one run.
//! So a table has logarithmically many runs, and a key is written again logarithmically often. Dictionary merges change no row
//! number, and so no run.
//!
//! Invariant: copy on write. One manifest names the new run instead of those that it replaces. Until then, the keys of rows
//! without a run are in near memory, and a run that was given up stays usable until other runs list all of its rows.

use std::sync::Arc;

use super::jobs::{Job, JobKind};
use super::run_step::{RunError, RunStep};
use super::state::Writer;
use crate::error::{ScanError, StorageError};
use crate::index::key::KeyRun;
use crate::manifest::TableEntry;
use crate::segment::Segment;
use crate::table::Table;
use crate::table::version::TableVersion;

/// Stands for the key in the record of failures by column.
const KEY: usize = usize::MAX;

impl Writer {
    /// The next run to make of a table's keys.
    pub(super) fn next_run(&self, table: &Arc<Table>) -> Option<Job> {
        table.key()?;
        table.check_alive().ok()?;
        let version = table.current();
        let id = (table.id(), KEY);
        if !self.failed_builds.is_due(id, 0, version.rows()) {
            return None;
        }
        let is_readable = |segment: &Segment| !self.failed_builds.is_left_out(id, segment.id());
        let step = RunStep::next(version, table.key_tiers(), is_readable)?;
        Some(Job {
            table: table.clone(),
            work: JobKind::Run(step),
        })
    }

    /// Publishes a run that was made, or remembers why there is none.
    pub(super) fn publish_run(
        &mut self,
        table: &Arc<Table>,
        step: &RunStep,
        made: Result<Arc<KeyRun>, RunError>,
    ) {
        let name = &table.spec().name;
        let published = match made {
            // The placement has changed, or segments are gone: the run is made again.
            Ok(run) if !self.lies_in_placement(table, &run, step) => Ok(()),
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
                // Only this segment's keys stay out of runs.
                self.failed_builds.leave_out(id, segment);
                tracing::warn!(table = name, %error, "the keys of a segment could not be indexed");
            }
            Err(error) => {
                self.failed_builds.note(id, 0, table.current().rows());
                tracing::warn!(table = name, %error, "an index of keys could not be stored");
            }
        }
    }

    fn lies_in_placement(&self, table: &Table, run: &KeyRun, step: &RunStep) -> bool {
        let tiers = self.storage.tiers();
        let mut copies = run.extent().copies().iter();
        let (current, mut covered) = (table.current(), run.entry().segments.iter());
        covered.all(|id| current.segments.get(*id).is_some())
            && table.key_tiers() == step.tier_ids
            && copies.all(|copy| tiers.get(copy.tier()).is_some())
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
            keys: current.keys.with_rows_in_runs(runs),
            ..current.next()
        });
        Ok(())
    }
}
