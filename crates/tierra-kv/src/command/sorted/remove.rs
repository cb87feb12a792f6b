//! Removing members, by name or by range.

use super::bounds::{Bounds, By};
use super::{Call, Outcome};
use crate::keyspace::Kind;

pub(super) fn zrem(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let mut removed = 0;
    if call.write(&key, Kind::SortedSet)?.is_some() {
        for member in call.args.from(2).iter() {
            // The set is gone with its last member.
            if call.db().find(&key).is_none() {
                break;
            }
            removed += i64::from(call.db().zset_remove(&key, member));
        }
    }
    if removed > 0 {
        call.changed(key.bytes);
    }
    call.reply.integer(removed);
    Ok(())
}

fn by(call: &mut Call<'_>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, call.arg(2), call.arg(3))?;
    let key = call.key(1);
    let ranks = match call.write(&key, Kind::SortedSet)? {
        Some(entry) => bounds.ranks(call.db_ref(), entry, false),
        None => 0..0,
    };
    let removed = ranks.len();
    if removed > 0 {
        call.db().zset_remove_ranks(&key, ranks);
        call.changed(key.bytes);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn by_rank(call: &mut Call<'_>) -> Outcome {
    by(call, By::Rank)
}

pub(super) fn by_score(call: &mut Call<'_>) -> Outcome {
    by(call, By::Score)
}

pub(super) fn by_member(call: &mut Call<'_>) -> Outcome {
    by(call, By::Member)
}
