//! Removing members, by name or by range.

use super::bounds::{Bounds, RangeBy};
use super::{Call, Outcome};
use crate::keyspace::Kind;

pub(super) fn zrem(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    call.write(&key, Kind::SortedSet)?;
    let members = call.args.from(2).iter();
    let removed = call.db().zset_remove_many(&key, members);
    if removed > 0 {
        call.changed(key.bytes);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

fn by(call: &mut Call<'_>, by: RangeBy) -> Outcome {
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
    by(call, RangeBy::Rank)
}

pub(super) fn by_score(call: &mut Call<'_>) -> Outcome {
    by(call, RangeBy::Score)
}

pub(super) fn by_member(call: &mut Call<'_>) -> Outcome {
    by(call, RangeBy::Member)
}
