//! Accepting and closing connections.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};

use mio::{Interest, Token};

use super::Server;
use crate::clients::{Accepted, Client, Connection, Stream};

impl Server {
    pub(super) fn accept(&mut self, listener: usize) {
        loop {
            match self.listeners[listener].accept(self.shared.config.tcp_keepalive) {
                Ok(accepted) => self.welcome(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_one_connection(&error) => {}
                // Too many open files, or no memory, most likely: others will go.
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
            // A client that does not read it sees the connection end.
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
            slot,
            address,
            local_address,
            is_local,
            is_unix: matches!(stream, Stream::Unix(_)),
            fd: stream.as_fd().as_raw_fd(),
            authenticated: !self.shared.is_guarded(),
            created_ms: self.now_ms,
            used_ms: self.now_ms,
            ..Client::default()
        };
        self.next_client += 1;
        self.shared.connected += 1;
        let mut connection = Box::new(Connection::new(stream, client));
        // Its first request may have come with it.
        connection.queued = true;
        self.shared.connections[slot] = Some(connection);
        self.ready.push_back(slot);
    }

    pub(super) fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.shared.connections[slot].take() {
            // The descriptor is closed next, which ends its registration in any case.
            let _ = self
                .poll
                .registry()
                .deregister(connection.stream().source());
            self.shared
                .watches
                .forget(connection.client.id, &mut connection.client.watched);
            self.shared.blocked.unblock(&mut connection.client);
            self.shared.connected -= 1;
            self.shared.forget_monitor(&mut connection.client);
            // A queued one is handled once more: its slot is vacant only then, or a new connection would be handled twice.
            if !connection.queued {
                self.vacant.push(slot);
            }
            if let Some(queue) = connection.discard(&mut self.buffers) {
                self.shared.defer_free(queue);
            }
        }
    }
}

/// Whether the connection failed before it was accepted: the next one may succeed.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
    ) || matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::ENONET)
    )
}
