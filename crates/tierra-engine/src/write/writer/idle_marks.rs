//! Marks logs as acknowledged up to their ends when the writer has been idle for a moment, and when it ends.
//!
//! Each commit marks the records before it under its own fence (`tail/log/mod.rs`), so at most a table's newest record is unmarked.
//! An unmarked record cannot be told from one that a power cut tore. Here it is marked, too.
//!
//! The mark lies beside the records. An old version of a page that holds both looks like a log that ended earlier. So when the
//! writer ends, a manifest records how far each log goes.
//!
//! Invariant: a mark never covers a record that was not acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::group::GROUP_COMMITS_MOST;
use super::state::Writer;
use crate::manifest::{Manifest, TableEntry};
use crate::table::requests::{Commit, Queue, Request};

/// Time after a record until its log is marked, if no later record marks it.
const IDLE_BEFORE_MARKS: Duration = Duration::from_secs(1);

impl Writer {
    /// A commit, and those that wait behind it.
    pub(super) fn with_waiting(&mut self, commit: Commit, queue: &Queue) -> Vec<Commit> {
        let mut commits = vec![commit];
        while commits.len() < GROUP_COMMITS_MOST {
            match queue.try_next() {
                Ok(Request::Commit(commit)) => commits.push(commit),
                Ok(other) => {
                    self.put_back = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        commits
    }

    /// Notes that a log has an unmarked record.
    pub(super) fn schedule_idle_marks(&mut self) {
        // A recording must not depend on the clock.
        if self.storage.options.recorder.is_none() {
            self.idle_marks_at
                .get_or_insert_with(|| Instant::now() + IDLE_BEFORE_MARKS);
        }
    }

    /// Marks all logs up to their ends, if it is time.
    pub(super) fn mark_logs_if_due(&mut self) {
        if self.idle_marks_at.is_some_and(|at| Instant::now() >= at) {
            self.mark_logs();
        }
    }

    /// Marks all logs up to their ends.
    pub(super) fn mark_logs(&mut self) {
        self.idle_marks_at = None;
        // Nothing is written before the first requested write.
        if !self.storage.is_settled() {
            return;
        }
        for log in self.logs.values_mut() {
            if let Err(error) = log.mark(&self.storage.log_method) {
                tracing::warn!(%error, "the end of a log could not be marked as acknowledged");
            }
        }
    }

    /// Publishes how far the logs of all tables go, unless the newest manifest says so.
    pub(super) fn publish_reached(&mut self) {
        let goes_further = |entry: &Arc<TableEntry>| {
            let log = self.logs.get(&entry.id);
            log.is_some_and(|log| log.next_sequence() > entry.tail.reached)
        };
        let mut tables = self.published.manifest().tables.iter();
        // The end of a damaged log is unknown.
        let is_complete = |entry: &&Arc<TableEntry>| {
            let table = self.catalog.table(&entry.spec.name);
            table.is_some_and(|table| table.check_complete().is_ok())
        };
        if !self.storage.is_settled()
            || self.has_failed_device()
            || !tables.any(|entry| is_complete(&entry) && goes_further(entry))
        {
            return;
        }
        let next = self.published.manifest().clone();
        if let Err(error) = self.publish(next, Vec::new()) {
            tracing::warn!(%error, "the ends of logs could not be published");
        }
    }

    /// Records in a manifest how far the logs of its tables go.
    pub(super) fn note_reached(&self, next: &mut Manifest) {
        for entry in &mut next.tables {
            let log = self.logs.get(&entry.id);
            if let Some(reached) = log.map(|log| log.next_sequence())
                && reached > entry.tail.reached
            {
                Arc::make_mut(entry).tail.reached = reached;
            }
        }
    }
}
