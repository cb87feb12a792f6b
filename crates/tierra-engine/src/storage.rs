//! What all tables of an open database share: the pool, the budget, the lock, the way to the
//! writer.
//!
//! Invariant: as long as any table or snapshot lives, the pool stays mapped and the directory
//! locked, so no reader ever sees bytes that another process has reused.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use tierra_memory::{Budget, Pool};

use crate::error::StorageError;
use crate::lock::DirectoryLock;
use crate::writer::Request;

/// Shared as `Arc`.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) pool: Arc<Pool>,
    /// Near memory for copies of chunks.
    pub(crate) budget: Budget,
    /// Threads that a load encodes with.
    pub(crate) threads: NonZeroUsize,
    requests: Sender<Request>,
    _lock: DirectoryLock,
}

impl Storage {
    pub(crate) fn new(
        pool: Arc<Pool>,
        budget: Budget,
        threads: NonZeroUsize,
        requests: Sender<Request>,
        lock: DirectoryLock,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool,
            budget,
            threads,
            requests,
            _lock: lock,
        })
    }

    /// Sends the writer a request and blocks until it answers.
    pub(crate) fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<T>) -> Request,
    ) -> Result<T, StorageError> {
        let (reply, answer) = sync_channel(1);
        self.requests
            .send(request(reply))
            .map_err(|_| StorageError::Closed)?;
        // The writer drops a request unanswered only when it ends.
        answer.recv().map_err(|_| StorageError::Closed)
    }

    /// Asks the writer to end once it has answered everything before.
    pub(crate) fn send_close(&self) {
        // A writer that is gone already has nothing left to end.
        let _ = self.requests.send(Request::Close);
    }
}
