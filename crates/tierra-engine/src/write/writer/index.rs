//! Builds inverted indexes after commits: parts are built in the background, joined, and rebuilt after a dictionary merge or when
//! they turn out to be damaged.
//!
//! A part is joined with the one before it if that has at most twice as many rows and both are not too large for one part. So a
//! table has logarithmically many parts, and each row is indexed again logarithmically often. A thread ([`super::background`])
//! builds a part from immutable segments and an immutable dictionary, while the writer goes on.
//!
//! Invariant: copy on write. One manifest names the new part instead of those that it replaces. Rows without a part are scanned.
//! A part whose codes are not the column's current ones is never named.

use std::sync::Arc;

use tierra_column::PostingsError;

use super::background::BackgroundTask;
use super::jobs::{Ended, Job, JobKind, Made, PartStep};
use super::near;
use super::run_step::RunError;
use super::state::Writer;
use crate::error::{ScanError, StorageError};
use crate::index::inverted::InvertedPart;
use crate::manifest::TableEntry;
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::table::Table;
use crate::table::version::TableVersion;
use crate::tiering::objects::{self, Object};

impl Writer {
    /// Builds a table's indexes and copies them near, in the background.
    pub(super) fn index_in_background(&mut self, table: &Arc<Table>) {
        if table.has_indexes() {
            self.background.push(BackgroundTask::Index(table.clone()));
            self.background
                .push(BackgroundTask::CopyIndexes(table.clone()));
        }
    }

    /// Begins the next task, or the next job of the current one.
    pub(super) fn go_on_in_background(&mut self) {
        while !self.storage.is_closing()
            && let Some(task) = self.background.next()
        {
            let job = match task {
                BackgroundTask::Index(_) | BackgroundTask::Compact(_)
                    if !self.storage.is_settled() =>
                {
                    None
                }
                BackgroundTask::Index(table) => {
                    self.next_run(table).or_else(|| self.next_part(table))
                }
                BackgroundTask::CopyIndexes(table) => self.copies_of(table),
                BackgroundTask::CopyChunks(table, segment) => {
                    near::job(&self.storage, table, *segment)
                }
                BackgroundTask::Keys(table, version) => Job::of_keys(table, version),
                BackgroundTask::Compact(table) => self.next_compaction(table),
                BackgroundTask::Answer(_) => None,
            };
            let Some(job) = job else {
                match self.background.pop() {
                    Some(BackgroundTask::Answer(reply)) => {
                        let _ = reply.send(());
                    }
                    // Segments are compacted once their keys are in runs.
                    Some(BackgroundTask::Index(table)) => {
                        self.background.push_front(BackgroundTask::Compact(table))
                    }
                    _ => {}
                }
                continue;
            };
            if let Err(ended) = self.background.start(&self.storage, &self.requests, job) {
                self.publish_job(ended);
            }
        }
    }

    /// The next part to build for a table's indexes.
    fn next_part(&self, table: &Arc<Table>) -> Option<Job> {
        let current = table.current();
        table.check_alive().ok()?;
        table.spec().indexed_columns().find_map(|column| {
            let dictionary = current.dictionaries[column].clone()?;
            let id = (table.id(), column);
            if !self
                .failed_builds
                .is_due(id, dictionary.generation(), current.segments.rows())
            {
                return None;
            }
            let is_readable = |segment: &Segment| !self.failed_builds.is_left_out(id, segment.id());
            let step = PartStep::next(&current, column, is_readable)?;
            Some(Job {
                table: table.clone(),
                work: JobKind::Build {
                    column,
                    dictionary,
                    tier_ids: table.placement().of_column(column),
                    step,
                },
            })
        })
    }

    /// The parts and runs of a table's indexes to be copied near.
    fn copies_of(&self, table: &Arc<Table>) -> Option<Job> {
        let current = table.current();
        let wants = |object: &Object<'_>| {
            let is_chunk = matches!(object, Object::Chunk(..));
            !is_chunk && object.near_preference(table.spec()) != Some(false)
        };
        let indexes = objects::objects(&current).filter(wants);
        let indexes: Vec<_> = indexes.map(|object| object.name()).collect();
        (!indexes.is_empty()).then(|| Job {
            table: table.clone(),
            work: JobKind::Copy { objects: indexes },
        })
    }

    /// Takes the result of the job that has ended.
    pub(super) fn end_job(&mut self) {
        if let Some(ended) = self.background.ended() {
            self.publish_job(ended);
        }
    }

    /// Makes a job's result part of its table.
    fn publish_job(&mut self, ended: Ended) {
        let Ended { job, made } = ended;
        let table = &job.table;
        match &job.work {
            JobKind::Build {
                column,
                dictionary,
                tier_ids,
                step,
            } => {
                let is_of_now = |part: &InvertedPart| self.is_of_now(table, part, tier_ids);
                let built = match made {
                    Made::Part(Ok(part)) if !is_of_now(&part) => Ok(()),
                    Made::Part(Ok(part)) => self.publish_part(table, step, &part),
                    Made::Part(Err(error)) => Err(error),
                    Made::Nothing { why } => Err(StorageError::Index {
                        column: table.spec().columns[*column].name.clone(),
                        source: PostingsError::Thread { why },
                    }),
                    Made::Copies { .. } | Made::Keys(_) | Made::Run(_) | Made::Compacted(_) => {
                        Ok(())
                    }
                };
                if let Err(error) = built {
                    self.note_failure(table, *column, dictionary.generation(), error);
                }
            }
            JobKind::Run(step) => match made {
                Made::Run(run) => self.publish_run(table, step, run),
                Made::Nothing { why } => self.publish_run(table, step, Err(no_thread(why))),
                Made::Part(_) | Made::Copies { .. } | Made::Keys(_) | Made::Compacted(_) => {}
            },
            JobKind::Compact(step) => match made {
                Made::Compacted(made) => self.publish_compaction(table, step, made),
                Made::Nothing { why } => self.publish_compaction(table, step, Err(no_thread(why))),
                Made::Part(_) | Made::Copies { .. } | Made::Keys(_) | Made::Run(_) => {}
            },
            JobKind::Keys { .. } => {
                self.background.pop();
                if let Made::Keys(Err(error)) = made {
                    // Later lookups return the error.
                    let table = &table.spec().name;
                    tracing::warn!(table, %error, "an index of keys could not be built");
                }
            }
            JobKind::Copy { .. } => {
                self.background.pop();
                let Made::Copies { copied, damaged } = made else {
                    return;
                };
                if !copied.is_empty() {
                    near::place(&self.storage, table, copied);
                }
                if damaged {
                    // Copied right after it was built, the part is not read again.
                    self.background
                        .push_front(BackgroundTask::CopyIndexes(table.clone()));
                    self.background
                        .push_front(BackgroundTask::Index(table.clone()));
                }
            }
        }
    }

    /// Whether a new part covers segments that are still there, has the current codes of its column, and its copies in the
    /// column's current tiers; if not, it is built again.
    fn is_of_now(&self, table: &Table, part: &InvertedPart, tier_ids: &[TierId]) -> bool {
        let (current, tiers) = (table.current(), self.storage.tiers());
        let now = current.dictionary(part.column());
        let mut copies = part.extent().copies().iter();
        let mut covered = part.entry().segments.iter();
        covered.all(|id| current.segments.get(*id).is_some())
            && now.is_some_and(|now| now.generation() == part.entry().generation)
            && table.placement().of_column(part.column()) == tier_ids
            && copies.all(|copy| tiers.get(copy.tier()).is_some())
    }

    /// Publishes a part that was built.
    fn publish_part(
        &mut self,
        table: &Arc<Table>,
        step: &PartStep,
        part: &Arc<InvertedPart>,
    ) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let is_kept = |part: &&Arc<InvertedPart>| {
            let is_same = |other: &Arc<InvertedPart>| Arc::ptr_eq(other.entry(), part.entry());
            !step.replaced.iter().any(is_same) && !part.is_given_up()
        };
        let kept = current.indexes.iter().filter(is_kept);
        let indexes: Vec<_> = kept.cloned().chain([part.clone()]).collect();
        entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
        let next = self.published.with_table(entry);
        self.publish(next, vec![part.extent().clone()])?;
        publish_parts(table, &current, indexes);
        Ok(())
    }

    /// Notes a failure. No request waits for an index, and without one no row is missed: rows are scanned.
    fn note_failure(&mut self, table: &Table, column: usize, generation: u64, error: StorageError) {
        let (id, name) = ((table.id(), column), &table.spec().name);
        match error {
            StorageError::Closed | StorageError::Dropped { .. } => {}
            StorageError::Scan(error) if let ScanError::Damaged { segment, .. } = *error => {
                // Only this segment's rows stay without an index.
                self.failed_builds.leave_out(id, segment);
                tracing::warn!(table = name, %error, "a segment could not be indexed");
            }
            error => {
                let rows = table.current().segments.rows();
                self.failed_builds.note(id, generation, rows);
                let column = &table.spec().columns[column].name;
                tracing::warn!(table = name, column, %error, "an index could not be built");
            }
        }
    }
}

/// The error if no thread could be started for a run, or the thread ended early.
fn no_thread(why: String) -> RunError {
    let source = PostingsError::Thread { why };
    let column = "the primary key".to_owned();
    StorageError::Index { column, source }.into()
}

fn publish_parts(table: &Arc<Table>, current: &TableVersion, indexes: Vec<Arc<InvertedPart>>) {
    table.publish(TableVersion {
        indexes: indexes.into(),
        ..current.next()
    });
}
