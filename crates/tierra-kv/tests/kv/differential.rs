//! Redis 7.0 and Tierra are given the same random requests, and their replies have to be the same, byte for
//! byte; where order says nothing, as multisets.
//!
//! Needs `redis-server` 7.0 on the path; says so and passes where there is none. A failure prints the seed
//! and everything since the last FLUSHALL. `TIERRA_KV_SEED` replays a seed, `TIERRA_KV_ROUNDS` says how many
//! rounds of random requests there are (60 by default, in about a second).
//!
//! Left out on purpose, because the replies differ by nature: cursors (whole scans are compared), what is
//! chosen at random (only how much of it), OBJECT ENCODING of hashes, sorted sets and appended strings, and
//! everything about the server itself. `docs/kv.md` lists what differs.

use crate::support::{Client, Redis, Reply, Tierra};

/// How replies are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Exactly,
    /// The elements in any order.
    Unordered,
    /// Pairs in any order.
    UnorderedPairs,
    /// Chosen at random: as many of the same type.
    Shape,
    /// Times: two seconds apart at most, in the unit of the command.
    Near(i64),
}

use Compare::{Exactly, Near, Shape, Unordered, UnorderedPairs};

/// Requests. Small letters stand for: `k` a key, `f` a field, `m` a member, `v` a value, `i` a whole number,
/// `d` a number, `s` a bound of scores, `l` one of members, `n` a rank, `c` a count, `x` and `y` a time to live in seconds and milliseconds,
/// `p` a pattern, `o` an option of ZADD, `b` a database, `g` a weight, `a` the place of a bit, `t` the width of a number,
/// `u` a unit of BITCOUNT. `kv*300` stands for up to so many times `k v`.
const REQUESTS: &[(Compare, &str)] = &[
    (Exactly, "GET k"),
    (Exactly, "GET k"),
    (Exactly, "GET k"),
    (Exactly, "SET k v"),
    (Exactly, "SET k v"),
    (Exactly, "SET k i"),
    (Exactly, "SET k d"),
    (Exactly, "SET k v NX"),
    (Exactly, "SET k v XX GET"),
    (Exactly, "SET k v EX x"),
    (Exactly, "SET k v PX x KEEPTTL"),
    (Exactly, "SET k v KEEPTTL"),
    (Exactly, "SET k v NX GET"),
    (Exactly, "SET k v NX XX"),
    (Exactly, "SET k v EXAT x PX x"),
    (Exactly, "SET k v EX"),
    (Exactly, "SET k v EX v"),
    (Exactly, "SET k v PXAT 4102444800000 XX"),
    (Exactly, "SETNX k v"),
    (Exactly, "SETEX k x v"),
    (Exactly, "PSETEX k y v"),
    (Exactly, "GETSET k v"),
    (Exactly, "GETDEL k"),
    (Exactly, "GETEX k"),
    (Exactly, "GETEX k PERSIST"),
    (Exactly, "GETEX k EX x"),
    (Exactly, "GETEX k PXAT 1"),
    (Exactly, "GETEX k PERSIST EX x"),
    (Exactly, "MGET k k k"),
    (Exactly, "MSET k v k v"),
    (Exactly, "MSETNX k v k v"),
    (Exactly, "MSET k v k"),
    (Exactly, "MGET k*300"),
    (Exactly, "MSET kv*200"),
    (Exactly, "MSETNX kv*200"),
    (Exactly, "DEL k*300"),
    (Exactly, "EXISTS k*300"),
    (Exactly, "TOUCH k*300"),
    (Exactly, "HSET k fv*200"),
    (Exactly, "HMGET k f*300"),
    (Exactly, "HDEL k f*200"),
    (Exactly, "ZADD k dm*200"),
    (Exactly, "ZMSCORE k m*300"),
    (Exactly, "ZREM k m*200"),
    (Exactly, "APPEND k v"),
    (Exactly, "STRLEN k"),
    (Exactly, "INCR k"),
    (Exactly, "DECR k"),
    (Exactly, "INCRBY k i"),
    (Exactly, "DECRBY k i"),
    (Exactly, "INCRBYFLOAT k d"),
    (Exactly, "SETRANGE k n v"),
    (Exactly, "GETRANGE k n n"),
    (Exactly, "SUBSTR k n n"),
    (Exactly, "HSET k f v"),
    (Exactly, "HSET k f v f v f i"),
    (Exactly, "HMSET k f v f v"),
    (Exactly, "HMSET k f v f"),
    (Exactly, "HSETNX k f v"),
    (Exactly, "HGET k f"),
    (Exactly, "HMGET k f f f"),
    (UnorderedPairs, "HGETALL k"),
    (Exactly, "HDEL k f f"),
    (Exactly, "HLEN k"),
    (Unordered, "HKEYS k"),
    (Unordered, "HVALS k"),
    (Exactly, "HEXISTS k f"),
    (Exactly, "HSTRLEN k f"),
    (Exactly, "HINCRBY k f i"),
    (Exactly, "HINCRBYFLOAT k f d"),
    (Shape, "HRANDFIELD k"),
    (Shape, "HRANDFIELD k c"),
    (Shape, "HRANDFIELD k c WITHVALUES"),
    (Exactly, "ZADD k d m"),
    (Exactly, "ZADD k d m d m d m"),
    (Exactly, "ZADD k i m i m i m"),
    (Exactly, "ZADD k o d m d m"),
    (Exactly, "ZADD k o o d m"),
    (Exactly, "ZADD k o CH d m d m"),
    (Exactly, "ZADD k o INCR d m"),
    (Exactly, "ZADD k d m d"),
    (Exactly, "ZINCRBY k d m"),
    (Exactly, "ZINCRBY k o m"),
    (Exactly, "ZREM k m m"),
    (Exactly, "ZCARD k"),
    (Exactly, "ZSCORE k m"),
    (Exactly, "ZMSCORE k m m"),
    (Exactly, "ZRANK k m"),
    (Exactly, "ZREVRANK k m"),
    (Exactly, "ZCOUNT k s s"),
    (Exactly, "ZRANGE k n n"),
    (Exactly, "ZRANGE k n n WITHSCORES"),
    (Exactly, "ZRANGE k n n REV WITHSCORES"),
    (Exactly, "ZRANGE k s s BYSCORE"),
    (Exactly, "ZRANGE k s s BYSCORE REV WITHSCORES LIMIT n c"),
    (Exactly, "ZRANGE k s s BYSCORE LIMIT n c"),
    (Exactly, "ZRANGE k n n LIMIT n c"),
    (Exactly, "ZRANGE k l l BYLEX WITHSCORES"),
    (Exactly, "ZREVRANGE k n n"),
    (Exactly, "ZREVRANGE k n n WITHSCORES"),
    (Exactly, "ZRANGEBYSCORE k s s WITHSCORES"),
    (Exactly, "ZRANGEBYSCORE k s s LIMIT n c"),
    (Exactly, "ZREVRANGEBYSCORE k s s LIMIT n c WITHSCORES"),
    (Exactly, "ZPOPMIN k"),
    (Exactly, "ZPOPMAX k"),
    (Exactly, "ZPOPMIN k c"),
    (Exactly, "ZPOPMAX k c"),
    (Exactly, "ZREMRANGEBYRANK k n n"),
    (Exactly, "ZREMRANGEBYSCORE k s s"),
    (Shape, "ZRANDMEMBER k"),
    (Shape, "ZRANDMEMBER k c"),
    (Shape, "ZRANDMEMBER k c WITHSCORES"),
    (Exactly, "ZADD e:k 0 m 0 m 0 m"),
    (Exactly, "ZLEXCOUNT e:k l l"),
    (Exactly, "ZRANGEBYLEX e:k l l"),
    (Exactly, "ZRANGEBYLEX e:k l l LIMIT n c"),
    (Exactly, "ZREVRANGEBYLEX e:k l l"),
    (Exactly, "ZRANGE e:k l l BYLEX REV"),
    (Exactly, "ZREMRANGEBYLEX e:k l l"),
    (Exactly, "ZRANGESTORE k k n n"),
    (Exactly, "ZRANGESTORE k k s s BYSCORE LIMIT n c"),
    (Exactly, "ZRANGESTORE k k s s BYSCORE REV"),
    (Exactly, "ZRANGESTORE k e:k l l BYLEX"),
    (Exactly, "ZRANGESTORE k k n n WITHSCORES"),
    (Exactly, "ZUNION 2 k k WITHSCORES"),
    (Exactly, "ZUNION 3 k k k WEIGHTS g g g AGGREGATE MIN"),
    (Exactly, "ZUNION c k k WITHSCORES"),
    (Exactly, "ZINTER 2 k k WEIGHTS g g WITHSCORES"),
    (Exactly, "ZINTER 2 k k AGGREGATE MAX WITHSCORES"),
    (Exactly, "ZINTER 2 k k AGGREGATE v"),
    (Exactly, "ZDIFF 2 k k WITHSCORES"),
    (Exactly, "ZDIFF 3 k k k"),
    (Exactly, "ZDIFF 2 k k WEIGHTS g g"),
    (Exactly, "ZUNIONSTORE k 2 k k"),
    (Exactly, "ZUNIONSTORE k 2 k k WEIGHTS g g"),
    (Exactly, "ZUNIONSTORE k 2 k k WITHSCORES"),
    (Exactly, "ZINTERSTORE k 2 k k AGGREGATE MIN"),
    (Exactly, "ZDIFFSTORE k 2 k k"),
    (Exactly, "ZINTERCARD 2 k k"),
    (Exactly, "ZINTERCARD 2 k k LIMIT c"),
    (Exactly, "ZMPOP 2 k k MIN"),
    (Exactly, "ZMPOP 2 k k MAX COUNT c"),
    (Exactly, "ZMPOP c k k MAX"),
    (Exactly, "SETBIT k a 1"),
    (Exactly, "SETBIT k a i"),
    (Exactly, "GETBIT k a"),
    (Exactly, "BITCOUNT k"),
    (Exactly, "BITCOUNT k n n"),
    (Exactly, "BITCOUNT k n n u"),
    (Exactly, "BITPOS k 1"),
    (Exactly, "BITPOS k 0 n"),
    (Exactly, "BITPOS k 1 n n"),
    (Exactly, "BITPOS k 0 n n u"),
    (Exactly, "BITPOS k i n n u"),
    (Exactly, "BITOP AND k k k"),
    (Exactly, "BITOP OR k k k"),
    (Exactly, "BITOP XOR k k k k"),
    (Exactly, "BITOP NOT k k"),
    (Exactly, "BITOP v k k"),
    (Exactly, "BITFIELD k GET t a SET t a i"),
    (
        Exactly,
        "BITFIELD k INCRBY t a i OVERFLOW FAIL INCRBY t a i GET t a",
    ),
    (Exactly, "BITFIELD k OVERFLOW SAT INCRBY t a i INCRBY t a i"),
    (Exactly, "BITFIELD k GET t a GET t a"),
    (Exactly, "BITFIELD k OVERFLOW v GET t a"),
    (Exactly, "DEL k"),
    (Exactly, "DEL k k"),
    (Exactly, "UNLINK k"),
    (Exactly, "EXISTS k k"),
    (Exactly, "TOUCH k k"),
    (Exactly, "TYPE k"),
    (Exactly, "EXPIRE k x"),
    (Exactly, "EXPIRE k x NX"),
    (Exactly, "EXPIRE k x XX"),
    (Exactly, "PEXPIREAT k 4102444900000 GT"),
    (Exactly, "EXPIRE k x LT"),
    (Exactly, "EXPIRE k x GT LT"),
    (Exactly, "EXPIRE k x v"),
    (Exactly, "EXPIRE k x option\r\n\r\n"),
    (Exactly, "EXPIRE k 12345678901"),
    (Exactly, "EXPIREAT k 4102444800"),
    (Exactly, "PEXPIREAT k 1"),
    (Exactly, "PEXPIREAT k 9223372036854775807"),
    (Near(2), "TTL k"),
    (Near(2000), "PTTL k"),
    (Near(2), "EXPIRETIME k"),
    (Near(2000), "PEXPIRETIME k"),
    (Exactly, "PERSIST k"),
    (Unordered, "KEYS p"),
    (Exactly, "RENAME k k"),
    (Exactly, "RENAMENX k k"),
    (Exactly, "COPY k k"),
    (Exactly, "COPY k k REPLACE"),
    (Exactly, "COPY k k DB b"),
    (Exactly, "COPY k k DB b REPLACE"),
    (Exactly, "MOVE k b"),
    (Exactly, "DBSIZE"),
    (Exactly, "SELECT b"),
    (Exactly, "SWAPDB b b"),
    (Near(i64::MAX), "OBJECT REFCOUNT k"),
    (Exactly, "SCAN 0 COUNT 0"),
    (Exactly, "SCAN word"),
    (Exactly, "HSCAN none -1"),
    (Exactly, "HSCAN none +0"),
    (Exactly, "HSCAN none -"),
    (Exactly, "HSCAN k word"),
    (Exactly, "ZSCAN k 0 COUNT 0"),
    (Exactly, "OBJECT v k"),
    (Exactly, "v k"),
    (Exactly, "ECHO v"),
    (Exactly, "PING v"),
    (Exactly, "PING"),
    (Exactly, "WAIT 0 0"),
    (Exactly, "COMMAND GETKEYS MSET k v k v"),
    (Exactly, "COMMAND GETKEYS v k"),
    (Exactly, "COMMAND GETKEYS ZUNIONSTORE k 2 k k"),
    (Exactly, "COMMAND GETKEYSANDFLAGS ZMPOP 2 k k MIN"),
    (Exactly, "COMMAND GETKEYSANDFLAGS BITOP AND k k k"),
    (
        Exactly,
        "COMMAND GETKEYSANDFLAGS BITFIELD k GET t a SET t a i",
    ),
    (Exactly, "COMMAND GETKEYSANDFLAGS SET k v GET"),
    (Exactly, "CLIENT GETNAME"),
    (Exactly, "CLIENT v"),
    (Exactly, "CLIENT LIST TYPE pubsub"),
    (Exactly, "LATENCY GRAPH command"),
    (Exactly, "slowlog get 1 2"),
    (Exactly, "CLIENT UNBLOCK i v"),
    (Exactly, "CONFIG SET maxmemory v V v"),
    (Shape, "HELLO 2 SETNAME me v"),
    (Exactly, "EXEC v"),
    (Unordered, "CONFIG GET MaxMemory zset-max-ziplist-entries"),
    (Exactly, "CONFIG SET v v"),
    (Exactly, "CONFIG SET maxmemory word"),
    (Exactly, "RESET"),
    (Shape, "HELLO 3"),
    (Shape, "HELLO 9"),
];

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

fn argument(random: &mut Random, letter: &str, keys: usize, names: usize) -> Vec<u8> {
    let text = match letter {
        "k" => format!("k{}", random.below(keys)),
        "e:k" => format!("e{}", random.below(2)),
        "f" => format!("f{}", random.below(names)),
        "m" => format!("m{}", random.below(names)),
        "v" => match random.below(12) {
            0 => String::new(),
            1 => "\r\nbinary\0".into(),
            2 => "x".repeat(random.below(200)),
            3 => random.below(100).to_string(),
            _ => format!("value{}", random.below(30)),
        },
        "i" => random
            .one_of(&[
                "0",
                "1",
                "-1",
                "7",
                "100",
                "-9223372036854775808",
                "9223372036854775807",
                "12345678901",
                "1.5",
                "x",
                "-0",
                "+1",
                " 1",
                "01",
            ])
            .into(),
        "d" => match random.below(4) {
            0 => random
                .one_of(&[
                    "0",
                    "1e5",
                    "1.5",
                    "-3.25",
                    "0.1",
                    "3.0e-3",
                    "inf",
                    "-inf",
                    "+inf",
                    "nan",
                    "x",
                    "1e400",
                    "1e-400",
                    " 1",
                    "0x1p3",
                    "1e17",
                    "123456789.125",
                    "1e300",
                    ".5",
                    "5.",
                    "-1e-7",
                ])
                .into(),
            1 => format!("{}.{}", random.below(1000), random.below(1000)),
            _ => (random.below(40) as i64 - 20).to_string(),
        },
        "s" => match random.below(5) {
            0 => random
                .one_of(&[
                    "-inf", "+inf", "(1e3", "(", "", "x", "nan", "(-inf", " ", " 2", "(\r\n",
                ])
                .into(),
            1 => format!("({}", random.below(40) as i64 - 20),
            _ => (random.below(40) as i64 - 20).to_string(),
        },
        "l" => match random.below(4) {
            0 => random.one_of(&["-", "+", "[", "(", "m", ""]).into(),
            1 => format!("(m{}", random.below(names)),
            _ => format!("[m{}", random.below(names)),
        },
        "n" => match random.below(10) {
            0 => random
                .one_of(&[
                    "x",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "600000000",
                    "1.0",
                ])
                .into(),
            _ => (random.below(30) as i64 - 12).to_string(),
        },
        "c" => random
            .one_of(&[
                "0",
                "1",
                "2",
                "5",
                "100",
                "-1",
                "-3",
                "x",
                "-9223372036854775808",
            ])
            .into(),
        "x" => random
            .one_of(&["1000", "2000", "500", "0", "-1", "x", "9223372036854775807"])
            .into(),
        "y" => random
            .one_of(&["900000", "1800000", "0", "-1", "x", "9223372036854775807"])
            .into(),
        "p" => random
            .one_of(&["*", "k*", "?1", "[ek][0-3]", "k[^1]", "\\k1", "nothing"])
            .into(),
        "o" => random.one_of(&["NX", "XX", "GT", "LT", "CH"]).into(),
        "b" => random
            .one_of(&["0", "0", "1", "2", "15", "16", "x", "3000000000"])
            .into(),
        "g" => random
            .one_of(&["1", "2", "0.5", "0.1", "inf", "x", "1e300"])
            .into(),
        "a" => match random.below(12) {
            0 => random
                .one_of(&["-1", "x", "", "4294967296", "9223372036854775807"])
                .into(),
            1 => format!("#{}", random.below(6)),
            _ => random.below(120).to_string(),
        },
        "t" => match random.below(12) {
            0 => random.one_of(&["i0", "i65", "u64", "x8", "", "i"]).into(),
            _ => format!("{}{}", random.one_of(&["i", "u"]), 1 + random.below(63)),
        },
        "u" => random.one_of(&["BIT", "byte", "x"]).into(),
        literal => literal.into(),
    };
    text.into_bytes()
}

struct Request {
    compare: Compare,
    words: Vec<Vec<u8>>,
}

fn request(random: &mut Random, keys: usize, names: usize) -> Request {
    let (compare, template) = REQUESTS[random.below(REQUESTS.len())];
    let mut words = Vec::new();
    for word in template.split(' ') {
        let (letters, most) = match word.split_once('*') {
            Some((letters, most)) => (
                letters
                    .split("")
                    .filter(|letter| !letter.is_empty())
                    .collect(),
                most.parse().unwrap(),
            ),
            None => (vec![word], 1),
        };
        for _ in 0..1 + random.below(most) {
            words.extend(
                letters
                    .iter()
                    .map(|letter| argument(random, letter, keys, names)),
            );
        }
    }
    match random.below(100) {
        0 if words.len() > 1 => _ = words.pop(),
        1 => words.push(b"more".to_vec()),
        2 => words[0].make_ascii_lowercase(),
        _ => {}
    }
    Request { compare, words }
}

fn sorted(reply: &Reply, pairs: bool) -> Option<Vec<Vec<Reply>>> {
    let (Reply::Array(elements) | Reply::Map(elements) | Reply::Set(elements)) = reply else {
        return None;
    };
    let mut elements: Vec<_> = elements
        .chunks(if pairs { 2 } else { 1 })
        .map(<[Reply]>::to_vec)
        .collect();
    elements.sort();
    Some(elements)
}

fn shape(reply: &Reply) -> Option<usize> {
    match reply {
        Reply::Array(elements) | Reply::Map(elements) => Some(elements.len()),
        _ => None,
    }
}

fn agree(compare: Compare, redis: &Reply, ours: &Reply) -> bool {
    if redis == ours {
        return true;
    }
    match (compare, redis, ours) {
        (Unordered, ..) => {
            sorted(redis, false).is_some() && sorted(redis, false) == sorted(ours, false)
        }
        (UnorderedPairs, ..) => {
            sorted(redis, true).is_some() && sorted(redis, true) == sorted(ours, true)
        }
        (Shape, Reply::Bulk(_), Reply::Bulk(_)) => true,
        (Shape, ..) => shape(redis).is_some() && shape(redis) == shape(ours),
        (Near(most), Reply::Integer(a), Reply::Integer(b)) => {
            *a >= 0 && *b >= 0 && (a - b).abs() <= most
        }
        _ => false,
    }
}

pub(crate) fn show(words: &[Vec<u8>]) -> String {
    words
        .iter()
        .map(|word| format!("{:?}", String::from_utf8_lossy(word)))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}

/// A whole scan of everything, in any order.
fn scan(client: &mut Client, command: &str, pairs: bool) -> Vec<Vec<Reply>> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_string());
    loop {
        match client.ask(&command.replace('@', &cursor)) {
            Reply::Array(parts) if parts.len() == 2 => {
                let Reply::Bulk(next) = &parts[0] else {
                    panic!("a scan replied {parts:?}")
                };
                cursor = String::from_utf8(next.clone()).unwrap();
                found.extend(sorted(&parts[1], pairs).unwrap());
            }
            Reply::Error(text) => return vec![vec![Reply::Error(text)]],
            other => panic!("a scan replied {other:?}"),
        }
        if cursor == "0" {
            found.sort();
            found.dedup();
            return found;
        }
    }
}

#[test]
fn random_requests_are_answered_as_redis_answers_them() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let seed = setting("TIERRA_KV_SEED", 1);
    let rounds = setting("TIERRA_KV_ROUNDS", 60);
    // All near, and on the move between both tiers all the time.
    let directory = tempfile::tempdir().unwrap();
    let moving = format!(
        "--memory-alloc-policy ratio --dram-pmem-ratio 1:1 --hz 500 --far-path {}",
        directory.path().display()
    );
    let tierras = ["", &moving].map(Tierra::start);
    let mut random = Random(seed);
    for round in 0..rounds {
        let (mut theirs, mut ours) = (redis.connect(), tierras[round as usize % 2].connect());
        let mut log = vec!["FLUSHALL".to_string()];
        assert_eq!(theirs.ask("FLUSHALL"), ours.ask("FLUSHALL"));
        let (keys, names) = (
            2 + random.below(8),
            4 + random.below(if round % 8 == 0 { 700 } else { 20 }),
        );
        let mut queueing = false;
        for _ in 0..60 {
            // A pipeline, sometimes with a transaction in it.
            let mut requests: Vec<Request> = (0..1 + random.below(40))
                .map(|_| request(&mut random, keys, names))
                .collect();
            if random.below(4) == 0 {
                let word =
                    random.one_of(&["MULTI", "EXEC", "DISCARD", "MULTI", "WATCH k1", "UNWATCH"]);
                let words = word
                    .split(' ')
                    .map(|word| word.as_bytes().to_vec())
                    .collect();
                requests.insert(
                    random.below(requests.len() + 1),
                    Request {
                        compare: Exactly,
                        words,
                    },
                );
            }
            // What is queued is compared as a whole, so only what is compared exactly may be.
            requests.retain(|request| {
                match &request.words[0][..] {
                    b"MULTI" => queueing = true,
                    b"EXEC" | b"DISCARD" | b"RESET" => queueing = false,
                    _ => {}
                }
                !queueing || request.compare == Exactly
            });
            let words: Vec<Vec<Vec<u8>>> = requests
                .iter()
                .map(|request| request.words.clone())
                .collect();
            theirs.send(&words);
            ours.send(&words);
            for request in &requests {
                log.push(show(&request.words));
                let (theirs, ours) = (theirs.receive(), ours.receive());
                assert!(
                    agree(request.compare, &theirs, &ours),
                    "seed {seed}, round {round}: {}\nRedis:  {theirs:?}\nTierra: {ours:?}\nafter:\n{}",
                    show(&request.words),
                    log.join("\n"),
                );
            }
        }
        // Everything that is there in the end, through cursors.
        for client in [&mut theirs, &mut ours] {
            client.ask("RESET");
        }
        for db in [0, 1, 2, 15] {
            let select = format!("SELECT {db}");
            assert_eq!(theirs.ask(&select), ours.ask(&select));
            assert_eq!(
                scan(&mut theirs, "SCAN @", false),
                scan(&mut ours, "SCAN @", false),
                "seed {seed}, round {round}"
            );
            for key in (0..keys)
                .map(|key| format!("k{key}"))
                .chain(["e0".into(), "e1".into()])
            {
                for command in ["HSCAN", "ZSCAN"] {
                    let command = format!("{command} {key} @ COUNT 7");
                    let (theirs, ours) = (
                        scan(&mut theirs, &command, true),
                        scan(&mut ours, &command, true),
                    );
                    assert_eq!(
                        theirs,
                        ours,
                        "seed {seed}, round {round}: {command}\n{}",
                        log.join("\n")
                    );
                }
            }
        }
    }
}

/// The value of a name in a map of either protocol.
fn field<'r>(map: &'r Reply, name: &str) -> Option<&'r Reply> {
    let (Reply::Array(elements) | Reply::Map(elements)) = map else {
        return None;
    };
    let mut pairs = elements.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == Reply::Bulk(name.into()))
        .map(|pair| &pair[1])
}

#[test]
fn arguments_are_called_what_redis_calls_them() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
        for client in [&mut theirs, &mut ours] {
            client.ask(hello);
        }
        let Reply::Array(names) = ours.ask("COMMAND LIST FILTERBY PATTERN *") else {
            panic!("names are a list")
        };
        assert!(names.len() > 150, "{}", names.len());
        let mut compared = 0;
        for name in names {
            let Reply::Bulk(name) = name else {
                panic!("a name is a string")
            };
            let name = String::from_utf8(name).unwrap();
            let docs =
                [&mut theirs, &mut ours].map(|client| client.ask(&format!("COMMAND DOCS {name}")));
            let [theirs, ours] = docs.each_ref().map(|docs| field(docs, &name));
            // What Redis does not know, or does not document, is compared with nothing.
            let Some(theirs) = theirs.filter(|_| name != "debug|sleep") else {
                continue;
            };
            compared += 1;
            let [theirs, ours] =
                [Some(theirs), ours].map(|docs| docs.and_then(|docs| field(docs, "arguments")));
            assert_eq!(ours, theirs, "{name}");
        }
        assert!(compared > 140, "{compared}");
    }
}

/// What depends on what came before it, and would be too rare among random requests.
#[test]
fn conversations_go_as_with_redis() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    for script in [
        "COMMAND INFO nothing|SHUTDOWN ABORT|MULTI|SHUTDOWN NOSAVE|EXEC",
        "EXEC now|MULTI|SET k v|EXEC now|EXEC|GET k",
        "MULTI|SET k v|CONFIG SET maxmemory 0|EXEC|CONFIG SET maxmemory 1|SET k v|MULTI|GET k|DISCARD|MULTI|EXEC|\
            MULTI|GET k|UNWATCH|EXEC|GET k|CONFIG SET maxmemory 0",
        "SET k v|MULTI|SET k w|CONFIG SET maxmemory 1|EXEC|MULTI|EXEC|EXEC|CONFIG SET maxmemory 0|GET k",
        "WATCH k|MULTI|EXEC now|SET k w|MULTI|GET k|EXEC",
        "HELLO 3 SETNAME me NOTHING|CLIENT GETNAME|HELLO 3 SETNAME you|CLIENT GETNAME|CLIENT LIST TYPE pubsub|HELLO 2|\
            CLIENT LIST TYPE pubsub",
        "CONFIG SET requirepass secret|RESET|PING|HELLO 3|HELLO 3 AUTH default wrong|AUTH wrong|AUTH a b c|EXEC|EXEC now|MULTI|\
            CONFIG GET hz|AUTH default secret|PING|RESET|GET k|AUTH secret|CONFIG SET requirepass |AUTH secret|AUTH default x",
        "CONFIG GET MaxMemory|CONFIG SET zset-max-ziplist-entries 100|CONFIG GET zset-max-listpack-entries|\
            CONFIG SET zset-max-listpack-entries 128|CONFIG SET hz 1000|CONFIG GET hz|CONFIG SET hz 0|CONFIG GET hz",
        "CONFIG GET maxmemory-policy|CONFIG SET maxmemory-policy lru|CONFIG SET maxmemory-policy ALLKEYS-LRU|\
            CONFIG GET maxmemory-policy|CONFIG SET maxmemory-samples 0|CONFIG SET maxmemory-samples x|\
            CONFIG SET maxmemory-samples 65|CONFIG GET maxmemory-samples|CONFIG SET maxmemory-samples 5|SET k v|\
            OBJECT FREQ k|OBJECT FREQ none|CONFIG SET maxmemory-policy volatile-lfu|OBJECT IDLETIME k|OBJECT IDLETIME none|\
            CONFIG SET maxmemory-policy noeviction|DEL k",
        "SET k v|SET e v EX 100|SELECT 3|SET f v EX 100|CONFIG SET maxmemory-policy volatile-ttl|CONFIG SET maxmemory 1|GET f|\
            SELECT 0|GET e|GET k|SET a b|DBSIZE|CONFIG SET maxmemory-policy allkeys-lru|SET a b|GET k|DBSIZE|\
            CONFIG SET maxmemory 0|SET k v|WATCH k|CONFIG SET maxmemory 1|PING|CONFIG SET maxmemory 0|MULTI|GET k|EXEC|\
            SET k v|WATCH k|CONFIG SET maxmemory 1|PING|CONFIG SET maxmemory 0|SET k w|MULTI|GET k|EXEC|\
            SET k v|WATCH k|MULTI|GET k|EXEC|MULTI|GET k|CONFIG SET maxmemory 1|GET k|EXEC|GET k|MULTI|GET k|EXEC|\
            CONFIG SET maxmemory 0|CONFIG SET maxmemory-policy allkeys-random|SET k v|MULTI|GET k|CONFIG SET maxmemory 1|EXEC|\
            CONFIG SET maxmemory 0|CONFIG SET maxmemory-policy noeviction|SET k v|CONFIG SET maxmemory 1|SET k w|GET k|\
            CONFIG SET maxmemory 0|FLUSHALL",
    ] {
        let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
        for request in script.split('|').map(str::trim_start) {
            // Which number a client has depends on how many came before it.
            let compare = if request.starts_with("HELLO") {
                Shape
            } else {
                Exactly
            };
            let (theirs, ours) = (theirs.ask(request), ours.ask(request));
            assert!(
                agree(compare, &theirs, &ours),
                "{request} of {script}\nRedis:  {theirs:?}\nTierra: {ours:?}"
            );
        }
    }
}

#[test]
fn monitors_are_told_what_redis_tells_them() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    const SCRIPT: &str = "SET k v|GET k|GET|NOTHING|INCR k|SELECT 3|MULTI|INCR n|GET n|EXEC|MULTI|DISCARD|DISCARD|WATCH a b|\
        UNWATCH|CONFIG GET maxmemory|CLIENT SETNAME me|CLIENT ID|CLIENT LIST|INFO server|COMMAND COUNT|AUTH secret|\
        AUTH default secret|HELLO 2 AUTH default secret SETNAME x|HELLO 2 SETNAME auth|HELLO 2|PING|ECHO x|DBSIZE|OBJECT REFCOUNT k|\
        MEMORY USAGE k|SLOWLOG LEN|LATENCY LATEST|TIME|ROLE|WAIT 0 0|SWAPDB 0 3|EXPIRE k 100|SCAN 0|FLUSHALL|RESET|ECHO end";
    let told = |mut monitor: Client, mut client: Client| {
        assert_eq!(monitor.ask("MONITOR"), Reply::Simple("OK".into()));
        let mut requests: Vec<Vec<Vec<u8>>> = vec![vec![b"ECHO".to_vec(), (0..=255).collect()]];
        let words = |request: &str| {
            request
                .split_whitespace()
                .map(|word| word.as_bytes().to_vec())
                .collect()
        };
        requests.extend(SCRIPT.split('|').map(words));
        client.send(&requests);
        let mut told = Vec::new();
        loop {
            let Reply::Simple(line) = monitor.receive() else {
                panic!("a line is told")
            };
            // When, in which database, by whom, what.
            let (head, what) = line.split_once("] ").unwrap();
            let (_, place) = head.split_once(" [").unwrap();
            let (db, from) = place.split_once(' ').unwrap();
            assert!(from.starts_with("unix:"), "{line}");
            told.push(format!("{db} {what}"));
            if what.ends_with("\"end\"") {
                // What the monitor does itself it is told as well, after its reply.
                assert_eq!(monitor.ask("PING"), Reply::Simple("PONG".into()));
                assert!(
                    matches!(monitor.receive(), Reply::Simple(line) if line.ends_with("\"PING\""))
                );
                return told;
            }
        }
    };
    let theirs = told(redis.connect(), redis.connect());
    let ours = told(tierra.connect(), tierra.connect());
    assert_eq!(ours, theirs);
}

/// The comparison itself must be able to fail.
#[test]
fn differences_are_seen() {
    let bulk = |text: &str| Reply::Bulk(text.into());
    let array = |texts: &[&str]| Reply::Array(texts.iter().map(|text| bulk(text)).collect());
    assert!(!agree(Exactly, &bulk("a"), &bulk("b")));
    assert!(!agree(Exactly, &array(&["a", "b"]), &array(&["b", "a"])));
    assert!(agree(Unordered, &array(&["a", "b"]), &array(&["b", "a"])));
    assert!(!agree(Unordered, &array(&["a", "b"]), &array(&["b", "b"])));
    assert!(agree(
        UnorderedPairs,
        &array(&["a", "1", "b", "2"]),
        &array(&["b", "2", "a", "1"])
    ));
    assert!(!agree(
        UnorderedPairs,
        &array(&["a", "1", "b", "2"]),
        &array(&["b", "1", "a", "2"])
    ));
    assert!(!agree(Shape, &array(&["a"]), &array(&["a", "b"])));
    assert!(!agree(Near(2), &Reply::Integer(-2), &Reply::Integer(-1)));
    assert!(!agree(Near(2), &Reply::Integer(10), &Reply::Integer(13)));
}
