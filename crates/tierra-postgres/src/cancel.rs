//! Requests to cancel, which come on connections of their own: who may cancel what.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tierra_sql::Session;

use crate::users::random;

/// The connections that can be cancelled.
#[derive(Default)]
pub(crate) struct Cancels {
    last: AtomicI32,
    keys: Mutex<HashMap<i32, Key>>,
}

struct Key {
    secret: i32,
    session: Weak<Session>,
}

impl Cancels {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Key>> {
        // Entries are added and removed as a whole.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of a connection, which is valid while it lives.
    pub(crate) fn register(self: &Arc<Self>, session: &Arc<Session>) -> io::Result<CancelKey> {
        let secret = i32::from_be_bytes(random()?);
        let process = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let session = Arc::downgrade(session);
        self.lock().insert(process, Key { secret, session });
        Ok(CancelKey {
            cancels: Arc::clone(self),
            process,
            secret,
        })
    }

    /// Cancels what runs on the connection with this number, if the secret is its own.
    pub(crate) fn cancel(&self, process: i32, secret: i32) {
        let session = {
            let keys = self.lock();
            let key = keys.get(&process).filter(|key| key.secret == secret);
            key.and_then(|key| key.session.upgrade())
        };
        if let Some(session) = session {
            session.interrupt();
        }
    }

    /// Cancels what runs on the connection with this number, for another connection; `false` if there is none.
    fn cancel_any(&self, process: i32) -> bool {
        let session = self
            .lock()
            .get(&process)
            .and_then(|key| key.session.upgrade());
        session.inspect(|session| session.interrupt()).is_some()
    }

    /// Cancels what runs on all connections.
    pub(crate) fn cancel_all(&self) {
        let sessions: Vec<_> = self
            .lock()
            .values()
            .filter_map(|key| key.session.upgrade())
            .collect();
        sessions.iter().for_each(|session| session.interrupt());
    }
}

/// What a client needs to cancel its statements.
pub(crate) struct CancelKey {
    cancels: Arc<Cancels>,
    pub(crate) process: i32,
    pub(crate) secret: i32,
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
