//! One connection: bytes in, requests found in them, replies out.

use std::io::{self, ErrorKind, IoSlice};
use std::time::{Duration, Instant};

use super::buffers::{BUFFER_BYTES, Buffers};
use super::client::Client;
use super::stream::Stream;
use super::transaction_queue::TransactionQueue;
use crate::config::{Config, OutputLimit};
use crate::protocol::{Args, Limits, Parser, ProtocolError, Reply, Request};

/// The least bytes that a read asks for.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// From as many bytes of a request on, room is made for all of its awaited bytes.
const TRUSTED_BYTES: usize = 1024 * 1024;
/// The same for a request of many arguments. What is there is copied then, while others wait.
const MANY_BYTES: usize = 2 * TRUSTED_BYTES;
/// The most bytes that a read asks for: others wait while memory for them is zeroed and they are copied.
const READ_MOST_BYTES: usize = 1024 * 1024;
/// Pieces, and bytes, that are sent with one call.
const PIECES: usize = 16;
const CALL_BYTES: usize = 1024 * 1024;
/// The longest time that replies are sent to a client that reads them as fast; then others are served.
const SEND_SLICE: Duration = Duration::from_millis(2);
/// Replies are sent before the batch ends if as many bytes are pending.
const SEND_BYTES: usize = 256 * 1024;

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    parser: Parser,
    pub(crate) client: Client,
    pub(crate) reply: Reply,
    /// Bytes of the first piece of the reply that have been sent.
    sent: usize,
    /// Whether there may be something to read.
    pub(crate) readable: bool,
    /// Whether the client has closed its side: the rest is still read.
    pub(crate) read_closed: bool,
    /// Whether complete requests wait in the input.
    pub(crate) more: bool,
    /// A protocol error, reported after the requests before it have been executed.
    pub(crate) failed: Option<ProtocolError>,
    /// Whether it is in the queue of connections to be served, or in the late batch.
    pub(crate) queued: bool,
    /// Whether it has requests in the late batch.
    pub(crate) is_late: bool,
    /// Whether it is to send more at the next iteration, because the socket may take it.
    pub(crate) is_sending: bool,
    /// Since when more than the soft limit of replies waits, in milliseconds.
    over_soft_since_ms: Option<u64>,
}

/// The result of a read.
pub(crate) enum ReadOutcome {
    Some(usize),
    Nothing,
    End,
}

impl Connection {
    pub(crate) fn new(stream: Stream, client: Client) -> Self {
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
            is_late: false,
            is_sending: false,
            over_soft_since_ms: None,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The arguments of the requests found so far.
    #[inline]
    pub(crate) fn args(&self, request: Request) -> Args<'_> {
        Args::new(
            &self.input,
            &self.parser.args()[request.first as usize..][..request.count as usize],
        )
    }

    /// The requests' bytes and everything else, which commands change.
    #[inline]
    pub(crate) fn split(&mut self, request: Request) -> (Args<'_>, &mut Client, &mut Reply) {
        let args = Args::new(
            &self.input,
            &self.parser.args()[request.first as usize..][..request.count as usize],
        );
        (args, &mut self.client, &mut self.reply)
    }

    #[inline]
    pub(crate) fn parse(&mut self, limits: Limits) -> Result<Option<Request>, ProtocolError> {
        self.parser.next(&mut self.input, limits)
    }

    /// Puts the last request back, to be found again by [`parse`](Self::parse): it is not executed now.
    pub(crate) fn put_back(&mut self, request: Request) {
        self.parser.put_back(request);
    }

    /// How many bytes have arrived that belong to no request yet executed, those of a transaction included.
    pub(crate) fn input_bytes(&self) -> usize {
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

    /// Makes room for a read: enough for what is awaited, as far as the client is trusted, and little more, or what follows
    /// would be held against it. `limit` is the most that may wait of a client.
    fn make_room(&mut self, buffers: &mut Buffers, limit: usize) {
        if self.input.capacity() == 0 {
            self.input = buffers.take();
        }
        self.compact();
        let (len, awaited) = (self.input.len(), self.parser.awaited(self.input.len()));
        let spare = self.input.capacity() - len;
        let most = awaited.max(len / 8) + READ_BYTES;
        if spare < READ_BYTES {
            // A client that has sent so much is trusted: room for the whole argument, or, where there are many, for as much as
            // may come, is taken once, and is memory as it is written to. Growing step by step would copy what is there.
            let wanted = match (awaited > READ_BYTES, len) {
                (true, TRUSTED_BYTES..) => Some(awaited),
                (false, MANY_BYTES..) => Some(limit.saturating_sub(len)),
                _ => None,
            };
            if wanted.is_some_and(|bytes| self.replace(bytes, buffers)) {
                return;
            }
            // Until then a length that a client announces is trusted as its bytes arrive: twice what is there.
            let believed = most.min(len.max(2 * READ_BYTES));
            self.input.reserve_exact(believed);
        } else if self.input.capacity() > BUFFER_BYTES
            && spare > most + READ_BYTES
            && len < TRUSTED_BYTES
        {
            self.replace(most, buffers);
        }
    }

    /// Moves the input to a buffer that has room for so many bytes more. False where there is no such buffer.
    fn replace(&mut self, bytes: usize, buffers: &mut Buffers) -> bool {
        let mut other = Vec::new();
        let capacity = (self.input.len() + READ_BYTES).saturating_add(bytes);
        let is_there = other.try_reserve_exact(capacity).is_ok();
        if is_there {
            other.extend_from_slice(&self.input);
            buffers.put(std::mem::replace(&mut self.input, other));
        }
        is_there
    }

    /// Reads once. All requests found before have been executed.
    pub(crate) fn read(&mut self, buffers: &mut Buffers, limit: usize) -> io::Result<ReadOutcome> {
        self.make_room(buffers, limit);
        let spare = self.input.capacity() - self.input.len();
        let asked = spare.min(READ_MOST_BYTES);
        match self.stream.read(&mut self.input, asked) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(count) => {
                // Less than asked for: the socket is empty, and will report when it is not. Unless it has
                // reported already that it ends.
                self.readable = count == asked || self.read_closed;
                Ok(ReadOutcome::Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(ReadOutcome::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(ReadOutcome::Nothing),
            Err(error) => Err(error),
        }
    }

    /// All requests found have been executed.
    pub(crate) fn executed(&mut self, buffers: &mut Buffers) {
        self.reply.limit_bytes = usize::MAX;
        if self.parser.forget() == self.input.len() || !self.more {
            self.compact();
            self.give_back(buffers);
        }
        // A client that waits, or wants no replies, has none: it does not keep a buffer for them.
        if let Some(buffer) = self.reply.take_buffer() {
            buffers.put(buffer);
        }
        self.client.input_bytes = self.input.len() - self.parser.found_bytes();
        // What nothing was written to is no memory.
        let spare = self.input.capacity() - self.input.len();
        self.client.input_spare_bytes = spare.min(self.input.len().max(BUFFER_BYTES));
    }

    /// Gives back a buffer that is empty, or larger than needed for its content and what is awaited.
    fn give_back(&mut self, buffers: &mut Buffers) {
        let len = self.input.len();
        if len == 0 {
            buffers.put(std::mem::take(&mut self.input));
        } else if self.input.capacity() > BUFFER_BYTES
            && len + self.parser.awaited(len) <= BUFFER_BYTES / 2
        {
            let mut rest = buffers.take();
            rest.extend_from_slice(&self.input);
            buffers.put(std::mem::replace(&mut self.input, rest));
        }
    }

    /// Pending bytes of replies.
    pub(crate) fn waiting(&self) -> usize {
        self.reply.len() - self.sent
    }

    /// Adds output without a request, to be sent at the end of the iteration.
    pub(crate) fn tell(&mut self, bytes: &[u8]) {
        self.reply.raw(bytes);
    }

    /// The reply to a request that was executed in an earlier batch, to be sent at the end of the iteration.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&mut Reply)) {
        let before = self.reply.len();
        write(&mut self.reply);
        self.client.conclude(&mut self.reply, before);
    }

    /// The client is unblocked: requests that have arrived meanwhile are to be executed.
    pub(crate) fn resume(&mut self, now_ms: u64) {
        self.client.used_ms = now_ms;
        self.more = !self.input.is_empty();
    }

    /// The limit of its replies. Monitors have that of replicas where normal ones have none: what
    /// they do not read would fill memory.
    fn output_limit(&self, config: &Config) -> OutputLimit {
        let limits = &config.output_limits;
        if self.client.is_monitor && limits.normal.hard_bytes == 0 {
            limits.replica
        } else {
            limits.normal
        }
    }

    /// Bounds the replies written from here on by the output limit, until [`executed`](Self::executed).
    #[inline]
    pub(crate) fn bound_replies(&mut self, config: &Config) {
        self.reply.limit_bytes = match self.output_limit(config).hard_bytes {
            0 => usize::MAX,
            bytes => self.sent.saturating_add(bytes as usize),
        };
    }

    /// Whether more than the limit is pending.
    pub(crate) fn is_over_limit(&self, config: &Config) -> bool {
        let hard_bytes = self.output_limit(config).hard_bytes;
        hard_bytes > 0 && self.waiting() as u64 > hard_bytes
    }

    /// Whether the pending replies are within the hard limit, and within the soft limit's time.
    pub(crate) fn is_within(&mut self, config: &Config, now_ms: u64) -> bool {
        if self.is_over_limit(config) {
            return false;
        }
        let (limit, waiting) = (self.output_limit(config), self.waiting() as u64);
        if limit.soft_bytes == 0 || waiting <= limit.soft_bytes {
            self.over_soft_since_ms = None;
            return true;
        }
        let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since_ms) <= limit.soft_s.saturating_mul(1000)
    }

    /// Whether requests of it are, or may be, so long that they are not short for that alone.
    pub(crate) fn has_long_input(&self) -> bool {
        self.input.len() > TRUSTED_BYTES
    }

    /// Whether so much is pending that it should be sent now.
    #[inline]
    pub(crate) fn is_swollen(&self) -> bool {
        self.waiting() > SEND_BYTES
    }

    /// A buffer for replies, where there is none yet.
    #[inline]
    pub(crate) fn prepare(&mut self, buffers: &mut Buffers) {
        if !self.reply.has_buffer() {
            self.reply.give(buffers.take());
        }
    }

    /// Sends what the socket takes, and returns how much that was. If that takes too long, the rest
    /// [waits](Self::is_sending) for the next iteration.
    pub(crate) fn send(&mut self, buffers: &mut Buffers) -> io::Result<usize> {
        let (mut count, mut begun) = (0, None);
        self.is_sending = false;
        while self.waiting() > 0 {
            let sent = match self.reply.only_piece() {
                Some(piece) => {
                    let end = piece.len().min(self.sent + CALL_BYTES);
                    self.stream.write(&piece[self.sent..end])
                }
                None => {
                    let mut slices = [IoSlice::new(&[]); PIECES];
                    let pieces = self.reply.pieces(self.sent, CALL_BYTES, &mut slices);
                    self.stream.write_pieces(&slices[..pieces])
                }
            };
            match sent {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    count += sent;
                    self.sent += sent;
                    while let Some(piece) = self.reply.take_sent(&mut self.sent) {
                        buffers.put(piece);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.waiting() > 0 && begun.get_or_insert_with(Instant::now).elapsed() > SEND_SLICE {
                self.is_sending = true;
                break;
            }
        }
        if let Some(buffer) = self.reply.take_buffer() {
            buffers.put(buffer);
        }
        self.client.output_bytes = self.waiting();
        Ok(count)
    }

    /// Whether the socket may take more, and much is pending.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_sending && self.is_swollen()
    }

    /// The connection has ended: its buffers are freed step by step; the caller frees its transaction.
    pub(crate) fn discard(self, buffers: &mut Buffers) -> Option<TransactionQueue> {
        buffers.put(self.input);
        let is_one = self.reply.only_piece().is_some();
        for piece in self.reply.into_pieces() {
            if is_one {
                buffers.put(piece);
            } else {
                buffers.defer_free(piece);
            }
        }
        self.client.queue
    }
}
