//! What all tables of an open database share: the pool, the budget, the lock, the way to the
//! writer.
//!
//! Invariant: as long as any table or snapshot lives, the pool stays mapped and the directory
//! locked, so no reader ever sees bytes that another process has reused.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use tierra_memory::{Budget, Pool};

use crate::calibration::Calibration;
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
    /// How many look-ups take turns.
    pub(crate) calibration: Calibration,
    requests: Sender<Request>,
    closing: AtomicBool,
    _lock: DirectoryLock,
}

impl Storage {
    pub(crate) fn new(
        pool: Arc<Pool>,
        budget: Budget,
        threads: NonZeroUsize,
        calibration: Calibration,
        requests: Sender<Request>,
        lock: DirectoryLock,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool,
            budget,
            threads,
            calibration,
            requests,
            closing: AtomicBool::new(false),
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

    /// Has the writer end once it has answered what it was asked before.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.send(Request::Close);
    }

    /// Whether work that nobody waits for should be left undone.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Set once such work should end.
    pub(crate) fn closing(&self) -> &AtomicBool {
        &self.closing
    }

    /// Sends the writer a request that has no answer.
    pub(crate) fn send(&self, request: Request) {
        // A writer that is gone has nothing left to do.
        let _ = self.requests.send(request);
    }
}
