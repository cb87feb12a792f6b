//! Sorted sets: members in the order of their scores.

mod add;
mod blocking;
mod bounds;
mod combine;
mod members;
mod pop;
mod random;
mod range;
mod remove;
mod sort;

pub(super) use blocking::serve;

use super::keys::scan;
use super::{
    BLOCKING, Call, Command, DANGEROUS, DENYOOM, FAST, Failure, Group, NOSCRIPT, Outcome, READONLY,
    UNTIMED, WRITE,
};
use crate::keyspace::Kind;
use crate::protocol::Reply;

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::SortedSet, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("zadd", -4, add::zadd)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW update")
        .about("1.2.0", "Adds members, or changes their scores").arguments("key [condition<NX|XX>@3.0.2] [comparison<GT|LT>@6.2.0] [change=CH@3.0.2] [increment=INCR@3.0.2] score_member(score:double member)*"),
    of("zincrby", 4, add::zincrby)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.2.0", "Adds to the score of a member").arguments("key increment:integer member"),
    of("zrem", -3, remove::zrem)
        .flags(WRITE | FAST)
        .key("RW delete")
        .about("1.2.0", "Removes members").arguments("key member*"),
    of("zremrangebyrank", 4, remove::by_rank)
        .flags(WRITE)
        .key("RW delete")
        .about("2.0.0", "Removes members by rank").arguments("key start:integer stop:integer"),
    of("zremrangebyscore", 4, remove::by_score)
        .flags(WRITE)
        .key("RW delete")
        .about("1.2.0", "Removes members by score").arguments("key min:double max:double"),
    of("zremrangebylex", 4, remove::by_member)
        .flags(WRITE)
        .key("RW delete")
        .about("2.8.9", "Removes members of equal score by their bytes").arguments("key min max"),
    of("zcard", 2, zcard)
        .flags(READONLY | FAST)
        .key("RO")
        .about("1.2.0", "How many members a sorted set has").arguments("key"),
    of("zscore", 3, zscore)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("1.2.0", "The score of a member").arguments("key member"),
    of("zmscore", -3, zmscore)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("6.2.0", "The scores of several members").arguments("key member*"),
    of("zrank", 3, zrank)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.0.0", "How many members have a lower score").arguments("key member"),
    of("zrevrank", 3, zrevrank)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.0.0", "How many members have a higher score").arguments("key member"),
    of("zcount", 4, range::zcount)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.0.0", "How many members have such scores").arguments("key min:double max:double"),
    of("zlexcount", 4, range::zlexcount)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.8.9", "How many members of equal score have such bytes").arguments("key min max"),
    of("zrange", -4, range::zrange)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("1.2.0", "Members by rank, score or bytes").arguments("key start stop [sortby<BYSCORE|BYLEX>@6.2.0] [REV@6.2.0] [LIMIT offset_count(offset:integer count:integer)@6.2.0] [WITHSCORES]"),
    of("zrevrange", -4, range::zrevrange)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("1.2.0", "Members by rank, the highest score first").arguments("key start:integer stop:integer [WITHSCORES]"),
    of("zrangebyscore", -4, range::zrangebyscore)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("1.0.5", "Members by score").arguments("key min:double max:double [WITHSCORES@2.0.0] [LIMIT offset_count(offset:integer count:integer)]"),
    of("zrevrangebyscore", -4, range::zrevrangebyscore)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("2.2.0", "Members by score, the highest first").arguments("key max:double min:double [WITHSCORES] [LIMIT offset_count(offset:integer count:integer)]"),
    of("zrangebylex", -4, range::zrangebylex)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("2.8.9", "Members of equal score by their bytes").arguments("key min max [LIMIT offset_count(offset:integer count:integer)]"),
    of("zrevrangebylex", -4, range::zrevrangebylex)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about(
            "2.8.9",
            "Members of equal score by their bytes, the last first",
        ).arguments("key max min [LIMIT offset_count(offset:integer count:integer)]"),
    of("zpopmin", -2, pop::zpopmin)
        .flags(WRITE | FAST)
        .key("RW access delete")
        .about("5.0.0", "Removes the members with the lowest scores").arguments("key [count:integer]"),
    of("zpopmax", -2, pop::zpopmax)
        .flags(WRITE | FAST)
        .key("RW access delete")
        .about("5.0.0", "Removes the members with the highest scores").arguments("key [count:integer]"),
    of("zmpop", -4, pop::zmpop)
        .flags(WRITE)
        .counted_keys(1, "RW access delete")
        .about("7.0.0", "Removes members with the lowest or highest scores from the first of several sets that has any")
        .arguments("numkeys:integer key* where<MIN|MAX> [COUNT count:integer]"),
    of("bzpopmin", -3, blocking::bzpopmin)
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .keys(1, -2, 1, "RW access delete")
        .about("5.0.0", "Removes the member with the lowest score from the first of several sets that has any, or waits for one")
        .arguments("key* timeout:double"),
    of("bzpopmax", -3, blocking::bzpopmax)
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .keys(1, -2, 1, "RW access delete")
        .about("5.0.0", "Removes the member with the highest score from the first of several sets that has any, or waits for one")
        .arguments("key* timeout:double"),
    of("bzmpop", -5, blocking::bzmpop)
        .flags(WRITE | BLOCKING)
        .counted_keys(2, "RW access delete")
        .about("7.0.0", "Removes members from the first of several sets that has any, or waits for one")
        .arguments("timeout:double numkeys:integer key* where<MIN|MAX> [COUNT count:integer]"),
    of("zrangestore", -5, range::zrangestore)
        .flags(WRITE | DENYOOM)
        .keys(1, 2, 1, "OW update;RO access")
        .about("6.2.0", "Stores members by rank, score or bytes")
        .arguments("dst:key src:key min max [sortby<BYSCORE|BYLEX>] [REV] [LIMIT offset_count(offset:integer count:integer)]"),
    of("zunion", -3, combine::zunion)
        .flags(READONLY)
        .counted_keys(1, "RO access")
        .about("6.2.0", "The members of any of several sets")
        .arguments("numkeys:integer key* [WEIGHTS weight:integer*] [AGGREGATE aggregate<SUM|MIN|MAX>] [WITHSCORES]"),
    of("zunionstore", -4, combine::zunionstore)
        .flags(WRITE | DENYOOM)
        .keys(1, 1, 1, "").counted_keys(2, "OW update;RO access")
        .about("2.0.0", "Stores the members of any of several sets")
        .arguments("destination:key numkeys:integer key* [WEIGHTS weight:integer*] [AGGREGATE aggregate<SUM|MIN|MAX>]"),
    of("zinter", -3, combine::zinter)
        .flags(READONLY)
        .counted_keys(1, "RO access")
        .about("6.2.0", "The members that several sets have in common")
        .arguments("numkeys:integer key* [WEIGHTS weight:integer*] [AGGREGATE aggregate<SUM|MIN|MAX>] [WITHSCORES]"),
    of("zinterstore", -4, combine::zinterstore)
        .flags(WRITE | DENYOOM)
        .keys(1, 1, 1, "").counted_keys(2, "OW update;RO access")
        .about("2.0.0", "Stores the members that several sets have in common")
        .arguments("destination:key numkeys:integer key* [WEIGHTS weight:integer*] [AGGREGATE aggregate<SUM|MIN|MAX>]"),
    of("zdiff", -3, combine::zdiff)
        .flags(READONLY)
        .counted_keys(1, "RO access")
        .about("6.2.0", "The members of a set that others do not have")
        .arguments("numkeys:integer key* [WITHSCORES]"),
    of("zdiffstore", -4, combine::zdiffstore)
        .flags(WRITE | DENYOOM)
        .keys(1, 1, 1, "").counted_keys(2, "OW update;RO access")
        .about("6.2.0", "Stores the members of a set that others do not have")
        .arguments("destination:key numkeys:integer key*"),
    of("zintercard", -3, combine::zintercard)
        .flags(READONLY)
        .counted_keys(1, "RO access")
        .about("7.0.0", "How many members several sets have in common")
        .arguments("numkeys:integer key* [LIMIT limit:integer]"),
    of("zrandmember", -2, random::zrandmember)
        .flags(READONLY)
        .key("RO access")
        .about("6.2.0", "Members, chosen at random").arguments("key [options(count:integer [WITHSCORES])]"),
    of("zscan", -3, zscan)
        .flags(READONLY)
        .key("RO access")
        .about("2.8.0", "Goes through members and scores").arguments("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]"),
    of("sort", -2, sort::sort)
        .flags(WRITE | DENYOOM | DANGEROUS)
        .key("RO access")
        .about("1.0.0", "Members in the order of their own values or of others'")
        .arguments("key [BY pattern:pattern] [LIMIT offset_count(offset:integer count:integer)] [GET pattern:pattern+] [order<ASC|DESC>] [sorting=ALPHA]"),
    of("sort_ro", -2, sort::sort_ro)
        .flags(READONLY | DANGEROUS)
        .key("RO access")
        .about("7.0.0", "Members in the order of their own values or of others'")
        .arguments("key [BY pattern:pattern] [LIMIT offset_count(offset:integer count:integer)] [GET pattern:pattern+] [order<ASC|DESC>] [sorting=ALPHA]"),
];

/// From here on scores are not kept as integers in any set of Redis.
const WHOLE_END: f64 = (i64::MAX / 2) as f64;

fn zcard(call: &mut Call<'_>) -> Outcome {
    let len = call
        .read_first(Kind::SortedSet)?
        .map_or(0, |entry| call.db_ref().zset_len(entry));
    call.reply.integer(len as i64);
    Ok(())
}

fn reply_score(reply: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

fn zscore(call: &mut Call<'_>) -> Outcome {
    let entry = call.read_first(Kind::SortedSet)?;
    let score = entry.and_then(|entry| call.db_ref().zset_score(entry, call.arg(2)));
    reply_score(call.reply, score);
    Ok(())
}

fn zmscore(call: &mut Call<'_>) -> Outcome {
    let entry = call.read_first(Kind::SortedSet)?;
    let members = call.args.from(2);
    call.reply.array(members.len());
    match entry {
        Some(entry) => {
            call.keyspace
                .db(call.client.db)
                .zset_scores(entry, members.iter(), |score| {
                    reply_score(call.reply, score)
                })
        }
        None => members.iter().for_each(|_| call.reply.null()),
    }
    Ok(())
}

fn rank(call: &mut Call<'_>, reverse: bool) -> Outcome {
    let entry = call.read_first(Kind::SortedSet)?;
    let db = call.keyspace.selected();
    match entry.and_then(|entry| Some((entry, db.zset_rank(entry, call.args.at(2))?))) {
        Some((entry, rank)) if reverse => {
            call.reply.integer((db.zset_len(entry) - 1 - rank) as i64)
        }
        Some((_, rank)) => call.reply.integer(rank as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn zrank(call: &mut Call<'_>) -> Outcome {
    rank(call, false)
}

fn zrevrank(call: &mut Call<'_>) -> Outcome {
    rank(call, true)
}

fn zscan(call: &mut Call<'_>) -> Outcome {
    let cursor = scan::cursor(call.arg(2))?;
    let Some(entry) = call.read_first(Kind::SortedSet)? else {
        return scan::nothing(call);
    };
    let options = scan::ScanOptions::parse(call.args, 3, false)?;
    let mut found = scan::ScanReply::default();
    let is_packed = call.keyspace.selected().is_packed(entry);
    let db = call.keyspace.selected();
    let next = db.zset_scan(entry, cursor, options.count, |member, score| {
        if options.admits(member) {
            found.add(member);
            // Redis keeps whole scores of small sets as integers, and shows them so here alone.
            match score as i64 {
                whole if is_packed && whole as f64 == score && score.abs() < WHOLE_END => {
                    found.add(itoa::Buffer::new().format(whole).as_bytes());
                }
                _ => found.add_double(score),
            }
        }
    });
    found.reply(call, next);
    Ok(())
}
