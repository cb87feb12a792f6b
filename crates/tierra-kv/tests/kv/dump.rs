//! What Redis 7.0 dumps is restored here, and what is dumped here is restored there, in every encoding that either has.
//!
//! `TIERRA_KV_SEED` and `TIERRA_KV_ROUNDS` are those of `differential.rs`; a failure prints the seed.

use tierra_kv::dump::seal;

use crate::compare::sorted;
use crate::random::{Random, setting, show};
use crate::support::{Client, Redis, Reply, Tierra, error, ok};

/// A reply to words of any bytes.
fn ask(client: &mut Client, words: &[&[u8]]) -> Reply {
    client.send(&[words.iter().map(|word| word.to_vec()).collect()]);
    client.receive()
}

/// Type, value and expiry of a key. The order of pairs says nothing; minus zero is zero.
fn contents(client: &mut Client, key: &str) -> (Reply, Vec<Vec<Reply>>, Reply) {
    let kind = client.ask(&format!("TYPE {key}"));
    let value = match &kind {
        Reply::Simple(kind) if kind == "hash" => client.ask(&format!("HGETALL {key}")),
        Reply::Simple(kind) if kind == "zset" => {
            client.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES"))
        }
        _ => Reply::Array(vec![client.ask(&format!("GET {key}"))]),
    };
    let is_zset = kind == Reply::Simple("zset".into());
    let mut value = sorted(&value, kind != Reply::Simple("string".into())).unwrap();
    for pair in value.iter_mut().filter(|_| is_zset) {
        if pair[1] == Reply::Bulk("-0".into()) {
            pair[1] = Reply::Bulk("0".into());
        }
    }
    (kind, value, client.ask(&format!("PEXPIRETIME {key}")))
}

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => Vec::new(),
        1 => (random.below(1 << 40) as i64 >> random.below(40))
            .to_string()
            .into(),
        2 => format!("-{}", random.below(1 << 40) >> random.below(40)).into(),
        // What LZF makes short, with repetitions near and far.
        3 => b"abcabcab".repeat(1 + random.below(300)),
        4 => vec![b'x'; random.below(70_000)],
        5 => (0..random.below(300))
            .map(|_| random.below(256) as u8)
            .collect(),
        _ => format!("some text {}", random.below(1000)).into(),
    }
}

fn score(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => random
            .one_of(&["inf", "-inf", "0", "1e300", "5e-324", "0.1", "-1e-7"])
            .into(),
        1 => format!("{}.{}", random.below(1000), random.below(1000)).into(),
        _ => (random.below(70_000) as i64 - 300).to_string().into(),
    }
}

/// Words that make a key a value of some kind and size.
fn make(random: &mut Random, key: &str) -> Vec<Vec<u8>> {
    let parts = random
        .one_of(&["1", "3", "20", "129", "700"])
        .parse()
        .unwrap();
    let mut words: Vec<Vec<u8>> = Vec::new();
    match random.below(3) {
        0 => words.extend([b"SET".to_vec(), key.into(), text(random)]),
        1 => {
            words.extend([b"HSET".to_vec(), key.into()]);
            for at in 0..parts {
                let value = match parts {
                    ..130 => text(random),
                    _ => format!("value {}", random.below(1000)).into(),
                };
                words.extend([format!("{at}{}", random.one_of(&["", "f"])).into(), value]);
            }
        }
        _ => {
            words.extend([b"ZADD".to_vec(), key.into()]);
            for at in 0..parts {
                words.extend([
                    score(random),
                    format!("{at}{}", random.one_of(&["", "m"])).into(),
                ]);
            }
        }
    }
    words
}

#[test]
fn payloads_go_both_ways() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    let seed = setting("TIERRA_KV_SEED", 1);
    let mut random = Random(seed);
    let mut clients = [redis.connect(), tierra.connect()];
    for round in 0..setting("TIERRA_KV_ROUNDS", 60) {
        let settings = [
            ("hash-max-listpack-entries", ["0", "128", "1000"]),
            ("hash-max-listpack-value", ["10", "64", "2000"]),
            ("zset-max-listpack-entries", ["0", "128", "1000"]),
            ("zset-max-listpack-value", ["1", "64", "64"]),
        ];
        for client in &mut clients {
            for (name, values) in settings {
                let set = format!("CONFIG SET {name} {}", random.one_of(&values));
                assert_eq!(client.ask(&set), ok());
            }
        }
        let compression = random.one_of(&["yes", "no"]);
        assert_eq!(
            clients[0].ask(&format!("CONFIG SET rdbcompression {compression}")),
            ok()
        );
        for key in 0..4 {
            let made = make(&mut random, &format!("k{key}"));
            let from = (round + key) as usize % 2;
            let made: Vec<&[u8]> = made.iter().map(|word| &word[..]).collect();
            ask(&mut clients[from], &[b"DEL", made[1]]);
            ask(&mut clients[from], &made);
            let Reply::Bulk(payload) = ask(&mut clients[from], &[b"DUMP", made[1]]) else {
                panic!("seed {seed}, round {round}: no payload of {:?}", made[0])
            };
            let ttl: &[u8] = if key == 0 { b"0" } else { b"4102444800123" };
            let restore = [b"RESTORE", made[1], ttl, &payload, b"REPLACE", b"ABSTTL"];
            for client in &mut clients {
                assert_eq!(ask(client, &restore), ok(), "seed {seed}, round {round}");
            }
            let key = format!("k{key}");
            let [theirs, ours] = clients.each_mut().map(|client| contents(client, &key));
            assert_eq!(theirs, ours, "seed {seed}, round {round}");
        }
    }
}

/// A string of a payload that is not compressed.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_be_bytes();
    [&[0x80], &length[..], bytes].concat()
}

/// What Redis wrote before 7.0, of texts and numbers.
fn ziplist(elements: &[&str]) -> Vec<u8> {
    let (mut entries, mut before, mut last) = (Vec::new(), 0, 0);
    for element in elements {
        last = entries.len();
        if before < 254 {
            entries.push(before as u8);
        } else {
            entries.push(254);
            entries.extend((before as u32).to_le_bytes());
        }
        match element.parse::<i64>() {
            Ok(number @ 0..=12) => entries.push(0xf1 + number as u8),
            Ok(number @ -128..128) => entries.extend([0xfe, number as u8]),
            Ok(number @ -32_768..32_768) => {
                entries.push(0xc0);
                entries.extend((number as i16).to_le_bytes());
            }
            Ok(number @ -0x80_0000..0x80_0000) => {
                entries.push(0xf0);
                entries.extend(&number.to_le_bytes()[..3]);
            }
            Ok(number @ -0x8000_0000..0x8000_0000) => {
                entries.push(0xd0);
                entries.extend(&number.to_le_bytes()[..4]);
            }
            Ok(number) => {
                entries.push(0xe0);
                entries.extend(number.to_le_bytes());
            }
            Err(_) => {
                match element.len() {
                    length @ ..64 => entries.push(length as u8),
                    length @ ..16_384 => entries.extend((0x4000 | length as u16).to_be_bytes()),
                    length => {
                        entries.push(0x80);
                        entries.extend((length as u32).to_be_bytes());
                    }
                }
                entries.extend(element.bytes());
            }
        }
        before = entries.len() - last;
    }
    let head = [11 + entries.len() as u32, 10 + last as u32].map(u32::to_le_bytes);
    let count = (elements.len() as u16).to_le_bytes();
    [&head.concat(), &count[..], &entries, &[0xff]].concat()
}

/// What Redis wrote before 2.6.
fn zipmap(pairs: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| match text.len() {
        length @ ..254 => vec![length as u8],
        length => [&[254], &(length as u32).to_le_bytes()[..]].concat(),
    };
    let mut packed = vec![pairs.len() as u8];
    for (at, (field, value)) in pairs.iter().enumerate() {
        packed.extend([&length(field), field.as_bytes(), &length(value)].concat());
        let unused = at % 3;
        packed.push(unused as u8);
        packed.extend(value.bytes());
        packed.extend(&[b'.'; 3][..unused]);
    }
    packed.push(0xff);
    packed
}

/// Types and values of payloads that Redis 7.0 reads and does not write, and of some that it writes.
fn values(redis: &mut Client) -> Vec<Vec<u8>> {
    let long = "long text ".repeat(40);
    let longer = "x".repeat(17_000);
    let texts = [
        "f",
        "12",
        "g",
        "-1",
        "100",
        "-30000",
        &long,
        "70000",
        "h",
        "8388608",
        "i",
        "-9223372036854775808",
    ];
    let fields = [("f", "v"), ("12", &*long), (&*long, ""), ("g", "1")];
    let scores = ["a", "1", "b", "-2.5", "c", "300", "d", "inf"];
    let old_set = b"\x05\x01a\x011\x01b\x04-2.5\x01c\xfe\x01d\xff\xc0\x05\x0312e";
    let mut all: Vec<Vec<u8>> = vec![
        [&[9], &string(&zipmap(&fields))[..]].concat(),
        [&[13], &string(&ziplist(&texts))[..]].concat(),
        [&[13], &string(&ziplist(&[&longer, "1", "0", &longer]))[..]].concat(),
        [&[12], &string(&ziplist(&scores))[..]].concat(),
        [&[3], &old_set[..old_set.len() - 1], b"."].concat(),
    ];
    for (command, entries) in [
        ("SET k 123456", "128"),
        ("SET k aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabcabcabc", "128"),
        ("HSET k f v g 12 h 70000", "128"),
        ("HSET k f v g 12 h 70000", "0"),
        ("ZADD k 1 a 2.5 b -300 c", "128"),
        ("ZADD k 1 a 2.5 b -300 c", "0"),
    ] {
        for kind in ["hash", "zset"] {
            redis.ask(&format!("CONFIG SET {kind}-max-listpack-entries {entries}"));
        }
        redis.ask("DEL k");
        redis.ask(command);
        match redis.ask("DUMP k") {
            Reply::Bulk(payload) => all.push(payload[..payload.len() - 10].to_vec()),
            other => panic!("{command}: {other:?}"),
        }
    }
    all
}

fn sealed(value: &[u8]) -> Vec<u8> {
    let mut payload = value.to_vec();
    seal(&mut payload);
    payload
}

fn restore(client: &mut Client, value: &[u8]) -> Reply {
    ask(
        client,
        &[b"RESTORE", b"k", b"0", &sealed(value), b"REPLACE"],
    )
}

/// Writes the seeds of the fuzz target `dump`, over those before.
#[test]
#[ignore = "writes the seeds anew, after a deliberate change of what is read"]
fn seeds_are_written() {
    let redis = Redis::start().expect("redis-server 7.0");
    let directory = "../../fuzz/seeds/dump";
    std::fs::create_dir_all(directory).unwrap();
    for (at, value) in values(&mut redis.connect()).iter().enumerate() {
        let name = format!("{directory}/{at:02}-type-{}", value[0]);
        std::fs::write(name, [&[0], &value[..]].concat()).unwrap();
    }
}

#[test]
fn values_mean_what_they_mean_to_redis() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
    let values = values(&mut theirs);
    for value in &values {
        for client in [&mut theirs, &mut ours] {
            assert_eq!(restore(client, value), ok(), "{value:?}");
        }
        assert_eq!(
            contents(&mut theirs, "k"),
            contents(&mut ours, "k"),
            "{value:?}"
        );
    }
    // Damaged, with a checksum that is right.
    assert_eq!(theirs.ask("CONFIG SET sanitize-dump-payload yes"), ok());
    let seed = setting("TIERRA_KV_SEED", 1);
    let mut random = Random(seed);
    let (mut restored, mut refused) = (0, 0);
    for round in 0..setting("TIERRA_KV_ROUNDS", 60) * 20 {
        let mut value = values[random.below(values.len())].clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(value.len());
            match random.below(6) {
                0 if value.len() > 1 => _ = value.remove(at),
                1 => value.insert(at, random.below(256) as u8),
                2 => value[at] ^= 1 << random.below(8),
                3 => value[at] = value[random.below(value.len())],
                4 => value[at] = value[at].wrapping_add(1),
                _ => value.truncate(at + 1),
            }
        }
        let place = || format!("seed {seed}, round {round}: {}", show(&[value.clone()]));
        let before = contents(&mut ours, "k");
        let replies = (restore(&mut theirs, &value), restore(&mut ours, &value));
        match replies {
            (theirs, Reply::Error(text)) if theirs != ok() => {
                assert!(
                    theirs == error(&text) || text.contains("which Tierra does not have"),
                    "{}",
                    place()
                );
                refused += 1;
            }
            (_, Reply::Error(_)) => {
                refused += 1;
                assert_eq!(contents(&mut ours, "k"), before, "{}", place());
                // Scores that are no numbers are zero to Redis, and so is a list a list.
                let is_set = [3, 12, 17].contains(&value[0]);
                let is_other = !matches!(value[0], 0 | 3..6 | 9 | 12 | 13 | 16 | 17);
                // Redis reads on into version and checksum.
                let beyond = restore(&mut ours, &sealed(&value)) == ok()
                    && contents(&mut theirs, "k") == contents(&mut ours, "k");
                assert!(is_set || is_other || beyond, "{}", place());
            }
            (theirs_said, ours_said) => {
                restored += 1;
                assert_eq!(theirs_said, ours_said, "{}", place());
                assert_eq!(
                    contents(&mut theirs, "k"),
                    contents(&mut ours, "k"),
                    "{}",
                    place()
                );
            }
        }
        if random.below(4) == 0 {
            for client in [&mut theirs, &mut ours] {
                assert_eq!(restore(client, &values[0]), ok());
            }
        }
    }
    assert!(
        restored > 100 && refused > 100,
        "{restored} restored, {refused} refused"
    );
}

#[test]
fn options_and_mistakes_are_those_of_redis() {
    let tierra = Tierra::start("--maxmemory-policy allkeys-lfu");
    let redis = Redis::start();
    let mut clients = vec![tierra.connect()];
    clients.extend(redis.as_ref().map(Redis::connect));
    let value = sealed(b"\x00\x01v");
    let list = sealed(b"\x01\x01\x01a");
    let payload: &[u8] = &value;
    let replies = |words: &[&[u8]], clients: &mut Vec<Client>| {
        let replies: Vec<Reply> = clients
            .iter_mut()
            .map(|client| ask(client, words))
            .collect();
        assert!(
            replies.windows(2).all(|two| two[0] == two[1]),
            "{words:?}: {replies:?}"
        );
        replies[0].clone()
    };
    for (words, expected) in [
        (&[b"DUMP", &b"none"[..]][..], Reply::Null),
        (&[b"RESTORE", b"k", b"0", payload], ok()),
        (
            &[b"RESTORE", b"k", b"0", payload],
            error("BUSYKEY Target key name already exists."),
        ),
        // A key that is there comes before a time that is none, and that before a payload that is none.
        (
            &[b"RESTORE", b"k", b"x", b"x"],
            error("BUSYKEY Target key name already exists."),
        ),
        (
            &[b"RESTORE", b"k", b"x", b"x", b"REPLACE"],
            error("ERR value is not an integer or out of range"),
        ),
        (
            &[b"RESTORE", b"k", b"-1", b"x", b"REPLACE"],
            error("ERR Invalid TTL value, must be >= 0"),
        ),
        (
            &[b"RESTORE", b"k", b"0", b"x", b"REPLACE"],
            error("ERR DUMP payload version or checksum are wrong"),
        ),
        (
            &[b"RESTORE", b"k", b"0", payload, b"REPLACE", b"IDLETIME"],
            error("ERR syntax error"),
        ),
        (
            &[
                b"RESTORE",
                b"k",
                b"0",
                payload,
                b"FREQ",
                b"1",
                b"IDLETIME",
                b"1",
            ],
            error("ERR syntax error"),
        ),
        (
            &[
                b"RESTORE",
                b"k",
                b"0",
                payload,
                b"IDLETIME",
                b"1",
                b"FREQ",
                b"1",
            ],
            error("ERR syntax error"),
        ),
        (
            &[b"RESTORE", b"k", b"0", payload, b"IDLETIME", b"-1"],
            error("ERR Invalid IDLETIME value, must be >= 0"),
        ),
        (
            &[b"RESTORE", b"k", b"0", payload, b"FREQ", b"256"],
            error("ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ),
        (
            &[
                b"RESTORE",
                b"k",
                b"0",
                payload,
                b"replace",
                b"idletime",
                b"5",
                b"IDLETIME",
                b"9",
            ],
            ok(),
        ),
        (&[b"PTTL", b"k"], Reply::Integer(-1)),
        // What has expired is not there, and what was is not, either.
        (
            &[b"RESTORE", b"k", b"1", payload, b"ABSTTL", b"REPLACE"],
            ok(),
        ),
        (&[b"EXISTS", b"k"], Reply::Integer(0)),
        (&[b"RESTORE", b"k", b"1", payload, b"ABSTTL"], ok()),
        (&[b"DBSIZE"], Reply::Integer(0)),
        (&[b"RESTORE", b"k", b"9223372036854775807", payload], ok()),
        (&[b"EXISTS", b"k"], Reply::Integer(0)),
        (
            &[
                b"RESTORE",
                b"k",
                b"4102444800123",
                payload,
                b"ABSTTL",
                b"FREQ",
                b"100",
            ],
            ok(),
        ),
        (&[b"PEXPIRETIME", b"k"], Reply::Integer(4_102_444_800_123)),
        (&[b"MULTI"], ok()),
        (
            &[b"RESTORE", b"k", b"100000", payload, b"REPLACE"],
            Reply::Simple("QUEUED".into()),
        ),
        (&[b"DUMP", b"k"], Reply::Simple("QUEUED".into())),
        (
            &[b"EXEC"],
            Reply::Array(vec![ok(), Reply::Bulk(value.clone())]),
        ),
    ] {
        assert_eq!(replies(words, &mut clients), expected, "{words:?}");
    }
    // What is only here.
    let ours = &mut clients[0];
    ask(ours, &[b"RESTORE", b"used", b"0", payload, b"FREQ", b"100"]);
    assert_eq!(ours.ask("OBJECT FREQ used"), Reply::Integer(100));
    ask(
        ours,
        &[
            b"RESTORE", b"used", b"0", payload, b"FREQ", b"200", b"REPLACE",
        ],
    );
    assert_eq!(ours.ask("OBJECT FREQ used"), Reply::Integer(127));
    let refused = ask(ours, &[b"RESTORE", b"l", b"0", &list]);
    let why = "ERR DUMP payload is a list, which Tierra does not have: it keeps strings, hashes and sorted sets";
    assert_eq!(refused, error(why));
}
