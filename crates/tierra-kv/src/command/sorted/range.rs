//! Members in order: ZRANGE and its many relatives, and how many they would be.

use super::super::options::Options;
use super::bounds::{Bounds, By};
use super::{Call, Failure, Outcome, zset};

fn count(call: &mut Call<'_>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, call.arg(2), call.arg(3))?;
    let count = zset(call)?.map_or(0, |entry| bounds.ranks(call.db_ref(), entry, false).len());
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Member)
}

pub(super) fn zrange(call: &mut Call<'_>) -> Outcome {
    range(call, None, None)
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Outcome {
    range(call, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    range(call, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    range(call, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    range(call, Some(By::Member), Some(false))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    range(call, Some(By::Member), Some(true))
}

/// What a range goes by, and whether it is reversed, are said by the command or by its options.
fn range(call: &mut Call<'_>, mut by: Option<By>, mut reverse: Option<bool>) -> Outcome {
    let (mut with_scores, mut limit) = (false, None);
    let mut options = Options::new(call.args, 4);
    while options.left() > 0 {
        if options.take("WITHSCORES") {
            with_scores = true;
        } else if options.take_with("LIMIT", 2) {
            limit = Some((options.integer()?, options.integer()?));
        } else if reverse.is_none() && options.take("REV") {
            reverse = Some(true);
        } else if by.is_none() && options.take("BYLEX") {
            by = Some(By::Member);
        } else if by.is_none() && options.take("BYSCORE") {
            by = Some(By::Score);
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
    if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
        return Err(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                .into(),
        );
    }
    if by == By::Member && with_scores {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    let (min, max) = if reverse && by != By::Rank {
        (3, 2)
    } else {
        (2, 3)
    };
    let bounds = Bounds::parse(by, call.arg(min), call.arg(max))?;
    let Some(entry) = zset(call)? else {
        call.reply.array(0);
        return Ok(());
    };
    let db = call.keyspace.selected();
    let mut ranks = bounds.ranks(db, entry, reverse);
    if let (Some((skip, count)), true) = (limit, by != By::Rank) {
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
    let reply = &mut *call.reply;
    let nested = with_scores && reply.resp3;
    reply.array(ranks.len() * if with_scores && !nested { 2 } else { 1 });
    let mut emit = |(member, score): (&[u8], f64)| {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    };
    let members = db.zset_range(entry, ranks);
    if reverse {
        members.rev().for_each(&mut emit)
    } else {
        members.for_each(&mut emit)
    }
    Ok(())
}
