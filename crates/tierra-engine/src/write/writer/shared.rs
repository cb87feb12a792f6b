//! The writer between its thread and those that commit.
//!
//! ```text
//! commit, small, nothing else waits --> try_lock --> Writer::commit_all      on the caller's thread
//! anything else ----------------------> queue -----> lock --> Writer::serve  on the writer's thread
//! ```
//! Two threads that wake each other take tens of microseconds, a record in memory less than ten. Those that ask while a record goes to
//! a device wait in the queue, and become one group.
//!
//! Invariant: a thread holds the writer for one request, or for the commits of one group. A panic while it does closes the database.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::Writer;
use crate::table::requests::{Commit, CommitAtOnce, Queue, Request};

/// The writer, if it is not closed.
#[derive(Default)]
pub(crate) struct SharedWriter(Mutex<Option<Writer>>);

impl SharedWriter {
    /// Serves requests until asked to close, or until no sender is left.
    pub(crate) fn run(&self, writer: Writer, queue: &Queue) {
        let mut idle_marks_at = writer.idle_marks_at;
        *self.lock_anyhow() = Some(writer);
        let _taken_out = TakenOut(self);
        loop {
            let request = match queue.next(idle_marks_at) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let Ok(mut shared) = self.0.lock() else {
                tracing::error!(
                    "a commit panicked: nothing is written any more until the database is opened again; please report it"
                );
                return;
            };
            let Some(writer) = shared.as_mut() else {
                return;
            };
            writer.mark_logs_if_due();
            if let Some(request) = request {
                queue.begin();
                if !writer.serve(request, queue) {
                    break;
                }
            }
            idle_marks_at = writer.idle_marks_at;
        }
        let writer = self.0.lock().ok().and_then(|mut shared| shared.take());
        if let Some(mut writer) = writer {
            writer.mark_logs();
            writer.publish_reached();
        }
    }

    fn lock_anyhow(&self) -> MutexGuard<'_, Option<Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the writer away when its thread ends, however that ends: it holds what holds it.
struct TakenOut<'s>(&'s SharedWriter);

impl Drop for TakenOut<'_> {
    fn drop(&mut self) {
        let writer = self.0.lock_anyhow().take();
        drop(writer);
    }
}

impl CommitAtOnce for SharedWriter {
    fn commit(&self, commit: Commit, may_block: bool) -> Result<(), Commit> {
        // A panic has closed the database: the queue answers with that error.
        let Ok(mut shared) = self.0.try_lock() else {
            return Err(commit);
        };
        let is_free = |writer: &&mut Writer| !writer.requests.have_waiting();
        let writer = shared.as_mut().filter(is_free);
        let Some(writer) = writer.filter(|writer| writer.is_prompt(&commit, may_block)) else {
            return Err(commit);
        };
        let had_marks = writer.idle_marks_at.is_some();
        writer.commit_all(vec![commit]);
        let leaves_marks = !had_marks && writer.idle_marks_at.is_some();
        if leaves_marks || writer.background.next().is_some() {
            writer.requests.send(Request::GoOn);
        }
        Ok(())
    }
}
