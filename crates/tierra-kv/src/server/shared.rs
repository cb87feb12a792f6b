//! What all clients of a shard share beside the keys.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::blocked::{Blocked, Pause};
use super::buffers::Buffers;
use super::client::Client;
use super::connection::Connection;
use super::slowlog::Slowlog;
use super::stats::Stats;
use super::window::Pending;
use crate::command::{FAST, Queue, Resolved, Table, UNTIMED, Watches};
use crate::config::Config;
use crate::keyspace::{DbId, Key, Keyspace, Room};
use crate::random::Random;

/// A transaction that has taken more is not freed at once.
const LARGE_QUEUE_BYTES: usize = 1 << 20;
/// A slowlog that shows what takes so many microseconds shows commands that are too short for a clock of their own otherwise.
const SHORT_US: Range<i64> = 0..1000;

/// What commands see of the server.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) table: Table,
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
    /// The ports it listens on in truth.
    pub(crate) port: u16,
    /// Flags of commands that have no clock of their own.
    pub(crate) untimed: u16,
    /// Transactions that have ended, to be freed step by step.
    pub(super) leaving: Vec<Queue>,
    /// Slots of connections that CLIENT KILL has ended.
    pub(crate) killed: Vec<usize>,
    /// Slots of clients that are told every command.
    pub(crate) monitors: Vec<usize>,
    /// Whether a client has asked the server to end.
    pub(crate) stopping: bool,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let table = Table::new();
        let stats = Stats::new(table.len());
        let mut random = Random::new();
        let run_id = (0..5)
            .map(|_| format!("{:08x}", random.next() as u32))
            .collect();
        Self {
            config,
            table,
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
            leaving: Vec::new(),
            killed: Vec::new(),
            monitors: Vec::new(),
            stopping: false,
        }
    }

    /// Whether there is room below `maxmemory`, for which keys are evicted: some hundred microseconds' worth.
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

    /// Sends replies before their batch ends, because there are many. A client that does not take them is
    /// disconnected where its limit says so.
    pub(super) fn send_early(&mut self, connection: &mut Connection, buffers: &mut Buffers) {
        match connection.send(buffers) {
            Ok(count) => self.stats.output_bytes += count as u64,
            Err(_) => connection.client.closing = true,
        }
        connection.client.closing |= connection.is_over_limit(&self.config);
        connection.bound_replies(&self.config);
        self.clock = Instant::now();
    }

    /// Nanoseconds of calls that have a clock of their own, all together.
    pub(super) fn timed_ns(&self) -> u64 {
        self.stats.timed_ns
    }

    /// Shares the time of a batch, less that of calls with a clock of their own, among the other calls.
    pub(super) fn note_batch(
        &mut self,
        requests: &[Pending],
        spent: Duration,
        timed_before_ns: u64,
    ) {
        self.stats.batches += 1;
        let rest_ns =
            (spent.as_nanos() as u64).saturating_sub(self.stats.timed_ns - timed_before_ns);
        let share_ns = rest_ns / requests.len().max(1) as u64;
        for pending in requests {
            if let Resolved::Command(id) = pending.resolved {
                self.stats.calls[id as usize].spent_ns += share_ns;
            }
        }
    }

    /// A transaction has ended: one that is large is freed step by step.
    pub(crate) fn leave(&mut self, queue: Queue) {
        if queue.bytes() > LARGE_QUEUE_BYTES {
            self.leaving.push(queue);
        }
    }

    /// Chooses the commands that have no clock of their own: those that are short, unless the slowlog shows such as well, or the
    /// requests are long.
    pub(super) fn choose_untimed(&mut self, has_long_requests: bool) {
        let shows_short = SHORT_US.contains(&self.config.slowlog_log_slower_than);
        self.untimed = match shows_short || has_long_requests {
            true => 0,
            false => FAST | UNTIMED,
        };
    }

    /// A client is told no commands any more.
    pub(crate) fn forget_monitor(&mut self, client: &mut Client) {
        if std::mem::take(&mut client.is_monitor) {
            self.monitors.retain(|&slot| slot != client.slot);
        }
    }

    /// Whether clients have to say a password.
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

    /// A key has changed: whoever watches it is told by EXEC, and whoever waits for it may be served.
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

    /// All keys of a database are about to go.
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
}
