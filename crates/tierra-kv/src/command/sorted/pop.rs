//! ZPOPMIN and ZPOPMAX.

use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;
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
    let db = call.keyspace.db(call.client.db);
    let len = db.zset_len(entry);
    let taken = count.unwrap_or(1).min(len);
    let ranks = if highest { len - taken..len } else { 0..taken };
    let reply = &mut *call.reply;
    let nested = count.is_some() && reply.resp3;
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
        db.zset_remove_ranks(&key, ranks);
        call.changed(key.bytes);
    }
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, false)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, true)
}
