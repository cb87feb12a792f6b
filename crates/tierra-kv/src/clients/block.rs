//! Why a client is blocked.

use std::time::Instant;

use crate::keyspace::DbId;

/// Why a client is not served at the moment.
#[derive(Debug, Default)]
pub(crate) enum Block {
    #[default]
    None,
    /// It waits for a key.
    Key(Box<Wait>),
    /// Its next request waits for the end of a pause; the ticket by which it is known there.
    Pause(u64),
}

/// What a client waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Lower for clients that began to wait earlier.
    pub(super) ticket: u64,
    pub(super) db: DbId,
    pub(super) keys: Box<[Box<[u8]>]>,
    /// `None` where it waits for ever.
    pub(super) deadline: Option<Instant>,
    pub(crate) pop: Pop,
}

/// Which members of a sorted set a client waits for, and the form of the reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pop {
    /// At most so many.
    pub(crate) count: usize,
    /// Those with the highest scores.
    pub(crate) highest: bool,
    /// Whether the reply has the key before them.
    pub(crate) keyed: bool,
    /// Whether members and scores come in pairs.
    pub(crate) nested: bool,
}
