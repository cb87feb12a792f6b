//! One execution of a command: its arguments, its client, and what it works on.

use super::{Failure, FoundKeys, Outcome};
use crate::catalog::Description;
use crate::clients::Client;
use crate::context::Shared;
use crate::keyspace::{Db, Key, Keyspace, Kind, LiveEntry};
use crate::number::parse_i64;
use crate::protocol::{Args, Reply};

/// What a command does.
pub(crate) type Run = fn(&mut Call<'_>) -> Outcome;

/// What a command is given.
pub(crate) struct Call<'a> {
    /// What each command does, by its number: EXEC executes others.
    pub(crate) runs: &'a [Run],
    pub(crate) command: &'static Description,
    pub(crate) args: Args<'a>,
    /// Where its keys were found when they were looked up ahead.
    pub(crate) found_keys: FoundKeys<'a>,
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) client: &'a mut Client,
    pub(crate) reply: &'a mut Reply,
    pub(crate) shared: &'a mut Shared,
}

impl<'a> Call<'a> {
    /// An argument; 0 is the command's name.
    #[inline]
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.args.at(index)
    }

    /// An argument as a key, with where it was found ahead. Of a command that takes any number of keys the next
    /// ones may be looked up now: entries found before do not hold any more.
    #[inline]
    pub(crate) fn key(&mut self, index: usize) -> Key<'a> {
        let keys = self.command.keys;
        let position = index.wrapping_sub(keys.first as usize) / keys.step.max(1) as usize;
        let (args, db) = (self.args, self.client.db);
        let found = self.found_keys.get(position, keys, args, self.keyspace, db);
        Key::with_found(args.at(index), found)
    }

    /// The database that the client has selected.
    #[inline]
    pub(crate) fn db(&mut self) -> &mut Db {
        self.keyspace.db(self.client.db)
    }

    /// The same, to read from.
    #[inline]
    pub(crate) fn db_ref(&self) -> &Db {
        self.keyspace.selected()
    }

    /// The entry of a key that is of this kind, for a command that reads; counted as hit or miss.
    #[inline]
    pub(crate) fn read(&mut self, key: &Key<'_>, kind: Kind) -> Result<Option<LiveEntry>, Failure> {
        let entry = self.look(key);
        self.of_kind(entry, kind)
    }

    /// The same, of the key that is the first argument.
    #[inline]
    pub(crate) fn read_first(&mut self, kind: Kind) -> Result<Option<LiveEntry>, Failure> {
        let key = self.key(1);
        self.read(&key, kind)
    }

    /// The entry of a key of any kind, counted as hit or miss.
    #[inline]
    pub(crate) fn look(&mut self, key: &Key<'_>) -> Option<LiveEntry> {
        let entry = self.db().find(key);
        self.count(entry)
    }

    /// The same, for a command that asks about the key and not for its value: that is no use of it.
    #[inline]
    pub(crate) fn look_untouched(&mut self, key: &Key<'_>) -> Option<LiveEntry> {
        let entry = self.db().peek(key);
        self.count(entry)
    }

    #[inline]
    fn count(&mut self, entry: Option<LiveEntry>) -> Option<LiveEntry> {
        let stats = &mut self.shared.stats;
        *(if entry.is_some() {
            &mut stats.hits
        } else {
            &mut stats.misses
        }) += 1;
        entry
    }

    /// The entry of a key that is of this kind, for a command that writes.
    #[inline]
    pub(crate) fn write(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
    ) -> Result<Option<LiveEntry>, Failure> {
        let entry = self.db().find(key);
        self.of_kind(entry, kind)
    }

    #[inline]
    fn of_kind(&self, entry: Option<LiveEntry>, kind: Kind) -> Result<Option<LiveEntry>, Failure> {
        match entry {
            Some(entry) if self.db_ref().kind(entry) != kind => Err(Failure::TYPE),
            entry => Ok(entry),
        }
    }

    /// Says that a key of the selected database has changed.
    #[inline]
    pub(crate) fn changed(&mut self, key: &[u8]) {
        self.shared.changed(self.client.db, key);
    }

    /// An argument that has to be a whole number.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Failure> {
        parse_i64(self.arg(index)).ok_or(Failure::INTEGER)
    }

    /// Milliseconds since 1970, as of this tick.
    pub(crate) fn now_ms(&self) -> i64 {
        self.keyspace.now() as i64
    }
}
