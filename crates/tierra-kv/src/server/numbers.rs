//! The server's numbers for other threads: a snapshot that its loop publishes once a second.
//!
//! Invariant: the loop takes the lock once a second and for one copy, so that no reader holds it up.

use std::sync::{Arc, Mutex, PoisonError};

use super::Server;
use crate::keyspace::{DATABASES, DbId, Report};

/// What a server has done and what it holds. Counts begin when it starts, and again with CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Connected clients.
    pub clients: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections turned away.
    pub rejected_connections: u64,
    /// Commands executed.
    pub commands: u64,
    /// Errors replied.
    pub errors: u64,
    /// Bytes of requests.
    pub input_bytes: u64,
    /// Bytes of replies.
    pub output_bytes: u64,
    /// Keys that were looked up and found.
    pub hits: u64,
    /// Keys that were looked up and not found.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Keys that were evicted.
    pub evicted: u64,
    /// Keys of all databases.
    pub keys: u64,
    /// Memory, windows and migrations.
    pub report: Report,
}

/// Reads the numbers of a running server.
#[derive(Clone, Debug, Default)]
pub struct NumbersReader(Arc<Mutex<Numbers>>);

impl NumbersReader {
    /// The numbers as they were published last, a second ago or less; zeros at first.
    pub fn read(&self) -> Numbers {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, numbers: Numbers) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = numbers;
    }
}

impl Server {
    /// What reads its numbers while it runs.
    pub fn numbers(&self) -> NumbersReader {
        self.numbers.clone()
    }

    pub(super) fn publish_numbers(&self) {
        let (stats, keyspace) = (&self.shared.stats, &self.keyspace);
        let keys = (0..DATABASES as DbId).map(|id| keyspace.len_of(id) as u64);
        self.numbers.publish(Numbers {
            clients: self.shared.connected as u64,
            connections: stats.connections,
            rejected_connections: stats.rejected_connections,
            commands: stats.commands,
            errors: stats.errors.values().sum(),
            input_bytes: stats.input_bytes,
            output_bytes: stats.output_bytes,
            hits: stats.hits,
            misses: stats.misses,
            expired: stats.expired,
            evicted: stats.evicted,
            keys: keys.sum(),
            report: keyspace.report(),
        });
    }
}
