//! Keys of whatever kind: whether they exist, what they are called, when they expire.

mod copy;
pub(super) mod databases;
mod dump;
mod expiry;
mod kind;
mod names;
mod object;
pub(super) mod scan;

pub(super) use databases::database;

use super::{
    Call, Command, DANGEROUS, DENYOOM, FAST, Failure, Group, Outcome, READONLY, WRITE, admin,
};
use crate::keyspace::{Db, Key};

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Generic, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("del", -2, del)
        .flags(WRITE)
        .keys(1, -1, 1, "RM delete")
        .about("1.0.0", "Deletes keys")
        .arguments("key*"),
    of("unlink", -2, unlink)
        .flags(WRITE | FAST)
        .keys(1, -1, 1, "RM delete")
        .about("4.0.0", "Deletes keys")
        .arguments("key*"),
    of("exists", -2, exists)
        .flags(READONLY | FAST)
        .keys(1, -1, 1, "RO")
        .about("1.0.0", "How many of these keys exist")
        .arguments("key*"),
    of("touch", -2, exists)
        .flags(READONLY | FAST)
        .keys(1, -1, 1, "RO")
        .about("3.2.1", "Marks keys as used")
        .arguments("key*"),
    of("type", 2, kind::kind)
        .flags(READONLY | FAST)
        .key("RO")
        .about("1.0.0", "What kind of value a key has")
        .arguments("key"),
    of("expire", -3, expiry::expire)
        .flags(WRITE | FAST)
        .key("RW update")
        .about("1.0.0", "Lets a key expire in so many seconds")
        .arguments("key seconds:integer [condition<NX|XX|GT|LT>@7.0.0]"),
    of("pexpire", -3, expiry::pexpire)
        .flags(WRITE | FAST)
        .key("RW update")
        .about("2.6.0", "Lets a key expire in so many milliseconds")
        .arguments("key milliseconds:integer [condition<NX|XX|GT|LT>@7.0.0]"),
    of("expireat", -3, expiry::expireat)
        .flags(WRITE | FAST)
        .key("RW update")
        .about("1.2.0", "Lets a key expire at a time in seconds")
        .arguments("key unix-time-seconds:unix-time [condition<NX|XX|GT|LT>@7.0.0]"),
    of("pexpireat", -3, expiry::pexpireat)
        .flags(WRITE | FAST)
        .key("RW update")
        .about("2.6.0", "Lets a key expire at a time in milliseconds")
        .arguments("key unix-time-milliseconds:unix-time [condition<NX|XX|GT|LT>@7.0.0]"),
    of("ttl", 2, expiry::ttl)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("1.0.0", "In how many seconds a key expires")
        .arguments("key"),
    of("pttl", 2, expiry::pttl)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.6.0", "In how many milliseconds a key expires")
        .arguments("key"),
    of("expiretime", 2, expiry::expiretime)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("7.0.0", "At which second a key expires")
        .arguments("key"),
    of("pexpiretime", 2, expiry::pexpiretime)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("7.0.0", "At which millisecond a key expires")
        .arguments("key"),
    of("persist", 2, expiry::persist)
        .flags(WRITE | FAST)
        .key("RW update")
        .about("2.2.0", "Lets a key expire no more")
        .arguments("key"),
    of("keys", 2, scan::keys)
        .flags(READONLY | DANGEROUS)
        .about("1.0.0", "All keys that a pattern describes")
        .arguments("pattern:pattern"),
    of("scan", -2, scan::scan)
        .flags(READONLY)
        .about("2.8.0", "Goes through all keys")
        .arguments(
            "cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type@6.0.0]",
        ),
    of("randomkey", 1, names::randomkey)
        .flags(READONLY)
        .about("1.0.0", "A key, chosen at random"),
    of("rename", 3, names::rename)
        .flags(WRITE)
        .keys(1, 2, 1, "RW access delete;OW update")
        .about("1.0.0", "Gives a value another key")
        .arguments("key newkey:key"),
    of("renamenx", 3, names::renamenx)
        .flags(WRITE | FAST)
        .keys(1, 2, 1, "RW access delete;OW insert")
        .about("1.0.0", "Gives a value another key that does not exist")
        .arguments("key newkey:key"),
    of("copy", -3, copy::copy)
        .flags(WRITE | DENYOOM)
        .keys(1, 2, 1, "RO access;OW update")
        .about("6.2.0", "Copies a value to another key")
        .arguments("source:key destination:key [DB destination-db:integer] [REPLACE]"),
    of("move", 3, copy::move_to)
        .flags(WRITE | FAST)
        .key("RW access update")
        .about("1.0.0", "Moves a key to another database")
        .arguments("key db:integer"),
    of("dump", 2, dump::dump)
        .flags(READONLY)
        .key("RO access")
        .about("2.6.0", "A value as bytes that RESTORE takes")
        .arguments("key"),
    of("restore", -4, dump::restore)
        .flags(WRITE | DENYOOM | DANGEROUS)
        .key("OW update")
        .about("2.6.0", "Creates a value from the output of DUMP")
        .arguments("key ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds:integer@5.0.0] [FREQ frequency:integer@5.0.0]"),
    of("dbsize", 1, databases::dbsize)
        .flags(READONLY | FAST)
        .about("1.0.0", "How many keys there are"),
    of("flushdb", -1, databases::flushdb)
        .flags(WRITE | DANGEROUS)
        .about("1.0.0", "Deletes all keys of a database")
        .arguments("[async<ASYNC@4.0.0|SYNC@6.2.0>]"),
    of("flushall", -1, databases::flushall)
        .flags(WRITE | DANGEROUS)
        .about("1.0.0", "Deletes all keys of all databases")
        .arguments("[async<ASYNC@4.0.0|SYNC@6.2.0>]"),
    of("swapdb", 3, databases::swapdb)
        .flags(WRITE | FAST | DANGEROUS)
        .about("4.0.0", "Exchanges two databases")
        .arguments("index1:integer index2:integer"),
    Command::container(
        "object",
        Group::Generic,
        &[
            of("encoding", 3, object::encoding)
                .flags(READONLY)
                .keys(2, 2, 1, "RO")
                .about("2.2.3", "How a value is stored")
                .arguments("key"),
            of("freq", 3, object::freq)
                .flags(READONLY)
                .keys(2, 2, 1, "RO")
                .about("4.0.0", "How often a key is used, from 0 to 127")
                .arguments("key"),
            of("idletime", 3, object::idletime)
                .flags(READONLY)
                .keys(2, 2, 1, "RO")
                .about("2.2.3", "Refused: uses are counted, not timed")
                .arguments("key"),
            of("refcount", 3, object::refcount)
                .flags(READONLY)
                .keys(2, 2, 1, "RO")
                .about("2.2.3", "How many keys share the value: one")
                .arguments("key"),
            of("tier", 3, object::tier)
                .flags(READONLY)
                .keys(2, 2, 1, "RO")
                .about("7.0.0", "In which tier of memory the record of a key is")
                .arguments("key"),
            of("help", 2, admin::help).about("6.2.0", "What subcommands there are"),
        ],
    )
    .about("2.2.3", "What is known about a key"),
];

fn del(call: &mut Call<'_>) -> Outcome {
    remove_all(call, Db::remove)
}

fn unlink(call: &mut Call<'_>) -> Outcome {
    remove_all(call, Db::unlink)
}

fn remove_all(call: &mut Call<'_>, remove: fn(&mut Db, &Key<'_>) -> bool) -> Outcome {
    let mut removed = 0;
    for index in 1..call.args.len() {
        let key = call.key(index);
        if remove(call.db(), &key) {
            call.changed(key.bytes);
            removed += 1;
        }
    }
    call.reply.integer(removed);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Outcome {
    let mut found = 0;
    for index in 1..call.args.len() {
        let key = call.key(index);
        found += i64::from(call.look_untouched(&key).is_some());
    }
    call.reply.integer(found);
    Ok(())
}
