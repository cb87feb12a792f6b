//! Iterations of the event loop, one at a time: what depends on the order in which events come, or on time that passes.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;

/// A server, and where it listens.
struct Fixture {
    server: Server,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::bind(Config {
            port: 0,
            unixsocket: Some(directory.path().join("socket")),
            ..Config::default()
        });
        Self {
            server: server.unwrap(),
            directory,
        }
    }

    /// A client that has sent this.
    fn client(&self, bytes: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.directory.path().join("socket")).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// Waits for an event.
    fn poll(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let timeout = self.server.has_work().then_some(Duration::ZERO);
        self.server.poll.poll(&mut events, timeout).unwrap();
        events
            .iter()
            .for_each(|event| self.server.handle_event(event));
    }

    /// Turns until so many clients are there, and so many of them wait.
    fn until(&mut self, connected: usize, blocked: usize) {
        let counts = |server: &Server| (server.shared.connected, server.shared.blocked.len());
        while counts(&self.server) != (connected, blocked) {
            self.poll();
            self.server.serve();
        }
    }
}

#[test]
fn who_waits_may_be_silent_for_as_long_as_it_takes() {
    let mut fixture = Fixture::new();
    let (_waits, _silent) = (fixture.client(b"BZPOPMIN k 0\r\n"), fixture.client(b""));
    fixture.until(2, 1);
    let server = &mut fixture.server;
    let connected_after = |ms: u64, server: &mut Server| {
        server.now_ms += ms;
        server.end_overdue();
        server.shared.connected
    };
    server.shared.config.timeout = 5;
    assert_eq!(connected_after(6000, server), 1);
    assert_eq!(server.shared.blocked.len(), 1, "the silent one has gone");
    // From then on that it waits no more it is silent.
    let slot = server.shared.blocked.first(0, b"k").unwrap();
    let answer = |_, reply: &mut crate::protocol::Reply| reply.null_array();
    assert!(server.shared.release(slot, server.now_ms, answer));
    server.resume();
    assert_eq!(connected_after(4000, server), 1);
    assert_eq!(connected_after(2000, server), 0);
}

/// A batch has no room for the end of a waiting client: it is noticed nevertheless.
#[test]
fn nothing_is_taken_for_who_has_gone_and_was_not_met_yet() {
    let mut fixture = Fixture::new();
    let (mut writer, gone) = (fixture.client(b""), fixture.client(b"BZPOPMIN k 0\r\n"));
    fixture.until(2, 1);
    let slot = fixture.server.shared.blocked.first(0, b"k").unwrap();
    let pings = b"PING\r\n".repeat(2 * window::REQUESTS);
    writer
        .write_all(&[b"ZADD k 1 m\r\n", &pings[..]].concat())
        .unwrap();
    while fixture.server.ready.is_empty() {
        fixture.poll();
    }
    drop(gone);
    let has_gone = |server: &Server| {
        let connection = server.shared.connections[slot].as_ref();
        connection.expect("its turn has not come").read_closed
    };
    while !has_gone(&fixture.server) {
        fixture.poll();
    }
    // The writer is served first, and the batch is full.
    assert_ne!(fixture.server.ready.front(), Some(&slot));
    fixture.server.serve();
    let server = &mut fixture.server;
    assert_eq!(
        (server.shared.connected, server.shared.blocked.len()),
        (2, 0)
    );
    assert_eq!(server.keyspace.len_of(0), 1, "the member is still there");
    while server.shared.connected > 1 {
        server.serve();
    }
}
