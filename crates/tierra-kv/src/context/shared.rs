//! The state that all clients of a shard share, beside the keys.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::pause::Pause;
use super::slowlog::Slowlog;
use super::stats::Stats;
use crate::catalog::{Catalog, FAST, UNTIMED};
use crate::clients::{Block, Blocked, Client, Connection, Pop, TransactionQueue, Watches};
use crate::config::Config;
use crate::keyspace::{DbId, Key, Keyspace, Room};
use crate::protocol::Reply;
use crate::random::Random;

/// A transaction that has taken more is not freed at once.
const LARGE_QUEUE_BYTES: usize = 1 << 20;
/// A slowlog with a threshold of as many microseconds also shows commands that are otherwise too short to be timed one by one.
const SHORT_US: Range<i64> = 0..1000;

/// What commands see of the server.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) stats: Stats,
    pub(crate) random: Random,
    pub(crate) slowlog: Slowlog,
    pub(crate) watches: Watches,
    pub(crate) blocked: Blocked,
    /// While there is one, requests wait.
    pub(crate) pause: Option<Pause>,
    /// All connections but the one whose command is being executed, by slot.
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    pub(crate) connected: usize,
    pub(crate) started: Instant,
    /// When the clock was last read in the batch that is executed.
    pub(crate) clock: Instant,
    pub(crate) run_id: String,
    /// The port it really listens on.
    pub(crate) port: u16,
    /// Flags of commands that are not timed one by one.
    pub(crate) untimed: u16,
    /// Large transactions that have ended, to be freed step by step.
    pub(crate) deferred_queues: Vec<TransactionQueue>,
    /// Slots of connections that CLIENT KILL has ended.
    pub(crate) killed: Vec<usize>,
    /// Slots of clients that have every command sent to them (MONITOR).
    pub(crate) monitors: Vec<usize>,
    /// Whether a client has asked the server to end.
    pub(crate) stopping: bool,
}

impl Shared {
    /// For a server that knows these commands.
    pub(crate) fn new(config: Config, catalog: Catalog) -> Self {
        let stats = Stats::new(catalog.len());
        let mut random = Random::new();
        let run_id = (0..5)
            .map(|_| format!("{:08x}", random.next() as u32))
            .collect();
        Self {
            config,
            catalog,
            stats,
            random,
            slowlog: Slowlog::default(),
            watches: Watches::default(),
            blocked: Blocked::default(),
            pause: None,
            connections: Vec::new(),
            connected: 0,
            started: Instant::now(),
            clock: Instant::now(),
            run_id,
            port: 0,
            untimed: 0,
            deferred_queues: Vec::new(),
            killed: Vec::new(),
            monitors: Vec::new(),
            stopping: false,
        }
    }

    /// Whether there is room below `maxmemory`. Evicts keys for it, for some hundred microseconds.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, keyspace: &mut Keyspace) -> Room {
        let max = self.config.maxmemory;
        if max == 0 || keyspace.stored_bytes() <= max {
            return Room::Enough;
        }
        self.evict(keyspace)
    }

    #[cold]
    fn evict(&mut self, keyspace: &mut Keyspace) -> Room {
        // In a pause nothing changes, as in Redis.
        if self.pause.is_some() {
            return Room::Enough;
        }
        let (evicted, room) = keyspace.evict(
            self.config.maxmemory_policy,
            self.config.maxmemory_samples,
            self.config.maxmemory,
            self.random.next(),
        );
        self.stats.evicted += evicted;
        room
    }

    /// A transaction has ended: a large one is freed step by step.
    pub(crate) fn defer_free(&mut self, queue: TransactionQueue) {
        if queue.bytes() > LARGE_QUEUE_BYTES {
            self.deferred_queues.push(queue);
        }
    }

    /// Chooses the commands that are not timed one by one: short ones, unless the slowlog shows short ones as well, or the
    /// requests are long.
    pub(crate) fn choose_untimed(&mut self, has_long_requests: bool) {
        let shows_short = SHORT_US.contains(&self.config.slowlog_log_slower_than);
        self.untimed = match shows_short || has_long_requests {
            true => 0,
            false => FAST | UNTIMED,
        };
    }

    /// A client is a monitor no more.
    pub(crate) fn forget_monitor(&mut self, client: &mut Client) {
        if std::mem::take(&mut client.is_monitor) {
            self.monitors.retain(|&slot| slot != client.slot);
        }
    }

    /// Whether clients have to authenticate.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.config.requirepass.is_empty()
    }

    /// All clients but the one whose command is being executed.
    pub(crate) fn others(&self) -> impl Iterator<Item = (usize, &Client)> {
        self.connections
            .iter()
            .enumerate()
            .filter_map(|(slot, connection)| Some((slot, &connection.as_ref()?.client)))
    }

    /// A key has changed: EXEC fails for the clients that watch it, and clients that wait for it may be served.
    #[inline]
    pub(crate) fn changed(&mut self, db: DbId, key: &[u8]) {
        self.stats.changes += 1;
        if !self.watches.is_empty() {
            self.watches.changed(db, key);
        }
        if self.blocked.is_waited_for() {
            self.blocked.changed(db, key);
        }
    }

    /// All keys of a database are about to be removed.
    pub(crate) fn changed_all(&mut self, db: DbId, keyspace: &mut Keyspace) {
        self.stats.changes += 1;
        self.watches
            .changed_where(|of, key| of == db && keyspace.db(db).find(&Key::new(key)).is_some());
    }

    /// Two databases have been exchanged: those keys changed that exist in either now.
    pub(crate) fn swapped(&mut self, a: DbId, b: DbId, keyspace: &mut Keyspace) {
        self.watches.changed_where(|of, key| {
            (of == a || of == b) && keyspace.db(of).find(&Key::new(key)).is_some()
        });
        self.blocked.changed_all(a);
        self.blocked.changed_all(b);
    }

    /// Ends a client's waiting for a key: `answer` writes the reply to its request. False if the client has gone; nothing
    /// was written then.
    pub(crate) fn release(
        &mut self,
        slot: usize,
        now_ms: u64,
        answer: impl FnOnce(Pop, &mut Reply),
    ) -> bool {
        let connection = self.connections[slot]
            .as_mut()
            .expect("who waits is connected, and executes nothing");
        let Block::Key(wait) = self.blocked.unblock(&mut connection.client) else {
            return false;
        };
        // It will be closed when it is next handled: a member popped for it now would be lost.
        if connection.read_closed {
            return false;
        }
        connection.answer(|reply| answer(wait.pop, reply));
        connection.resume(now_ms);
        self.blocked.released(slot);
        true
    }

    /// Ends the waiting of clients that have timed out, with the reply for that, and a pause that is over.
    pub(crate) fn release_overdue(&mut self, now: Instant, now_ms: u64) {
        while let Some((deadline, slot)) = self.blocked.first_deadline()
            && deadline <= now
        {
            self.release(slot, now_ms, |_, reply| reply.null_array());
        }
        if self.pause.is_some_and(|pause| pause.until <= now) {
            self.end_pause(now_ms);
        }
    }

    /// The next deadline of a waiting client, or of the pause.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let first = self.blocked.first_deadline().map(|first| first.0);
        let pause = self.pause.map(|pause| pause.until);
        first.into_iter().chain(pause).min()
    }

    /// Begins a pause, or makes one longer and wider, as in Redis: it is never shortened by that.
    pub(crate) fn begin_pause(&mut self, length: Duration, everything: bool) {
        let now = Instant::now();
        let pause = self.pause.get_or_insert(Pause {
            until: now,
            everything,
        });
        // Milliseconds in 64 bits are always within the clock.
        pause.until = pause.until.max(now.checked_add(length).unwrap_or(now));
        pause.everything |= everything;
    }

    /// Ends a pause: the requests that wait are executed in the order in which they came.
    pub(crate) fn end_pause(&mut self, now_ms: u64) {
        self.pause = None;
        for slot in self.blocked.take_held() {
            if let Some(connection) = &mut self.connections[slot] {
                self.blocked.unblock(&mut connection.client);
                connection.resume(now_ms);
                self.blocked.released(slot);
            }
        }
    }

    /// Ends a connection when the batch has been executed. Nothing more of it is, and it waits for nothing any more.
    pub(crate) fn kill(&mut self, slot: usize) {
        if let Some(connection) = &mut self.connections[slot] {
            connection.client.closing = true;
            self.blocked.unblock(&mut connection.client);
            self.killed.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_becomes_longer_and_wider_and_never_less() {
        let mut shared = Shared::new(Config::default(), Catalog::new());
        let state = |shared: &Shared| {
            let pause = shared.pause.expect("there is one");
            let left = pause.until.saturating_duration_since(Instant::now());
            (left > Duration::from_secs(3600), pause.everything)
        };
        shared.begin_pause(Duration::from_secs(7200), false);
        assert_eq!(state(&shared), (true, false));
        shared.begin_pause(Duration::ZERO, true);
        assert_eq!(state(&shared), (true, true));
        shared.begin_pause(Duration::from_millis(i64::MAX as u64), false);
        assert_eq!(state(&shared), (true, true));
        shared.release_overdue(Instant::now() + Duration::from_secs(7300), 0);
        assert_eq!(state(&shared), (true, true));
        shared.end_pause(0);
        assert!(shared.pause.is_none() && shared.next_deadline().is_none());
        shared.begin_pause(Duration::ZERO, true);
        shared.release_overdue(Instant::now(), 0);
        assert!(shared.pause.is_none());
    }
}
