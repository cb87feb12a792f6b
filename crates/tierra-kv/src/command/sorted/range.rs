//! Members in order: ZRANGE and its many relatives, what they store, and how many they would be.

use super::super::options::OptionWords;
use super::bounds::{Bounds, RangeBy};
use super::members::{Members, reply_members};
use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;

fn count(call: &mut Call<'_>, by: RangeBy) -> Outcome {
    let bounds = Bounds::parse(by, call.arg(2), call.arg(3))?;
    let count = call
        .read_first(Kind::SortedSet)?
        .map_or(0, |entry| bounds.ranks(call.db_ref(), entry, false).len());
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, RangeBy::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, RangeBy::Member)
}

/// What a command that replies with members has already said by its name.
struct RangeDefaults {
    by: Option<RangeBy>,
    reverse: Option<bool>,
}

fn reply(call: &mut Call<'_>, by: Option<RangeBy>, reverse: Option<bool>) -> Outcome {
    range(call, RangeDefaults { by, reverse }, false)
}

pub(super) fn zrange(call: &mut Call<'_>) -> Outcome {
    reply(call, None, None)
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Outcome {
    reply(call, Some(RangeBy::Rank), Some(true))
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    reply(call, Some(RangeBy::Score), Some(false))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    reply(call, Some(RangeBy::Score), Some(true))
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    reply(call, Some(RangeBy::Member), Some(false))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    reply(call, Some(RangeBy::Member), Some(true))
}

/// Members of one sorted set become another.
pub(super) fn zrangestore(call: &mut Call<'_>) -> Outcome {
    let defaults = RangeDefaults {
        by: None,
        reverse: None,
    };
    range(call, defaults, true)
}

/// What a range goes by, and whether it is reversed, are said by the command or by its options. Where members are
/// stored, the key to store them in comes before the set's.
fn range(call: &mut Call<'_>, defaults: RangeDefaults, stores: bool) -> Outcome {
    let RangeDefaults {
        mut by,
        mut reverse,
    } = defaults;
    let (mut with_scores, mut limit) = (false, None);
    let key_at = 1 + usize::from(stores);
    let mut options = OptionWords::new(call.args, key_at + 3);
    while options.left() > 0 {
        if !stores && options.take("WITHSCORES") {
            with_scores = true;
        } else if options.take_with("LIMIT", 2) {
            limit = Some((options.integer()?, options.integer()?));
        } else if reverse.is_none() && options.take("REV") {
            reverse = Some(true);
        } else if by.is_none() && options.take("BYLEX") {
            by = Some(RangeBy::Member);
        } else if by.is_none() && options.take("BYSCORE") {
            by = Some(RangeBy::Score);
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let (by, reverse) = (by.unwrap_or(RangeBy::Rank), reverse.unwrap_or(false));
    if by == RangeBy::Rank && limit.is_some_and(|(_, count)| count != -1) {
        return Err(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                .into(),
        );
    }
    if by == RangeBy::Member && with_scores {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    let (min, max) = if reverse && by != RangeBy::Rank {
        (key_at + 2, key_at + 1)
    } else {
        (key_at + 1, key_at + 2)
    };
    let bounds = Bounds::parse(by, call.arg(min), call.arg(max))?;
    let key = call.key(key_at);
    let entry = if stores {
        call.write(&key, Kind::SortedSet)?
    } else {
        call.read(&key, Kind::SortedSet)?
    };
    let Some(entry) = entry else {
        if stores {
            return Members::default().store(call, 1);
        }
        call.reply.array(0);
        return Ok(());
    };
    let db = call.keyspace.selected();
    let mut ranks = bounds.ranks(db, entry, reverse);
    if let (Some((skip, count)), true) = (limit, by != RangeBy::Rank) {
        // A negative start skips everything, a negative count takes all.
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(ranks.len());
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(ranks.len() - skip);
        if reverse {
            ranks.end -= skip;
            ranks.start = ranks.end - count;
        } else {
            ranks.start += skip;
            ranks.end = ranks.start + count;
        }
    }
    let members = db.zset_range(entry, ranks);
    if stores {
        let mut chosen = Members::default();
        members.for_each(|(member, score)| chosen.add(member, score));
        return chosen.store(call, 1);
    }
    if reverse {
        reply_members(call.reply, members.rev(), with_scores);
    } else {
        reply_members(call.reply, members, with_scores);
    }
    Ok(())
}
