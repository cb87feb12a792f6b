//! One iteration of the event loop: requests that have arrived are read, looked up as one batch, executed and replied to.
//!
//! A batch whose requests take long ends early: the rest of it is *late*, and a part of it is executed at the end of each
//! iteration. So other clients wait for one slow request, and not for a hundred of them.

use std::time::{Duration, Instant};

use super::Server;
use super::window::Pending;
use crate::catalog::{PAUSING, ResolvedCommand};
use crate::clients::{Buffers, Connection, ReadOutcome};
use crate::command::{held, process};
use crate::context::Shared;
use crate::protocol::Limits;

/// No request of a batch is started after this time.
const BATCH_SLICE: Duration = Duration::from_millis(5);

/// Whether a request begins or ends a pause, if it is executed.
fn is_pausing(shared: &Shared, resolved: ResolvedCommand) -> bool {
    matches!(resolved, ResolvedCommand::Command(id) if shared.catalog.get(id).command.flags & PAUSING != 0)
}

/// Sends replies before their batch ends, because there are many. A client that does not read them is
/// disconnected if its limit says so.
fn send_early(shared: &mut Shared, connection: &mut Connection, buffers: &mut Buffers) {
    match connection.send(buffers) {
        Ok(count) => shared.stats.output_bytes += count as u64,
        Err(_) => connection.client.closing = true,
    }
    connection.client.closing |= connection.is_over_limit(&shared.config);
    connection.bound_replies(&shared.config);
    shared.clock = Instant::now();
}

/// Shares the time of a batch, less that of calls timed one by one, among the other calls.
fn note_batch(shared: &mut Shared, requests: &[Pending], spent: Duration, timed_before_ns: u64) {
    let stats = &mut shared.stats;
    stats.batches += 1;
    let rest_ns = (spent.as_nanos() as u64).saturating_sub(stats.timed_ns - timed_before_ns);
    let share_ns = rest_ns / requests.len().max(1) as u64;
    for pending in requests {
        if let ResolvedCommand::Command(id) = pending.resolved {
            stats.calls[id as usize].spent_ns += share_ns;
        }
    }
}

impl Server {
    /// Serves every connection that is ready once.
    pub(super) fn serve(&mut self) {
        let mut left = self.ready.len();
        while left > 0 {
            self.batch.clear();
            while left > 0 && !self.batch.is_full() {
                left -= 1;
                if let Some(slot) = self.ready.pop_front() {
                    self.read_requests(slot);
                }
            }
            self.batch.look_up(&self.shared, &mut self.keyspace);
            self.run_batch();
        }
        if !self.late.requests.is_empty() {
            self.run_late();
        }
        for slot in std::mem::take(&mut self.sending) {
            let connection = self.shared.connections[slot].as_ref();
            if connection.is_some_and(|connection| connection.is_sending) {
                self.send(slot);
            }
        }
    }

    /// Executes the batch, and sends the replies.
    fn run_batch(&mut self) {
        self.execute();
        for index in 0..self.batch.members.len() {
            self.finish(self.batch.members[index]);
        }
        if !self.shared.monitors.is_empty() {
            self.send_to_monitors();
        }
        if self.shared.blocked.has_released() {
            self.resume();
        }
        while let Some(slot) = self.shared.killed.pop() {
            self.close(slot);
        }
    }

    /// Continues with the late batch, unless its first client still has replies to read.
    #[cold]
    fn run_late(&mut self) {
        let connection = |slot: usize| self.shared.connections[slot].as_ref();
        let first = connection(self.late.requests[0].slot);
        if first.is_some_and(|connection| connection.is_behind()) {
            return;
        }
        self.batch.clear();
        std::mem::swap(&mut self.batch, &mut self.late);
        for slot in std::mem::take(&mut self.batch.members) {
            match &mut self.shared.connections[slot] {
                Some(connection) => {
                    connection.is_late = false;
                    connection.queued = false;
                    self.batch.members.push(slot);
                }
                None => {
                    self.batch.requests.retain(|late| late.slot != slot);
                    self.vacant.push(slot);
                }
            }
        }
        self.run_batch();
    }

    /// Postpones the rest of a batch, from a request on.
    #[cold]
    fn postpone(&mut self, first: usize) {
        for pending in &self.batch.requests[first..] {
            if let Some(connection) = &mut self.shared.connections[pending.slot]
                && !std::mem::replace(&mut connection.is_late, true)
            {
                // Until then the connection is not read, and its slot is not reused.
                connection.queued = true;
                self.late.members.push(pending.slot);
            }
        }
        self.batch.postpone(first, &mut self.late);
    }

    /// Reads from a connection and adds the requests that are complete to the batch.
    fn read_requests(&mut self, slot: usize) {
        let shared = &mut self.shared;
        let Some(mut connection) = shared.connections[slot].take() else {
            // It was closed while it was queued.
            self.vacant.push(slot);
            return;
        };
        connection.queued = false;
        // A blocked client is read to notice its end; what it sends is kept for later.
        let is_blocked = connection.client.is_blocked();
        let reads = is_blocked || !connection.more;
        if reads && connection.readable && !connection.client.closing {
            connection.client.used_ms = self.now_ms;
            shared.stats.reads += 1;
            let limit = shared.config.client_query_buffer_limit;
            let ended = match connection.read(&mut self.buffers, limit) {
                Ok(ReadOutcome::Some(count)) => {
                    shared.stats.input_bytes += count as u64;
                    let over = connection.input_bytes() > limit;
                    shared.stats.query_buffer_limit_closed += u64::from(over);
                    over
                }
                Ok(ReadOutcome::Nothing) => false,
                Ok(ReadOutcome::End) | Err(_) => true,
            };
            if ended {
                shared.connections[slot] = Some(connection);
                return self.close(slot);
            }
        }
        let trusted = connection.client.authenticated || !shared.is_guarded();
        let limits = Limits {
            bulk_bytes: shared.config.proto_max_bulk_len,
            trusted,
        };
        let (queue, pause) = (connection.client.queue.as_ref(), shared.pause);
        let looked_up = queue.is_none();
        // Requests after AUTH are parsed only once that has been executed. In a pause, or if a transaction may begin one, each
        // request decides whether the next one waits.
        let pauses = queue.is_some_and(|queue| queue.flags() & PAUSING != 0);
        let one_by_one = !trusted || pause.is_some() || pauses;
        connection.more = !connection.client.closing && !is_blocked;
        while connection.more && !self.batch.is_full() {
            match connection.parse(limits) {
                Ok(Some(request)) => {
                    let args = connection.args(request);
                    let resolved = shared.catalog.resolve(args.at(0), args.get(1));
                    if let Some(pause) = pause
                        && let Some(id) = held(shared, pause, &connection.client, args, resolved)
                    {
                        connection.client.last_command = Some(id);
                        connection.put_back(request);
                        shared.blocked.hold(&mut connection.client);
                        break;
                    }
                    // Earlier requests of other clients are executed before a pause begins.
                    if !self.late.requests.is_empty() && (pauses || is_pausing(shared, resolved)) {
                        connection.put_back(request);
                        break;
                    }
                    let is_barrier = self.batch.add(
                        shared,
                        slot,
                        request,
                        resolved,
                        connection.client.db,
                        looked_up,
                    );
                    if is_barrier || one_by_one {
                        break;
                    }
                }
                Ok(None) => connection.more = false,
                Err(error) => {
                    connection.failed = Some(error);
                    connection.more = false;
                }
            }
        }
        shared.connections[slot] = Some(connection);
        self.batch.members.push(slot);
    }

    fn execute(&mut self) {
        let (shared, batch) = (&mut self.shared, &self.batch);
        if batch.requests.is_empty() {
            return;
        }
        // In a pause nothing changes, as in Redis.
        self.keyspace.keep_expired(shared.pause.is_some());
        let (begun, timed_before) = (Instant::now(), shared.stats.timed_ns);
        shared.clock = begun;
        let (mut at, until) = (0, begun + BATCH_SLICE);
        while let Some(first) = batch.requests.get(at)
            && shared.clock < until
        {
            let slot = first.slot;
            let Some(mut connection) = shared.connections[slot].take() else {
                at += 1;
                continue;
            };
            connection.prepare(&mut self.buffers);
            connection.bound_replies(&shared.config);
            shared.choose_untimed(connection.has_long_input());
            // The clock is read after requests that may take long.
            while let Some(pending) = batch
                .requests
                .get(at)
                .filter(|pending| pending.slot == slot && shared.clock < until)
            {
                if !connection.client.closing {
                    let (args, client, reply) = connection.split(pending.request);
                    let found = batch.found(at, client.db);
                    process(
                        &self.runs,
                        &mut self.keyspace,
                        shared,
                        client,
                        reply,
                        args,
                        pending.resolved,
                        found,
                    );
                    if connection.reply.is_over() {
                        connection.client.closing = true;
                    } else if connection.is_swollen() {
                        send_early(shared, &mut connection, &mut self.buffers);
                    }
                }
                at += 1;
            }
            shared.connections[slot] = Some(connection);
        }
        note_batch(shared, &batch.requests[..at], begun.elapsed(), timed_before);
        if at < batch.requests.len() {
            self.postpone(at);
        }
    }

    /// Ends an iteration for a connection: executed requests are dropped, replies are sent.
    fn finish(&mut self, slot: usize) {
        let Some(connection) = &mut self.shared.connections[slot] else {
            return;
        };
        if connection.reply.is_over() {
            // An incomplete reply is not sent.
            self.shared.stats.output_buffer_limit_closed += 1;
            return self.close(slot);
        }
        if connection.is_late {
            if connection.waiting() > 0 {
                self.send(slot);
            }
            return;
        }
        // After QUIT no error is sent for what follows.
        if let Some(error) = connection.failed.take()
            && !connection.client.closing
        {
            let text = error.reply_text();
            self.shared.stats.error(&text);
            connection.reply.error(&text);
            connection.client.closing = true;
        }
        connection.executed(&mut self.buffers);
        let client = &connection.client;
        let more = connection.more && !client.is_blocked();
        let again = (more || connection.readable) && !client.closing;
        if again && !connection.queued {
            connection.queued = true;
            self.ready.push_back(slot);
        }
        if connection.waiting() > 0 || connection.client.closing {
            self.send(slot);
        }
    }

    /// Resumes clients that have waited: their replies are sent, and what they have sent meanwhile is queued.
    #[cold]
    pub(super) fn resume(&mut self) {
        for slot in self.shared.blocked.take_released() {
            let Some(connection) = &mut self.shared.connections[slot] else {
                continue;
            };
            if connection.more && !connection.queued {
                connection.queued = true;
                self.ready.push_back(slot);
            }
            if connection.waiting() > 0 {
                self.send(slot);
            }
        }
    }

    /// Sends to monitors what was executed.
    #[cold]
    fn send_to_monitors(&mut self) {
        // One that is closed is taken from among them.
        for at in (0..self.shared.monitors.len()).rev() {
            let slot = self.shared.monitors[at];
            let connection = self.shared.connections[slot].as_ref();
            if connection.is_some_and(|connection| connection.waiting() > 0) {
                self.send(slot);
            }
        }
    }

    /// Sends pending replies, and closes the connection if necessary.
    pub(super) fn send(&mut self, slot: usize) {
        let Some(connection) = &mut self.shared.connections[slot] else {
            return;
        };
        let stats = &mut self.shared.stats;
        let keep = match connection.send(&mut self.buffers) {
            Ok(count) => {
                stats.writes += 1;
                stats.output_bytes += count as u64;
                // A client that reads replies is not idle.
                if count > 0 {
                    connection.client.used_ms = self.now_ms;
                }
                if connection.is_sending && !self.sending.contains(&slot) {
                    self.sending.push(slot);
                }
                let within = connection.is_within(&self.shared.config, self.now_ms);
                stats.output_buffer_limit_closed += u64::from(!within);
                within && !(connection.client.closing && connection.waiting() == 0)
            }
            Err(_) => false,
        };
        if !keep {
            self.close(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::Config;

    /// Runs one iteration, as soon as there is a reason to.
    fn iterate(server: &mut Server) {
        let mut events = mio::Events::with_capacity(16);
        let timeout = server.has_work().then_some(Duration::ZERO);
        server.poll.poll(&mut events, timeout).unwrap();
        events.iter().for_each(|event| server.handle_event(event));
        server.serve();
    }

    fn bind(config: Config) -> (tempfile::TempDir, Server, UnixStream) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let server = Server::bind(Config {
            port: 0,
            unixsocket: Some(path.clone()),
            ..config
        })
        .unwrap();
        let client = UnixStream::connect(path).unwrap();
        (directory, server, client)
    }

    /// The time of a transaction's commands is part of EXEC's: together they are not longer than their batch.
    #[test]
    fn the_time_of_a_transaction_is_counted_once() {
        let (_directory, mut server, mut client) = bind(Config {
            enable_debug_command: crate::config::DebugCommand::Yes,
            ..Config::default()
        });
        let requests = b"MULTI\r\nDEBUG SLEEP 0.02\r\nKEYS *\r\nEXEC\r\n";
        client.write_all(requests).unwrap();
        let begun = Instant::now();
        while server.shared.stats.commands < 4 {
            iterate(&mut server);
        }
        let timed_ns = u128::from(server.shared.stats.timed_ns);
        assert!(timed_ns >= 20_000_000, "{timed_ns}");
        assert!(timed_ns <= begun.elapsed().as_nanos(), "{timed_ns}");
    }

    #[test]
    fn who_takes_a_long_reply_slowly_is_not_silent() {
        let (_directory, mut server, mut client) = bind(Config {
            timeout: 5,
            ..Config::default()
        });
        client
            .write_all(b"SETRANGE k 8000000 x\r\nGET k\r\n")
            .unwrap();
        let waiting = |server: &Server| {
            let mut connections = server.shared.connections.iter().flatten();
            connections
                .next()
                .map_or(0, |connection| connection.waiting())
        };
        while waiting(&server) == 0 {
            iterate(&mut server);
        }
        client.set_nonblocking(true).unwrap();
        let mut piece = vec![0; 64 * 1024];
        for _ in 0..3 {
            server.now_ms += 4000;
            server.end_overdue();
            assert_eq!(server.shared.connected, 1);
            let before = waiting(&server);
            loop {
                match client.read(&mut piece) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    count => assert!(count.unwrap() > 0),
                }
            }
            while waiting(&server) == before {
                iterate(&mut server);
            }
            assert!(waiting(&server) > 0, "the reply is longer than that");
        }
        server.now_ms += 6000;
        server.end_overdue();
        assert_eq!(server.shared.connected, 0);
    }
}
