//! The connection's bytes: frames in, messages out.
//!
//! Rows are encoded straight into the buffer of what is to be sent. It is sent when it is full or when the client waits, so a slow
//! client stops the query, and no result is ever held as a whole.

pub(crate) mod frame;
pub(crate) mod messages;

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use self::frame::Message;
use crate::error::Fault;

/// Bytes that are kept before they are sent.
const SEND_BYTES: usize = 1 << 16;
/// Bytes of later messages that are taken in while a statement runs. With more of them, only sending notices that the client
/// is gone.
const AHEAD_BYTES: usize = 1 << 20;
/// The longest message: a statement, its arguments, or data of COPY.
pub(crate) const MESSAGE_MOST_BYTES: usize = 64 << 20;
/// The longest message of a client that has not logged in, as in PostgreSQL.
pub(crate) const LOGIN_MOST_BYTES: usize = 10_000;
/// How long a client may take to hear why its connection ends.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);
/// What buffers keep for the next message.
const KEPT_BYTES: usize = 1 << 18;

/// A connection's two streams of bytes.
pub(crate) struct Wire {
    stream: MaybeTls,
    input: BytesMut,
    output: BytesMut,
    is_gone: bool,
}

/// Why there is no next message.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The connection failed, or the client closed it.
    Gone,
    /// The client sent something wrong.
    Wrong {
        fault: Fault,
        /// The type of the message, if what follows can be understood.
        kind: Option<u8>,
    },
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        tracing::debug!(%error, "a connection failed");
        Self::Gone
    }
}

impl Wire {
    pub(crate) fn new(stream: MaybeTls) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            is_gone: false,
        }
    }

    /// The next message, of at most `most` bytes. If the future is dropped, nothing is lost.
    pub(crate) async fn next(&mut self, most: usize) -> Result<Message, WireError> {
        loop {
            if let Some(message) = self.received(most)? {
                return Ok(message);
            }
            if self.is_gone || self.read().await? == 0 {
                return Err(WireError::Gone);
            }
        }
    }

    /// The next message, if all of it has arrived.
    pub(crate) fn received(&mut self, most: usize) -> Result<Option<Message>, WireError> {
        let Some([kind, a, b, c, d]) = self.input.first_chunk::<5>().copied() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(4..=most).contains(&len) {
            return Err(WireError::Wrong {
                fault: Fault::protocol(format!("a message of {len} bytes; the most is {most}")),
                kind: None,
            });
        }
        if self.input.len() <= len {
            return Ok(None);
        }
        self.input.advance(5);
        let body = self.input.split_to(len - 4).freeze();
        let message = Message::of(kind, body).map_err(|fault| WireError::Wrong {
            // The next message is where this one ends.
            kind: (fault.code != Fault::PROTOCOL).then_some(kind),
            fault,
        });
        message.map(Some)
    }

    /// Reads what is there. The buffer grows with what arrives, not with what was announced.
    async fn read(&mut self) -> io::Result<usize> {
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = BytesMut::new();
        }
        self.input.reserve(1 << 13);
        self.stream.read_buf(&mut self.input).await
    }

    /// Waits until the client is gone. What it sends meanwhile is kept. If the future is dropped, nothing is lost.
    pub(crate) async fn gone(&mut self) {
        while !self.is_gone {
            if self.input.len() >= AHEAD_BYTES {
                return std::future::pending().await;
            }
            self.is_gone = !matches!(self.read().await, Ok(1..));
        }
    }

    /// The buffer of what is to be sent.
    pub(crate) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// Sends if much is waiting.
    pub(crate) async fn send_if_full(&mut self) -> io::Result<()> {
        match self.output.len() >= SEND_BYTES {
            true => self.send().await,
            false => Ok(()),
        }
    }

    /// Sends everything.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        while self.output.has_remaining() {
            if self.stream.write_buf(&mut self.output).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        if self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        } else {
            self.output.clear();
        }
        self.stream.flush().await
    }

    /// Sends everything, and says that nothing follows. A client that does not read is not waited for.
    pub(crate) async fn close(mut self) {
        let farewell = async {
            // The client may be gone.
            let _ = self.send().await;
            let _ = self.stream.shutdown().await;
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}
