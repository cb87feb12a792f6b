//! The times of the next periodic work.

use std::time::{Duration, Instant};

use crate::keyspace::DbId;

/// The times of the next periodic work.
pub(super) struct Timers {
    pub(super) next: Instant,
    pub(super) expire: Instant,
    /// The database whose keys are checked first.
    pub(super) expire_first: DbId,
    pub(super) sampled_ms: u64,
    /// Commands that had been executed when the periodic work last ran.
    pub(super) commands: u64,
}

impl Timers {
    pub(super) fn new(now: Instant, now_ms: u64) -> Self {
        Self {
            next: now,
            expire: now,
            expire_first: 0,
            sampled_ms: now_ms,
            commands: 0,
        }
    }

    /// How long until periodic work is due. `deadline` is the next deadline of a waiting client.
    pub(super) fn until_next(&self, deadline: Option<Instant>) -> Duration {
        let next = self.next.min(self.expire);
        deadline
            .map_or(next, |deadline| next.min(deadline))
            .saturating_duration_since(Instant::now())
    }
}
