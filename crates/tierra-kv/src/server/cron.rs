//! Periodic work, Redis's `serverCron`: keys expire, clients time out, blocked clients reach their deadlines, rates are measured.

use std::time::{Duration, Instant};

use super::Server;
use crate::keyspace::{DATABASES, DbId, Room};

/// Keys checked between two readings of the clock.
const EXPIRE_STEP: usize = 100;
/// For as long, at most, no client is served because keys expire and large values are freed...
const EXPIRE_SLICE: Duration = Duration::from_millis(1);
/// ...and for as many times that, clients are.
const SERVED_SLICES: u32 = 3;

impl Server {
    /// Does the periodic work that is due.
    pub(super) fn run_cron(&mut self) {
        let now = Instant::now();
        if (self.shared.next_deadline()).is_some_and(|deadline| deadline <= now) {
            self.shared.release_overdue(now, self.now_ms);
            self.resume();
        }
        let period = Duration::from_millis(1000 / self.shared.config.hz.clamp(1, 1000));
        if now >= self.timers.expire {
            self.timers.expire = if self.expire(now + EXPIRE_SLICE) {
                Instant::now() + EXPIRE_SLICE * SERVED_SLICES
            } else {
                // Together with everything else: an idle server wakes once.
                let next = self.timers.next;
                if next > now { next } else { now + period }
            };
        }
        if now < self.timers.next {
            return;
        }
        self.timers.next = now + period;
        let commands = self.shared.stats.commands;
        if self.keyspace.tick() && commands == self.timers.commands {
            // No client needs the time.
            self.timers.next = Instant::now() + now.elapsed() * SERVED_SLICES;
        }
        self.timers.commands = commands;
        if std::mem::take(&mut self.accept_again) {
            (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        }
        let elapsed_ms = self.now_ms.saturating_sub(self.timers.sampled_ms);
        if elapsed_ms >= 1000 {
            self.timers.sampled_ms = self.now_ms;
            self.shared.stats.sample(elapsed_ms);
            let used = self.keyspace.used_bytes();
            self.shared.stats.used_bytes_peak = self.shared.stats.used_bytes_peak.max(used);
            self.end_overdue();
            self.publish_numbers();
        }
    }

    /// Removes expired keys, does deferred frees, and evicts keys, until a time. Returns whether there may be more.
    fn expire(&mut self, until: Instant) -> bool {
        self.shared.stats.expired += self.keyspace.take_expired();
        self.free_buffers();
        // In a pause no key changes, as in Redis.
        if self.shared.pause.is_none() && self.expire_keys(until) {
            return true;
        }
        while self.free_buffers() {
            if Instant::now() >= until {
                return true;
            }
        }
        false
    }

    /// Frees some buffers of requests and replies. Returns whether there are more.
    fn free_buffers(&mut self) -> bool {
        if self.buffers.free_some() {
            return true;
        }
        let Some(queue) = self.shared.deferred_queues.last_mut() else {
            return false;
        };
        match queue.free_piece() {
            Some(bytes) => self.buffers.defer_free(bytes),
            None => _ = self.shared.deferred_queues.pop(),
        }
        true
    }

    fn expire_keys(&mut self, until: Instant) -> bool {
        for _ in 0..DATABASES {
            let id = self.timers.expire_first;
            // If time is up before this database is done, the others come first next time.
            self.timers.expire_first = (id + 1) % DATABASES as DbId;
            loop {
                let (removed, more) = self.keyspace.db(id).expire_some(EXPIRE_STEP);
                self.shared.stats.expired += removed as u64;
                // Large values are freed at the rate at which they expire.
                self.keyspace.free_some();
                if Instant::now() >= until {
                    return true;
                }
                if !more {
                    break;
                }
            }
        }
        while self.keyspace.free_some() {
            if Instant::now() >= until {
                return true;
            }
        }
        // Eviction that commands have left: each does a bounded amount.
        while self.shared.make_room(&mut self.keyspace) == Room::Some {
            if Instant::now() >= until {
                return true;
            }
        }
        false
    }

    /// Closes connections that were idle, or whose replies were not read, for too long.
    pub(super) fn end_overdue(&mut self) {
        let timeout_s = self.shared.config.timeout;
        for slot in 0..self.shared.connections.len() {
            let Some(connection) = &mut self.shared.connections[slot] else {
                continue;
            };
            let silent_ms = self.now_ms.saturating_sub(connection.client.used_ms);
            let client = &connection.client;
            let may_be_silent = timeout_s == 0 || client.is_monitor || client.is_blocked();
            let is_silent = !may_be_silent && silent_ms > timeout_s.saturating_mul(1000);
            let is_within = connection.is_within(&self.shared.config, self.now_ms);
            self.shared.stats.output_buffer_limit_closed += u64::from(!is_within);
            if is_silent || !is_within {
                self.close(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keyspace::{Expiry, Key};

    #[test]
    fn no_database_waits_for_another_to_be_done() {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::bind(Config {
            port: 0,
            unixsocket: Some(directory.path().join("socket")),
            ..Config::default()
        })
        .unwrap();
        let due = Expiry::At(server.now_ms + 1);
        for (id, keys) in [(0, 10_000u32), (7, 50)] {
            for key in 0..keys {
                let db = server.keyspace.db(id);
                db.set_string(&Key::new(&key.to_le_bytes()), b"value", due)
                    .unwrap();
            }
        }
        let names: Vec<[u8; 4]> = (0..10_000u32).map(u32::to_le_bytes).collect();
        let (db, large) = (server.keyspace.db(9), Key::new(b"large"));
        let fields = names.iter().map(|name| (&name[..], &name[..]));
        assert_eq!(db.hash_set(&large, fields), Ok(10_000));
        assert!(db.unlink(&large));
        let stored_bytes = server.keyspace.stored_bytes();
        server.keyspace.set_now(server.now_ms + 1);
        // Each call has time for one step.
        for _ in 0..DATABASES {
            assert!(server.expire(Instant::now()), "there may be more");
        }
        assert_eq!(server.keyspace.len_of(7), 0);
        assert_eq!(server.keyspace.len_of(0), 10_000 - EXPIRE_STEP);
        // Some of the large value has gone each time: all of it, with what has expired.
        assert!(!server.keyspace.free_some());
        assert!(server.keyspace.stored_bytes() < stored_bytes - 10_000 * 16);
        assert!(!server.expire(Instant::now() + Duration::from_secs(3600)));
        assert_eq!(server.keyspace.len_of(0), 0);
    }
}
