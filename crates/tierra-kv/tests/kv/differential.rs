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

use crate::compare::Compare::Exactly;
use crate::compare::{agree, sorted};
use crate::random::{Random, setting, show, without_errors_before};
use crate::requests::{Request, request};
use crate::support::{Client, Redis, Reply, Tierra};

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
            let compare = Exactly;
            requests = without_errors_before(
                requests,
                |request| &request.words,
                |words| Request { compare, words },
            );
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
            // What Redis does not know, or does not document, is compared with nothing. SORT takes no STORE here, and tells
            // of no keys that its patterns make.
            let is_other = ["debug|sleep", "sort", "sort_ro"].contains(&&*name);
            let Some(theirs) = theirs.filter(|_| !is_other) else {
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
