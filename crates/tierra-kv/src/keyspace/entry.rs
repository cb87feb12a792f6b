//! A live entry of a table, and the type and expiry of a value.

use tierra_index::EntryHandle;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// Fields with values.
    Hash,
    /// Members with scores.
    SortedSet,
}

/// What happens to the expiry of a key when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It never expires.
    Clear,
    /// It stays what it was.
    Keep,
    /// It expires at this time, in milliseconds since 1970.
    At(u64),
}

/// A live entry, valid until something changes in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEntry {
    pub(super) handle: EntryHandle,
    pub(super) record: u64,
}
