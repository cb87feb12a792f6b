//! The server: one thread that listens, reads, looks up, executes and replies.
//!
//! An event loop of its own rather than a task per connection: one turn of it sees all connections that
//! are ready, and that is exactly the window in which keys can be looked up together. It reads from as
//! many connections as fill a batch ([`window`]), looks up the keys of all their requests as one group,
//! executes the requests, in order on each connection, and sends the replies of each with one call.
//!
//! Sockets tell once that they are ready. A read that returns less than it asked for has emptied its
//! socket; one that does not puts its connection at the end of the queue, so that nobody waits for a
//! client that never stops sending.

mod arch;
mod client;
mod connection;
mod random;
mod shared;
mod slowlog;
mod stats;
mod stream;
mod timers;
mod window;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use tierra_memory::emulation;

pub(crate) use client::{Client, Replies};
use connection::{Arrived, Buffers, Connection};
pub(crate) use shared::Shared;
use stream::{Accepted, Listener, Stream};
use window::Batch;

use crate::command::process;
use crate::config::Config;
use crate::keyspace::{Keyspace, Options};
use crate::protocol::Limits;

/// Listeners have the highest tokens, below that of the waker.
const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX - 1;
/// How many events one look at the sockets tells.
const EVENTS: usize = 1024;

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address and port, or the path of a socket.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// There is nothing to listen on.
    #[error("there is nothing to listen on: port is 0 and no unixsocket is given")]
    Nowhere,
    /// A setting of placement is wrong.
    #[error("{name}: {why}")]
    Setting {
        /// The setting.
        name: String,
        /// What is wrong with its value.
        why: String,
    },
    /// There are no addresses for records.
    #[error("no memory for records: {0}")]
    Memory(#[from] tierra_memory::RegionError),
    /// Far memory cannot be emulated.
    #[error("emulate: {0}")]
    Emulation(#[from] tierra_memory::emulation::EmulationError),
    /// The system does not tell of events.
    #[error("cannot wait for events: {0}")]
    Events(#[from] io::Error),
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Handle {
    /// Lets [`Server::run`] return.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Where it cannot be woken, it looks by itself within a tenth of a second.
        let _ = self.waker.wake();
    }
}

/// A server, listening.
pub struct Server {
    poll: Poll,
    listeners: Vec<Listener>,
    handle: Handle,
    keyspace: Keyspace,
    shared: Shared,
    /// Connections to be served, and slots of those that are gone.
    ready: VecDeque<usize>,
    vacant: Vec<usize>,
    batch: Batch,
    buffers: Buffers,
    next_client: u64,
    now_ms: u64,
    timers: timers::Timers,
    /// Whether connections may wait that could not be accepted.
    accept_again: bool,
}

fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

impl Server {
    /// Listens where the settings say.
    ///
    /// # Errors
    /// Where it cannot, or a setting of placement is wrong.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut listeners = listen(&config)?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER - index))?;
        }
        let now_ms = unix_ms();
        if let Some(far) = config.emulate {
            emulation::set(Some(far))?;
        }
        let mut keyspace = Keyspace::new(&Options {
            far: config.far.clone(),
            far_tables: !config.hashtable_on_dram,
            far_bytes: config.far_memory,
            ..Options::default()
        })?;
        for (name, value) in &config.placement {
            keyspace
                .set_setting(name, value)
                .map_err(|why| ServeError::Setting {
                    name: name.clone(),
                    why,
                })?;
        }
        keyspace.set_now(now_ms);
        let mut shared = Shared::new(config);
        shared.port = listeners.iter().find_map(Listener::port).unwrap_or(0);
        Ok(Self {
            poll,
            listeners,
            handle: Handle {
                stopping: Arc::default(),
                waker,
            },
            keyspace,
            shared,
            ready: VecDeque::new(),
            vacant: Vec::new(),
            batch: Batch::default(),
            buffers: Buffers::default(),
            next_client: 1,
            now_ms,
            timers: timers::Timers::new(Instant::now(), now_ms),
            accept_again: false,
        })
    }

    /// The TCP port; 0 where there is none.
    pub fn port(&self) -> u16 {
        self.shared.port
    }

    /// What ends it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until it is told to end.
    ///
    /// # Errors
    /// Where the system tells of no more events.
    pub fn run(&mut self) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.stopping && !self.handle.stopping.load(Ordering::Acquire) {
            let timeout = if self.ready.is_empty() {
                self.timers.until_next()
            } else {
                Duration::ZERO
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            self.now_ms = unix_ms();
            self.keyspace.set_now(self.now_ms);
            for event in &events {
                self.happened(event);
            }
            self.serve();
            self.look_after();
        }
        Ok(())
    }

    fn happened(&mut self, event: &Event) {
        let Token(token) = event.token();
        if event.token() == WAKER {
            return;
        }
        if FIRST_LISTENER - token < self.listeners.len() {
            return self.accept(FIRST_LISTENER - token);
        }
        let Some(connection) = self
            .shared
            .connections
            .get_mut(token)
            .and_then(Option::as_mut)
        else {
            return;
        };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.readable = true;
            connection.read_closed |= event.is_read_closed() || event.is_error();
            if !connection.queued {
                connection.queued = true;
                self.ready.push_back(token);
            }
        }
        if event.is_writable() && connection.waiting() > 0 {
            self.send(token);
        }
    }

    fn accept(&mut self, listener: usize) {
        loop {
            match self.listeners[listener].accept(self.shared.config.tcp_keepalive) {
                Ok(accepted) => self.welcome(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                // Too many open files, most likely: some will be closed.
                Err(_) => {
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, accepted: Accepted) {
        let Accepted {
            mut stream,
            address,
            local_address,
            is_local,
        } = accepted;
        let (config, stats) = (&self.shared.config, &mut self.shared.stats);
        let refusal = if self.shared.connected >= config.maxclients {
            Some(&b"-ERR max number of clients reached\r\n"[..])
        } else if config.protected_mode && config.requirepass.is_empty() && !is_local {
            Some(&b"-DENIED Tierra is running in protected mode: without a password it serves only clients of its own machine. Set requirepass, or, where no stranger can reach the port, set protected-mode to no.\r\n"[..])
        } else {
            None
        };
        if let Some(refusal) = refusal {
            stats.rejected_connections += 1;
            // Whoever does not take it will see the connection end.
            let _ = stream.write(refusal);
            return;
        }
        stats.connections += 1;
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.shared.connections.push(None);
            self.shared.connections.len() - 1
        });
        let registered = self.poll.registry().register(
            stream.source(),
            Token(slot),
            Interest::READABLE | Interest::WRITABLE,
        );
        if registered.is_err() {
            self.vacant.push(slot);
            return;
        }
        let client = Client {
            id: self.next_client,
            address,
            local_address,
            is_local,
            is_unix: matches!(stream, Stream::Unix(_)),
            fd: stream.as_fd().as_raw_fd(),
            name: Vec::new(),
            db: 0,
            authenticated: !self.shared.is_guarded(),
            replies: Replies::All,
            no_evict: false,
            queue: None,
            watched: Vec::new(),
            closing: false,
            created_ms: self.now_ms,
            used_ms: self.now_ms,
            last_command: None,
            input_bytes: 0,
            input_spare_bytes: 0,
            output_bytes: 0,
            resp3: false,
        };
        self.next_client += 1;
        self.shared.connected += 1;
        let mut connection = Box::new(Connection::new(stream, client));
        // Its first request may have come with it.
        connection.queued = true;
        self.shared.connections[slot] = Some(connection);
        self.ready.push_back(slot);
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.shared.connections[slot].take() {
            // The descriptor is closed next, which ends its registration in any case.
            let _ = self
                .poll
                .registry()
                .deregister(connection.stream().source());
            self.shared
                .watches
                .forget(connection.client.id, &mut connection.client.watched);
            self.shared.connected -= 1;
            self.vacant.push(slot);
        }
    }

    /// Serves every connection that is ready once.
    fn serve(&mut self) {
        let mut left = self.ready.len();
        while left > 0 {
            self.batch.clear();
            while left > 0 && !self.batch.is_full() {
                left -= 1;
                if let Some(slot) = self.ready.pop_front() {
                    self.gather(slot);
                }
            }
            self.batch.look_up(&self.shared, &mut self.keyspace);
            self.execute();
            for index in 0..self.batch.members.len() {
                self.finish(self.batch.members[index]);
            }
            while let Some(slot) = self.shared.killed.pop() {
                self.close(slot);
            }
        }
    }

    /// Reads from a connection and adds the requests that are complete to the batch.
    fn gather(&mut self, slot: usize) {
        let shared = &mut self.shared;
        let Some(mut connection) = shared.connections[slot].take() else {
            return;
        };
        connection.queued = false;
        if !connection.more && connection.readable && !connection.client.closing {
            connection.client.used_ms = self.now_ms;
            shared.stats.reads += 1;
            let ended = match connection.read(&mut self.buffers) {
                Ok(Arrived::Some(count)) => {
                    shared.stats.input_bytes += count as u64;
                    let over = connection.input_len() > shared.config.client_query_buffer_limit;
                    shared.stats.query_buffer_limit_closed += u64::from(over);
                    over
                }
                Ok(Arrived::Nothing) => false,
                Ok(Arrived::End) | Err(_) => true,
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
        let looked_up = connection.client.queue.is_none();
        connection.more = !connection.client.closing;
        while connection.more && !self.batch.is_full() {
            match connection.parse(limits) {
                Ok(Some(request)) => {
                    let args = connection.args(request);
                    let resolved = shared.table.resolve(args.at(0), args.get(1));
                    self.batch.add(
                        shared,
                        slot,
                        request,
                        resolved,
                        connection.client.db,
                        looked_up,
                    );
                    // What comes after AUTH is believed only once that has been executed.
                    if !trusted {
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
        let (begun, timed_before) = (Instant::now(), shared.timed_ns());
        let mut at = 0;
        while let Some(first) = batch.requests.get(at) {
            let slot = first.slot;
            let Some(mut connection) = shared.connections[slot].take() else {
                at += 1;
                continue;
            };
            connection.prepare(&mut self.buffers);
            while let Some(pending) = batch
                .requests
                .get(at)
                .filter(|pending| pending.slot == slot)
            {
                if !connection.client.closing {
                    let (args, client, reply) = connection.split(pending.request);
                    let found = batch.found(at, client.db);
                    process(
                        &mut self.keyspace,
                        shared,
                        client,
                        reply,
                        args,
                        pending.resolved,
                        found,
                    );
                    if connection.is_swollen() {
                        shared.send_early(&mut connection, &mut self.buffers);
                    }
                }
                at += 1;
            }
            shared.connections[slot] = Some(connection);
        }
        shared.note_batch(&batch.requests, begun.elapsed(), timed_before);
    }

    /// Ends a turn of a connection: what was executed is forgotten, what was replied is sent.
    fn finish(&mut self, slot: usize) {
        let Some(connection) = &mut self.shared.connections[slot] else {
            return;
        };
        if let Some(error) = connection.failed.take() {
            let text = format!("ERR Protocol error: {error}");
            self.shared.stats.error(text.as_bytes());
            connection.reply.error(text.as_bytes());
            connection.client.closing = true;
        }
        connection.executed(&mut self.buffers);
        let again = (connection.more || connection.readable) && !connection.client.closing;
        if again && !connection.queued {
            connection.queued = true;
            self.ready.push_back(slot);
        }
        if connection.waiting() > 0 || connection.client.closing {
            self.send(slot);
        }
    }

    /// Sends what waits, and ends the connection where it must be ended.
    fn send(&mut self, slot: usize) {
        let Some(connection) = &mut self.shared.connections[slot] else {
            return;
        };
        let stats = &mut self.shared.stats;
        let keep = match connection.send(&mut self.buffers) {
            Ok(count) => {
                stats.writes += 1;
                stats.output_bytes += count as u64;
                let within = connection.is_within(self.shared.config.output_limit, self.now_ms);
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

/// Listens on everything that the settings name.
fn listen(config: &Config) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    if config.port > 0 {
        for address in &config.bind {
            let (address, optional) = match address.strip_prefix('-') {
                Some(address) => (address, true),
                None => (&**address, false),
            };
            let host = match address {
                "*" => "0.0.0.0",
                "::*" => "::",
                host => host,
            };
            match Listener::tcp(host, config.port, config.tcp_backlog) {
                Ok(listener) => listeners.push(listener),
                Err(_) if optional => {}
                Err(error) => {
                    return Err(ServeError::Listen {
                        address: format!("{host} port {}", config.port),
                        error,
                    });
                }
            }
        }
    }
    if let Some(path) = &config.unixsocket {
        let listener = Listener::unix(path, config.unixsocketperm, config.tcp_backlog);
        listeners.push(listener.map_err(|error| ServeError::Listen {
            address: path.display().to_string(),
            error,
        })?);
    }
    if listeners.is_empty() {
        Err(ServeError::Nowhere)
    } else {
        Ok(listeners)
    }
}
