//! A key together with the result of an earlier lookup.

use std::cell::Cell;

use tierra_index::EntryHandle;

/// The result of a lookup: the location of a key, or that it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(Option<Location>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location {
    handle: EntryHandle,
    epoch: u32,
    database: u8,
    /// Only tag and hash bits matched: the record's key has not been compared.
    is_tag_match: bool,
}

impl Found {
    /// Nothing is known yet.
    pub const UNKNOWN: Found = Found(None);

    #[inline(always)]
    pub(super) fn new(handle: EntryHandle, database: usize, epoch: u32) -> Found {
        let database = database as u8;
        Found(Some(Location {
            handle,
            epoch,
            database,
            is_tag_match: false,
        }))
    }

    /// The same, found by a tag match alone: the record there may be another key's.
    #[inline(always)]
    pub(super) fn by_tag(self) -> Found {
        Found(self.0.map(|found| Location {
            is_tag_match: true,
            ..found
        }))
    }

    /// Whether the record there may be another key's.
    #[inline(always)]
    pub(super) fn is_tag_match(self) -> bool {
        self.0.is_some_and(|found| found.is_tag_match)
    }

    /// The handle in a database, unless all of the database has changed since.
    #[inline(always)]
    pub(super) fn of(self, database: usize, epoch: u32) -> Option<EntryHandle> {
        let found = self.0?;
        (usize::from(found.database) == database && found.epoch == epoch).then_some(found.handle)
    }

    /// The key's hash, which is the same everywhere.
    #[inline(always)]
    pub(super) fn hash(self) -> Option<u64> {
        self.0.map(|found| found.handle.hash())
    }
}

/// A key, and the result of its last lookup, which operations update.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    /// The key itself.
    pub bytes: &'a [u8],
    /// Where it was found last.
    pub found: Cell<Found>,
}

impl<'a> Key<'a> {
    /// A key of which nothing is known.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::with_found(bytes, Found::UNKNOWN)
    }

    /// A key that was looked up before. Later changes are detected.
    #[inline]
    pub fn with_found(bytes: &'a [u8], found: Found) -> Self {
        let found = Cell::new(found);
        Key { bytes, found }
    }
}
