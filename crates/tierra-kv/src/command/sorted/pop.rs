//! ZPOPMIN, ZPOPMAX and ZMPOP: members leave a set at one of its ends.

use std::ops::Range;

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};
use crate::clients::Pop;
use crate::keyspace::{Db, Key, Kind, LiveEntry};
use crate::number::parse_i64;
use crate::protocol::Reply;

impl Pop {
    /// Removes members from a set, which has some, and replies with them. The caller says that the key has changed.
    pub(super) fn take(self, db: &mut Db, key: &Key<'_>, entry: LiveEntry, reply: &mut Reply) {
        let len = db.zset_len(entry);
        let taken = self.count.min(len);
        if self.keyed {
            reply.array(if self.nested { 2 } else { 1 + 2 * taken });
            reply.bulk(key.bytes);
        }
        if self.nested || !self.keyed {
            reply.array(if self.nested { taken } else { 2 * taken });
        }
        let ranks = if self.highest {
            len - taken..len
        } else {
            0..taken
        };
        let mut emit = |(member, score): (&[u8], f64)| {
            if self.nested {
                reply.array(2);
            }
            reply.bulk(member);
            reply.double(score);
        };
        let members = db.zset_range(entry, ranks.clone());
        if self.highest {
            members.rev().for_each(&mut emit)
        } else {
            members.for_each(&mut emit)
        }
        if taken > 0 {
            db.zset_remove_ranks(key, ranks);
        }
    }

    /// Takes members from the first of several keys, by the indices of the arguments, that has any. False where none has.
    pub(super) fn take_first(
        self,
        call: &mut Call<'_>,
        keys: Range<usize>,
    ) -> Result<bool, Failure> {
        for index in keys {
            let key = call.key(index);
            if let Some(entry) = call.write(&key, Kind::SortedSet)? {
                let db = call.keyspace.db(call.client.db);
                self.take(db, &key, entry, call.reply);
                call.changed(key.bytes);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn pop(call: &mut Call<'_>, highest: bool) -> Outcome {
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = match call.args.get(2) {
        Some(text) => {
            let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or("ERR value is out of range, must be positive")?)
        }
        None => None,
    };
    let pop = Pop {
        count: count.unwrap_or(1),
        highest,
        keyed: false,
        nested: count.is_some() && call.reply.resp3,
    };
    let key = call.key(1);
    let Some(entry) = call.write(&key, Kind::SortedSet)? else {
        call.reply.array(0);
        return Ok(());
    };
    let db = call.keyspace.db(call.client.db);
    pop.take(db, &key, entry, call.reply);
    if pop.count > 0 {
        call.changed(key.bytes);
    }
    Ok(())
}

/// What ZMPOP and BZMPOP are asked for, from the argument on that says how many keys there are: the indices of the keys,
/// and which members leave.
pub(super) fn parse_many(call: &Call<'_>, numkeys: usize) -> Result<(Range<usize>, Pop), Failure> {
    let positive = |text| {
        parse_i64(text)
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count > 0)
    };
    let keys = positive(call.arg(numkeys)).ok_or("ERR numkeys should be greater than 0")?;
    let first = numkeys + 1;
    if keys >= call.args.len() - first {
        return Err(Failure::SYNTAX);
    }
    let mut options = OptionWords::new(call.args, first + keys);
    let highest = if options.take("MIN") {
        false
    } else if options.take("MAX") {
        true
    } else {
        return Err(Failure::SYNTAX);
    };
    let mut count = None;
    while options.left() > 0 {
        if count.is_some() || !options.take_with("COUNT", 1) {
            return Err(Failure::SYNTAX);
        }
        let most = positive(options.value()?).ok_or("ERR count should be greater than 0")?;
        count = Some(most);
    }
    let pop = Pop {
        count: count.unwrap_or(1),
        highest,
        keyed: true,
        nested: true,
    };
    Ok((first..first + keys, pop))
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, pop) = parse_many(call, 1)?;
    if !pop.take_first(call, keys)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, false)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, true)
}
