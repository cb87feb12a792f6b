//! Requests to cancel, which come on connections of their own: who may cancel what.
//!
//! Invariant: a request is about the statement that the connection works on when it comes. If there is none it is forgotten, so that
//! it does not end a later one.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::random::random;

/// The connections that can be cancelled.
#[derive(Default)]
pub(crate) struct Cancels {
    last: AtomicI32,
    keys: Mutex<HashMap<i32, Key>>,
}

struct Key {
    secret: i32,
    current: Arc<Current>,
}

const IDLE: u8 = 0;
const WORKING: u8 = 1;
const CANCELLED: u8 = 2;

/// What a connection works on.
#[derive(Default)]
pub(crate) struct Current {
    stage: AtomicU8,
    asked: Notify,
}

impl Current {
    /// The connection begins to work on a statement, or on a part of one.
    pub(crate) fn begin(&self) {
        self.stage.store(WORKING, Ordering::Release);
    }

    /// It waits for the next message.
    pub(crate) fn end(&self) {
        self.stage.store(IDLE, Ordering::Release);
    }

    fn cancel(&self) {
        let cancelled =
            self.stage
                .compare_exchange(WORKING, CANCELLED, Ordering::AcqRel, Ordering::Relaxed);
        if cancelled.is_ok() {
            self.asked.notify_one();
        }
    }

    /// Waits until the statement is cancelled. One task waits at a time.
    pub(crate) async fn cancelled(&self) {
        while self.stage.load(Ordering::Acquire) != CANCELLED {
            self.asked.notified().await;
        }
    }
}

impl Cancels {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Key>> {
        // Entries are added and removed as a whole.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of a connection, which is valid while it lives.
    pub(crate) fn register(self: &Arc<Self>) -> io::Result<CancelKey> {
        let secret = i32::from_be_bytes(random()?);
        let process = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let current = Arc::<Current>::default();
        let key = Key {
            secret,
            current: Arc::clone(&current),
        };
        self.lock().insert(process, key);
        Ok(CancelKey {
            cancels: Arc::clone(self),
            process,
            secret,
            current,
        })
    }

    /// Cancels what runs on the connection with this number, if the secret is its own.
    pub(crate) fn cancel(&self, process: i32, secret: i32) {
        let keys = self.lock();
        let key = keys.get(&process).filter(|key| key.secret == secret);
        if let Some(key) = key {
            key.current.cancel();
        }
    }

    /// Cancels what runs on the connection with this number, for another connection; `false` if there is none.
    fn cancel_any(&self, process: i32) -> bool {
        let keys = self.lock();
        keys.get(&process)
            .inspect(|key| key.current.cancel())
            .is_some()
    }

    /// Cancels what runs on all connections.
    pub(crate) fn cancel_all(&self) {
        self.lock().values().for_each(|key| key.current.cancel());
    }
}

/// What a client needs to cancel its statements.
pub(crate) struct CancelKey {
    cancels: Arc<Cancels>,
    pub(crate) process: i32,
    pub(crate) secret: i32,
    pub(crate) current: Arc<Current>,
}

impl CancelKey {
    /// Cancels what runs on another connection, as who has logged in may.
    pub(crate) fn cancel_other(&self, process: i32) -> bool {
        self.cancels.cancel_any(process)
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.cancels.lock().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_request_is_about_what_is_worked_on() {
        let cancels = Arc::<Cancels>::default();
        let key = cancels.register().unwrap();
        let is_cancelled = || key.current.cancelled().now_or_never().is_some();
        cancels.cancel(key.process, key.secret);
        key.current.begin();
        assert!(!is_cancelled(), "nothing was worked on");
        cancels.cancel(key.process, key.secret.wrapping_add(1));
        cancels.cancel(key.process.wrapping_add(1), key.secret);
        assert!(!is_cancelled(), "the key is wrong");
        cancels.cancel(key.process, key.secret);
        assert!(is_cancelled());
        key.current.end();
        key.current.begin();
        assert!(!is_cancelled(), "it was the one before");
        assert!(cancels.cancel_any(key.process) && is_cancelled());
        let process = key.process;
        drop(key);
        assert!(!cancels.cancel_any(process));
    }
}
