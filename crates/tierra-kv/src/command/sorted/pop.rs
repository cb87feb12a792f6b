//! ZPOPMIN, ZPOPMAX and ZMPOP.

use super::super::options::Options;
use super::{Call, Failure, Outcome};
use crate::keyspace::{Entry, Key, Kind};
use crate::number::parse_i64;

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
    let key = call.key(1);
    let Some(entry) = call.write(&key, Kind::SortedSet)? else {
        call.reply.array(0);
        return Ok(());
    };
    let nested = count.is_some() && call.reply.resp3;
    take(call, &key, entry, count.unwrap_or(1), highest, nested);
    Ok(())
}

/// Removes members from an end of a set, as many as there are, and replies with them.
fn take(
    call: &mut Call<'_>,
    key: &Key<'_>,
    entry: Entry,
    count: usize,
    highest: bool,
    nested: bool,
) {
    let db = call.keyspace.db(call.client.db);
    let len = db.zset_len(entry);
    let taken = count.min(len);
    let ranks = if highest { len - taken..len } else { 0..taken };
    let reply = &mut *call.reply;
    reply.array(if nested { taken } else { 2 * taken });
    let mut emit = |(member, score): (&[u8], f64)| {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(score);
    };
    let members = db.zset_range(entry, ranks.clone());
    if highest {
        members.rev().for_each(&mut emit)
    } else {
        members.for_each(&mut emit)
    }
    if taken > 0 {
        db.zset_remove_ranks(key, ranks);
        call.changed(key.bytes);
    }
}

/// Takes members from the first of several sets that has any.
pub(super) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let positive = |text| {
        parse_i64(text)
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count > 0)
    };
    let keys = positive(call.arg(1)).ok_or("ERR numkeys should be greater than 0")?;
    if keys >= call.args.len() - 2 {
        return Err(Failure::SYNTAX);
    }
    let mut options = Options::new(call.args, 2 + keys);
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
    for index in 2..2 + keys {
        let key = Key::new(call.arg(index));
        if let Some(entry) = call.write(&key, Kind::SortedSet)? {
            call.reply.array(2);
            call.reply.bulk(key.bytes);
            take(call, &key, entry, count.unwrap_or(1), highest, true);
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, false)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, true)
}
