//! Strings: values that are bytes.

mod counters;
mod lcs;
mod many;
mod ranges;
mod reply;
mod set;

use reply::reply_value;

use super::{Call, Command, DENYOOM, FAST, Failure, Group, Outcome, READONLY, UNTIMED, WRITE};
use crate::keyspace::Kind;

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::String, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("get", 2, get)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("1.0.0", "The value of a key").arguments("key"),
    of("set", -3, set::set)
        .flags(WRITE | DENYOOM | UNTIMED)
        .key("RW access update variable_flags")
        .about("1.0.0", "Sets the value of a key, its expiry with it").arguments("key value [condition<NX|XX>@2.6.12] [GET@6.2.0] [expiration<EX seconds:integer@2.6.12|PX milliseconds:integer@2.6.12|EXAT unix-time-seconds:unix-time@6.2.0|PXAT unix-time-milliseconds:unix-time@6.2.0|KEEPTTL@6.0.0>]"),
    of("setnx", 3, set::setnx)
        .flags(WRITE | DENYOOM | FAST)
        .key("OW insert")
        .about("1.0.0", "Sets the value of a key that does not exist").arguments("key value"),
    of("setex", 4, set::setex)
        .flags(WRITE | DENYOOM | UNTIMED)
        .key("OW update")
        .about("2.0.0", "Sets value and seconds to live of a key").arguments("key seconds:integer value"),
    of("psetex", 4, set::psetex)
        .flags(WRITE | DENYOOM | UNTIMED)
        .key("OW update")
        .about("2.6.0", "Sets value and milliseconds to live of a key").arguments("key milliseconds:integer value"),
    of("getset", 3, set::getset)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.0.0", "The value of a key before it is set").arguments("key value"),
    of("getdel", 2, getdel)
        .flags(WRITE | FAST)
        .key("RW access delete")
        .about("6.2.0", "The value of a key, which is deleted").arguments("key"),
    of("getex", -2, set::getex)
        .flags(WRITE | FAST)
        .key("RW access update")
        .about("6.2.0", "The value of a key, whose expiry is changed").arguments("key [expiration<EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|PERSIST>]"),
    of("mget", -2, many::mget)
        .flags(READONLY | FAST)
        .keys(1, -1, 1, "RO access")
        .about("1.0.0", "The values of several keys").arguments("key*"),
    of("mset", -3, many::mset)
        .flags(WRITE | DENYOOM | UNTIMED)
        .keys(1, -1, 2, "OW update")
        .about("1.0.1", "Sets the values of several keys").arguments("key_value(key value)*"),
    of("msetnx", -3, many::msetnx)
        .flags(WRITE | DENYOOM | UNTIMED)
        .keys(1, -1, 2, "OW insert")
        .about(
            "1.0.1",
            "Sets the values of several keys if none of them exists",
        ).arguments("key_value(key value)*"),
    of("append", 3, ranges::append)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW insert")
        .about("2.0.0", "Appends to the value of a key").arguments("key value"),
    of("strlen", 2, strlen)
        .flags(READONLY | FAST)
        .key("RO")
        .about("2.2.0", "The length of a value").arguments("key"),
    of("incr", 2, counters::incr)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.0.0", "Adds one to a number").arguments("key"),
    of("decr", 2, counters::decr)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.0.0", "Takes one from a number").arguments("key"),
    of("incrby", 3, counters::incrby)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.0.0", "Adds to a number").arguments("key increment:integer"),
    of("decrby", 3, counters::decrby)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("1.0.0", "Takes from a number").arguments("key decrement:integer"),
    of("incrbyfloat", 3, counters::incrbyfloat)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("2.6.0", "Adds to a number with a fraction").arguments("key increment:double"),
    of("setrange", 4, ranges::setrange)
        .flags(WRITE | DENYOOM | UNTIMED)
        .key("RW update")
        .about("2.2.0", "Overwrites part of a value").arguments("key offset:integer value"),
    of("getrange", 4, ranges::getrange)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("2.4.0", "Part of a value").arguments("key start:integer end:integer"),
    of("substr", 4, ranges::getrange)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("1.0.0", "Part of a value").arguments("key start:integer end:integer"),
    of("lcs", -3, lcs::lcs)
        .flags(READONLY)
        .keys(1, 2, 1, "RO access")
        .about("7.0.0", "The longest sequence of bytes that two values have in common")
        .arguments("key1:key key2:key [LEN] [IDX] [MINMATCHLEN len:integer] [WITHMATCHLEN]"),
];

fn get(call: &mut Call<'_>) -> Outcome {
    reply_value(call, 1).map(|_| ())
}

fn getdel(call: &mut Call<'_>) -> Outcome {
    if reply_value(call, 1)? {
        let key = call.key(1);
        call.db().remove(&key);
        call.changed(key.bytes);
    }
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let len = call
        .read(&key, Kind::String)?
        .map_or(0, |entry| call.db_ref().string(entry).len());
    call.reply.integer(len as i64);
    Ok(())
}
