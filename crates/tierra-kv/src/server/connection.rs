//! One connection: bytes in, requests found in them, replies out.

use std::io::{self, ErrorKind};

use super::client::Client;
use super::stream::Stream;
use crate::config::OutputLimit;
use crate::protocol::{Args, Limits, Parser, ProtocolError, Reply, Request};

/// A read asks for at least so much.
pub(super) const READ_BYTES: usize = 16 * 1024;
/// Buffers of this size are used again by whoever needs one.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// So many buffers are kept for that.
const KEPT_BUFFERS: usize = 256;
/// Replies are sent before the batch ends where so much of them waits.
const SEND_BYTES: usize = 256 * 1024;

/// Buffers that nobody uses at the moment. The one used last, whose lines are in the cache, is used next.
#[derive(Default)]
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    fn take(&mut self) -> Vec<u8> {
        self.0
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BUFFER_BYTES && self.0.len() < KEPT_BUFFERS {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    parser: Parser,
    pub(crate) client: Client,
    pub(super) reply: Reply,
    sent: usize,
    /// Whether there may be something to read.
    pub(super) readable: bool,
    /// Whether the client has closed its side: reading goes on until nothing comes.
    pub(super) read_closed: bool,
    /// Whether complete requests wait in the input.
    pub(super) more: bool,
    /// What was not the protocol, once the requests before it have been executed.
    pub(super) failed: Option<ProtocolError>,
    /// Whether it waits in the queue of connections to be served.
    pub(super) queued: bool,
    /// Since when more than the soft limit of replies waits, in milliseconds.
    over_soft_since_ms: Option<u64>,
}

/// What came of reading.
pub(super) enum Arrived {
    Some(usize),
    Nothing,
    End,
}

impl Connection {
    pub(super) fn new(stream: Stream, client: Client) -> Self {
        Self {
            stream,
            input: Vec::new(),
            parser: Parser::default(),
            client,
            reply: Reply::default(),
            sent: 0,
            readable: true,
            read_closed: false,
            more: false,
            failed: None,
            queued: false,
            over_soft_since_ms: None,
        }
    }

    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// What the requests found so far are made of.
    #[inline]
    pub(super) fn args(&self, request: Request) -> Args<'_> {
        Args::new(
            &self.input,
            &self.parser.args()[request.first as usize..][..request.count as usize],
        )
    }

    /// The requests' bytes and everything else, which commands change.
    #[inline]
    pub(super) fn split(&mut self, request: Request) -> (Args<'_>, &mut Client, &mut Reply) {
        let args = Args::new(
            &self.input,
            &self.parser.args()[request.first as usize..][..request.count as usize],
        );
        (args, &mut self.client, &mut self.reply)
    }

    #[inline]
    pub(super) fn parse(&mut self, limits: Limits) -> Result<Option<Request>, ProtocolError> {
        self.parser.next(&mut self.input, limits)
    }

    /// The request that was found last is found again by [`parse`](Self::parse): it is not executed now.
    pub(super) fn put_back(&mut self, request: Request) {
        self.parser.put_back(request);
    }

    /// How many bytes have arrived that belong to no request yet executed, those of a transaction included.
    pub(super) fn input_bytes(&self) -> usize {
        self.input.len() - self.parser.found_bytes() + self.client.queue_bytes()
    }

    /// Drops what has been executed from the front of the input. What stays is moved once: nothing behind it is executed before
    /// it is.
    fn compact(&mut self) {
        let done = self.parser.forget();
        if done > 0 {
            self.input.drain(..done);
            self.parser.moved(done);
        }
    }

    /// Makes room for a read: enough for what is awaited, as far as the client is believed, and little more, or what follows
    /// would be held against it.
    fn make_room(&mut self, buffers: &mut Buffers) {
        if self.input.capacity() == 0 {
            self.input = buffers.take();
        }
        self.compact();
        let (len, awaited) = (self.input.len(), self.parser.awaited(self.input.len()));
        let spare = self.input.capacity() - len;
        let most = awaited.max(len / 8) + READ_BYTES;
        if spare < READ_BYTES {
            // A length that a client announces is believed as its bytes arrive: twice what is there.
            let believed = most.min(len.max(2 * READ_BYTES));
            self.input.reserve_exact(believed);
        } else if self.input.capacity() > BUFFER_BYTES && spare > most {
            self.input.shrink_to(len + most);
        }
    }

    /// Reads once. All requests found before have been executed.
    pub(super) fn read(&mut self, buffers: &mut Buffers) -> io::Result<Arrived> {
        self.make_room(buffers);
        let asked = self.input.capacity() - self.input.len();
        match self.stream.read(&mut self.input) {
            Ok(0) => Ok(Arrived::End),
            Ok(count) => {
                // Less than asked for: the socket is empty, and will tell when it is not. Unless it has
                // told already that it ends.
                self.readable = count == asked || self.read_closed;
                Ok(Arrived::Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Arrived::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Arrived::Nothing),
            Err(error) => Err(error),
        }
    }

    /// All requests found have been executed.
    pub(super) fn executed(&mut self, buffers: &mut Buffers) {
        self.reply.limit_bytes = usize::MAX;
        if self.parser.forget() == self.input.len() || !self.more {
            self.compact();
            self.give_back(buffers);
        }
        // A client that waits, or wants no replies, has none: it does not keep a buffer for them.
        if self.reply.buffer.is_empty() {
            buffers.put(std::mem::take(&mut self.reply.buffer));
        }
        self.client.input_bytes = self.input.len() - self.parser.found_bytes();
        self.client.input_spare_bytes = self.input.capacity() - self.input.len();
    }

    /// Gives a buffer back that is empty, or larger than what it has and awaits needs.
    fn give_back(&mut self, buffers: &mut Buffers) {
        let len = self.input.len();
        if len == 0 {
            buffers.put(std::mem::take(&mut self.input));
        } else if self.input.capacity() > BUFFER_BYTES
            && len + self.parser.awaited(len) <= BUFFER_BYTES / 2
        {
            let mut rest = buffers.take();
            rest.extend_from_slice(&self.input);
            self.input = rest;
        }
    }

    /// How many bytes of replies wait.
    pub(super) fn waiting(&self) -> usize {
        self.reply.buffer.len() - self.sent
    }

    /// Adds what the client has not asked for, to be sent at the end of the turn.
    pub(crate) fn tell(&mut self, bytes: &[u8]) {
        self.reply.buffer.extend_from_slice(bytes);
    }

    /// The reply to a request that was executed in an earlier batch, to be sent at the end of the turn.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut Reply)) {
        let before = self.reply.buffer.len();
        write(&mut self.reply);
        self.client.conclude(&mut self.reply, before);
    }

    /// The client waits no more: what has arrived meanwhile is to be executed.
    pub(super) fn resume(&mut self, now_ms: u64) {
        self.client.used_ms = now_ms;
        self.more = !self.input.is_empty();
    }

    /// The limit of its replies. `normal` is that of normal clients.
    fn output_limit(&self, normal: OutputLimit) -> OutputLimit {
        if self.client.is_monitor && normal.hard_bytes == 0 {
            OutputLimit::MONITORS
        } else {
            normal
        }
    }

    /// From here on no more replies are written than may wait, until [`executed`](Self::executed).
    #[inline]
    pub(super) fn bound_replies(&mut self, normal: OutputLimit) {
        self.reply.limit_bytes = match self.output_limit(normal).hard_bytes {
            0 => usize::MAX,
            bytes => self.sent.saturating_add(bytes as usize),
        };
    }

    /// Whether not more waits than may, or not for too long. `normal` is the limit of normal clients.
    pub(super) fn is_within(&mut self, normal: OutputLimit, now_ms: u64) -> bool {
        let limit = self.output_limit(normal);
        let waiting = self.waiting() as u64;
        if limit.hard_bytes > 0 && waiting > limit.hard_bytes {
            return false;
        }
        if limit.soft_bytes == 0 || waiting <= limit.soft_bytes {
            self.over_soft_since_ms = None;
            return true;
        }
        let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since_ms) <= limit.soft_s.saturating_mul(1000)
    }

    /// Whether so much waits that it had better be sent now.
    #[inline]
    pub(super) fn is_swollen(&self) -> bool {
        self.waiting() > SEND_BYTES
    }

    /// A buffer for replies, where there is none yet.
    #[inline]
    pub(super) fn prepare(&mut self, buffers: &mut Buffers) {
        if self.reply.buffer.capacity() == 0 {
            self.reply.buffer = buffers.take();
        }
    }

    /// Sends what the socket takes; how much that was.
    pub(super) fn send(&mut self, buffers: &mut Buffers) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < self.reply.buffer.len() {
            match self.stream.write(&self.reply.buffer[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let count = self.sent - before;
        if self.sent == self.reply.buffer.len() {
            buffers.put(std::mem::take(&mut self.reply.buffer));
            self.sent = 0;
        } else if self.sent > SEND_BYTES && self.sent > self.reply.buffer.len() / 2 {
            self.reply.buffer.drain(..self.sent);
            self.sent = 0;
        }
        self.client.output_bytes = self.waiting();
        Ok(count)
    }
}
