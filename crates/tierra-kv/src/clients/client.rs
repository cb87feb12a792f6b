//! The state of a client, except for its buffers.

use super::block::Block;
use super::transaction_queue::TransactionQueue;
use super::watches::Watched;
use crate::keyspace::DbId;
use crate::protocol::Reply;

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    All,
    /// None from the next command on.
    None,
    /// None to the command after this one.
    SkipNext,
    /// None to this one.
    Skip,
}

/// A client.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) id: u64,
    /// The slot of its connection.
    pub(crate) slot: usize,
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) is_local: bool,
    pub(crate) is_unix: bool,
    pub(crate) fd: i32,
    pub(crate) name: Vec<u8>,
    pub(crate) db: DbId,
    pub(crate) authenticated: bool,
    pub(crate) replies: Replies,
    pub(crate) no_evict: bool,
    /// Whether it is a monitor.
    pub(crate) is_monitor: bool,
    /// Its commands are those of a transaction now.
    pub(crate) in_transaction: bool,
    /// The commands of a transaction that has begun.
    pub(crate) queue: Option<TransactionQueue>,
    /// Keys it watches, of each database.
    pub(crate) watched: Vec<Watched>,
    /// Why it is blocked, if it is.
    pub(crate) block: Block,
    /// Whether the connection ends when its replies are sent.
    pub(crate) closing: bool,
    pub(crate) created_ms: u64,
    pub(crate) used_ms: u64,
    /// The number of its last command in the catalog.
    pub(crate) last_command: Option<u16>,
    /// Pending input bytes.
    pub(crate) input_bytes: usize,
    /// How many more fit.
    pub(crate) input_spare_bytes: usize,
    /// Pending bytes of replies.
    pub(crate) output_bytes: usize,
    pub(crate) resp3: bool,
}

impl Client {
    /// Bytes of the commands of its transaction.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, TransactionQueue::bytes)
    }

    /// Bytes of memory that it takes: its buffers, and its transaction.
    pub(crate) fn bytes(&self) -> usize {
        self.input_bytes + self.input_spare_bytes + self.output_bytes + self.queue_bytes()
    }

    /// Whether it is blocked: none of its requests is executed until it is unblocked.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        !matches!(self.block, Block::None)
    }

    /// A request has been executed, and its reply begins at `before`: it goes where the client wants none. A client that waits has
    /// no reply yet.
    #[inline]
    pub(crate) fn conclude(&mut self, reply: &mut Reply, before: usize) {
        if self.replies != Replies::All && !self.is_blocked() {
            reply.truncate(before);
            self.replies = match self.replies {
                Replies::SkipNext => Replies::Skip,
                Replies::Skip => Replies::All,
                other => other,
            };
        }
    }
}
