//! The results of early lookups of a command's keys.
//!
//! The batch of a request looks up its keys, as far as there is room for them (`server/window.rs`). Keys beyond that are
//! looked up in windows of their own, each when the command reaches its first key, so that what a window fetches is used
//! before the next one evicts it.

use super::KeyArgs;
use crate::keyspace::{DbId, Found, Keyspace, WINDOW_KEYS};
use crate::protocol::Args;

/// The lookup results of a command's keys, by their position among them.
#[derive(Debug)]
pub(crate) struct FoundKeys<'a> {
    batch: &'a [Found],
    /// The results of the last window, and the position at which it began.
    window: Vec<Found>,
    first: usize,
}

impl<'a> FoundKeys<'a> {
    /// With the batch's results for the first keys.
    #[inline]
    pub(crate) fn new(batch: &'a [Found]) -> Self {
        Self {
            batch,
            window: Vec::new(),
            first: 0,
        }
    }

    /// The result for the key of a position. May look up a window of keys from there on.
    #[inline]
    pub(super) fn get(
        &mut self,
        position: usize,
        keys: KeyArgs,
        args: Args<'_>,
        keyspace: &mut Keyspace,
        db: DbId,
    ) -> Found {
        match self.batch.get(position) {
            Some(found) => *found,
            // Commands with one key or two hold what they know of the first when they ask for the second.
            None if keys.last >= 0 => Found::UNKNOWN,
            None => self.beyond(position, keys, args, keyspace, db),
        }
    }

    #[cold]
    fn beyond(
        &mut self,
        position: usize,
        keys: KeyArgs,
        args: Args<'_>,
        keyspace: &mut Keyspace,
        db: DbId,
    ) -> Found {
        let known = |found_keys: &Self| {
            let at = position.checked_sub(found_keys.first)?;
            found_keys.window.get(at).copied()
        };
        known(self).unwrap_or_else(|| {
            let mut group: [&[u8]; WINDOW_KEYS] = [&[]; WINDOW_KEYS];
            let wanted = keys.indices(args.len()).skip(position);
            let len = fill(&mut group, wanted.map(|index| args.at(index)));
            self.window.clear();
            self.first = position;
            keyspace.db(db).find_many(&group[..len], &mut self.window);
            known(self).unwrap_or(Found::UNKNOWN)
        })
    }
}

/// Puts as many keys into a group as it takes; how many that were.
pub(super) fn fill<'k>(group: &mut [&'k [u8]], keys: impl Iterator<Item = &'k [u8]>) -> usize {
    let slots = group.iter_mut().zip(keys);
    slots.map(|(slot, key)| *slot = key).count()
}
