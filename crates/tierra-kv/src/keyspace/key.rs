//! A key together with what is already known about where it is.

use std::cell::Cell;

use tierra_index::EntryHandle;

/// Where a key was found, or found missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(Option<In>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct In {
    handle: EntryHandle,
    epoch: u32,
    database: u8,
    /// The record's key has not been compared.
    is_likely: bool,
}

impl Found {
    /// Nothing is known yet.
    pub const UNKNOWN: Found = Found(None);

    #[inline(always)]
    pub(super) fn new(handle: EntryHandle, database: usize, epoch: u32) -> Found {
        let database = database as u8;
        Found(Some(In {
            handle,
            epoch,
            database,
            is_likely: false,
        }))
    }

    /// The same, found by a hash alone: the record there may be another key's.
    #[inline(always)]
    pub(super) fn likely(self) -> Found {
        Found(self.0.map(|found| In {
            is_likely: true,
            ..found
        }))
    }

    /// Whether the record there may be another key's.
    #[inline(always)]
    pub(super) fn is_likely(self) -> bool {
        self.0.is_some_and(|found| found.is_likely)
    }

    /// What was found in a database, unless all of it has changed since.
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

/// A key, and where it was found last. Operations that look for it note what they find.
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
        Self::handle(bytes, Found::UNKNOWN)
    }

    /// A key that was looked up before. What changed since is noticed.
    #[inline]
    pub fn handle(bytes: &'a [u8], found: Found) -> Self {
        let found = Cell::new(found);
        Key { bytes, found }
    }
}
