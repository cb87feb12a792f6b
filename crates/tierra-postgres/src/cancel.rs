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
    /// Whose connection it is.
    user: String,
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

    /// The key of a connection of `user`, which is valid while it lives.
    pub(crate) fn register(self: &Arc<Self>, user: &str) -> io::Result<CancelKey> {
        let secret = i32::from_be_bytes(random()?);
        let process = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let current = Arc::<Current>::default();
        let key = Key {
            secret,
            user: user.to_owned(),
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

    /// Cancels what runs on the connection with this number, for another connection, if that `may` cancel what its user runs.
    fn cancel_any(&self, process: i32, may: impl FnOnce(&str) -> bool) -> Asked {
        match self.lock().get(&process) {
            None => Asked::NotThere,
            Some(key) if !may(&key.user) => Asked::Denied,
            Some(key) => {
                key.current.cancel();
                Asked::Done
            }
        }
    }

    /// Cancels what runs on all connections.
    pub(crate) fn cancel_all(&self) {
        self.lock().values().for_each(|key| key.current.cancel());
    }
}

/// What came of asking for another connection's statement to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Done,
    /// There is no such connection.
    NotThere,
    /// It is another user's.
    Denied,
}

/// What a client needs to cancel its statements.
pub(crate) struct CancelKey {
    cancels: Arc<Cancels>,
    pub(crate) process: i32,
    pub(crate) secret: i32,
    pub(crate) current: Arc<Current>,
}

impl CancelKey {
    /// Cancels what runs on another connection, if this one `may` cancel what that one's user runs.
    pub(crate) fn cancel_other(&self, process: i32, may: impl FnOnce(&str) -> bool) -> Asked {
        self.cancels.cancel_any(process, may)
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
        let key = cancels.register("alice").unwrap();
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
        let process = key.process;
        let asked = |may: bool| {
            cancels.cancel_any(process, |user| {
                assert_eq!(user, "alice");
                may
            })
        };
        assert_eq!(asked(false), Asked::Denied);
        assert!(!is_cancelled(), "it was denied");
        assert_eq!(asked(true), Asked::Done);
        assert!(is_cancelled());
        drop(key);
        assert_eq!(asked(true), Asked::NotThere);
    }
}
