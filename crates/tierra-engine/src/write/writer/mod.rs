//! The single writer of a database: it appends, persists, seals and merges, one request after the other. It has a thread; a small
//! commit is made on the thread that asks for it ([`shared`]).
//!
//! Invariant: all durable state changes here and only here. So there is always exactly one newest manifest, and the effect of
//! every answered request is in it, or in a log that it names.

mod background;
mod choose;
mod commit;
mod compact;
mod compact_step;
mod deleted;
mod encodings;
mod failed_builds;
mod go_back;
mod group;
mod idle_marks;
mod index;
mod jobs;
mod logs;
mod losses;
mod merge;
mod near;
mod pin;
mod publish;
mod published;
mod replicas;
mod run_step;
mod runs;
mod shared;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod tiers;
mod writability;

use self::background::BackgroundTask;
pub(crate) use self::published::Published;
pub(crate) use self::shared::SharedWriter;
pub(crate) use self::state::Writer;
pub(crate) use self::writability::Unsettled;

use crate::error::Outcome;
use crate::table::requests::{PlacingStep, Queue, Request};

impl Writer {
    /// Runs an operation that writes; fails if the database cannot be written.
    fn writing<T, E: Outcome>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin_writing()?;
        work(self).map_err(|error| self.outcome(error))
    }

    /// The error of a write, which says if its outcome is unknown.
    fn outcome<E: Outcome>(&mut self, error: E) -> E {
        match self.has_failed_device() {
            // Later writes are rejected before anything is stored.
            true if !std::mem::replace(&mut self.has_told_failure, true) => error.unknown(),
            _ => error,
        }
    }

    /// Serves a request, and one that was taken from the queue with it. Returns whether the writer goes on.
    fn serve(&mut self, request: Request, queue: &Queue) -> bool {
        let mut next = Some(request);
        while let Some(request) = next {
            if !self.serve_one(request, queue) {
                return false;
            }
            self.go_on_in_background();
            next = self.put_back.take();
        }
        true
    }

    fn serve_one(&mut self, request: Request, queue: &Queue) -> bool {
        // A caller may not wait for its answer: failing to send one is no error.
        match request {
            Request::Create {
                spec,
                replicas,
                reply,
            } => {
                let _ = reply.send(self.writing(|this| this.create_table(spec, &replicas)));
            }
            Request::Begin {
                spec,
                replicas,
                reply,
            } => {
                let _ = reply.send(self.writing(|this| this.begin_table(spec, &replicas)));
            }
            Request::Drop { names, reply } => {
                let _ = reply.send(self.writing(|this| this.drop_tables(&names)));
            }
            Request::Commit(commit) => {
                let commits = self.with_waiting(commit, queue);
                self.commit_all(commits);
            }
            Request::Bulk { commit, reply } => {
                let changed = commit.changes.iter();
                let changed = changed.map(|change| (change.table.clone(), change.deleted.clone()));
                let changed: Vec<_> = changed.collect();
                let _ = reply.send(self.writing(|this| this.commit_bulk(commit)));
                for (table, mut deleted) in changed {
                    self.merge_if_due(&table);
                    if deleted.follow(&table).is_ok() {
                        self.compact_if_worn(&table, &deleted.ids);
                    }
                }
            }
            Request::Truncate {
                tables,
                passes,
                reply,
            } => {
                let truncated = self.writing(|this| this.truncate(&tables));
                drop(passes);
                let _ = reply.send(truncated);
            }
            Request::Seal { table, reply } => {
                let _ = reply.send(self.writing(|this| this.seal(&table)));
                self.merge_if_due(&table);
            }
            Request::Merge { table, pass, reply } => {
                let merged = self.writing(|this| this.merge(&table));
                // Dropped first, so that the caller can load as soon as it has the answer.
                drop(pass);
                // Before the answer: a caller that then waits for background work waits for the indexes, too.
                self.index_in_background(&table);
                let _ = reply.send(merged);
            }
            Request::AddTier {
                name,
                pool,
                access,
                reply,
            } => {
                let _ = reply.send(self.writing(|this| this.add_tier(name, pool, access)));
            }
            Request::SetAccess {
                name,
                access,
                reply,
            } => {
                let _ = reply.send(self.writing(|this| this.set_access(&name, access)));
            }
            Request::DropTier { name, reply } => {
                let _ = reply.send(self.writing(|this| this.drop_tier(&name)));
            }
            Request::Place {
                table,
                replicas,
                reply,
            } => match self.writing(|this| this.place(&table, &replicas)) {
                Ok(()) => {
                    let step = PlacingStep::first(&table);
                    self.go_on_placing(table, step, reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Request::GoOnPlacing { table, step, reply } => match reply {
                Some(reply) => self.go_on_placing(table, step, reply),
                None => self.go_on_in_turns(table, step),
            },
            Request::Extents { reply } => {
                let _ = reply.send(self.extents());
            }
            Request::Pin { reply } => {
                let _ = reply.send(self.pinned());
            }
            Request::CheckOwn { repair, reply } => {
                let _ = reply.send(match repair {
                    true => self.writing(|this| this.check_own(true)),
                    false => self.check_own(false),
                });
            }
            Request::Repair { table, reply } => {
                let step = PlacingStep::first(&table);
                self.go_on_placing(table, step, reply);
            }
            Request::BeginWriting { reply } => {
                let _ = reply.send(self.begin_writing());
            }
            Request::MakeCopies { table } => self.place_in_background(table),
            Request::Index { table } => self.background.push(BackgroundTask::Index(table)),
            Request::IndexKeys { table, version } => {
                self.background.push(BackgroundTask::Keys(table, version));
            }
            Request::CopyNear { table, segment } => {
                let mut columns = table.spec().columns.iter();
                match columns.any(|column| column.near_encoding.is_some()) {
                    // Encoding takes too long for this thread.
                    true => self
                        .background
                        .push(BackgroundTask::CopyChunks(table, segment)),
                    false => near::copy(&self.storage, &table, segment),
                }
            }
            Request::PlaceNear {
                table,
                changes,
                reply,
            } => {
                near::place(&self.storage, &table, changes);
                let _ = reply.send(());
            }
            Request::CopyIndexesNear { table } => {
                self.background.push(BackgroundTask::CopyIndexes(table));
            }
            // What is placed or chosen in the background comes before it.
            Request::Wait { reply } if self.placing > 0 || self.choosing.is_some() => {
                self.requests.send(Request::Wait { reply });
            }
            Request::Wait { reply } => self.background.push(BackgroundTask::Answer(reply)),
            Request::GiveBack => self.give_back_space(),
            Request::Losses => self.repair_losses(),
            Request::ChooseReplicas { reply } => self.begin_choosing(reply),
            Request::GoOnChoosing => self.go_on_choosing(),
            Request::JobEnded => self.end_job(),
            Request::GoOn => {}
            Request::Close => return false,
        }
        true
    }
}
