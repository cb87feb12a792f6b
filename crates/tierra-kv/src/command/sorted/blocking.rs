//! BZPOPMIN, BZPOPMAX and BZMPOP: members leave a set as soon as there are any.
//!
//! Where no key has any the client waits (`clients/blocked.rs`), except in a transaction. The client that makes one of its keys a sorted
//! set serves those that wait for it, in the order in which they began to, when the command or the transaction is done: until no client
//! waits or nothing is left. Of several keys the one comes first that was a sorted set first.

use std::ops::Range;
use std::time::Duration;

use super::super::timeout;
use super::pop::parse_many;
use super::{Call, Outcome};
use crate::clients::Pop;
use crate::context::Shared;
use crate::keyspace::{DbId, Key, Keyspace, Kind, LiveEntry};

fn take_or_wait(
    call: &mut Call<'_>,
    keys: Range<usize>,
    timeout: Option<Duration>,
    pop: Pop,
) -> Outcome {
    if pop.take_first(call, keys.clone())? {
        return Ok(());
    }
    if call.client.in_transaction {
        call.reply.null_array();
        return Ok(());
    }
    let args = call.args;
    let keys = keys.map(|index| args.at(index));
    call.shared.blocked.wait(call.client, keys, timeout, pop);
    Ok(())
}

fn one(call: &mut Call<'_>, highest: bool) -> Outcome {
    let last = call.args.len() - 1;
    let timeout = timeout::seconds(call.arg(last))?;
    let pop = Pop {
        count: 1,
        highest,
        keyed: true,
        nested: false,
    };
    take_or_wait(call, 1..last, timeout, pop)
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Outcome {
    one(call, false)
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Outcome {
    one(call, true)
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, pop) = parse_many(call, 2)?;
    let timeout = timeout::seconds(call.arg(1))?;
    take_or_wait(call, keys, timeout, pop)
}

/// The sorted set of a key, where that is what it has.
fn find(keyspace: &mut Keyspace, db: DbId, key: &Key<'_>) -> Option<LiveEntry> {
    let db = keyspace.db(db);
    let entry = db.find(key)?;
    (db.kind(entry) == Kind::SortedSet).then_some(entry)
}

/// Serves clients that wait for keys which have changed; in a transaction it notes which of them are sorted sets now.
#[cold]
pub(in crate::command) fn serve(call: &mut Call<'_>) {
    let (keyspace, shared) = (&mut *call.keyspace, &mut *call.shared);
    loop {
        for (db, key) in shared.blocked.take_touched() {
            if find(keyspace, db, &Key::new(&key)).is_some() {
                shared.blocked.is_ready((db, key));
            }
        }
        if call.client.in_transaction {
            return;
        }
        // Serving changes keys, too.
        match shared.blocked.next_ready() {
            Some((db, key)) => serve_key(keyspace, shared, db, &Key::new(&key)),
            None => return,
        }
    }
}

/// Serves the clients that wait for a key, until it has no members left.
fn serve_key(keyspace: &mut Keyspace, shared: &mut Shared, db: DbId, key: &Key<'_>) {
    let now_ms = keyspace.now();
    while let Some(slot) = shared.blocked.first(db, key.bytes)
        && let Some(entry) = find(keyspace, db, key)
    {
        let take = |pop: Pop, reply: &mut _| pop.take(keyspace.db(db), key, entry, reply);
        if shared.release(slot, now_ms, take) {
            shared.changed(db, key.bytes);
        }
    }
}
