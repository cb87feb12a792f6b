//! Redis 7.0 and Tierra are given commands with any words behind them, most of which make no sense, and say the same.
//!
//! Mistakes are checked in an order, and told in words, that no list of sensible requests finds. `TIERRA_KV_SEED` and
//! `TIERRA_KV_ROUNDS` are those of `differential.rs`.

use crate::compare::Compare::{Exactly, Shape};
use crate::compare::agree;
use crate::random::{Random, setting, show, without_errors_before};
use crate::support::{Client, Redis, Reply, Tierra};

/// What is left out because replies differ by nature (chosen at random, in no order, about the server itself), would end
/// the server or wait, or because keys would expire in between.
const LEFT_OUT: &[&str] = &[
    "shutdown",
    "quit",
    "monitor",
    "debug",
    "info",
    "time",
    "role",
    "wait",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "config",
    "hrandfield",
    "zrandmember",
    "randomkey",
    "scan",
    "hscan",
    "zscan",
    "keys",
    "hkeys",
    "hvals",
    "hgetall",
    "memory",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "setex",
    "psetex",
    "getex",
    "object",
    "client",
    "command",
    "slowlog",
    "latency",
    // Redis compresses.
    "dump",
];

/// Commands of [`LEFT_OUT`] with words behind them that can be compared.
const TOGETHER: &[&str] = &[
    "config set",
    "config resetstat",
    "object",
    "bzmpop nan",
    "client getname",
    "client setname",
    "client unblock",
    "client no-evict",
    "client",
    "memory",
    "memory purge",
    "slowlog get",
    "slowlog len",
    "slowlog",
    "latency reset",
    "latency graph",
    "latency history",
    "command getkeys mset",
    "command getkeysandflags set",
    "scan word",
    "hscan word",
];

const WORDS: &[&str] = &[
    "k",
    "h",
    "z",
    "other",
    "none",
    "",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-10",
    "100",
    "1.5",
    "-inf",
    "inf",
    "nan",
    "x",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "(1",
    "[a",
    "-",
    "+",
    "(",
    "[",
    "NX",
    "xx",
    "GT",
    "LT",
    "CH",
    "INCR",
    "KEEPTTL",
    "GET",
    "withscores",
    "LIMIT",
    "REV",
    "BYSCORE",
    "BYLEX",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "COUNT",
    "MATCH",
    "*",
    "DB",
    "REPLACE",
    "BIT",
    "BYTE",
    "AND",
    "OR",
    "NOT",
    "u8",
    "i16",
    "#1",
    "OVERFLOW",
    "FAIL",
    "SET",
    "INCRBY",
    "ASYNC",
    "SYNC",
    "a",
    "c",
    "%s",
    "a b",
    "\r\n",
    "maxmemory",
    "SAMPLES",
    "AUTH",
    "SETNAME",
    "default",
    "ALPHA",
    "IDX",
    "ABSTTL",
    "FREQ",
];

fn fill(client: &mut Client) {
    for request in [
        "RESET",
        "FLUSHALL",
        "CONFIG SET maxmemory 0",
        "SET k 5",
        "SET other hello",
        "HSET h f 1 g 2.5 a b",
        "ZADD z 1 a 2 b 3 m",
    ] {
        assert!(!matches!(client.ask(request), Reply::Error(_)), "{request}");
    }
}

#[test]
fn any_words_are_answered_as_redis_answers_them() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    let seed = setting("TIERRA_KV_SEED", 1);
    let mut random = Random(seed);
    let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
    let Reply::Array(names) = ours.ask("COMMAND LIST") else {
        panic!("names are a list")
    };
    let names: Vec<String> = names
        .into_iter()
        .map(|name| match name {
            Reply::Bulk(name) => String::from_utf8(name).unwrap(),
            other => panic!("{other:?} is no name"),
        })
        .filter(|name| !LEFT_OUT.contains(&&**name))
        .collect();
    let starts: Vec<&str> = names
        .iter()
        .map(|name| &**name)
        .chain(TOGETHER.iter().copied())
        .collect();
    for _ in 0..setting("TIERRA_KV_ROUNDS", 60) {
        for client in [&mut theirs, &mut ours] {
            fill(client);
        }
        let requests: Vec<Vec<Vec<u8>>> = (0..100)
            .map(|_| {
                let start = random.one_of(&starts).split(' ');
                let mut words: Vec<&str> = start.collect();
                words.extend((0..random.below(7)).map(|_| random.one_of(WORDS)));
                words
                    .into_iter()
                    .map(|word| word.as_bytes().to_vec())
                    .collect()
            })
            .collect();
        let requests = without_errors_before(requests, |words| words, |words| words);
        for client in [&mut theirs, &mut ours] {
            client.send(&requests);
        }
        for at in 0..requests.len() {
            let (theirs, ours) = (theirs.receive(), ours.receive());
            let so_far = || requests[..=at].iter().map(|words| show(words));
            // Its fields are about the server.
            let compare = match &requests[at][0][..] {
                b"hello" => Shape,
                _ => Exactly,
            };
            assert!(
                agree(compare, &theirs, &ours),
                "seed {seed}\nRedis:  {theirs:?}\nTierra: {ours:?}\nto the last of:\n{}",
                so_far().collect::<Vec<_>>().join("\n")
            );
        }
    }
}
