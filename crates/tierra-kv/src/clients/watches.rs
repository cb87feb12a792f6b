//! Keys that clients watch (WATCH), so that EXEC fails if one has changed.

use std::collections::{HashMap, HashSet};

use crate::keyspace::DbId;

/// A key that a client watches.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) db: DbId,
    pub(crate) key: Box<[u8]>,
    pub(crate) existed: bool,
}

/// Which clients watch which keys, and which of them have seen one change.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    clients: HashMap<Box<[u8]>, Vec<(DbId, u64)>>,
    changed: HashSet<u64>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether a client watches a key already.
    pub(crate) fn has(&self, db: DbId, key: &[u8], client: u64) -> bool {
        let watching = self.clients.get(key);
        watching.is_some_and(|clients| clients.contains(&(db, client)))
    }

    /// A client watches a key from here on; what it has to remember of that.
    pub(crate) fn add(&mut self, db: DbId, key: &[u8], client: u64, existed: bool) -> Watched {
        let clients = self.clients.entry(key.into()).or_default();
        clients.push((db, client));
        Watched {
            db,
            key: key.into(),
            existed,
        }
    }

    /// Whether a key that a client watches has changed.
    pub(crate) fn has_changed(&self, client: u64) -> bool {
        self.changed.contains(&client)
    }

    pub(crate) fn changed(&mut self, db: DbId, key: &[u8]) {
        for (of, client) in self.clients.get(key).into_iter().flatten() {
            if *of == db {
                self.changed.insert(*client);
            }
        }
    }

    /// All these keys have changed.
    pub(crate) fn changed_where(&mut self, mut has_changed: impl FnMut(DbId, &[u8]) -> bool) {
        for (key, clients) in &self.clients {
            for (of, client) in clients {
                if has_changed(*of, key) {
                    self.changed.insert(*client);
                }
            }
        }
    }

    /// A client watches none of these any more.
    pub(crate) fn forget(&mut self, client: u64, watched: &mut Vec<Watched>) {
        for watched in watched.drain(..) {
            if let Some(clients) = self.clients.get_mut(&watched.key) {
                clients.retain(|&(_, other)| other != client);
                if clients.is_empty() {
                    self.clients.remove(&watched.key);
                }
            }
        }
        self.changed.remove(&client);
    }
}
