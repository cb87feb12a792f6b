//! What is known of a connection from one request to the next.

use std::sync::Mutex;

/// A connection.
#[derive(Default)]
pub(crate) struct Peer {
    /// The credentials that were accepted last, and whose they are: checking them again takes milliseconds.
    pub(crate) accepted: Mutex<Option<Accepted>>,
}

/// Credentials that were accepted.
#[derive(Clone)]
pub(crate) struct Accepted {
    pub(crate) header: Vec<u8>,
    pub(crate) user: String,
}
