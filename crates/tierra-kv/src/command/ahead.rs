//! Where the keys of a command were found before it got to them.
//!
//! The batch that a request arrived in looks up its keys, as far as there is room for them
//! (`server/window.rs`). Keys beyond that are looked up in windows of their own, each as soon as the command gets to its
//! first key, so that what a window fetches is used before the next one evicts it.

use super::KeyArgs;
use crate::keyspace::{DbId, Found, Keyspace, WINDOW_KEYS};
use crate::protocol::Args;

/// What has been found of the keys of a command, by their position among them.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    batch: &'a [Found],
    /// What the last window has found, and the position at which it began.
    window: Vec<Found>,
    first: usize,
}

impl<'a> Ahead<'a> {
    /// The batch has found as many of the first keys.
    #[inline]
    pub(crate) fn new(batch: &'a [Found]) -> Self {
        Self {
            batch,
            window: Vec::new(),
            first: 0,
        }
    }

    /// Where the key of a position was found. The keys from there on may be looked up for that.
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
        let known = |ahead: &Self| {
            let at = position.checked_sub(ahead.first)?;
            ahead.window.get(at).copied()
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
    let places = group.iter_mut().zip(keys);
    places.map(|(place, key)| *place = key).count()
}
