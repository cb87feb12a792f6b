//! What is known about a client beside its bytes.

use crate::command::{Queue, Watched};
use crate::keyspace::DbId;

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    All,
    /// None from the next command on.
    None,
    /// None to the command after this one.
    SkipNext,
    /// None to this one.
    Skip,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
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
    /// Whether it is told every command.
    pub(crate) is_monitor: bool,
    /// Its commands are those of a transaction now.
    pub(crate) in_transaction: bool,
    /// The commands of a transaction that has begun.
    pub(crate) queue: Option<Queue>,
    /// Keys it watches, of each database.
    pub(crate) watched: Vec<Watched>,
    /// Whether the connection ends when its replies are sent.
    pub(crate) closing: bool,
    pub(crate) created_ms: u64,
    pub(crate) used_ms: u64,
    /// The number of its last command in the table.
    pub(crate) last_command: Option<u16>,
    /// Bytes that have arrived and wait.
    pub(crate) input_bytes: usize,
    /// How many more fit.
    pub(crate) input_spare_bytes: usize,
    /// Bytes of replies that wait to be sent.
    pub(crate) output_bytes: usize,
    pub(crate) resp3: bool,
}
