//! Logs are marked as acknowledged to their ends when the writer has rested for a moment, and when it ends.
//!
//! Each commit marks those before it under its own fence (`tail/log.rs`), so at most a table's newest record is unmarked: what
//! cannot be told from one that a power cut tore. Here it is marked, too.
//!
//! The mark lies beside the records. A page that holds both, of an earlier time, looks like a log that never went further, so the end
//! of the writer has a manifest say how far each log goes.
//!
//! Invariant: a mark never says more than what was acknowledged.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::state::Writer;
use crate::manifest::{Manifest, TableEntry};
use crate::table::requests::Request;

/// How long after a record its log is marked, if no other record has marked it.
const REST: Duration = Duration::from_secs(1);

impl Writer {
    /// Waits for a request, and marks logs meanwhile. `None` when nobody can ask any more.
    pub(super) fn next_request(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        loop {
            let Some(rests_at) = self.rests_at else {
                return requests.recv().ok();
            };
            match requests.recv_timeout(rests_at.saturating_duration_since(Instant::now())) {
                Ok(request) => {
                    if Instant::now() >= rests_at {
                        self.mark_logs();
                    }
                    return Some(request);
                }
                Err(RecvTimeoutError::Timeout) => self.mark_logs(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// A log has a record that is not marked.
    pub(super) fn will_rest(&mut self) {
        // What is recorded depends on no clock.
        if self.storage.options.recorder.is_none() {
            self.rests_at.get_or_insert_with(|| Instant::now() + REST);
        }
    }

    /// Marks all logs to their ends.
    pub(super) fn mark_logs(&mut self) {
        self.rests_at = None;
        // Nothing is written before the first write that somebody asks for.
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
        // A log that is damaged says nothing of its end.
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
            tracing::warn!(%error, "how far logs go could not be published");
        }
    }

    /// Has a manifest say how far the logs of its tables go.
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
