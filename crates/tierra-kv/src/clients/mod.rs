//! Clients: what is known of each, its connection, its transaction, what it waits for and what it watches.

mod arch;
mod block;
mod blocked;
mod buffers;
mod client;
mod connection;
mod files;
mod stream;
mod transaction_queue;
mod watches;

pub(crate) use block::{Block, Pop};
pub(crate) use blocked::Blocked;
pub(crate) use buffers::Buffers;
pub(crate) use client::{Client, Replies};
pub(crate) use connection::{Connection, ReadOutcome};
pub(crate) use files::connections_allowed;
pub(crate) use stream::{Accepted, Listener, Stream};
pub(crate) use transaction_queue::{Piece, TransactionQueue};
pub(crate) use watches::Watches;
