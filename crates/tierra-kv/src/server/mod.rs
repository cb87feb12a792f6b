//! The server: one thread that listens, reads, looks up, executes and replies.
//!
//! An event loop of its own rather than a task per connection: one iteration sees all connections that
//! are ready, and that is exactly the window in which keys can be looked up together. It reads from as
//! many connections as fill a batch ([`window`]), looks up the keys of all their requests as one group,
//! executes the requests, in order on each connection, and sends the replies of each with one call.
//!
//! Sockets report once that they are ready. A read that returns less than it asked for has emptied its
//! socket; one that does not puts its connection at the end of the queue, so that no client waits for a
//! client that never stops sending.

mod accept;
mod announcement;
mod cron;
mod error;
mod iteration;
mod listen;
mod numbers;
#[cfg(test)]
mod tests;
mod timers;
mod window;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use tierra_memory::emulation;

pub use error::ServeError;
pub use numbers::{Numbers, NumbersReader};
use window::Batch;

use crate::clients::{Buffers, Listener, connections_allowed};
use crate::command::{self, Run};
use crate::config::Config;
use crate::context::Shared;
use crate::keyspace::{Keyspace, KeyspaceOptions};

/// Listeners have the highest tokens, below that of the waker.
const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX - 1;
/// The most events of one poll.
const EVENTS: usize = 1024;

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
    /// `maxclients` as it was asked for.
    clients_wanted: usize,
    keyspace: Keyspace,
    /// What each command does, by its number.
    runs: Box<[Run]>,
    shared: Shared,
    /// Connections to be served, and slots of those that are gone.
    ready: VecDeque<usize>,
    vacant: Vec<usize>,
    batch: Batch,
    /// Requests that an iteration had no time for, and their connections.
    late: Batch,
    /// Slots of connections whose replies an iteration had no time to send.
    sending: Vec<usize>,
    buffers: Buffers,
    next_client: u64,
    now_ms: u64,
    timers: timers::Timers,
    numbers: NumbersReader,
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
    /// Where it cannot, or there is no memory of the kind that they ask for.
    pub fn bind(mut config: Config) -> Result<Self, ServeError> {
        let clients_wanted = config.maxclients;
        config.maxclients = connections_allowed(clients_wanted);
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut listeners = listen::listen(&config)?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER - index))?;
        }
        let now_ms = unix_ms();
        if let Some(far) = config.emulate {
            emulation::set(Some(far))?;
        }
        let mut keyspace = Keyspace::new(&KeyspaceOptions {
            far: config.far.clone(),
            far_tables: !config.hashtable_on_dram,
            // The keyspace calls no limit 0. A byte is none: memory comes in pages.
            far_bytes: config.far_memory.map_or(0, |bytes| bytes.max(1)),
            settings: config.placement.clone(),
        })?;
        keyspace.set_eviction(config.maxmemory_policy);
        keyspace.set_now(now_ms);
        let mut shared = Shared::new(config, command::catalog());
        shared.port = listeners.iter().find_map(Listener::port).unwrap_or(0);
        Ok(Self {
            poll,
            listeners,
            handle: Handle {
                stopping: Arc::default(),
                waker,
            },
            clients_wanted,
            keyspace,
            runs: command::runs(),
            shared,
            ready: VecDeque::new(),
            vacant: Vec::new(),
            batch: Batch::default(),
            late: Batch::default(),
            sending: Vec::new(),
            buffers: Buffers::default(),
            next_client: 1,
            now_ms,
            timers: timers::Timers::new(Instant::now(), now_ms),
            numbers: NumbersReader::default(),
            accept_again: false,
        })
    }

    /// The TCP port; 0 where there is none.
    pub fn port(&self) -> u16 {
        self.shared.port
    }

    /// Where its metrics are to be told over HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.shared.config.http
    }

    /// What ends it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until [`Handle::stop`] or SHUTDOWN.
    ///
    /// # Errors
    /// If the system reports no more events.
    pub fn run(&mut self) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.stopping && !self.handle.stopping.load(Ordering::Acquire) {
            let timeout = if self.has_work() {
                Duration::ZERO
            } else {
                self.timers.until_next(self.shared.next_deadline())
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            self.now_ms = unix_ms();
            self.keyspace.set_now(self.now_ms);
            for event in &events {
                self.handle_event(event);
            }
            self.serve();
            self.run_cron();
        }
        Ok(())
    }

    /// Whether there is something to do, whatever happens.
    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.late.requests.is_empty() || !self.sending.is_empty()
    }

    fn handle_event(&mut self, event: &Event) {
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
}
