//! Compaction: segments with many deleted rows, and small ones, become others, in the background.
//!
//! Invariant: copy on write. One manifest names the new segment instead of those that it replaces, with the rows that were deleted
//! meanwhile. Snapshots go on with the old ones, and a commit finds rows again that it knows by their old numbers
//! ([`Numbering::follow`]).

use std::sync::Arc;

use super::background::BackgroundTask;
use super::compact_step::{CompactStep, Compacted, is_worn};
use super::jobs::{Job, JobKind};
use super::run_step::RunError;
use super::state::Writer;
use crate::deleted::numbering::{MovedSegment, Moves, Numbering};
use crate::deleted::row_ids::RowIds;
use crate::deleted::{DeletedRows, Deletions};
use crate::error::StorageError;
use crate::index::inverted::InvertedPart;
use crate::index::key::KeyRun;
use crate::manifest::TableEntry;
use crate::segment::{Segment, Segments};
use crate::table::Table;
use crate::table::version::TableVersion;

/// Stands for compaction in the record of failures by column.
const COMPACTION: usize = usize::MAX - 1;

impl Writer {
    /// The next segments of a table to compact.
    pub(super) fn next_compaction(&self, table: &Arc<Table>) -> Option<Job> {
        table.check_alive().ok()?;
        let version = table.current();
        let id = (table.id(), COMPACTION);
        if !self.failed_builds.is_due(id, 0, version.stored_rows()) {
            return None;
        }
        let is_readable = |segment: &Segment| !self.failed_builds.is_left_out(id, segment.id());
        let step = CompactStep::next(version, table, is_readable)?;
        Some(Job {
            table: table.clone(),
            work: JobKind::Compact(step),
        })
    }

    /// Compacts a table in the background if one of the segments in which these rows were deleted is worth it.
    pub(super) fn compact_if_worn(&mut self, table: &Arc<Table>, deleted: &RowIds) {
        if deleted.is_empty() {
            return;
        }
        let version = table.current();
        let is_worn = |(id, _): (u32, _)| {
            let segment = version.segments.get(id);
            segment.is_some_and(|segment| is_worn(&version, segment))
        };
        if deleted.by_segment().any(is_worn) {
            self.background.push(BackgroundTask::Compact(table.clone()));
        }
    }

    /// Publishes a compaction, or remembers why there is none.
    pub(super) fn publish_compaction(
        &mut self,
        table: &Arc<Table>,
        step: &CompactStep,
        made: Result<Compacted, RunError>,
    ) {
        let name = &table.spec().name;
        let published = match made {
            Ok(compacted) => self.name_compacted(table, step, compacted),
            Err(RunError::Damaged(run, error)) => {
                if run.give_up() {
                    tracing::warn!(table = name, %error, "a part of the index of keys is damaged: it is built again");
                }
                Ok(false)
            }
            Err(RunError::Storage(error)) => Err(error),
        };
        // Done, or not to be tried again at once.
        self.background.pop();
        let is_done = matches!(published, Ok(true));
        match published {
            Ok(_) | Err(StorageError::Closed | StorageError::Dropped { .. }) => {}
            Err(error) => {
                let id = (table.id(), COMPACTION);
                self.failed_builds
                    .note(id, 0, table.current().stored_rows());
                tracing::warn!(table = name, %error, "segments could not be compacted");
            }
        }
        let pass = step.take_pass();
        if is_done {
            drop(pass);
            self.give_back_space();
            // A caller that waits for background work waits for the indexes, too; then the next segments are compacted.
            self.background
                .push_front(BackgroundTask::CopyIndexes(table.clone()));
            self.background
                .push_front(BackgroundTask::Index(table.clone()));
        } else if let Some(pass) = pass {
            pass.undo(|| table.dictionaries().reset(&table.current().dictionaries));
        }
    }

    /// Names the new segment and runs in a manifest. Returns whether the table still has what they replace.
    fn name_compacted(
        &mut self,
        table: &Arc<Table>,
        step: &CompactStep,
        compacted: Compacted,
    ) -> Result<bool, StorageError> {
        let Compacted {
            segment,
            replaced,
            run,
        } = compacted;
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let runs = current.keys.runs();
        let is_same = |a: &Arc<KeyRun>, b: &Arc<KeyRun>| Arc::ptr_eq(a.entry(), b.entry());
        let is_there = |run: &Arc<KeyRun>| runs.iter().any(|other| is_same(other, run));
        let mut moved = step.segments.iter();
        // What was truncated, or read by other runs meanwhile, is not to be replaced.
        if !moved.all(|segment| current.segments.get(segment.id()).is_some())
            || !replaced.iter().all(|(old, _)| is_there(old))
            || !runs.iter().all(|run| {
                let covers = step.segments.iter().any(|segment| run.covers(segment.id()));
                !covers || replaced.iter().any(|(old, _)| is_same(old, run))
            })
        {
            return Ok(false);
        }
        let stays = |segment: &&Arc<Segment>| !step.moves(segment.id());
        let added = segment.map(|encoded| encoded.segment);
        let ids: Vec<u32> = added.iter().map(|segment| segment.id()).collect();
        let kept = current.segments.iter().filter(stays).cloned();
        let segments: Segments = kept.chain(added).collect();
        let covers_none = |part: &&Arc<InvertedPart>| {
            !step
                .segments
                .iter()
                .any(|segment| part.covers(segment.id()))
        };
        let indexes: Vec<_> = current
            .indexes
            .iter()
            .filter(covers_none)
            .cloned()
            .collect();
        entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
        let mut next_runs: Vec<Arc<KeyRun>> = Vec::with_capacity(runs.len() + 1);
        let mut fresh = Vec::new();
        for old in runs {
            let new = replaced.iter().find(|(replaced, _)| is_same(replaced, old));
            match new {
                None => next_runs.push(old.clone()),
                Some((_, new)) => {
                    fresh.extend(new.iter().map(|run| run.extent().clone()));
                    next_runs.extend(new.clone());
                }
            }
        }
        fresh.extend(run.iter().map(|run| run.extent().clone()));
        next_runs.extend(run);
        let named = next_runs.iter().filter(|run| !run.is_given_up());
        entry.runs = named.map(|run| run.entry().clone()).collect();
        let kept = current.deletions.iter().filter(|(id, _)| !step.moves(*id));
        let kept = kept.map(|(id, rows)| (id, rows.clone()));
        let from = step.moved_segments();
        let gone = ids.iter().map(|id| (*id, gone_since(&from, &current)));
        let deletions: Deletions = kept.chain(gone).collect();
        let numbering = Arc::new(Numbering::default());
        let before = &current.dictionaries;
        let (dictionaries, new) = self.name_segments(table, &mut entry, &segments, before)?;
        fresh.extend(new);
        fresh.extend(self.store_deletions(&mut entry, &deletions)?);
        let next = self.published.with_table(entry);
        self.publish(next, fresh)?;
        current.numbering.moved(Moves {
            from,
            to: ids.first().copied(),
            next: numbering.clone(),
        });
        table.publish(TableVersion {
            segments,
            dictionaries,
            indexes: indexes.into(),
            deletions,
            numbering,
            keys: current.keys.with_runs(next_runs),
            ..current.next()
        });
        table.ask_for_near_copies(ids);
        Ok(true)
    }
}

/// The rows of the new segment that were deleted since the work on it began.
fn gone_since<'a>(from: &'a [MovedSegment], now: &'a TableVersion) -> Arc<DeletedRows> {
    let of_segment = move |moved: &'a MovedSegment| {
        let rows = now.deletions.of(moved.id).into_iter();
        moved.moved(rows.flat_map(|rows| rows.iter())).flatten()
    };
    Arc::new(from.iter().flat_map(of_segment).collect())
}
