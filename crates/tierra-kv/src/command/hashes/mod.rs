//! Hashes: values that have fields.

mod counters;
pub(super) mod random;

use super::keys::scan;
use super::{Call, Command, DENYOOM, FAST, Failure, Group, Outcome, READONLY, UNTIMED, WRITE};
use crate::keyspace::Kind;

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Hash, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("hset", -4, hset)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW update")
        .about("2.0.0", "Sets fields of a hash")
        .arguments("key field_value(field value)*"),
    of("hmset", -4, hmset)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW update")
        .about("2.0.0", "Sets fields of a hash")
        .arguments("key field_value(field value)*"),
    of("hsetnx", 4, hsetnx)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW insert")
        .about("2.0.0", "Sets a field that does not exist")
        .arguments("key field value"),
    of("hget", 3, hget)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.0.0", "The value of a field")
        .arguments("key field"),
    of("hmget", -3, hmget)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.0.0", "The values of several fields")
        .arguments("key field*"),
    of("hgetall", 2, hgetall)
        .flags(READONLY | UNTIMED)
        .key("RO access")
        .about("2.0.0", "All fields and values of a hash")
        .arguments("key"),
    of("hdel", -3, hdel)
        .flags(WRITE | FAST)
        .key("RW delete")
        .about("2.0.0", "Deletes fields of a hash")
        .arguments("key field*"),
    of("hlen", 2, hlen)
        .flags(READONLY | FAST)
        .key("RO")
        .about("2.0.0", "How many fields a hash has")
        .arguments("key"),
    of("hkeys", 2, hkeys)
        .flags(READONLY)
        .key("RO access")
        .about("2.0.0", "All fields of a hash")
        .arguments("key"),
    of("hvals", 2, hvals)
        .flags(READONLY)
        .key("RO access")
        .about("2.0.0", "All values of a hash")
        .arguments("key"),
    of("hexists", 3, hexists)
        .flags(READONLY | FAST)
        .key("RO")
        .about("2.0.0", "Whether a hash has a field")
        .arguments("key field"),
    of("hstrlen", 3, hstrlen)
        .flags(READONLY | FAST)
        .key("RO")
        .about("3.2.0", "The length of the value of a field")
        .arguments("key field"),
    of("hincrby", 4, counters::hincrby)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("2.0.0", "Adds to the number of a field")
        .arguments("key field increment:integer"),
    of("hincrbyfloat", 4, counters::hincrbyfloat)
        .flags(WRITE | DENYOOM | FAST)
        .key("RW access update")
        .about("2.6.0", "Adds to the number with a fraction of a field")
        .arguments("key field increment:double"),
    of("hrandfield", -2, random::hrandfield)
        .flags(READONLY)
        .key("RO access")
        .about("6.2.0", "Fields of a hash, chosen at random")
        .arguments("key [options(count:integer [WITHVALUES])]"),
    of("hscan", -3, hscan)
        .flags(READONLY)
        .key("RO access")
        .about("2.8.0", "Goes through the fields and values of a hash")
        .arguments("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]"),
];

fn store(call: &mut Call<'_>) -> Result<usize, Failure> {
    if call.args.len() % 2 == 1 {
        return Err(Failure::arity(call.command.name));
    }
    let key = call.key(1);
    call.write(&key, Kind::Hash)?;
    let pairs = call.args.from(2).pairs();
    let new = call.db().hash_set(&key, pairs);
    // Where memory ends on the way some are set.
    call.changed(key.bytes);
    Ok(new?)
}

fn hset(call: &mut Call<'_>) -> Outcome {
    let new = store(call)?;
    call.reply.integer(new as i64);
    Ok(())
}

fn hmset(call: &mut Call<'_>) -> Outcome {
    store(call)?;
    call.reply.ok();
    Ok(())
}

fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let (key, field) = (call.key(1), call.arg(2));
    let entry = call.write(&key, Kind::Hash)?;
    let exists = entry.is_some_and(|entry| call.db_ref().hash_get(entry, field).is_some());
    if !exists {
        let pairs = call.args.from(2).pairs();
        call.db().hash_set(&key, pairs)?;
        call.changed(key.bytes);
    }
    call.reply.integer(i64::from(!exists));
    Ok(())
}

fn hget(call: &mut Call<'_>) -> Outcome {
    let entry = call.read_first(Kind::Hash)?;
    let db = call.keyspace.selected();
    call.reply
        .bulk_or_null(entry.and_then(|entry| db.hash_get(entry, call.args.at(2))));
    Ok(())
}

fn hmget(call: &mut Call<'_>) -> Outcome {
    let entry = call.read_first(Kind::Hash)?;
    let fields = call.args.from(2);
    call.reply.array(fields.len());
    match entry {
        Some(entry) => {
            call.keyspace
                .db(call.client.db)
                .hash_get_many(entry, fields.iter(), |value| call.reply.bulk_or_null(value))
        }
        None => fields.iter().for_each(|_| call.reply.null()),
    }
    Ok(())
}

fn hgetall(call: &mut Call<'_>) -> Outcome {
    let entry = call.read_first(Kind::Hash)?;
    let db = call.keyspace.selected();
    call.reply.map(entry.map_or(0, |entry| db.hash_len(entry)));
    for (field, value) in entry.into_iter().flat_map(|entry| db.hash_iter(entry)) {
        call.reply.bulk(field);
        call.reply.bulk(value);
    }
    Ok(())
}

fn hdel(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    call.write(&key, Kind::Hash)?;
    let fields = call.args.from(2).iter();
    let removed = call.db().hash_remove_many(&key, fields);
    if removed > 0 {
        call.changed(key.bytes);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

fn hlen(call: &mut Call<'_>) -> Outcome {
    let len = call
        .read_first(Kind::Hash)?
        .map_or(0, |entry| call.db_ref().hash_len(entry));
    call.reply.integer(len as i64);
    Ok(())
}

fn one_side(call: &mut Call<'_>, side: fn(random::Pair<'_>) -> &[u8]) -> Outcome {
    let entry = call.read_first(Kind::Hash)?;
    let db = call.keyspace.selected();
    call.reply
        .array(entry.map_or(0, |entry| db.hash_len(entry)));
    entry
        .into_iter()
        .flat_map(|entry| db.hash_iter(entry))
        .for_each(|pair| call.reply.bulk(side(pair)));
    Ok(())
}

fn hkeys(call: &mut Call<'_>) -> Outcome {
    one_side(call, |(field, _)| field)
}

fn hvals(call: &mut Call<'_>) -> Outcome {
    one_side(call, |(_, value)| value)
}

fn field_len(call: &mut Call<'_>) -> Result<Option<usize>, Failure> {
    let entry = call.read_first(Kind::Hash)?;
    Ok(entry
        .and_then(|entry| call.db_ref().hash_get(entry, call.arg(2)))
        .map(<[u8]>::len))
}

fn hexists(call: &mut Call<'_>) -> Outcome {
    let exists = field_len(call)?.is_some();
    call.reply.integer(i64::from(exists));
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let len = field_len(call)?.unwrap_or(0);
    call.reply.integer(len as i64);
    Ok(())
}

fn hscan(call: &mut Call<'_>) -> Outcome {
    let cursor = scan::cursor(call.arg(2))?;
    let Some(entry) = call.read_first(Kind::Hash)? else {
        return scan::nothing(call);
    };
    let options = scan::ScanOptions::parse(call.args, 3, false)?;
    let mut found = scan::ScanReply::default();
    let db = call.keyspace.selected();
    let next = db.hash_scan(entry, cursor, options.count, |field, value| {
        if options.admits(field) {
            found.add(field);
            found.add(value);
        }
    });
    found.reply(call, next);
    Ok(())
}
