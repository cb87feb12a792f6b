//! Redis 7.0 and Tierra say the same where it depends on what came before: in one connection, and to others.
//!
//! Such sequences would be too rare among the random requests of `differential.rs`. Needs `redis-server` 7.0 as that does.

use crate::compare::Compare::{Exactly, Shape};
use crate::compare::agree;
use crate::support::{Client, Redis, Reply, Tierra};

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
        "ZADD s 4 a 3 b 2 c 1 d|MSET w:a y w:b x w:c 10|SORT s ALPHA|SORT s BY w:* ALPHA|SORT s BY w:* ALPHA DESC LIMIT 1 2 GET # GET w:*|\
            HSET h:a f 3 g 1|HSET h:b f 20|HSET h:c f x|SORT s BY h:*->f|SORT s BY h:*->f ALPHA DESC|HSET h:c f -1|SORT s BY h:*->f GET h:*->g|\
            HELLO 3|SORT s BY h:*->f DESC GET h:*->g GET #|SORT s BY none LIMIT 1 -1|SORT h:a|SORT none STORE|LCS w:a s|LCS none w:a|\
            MSET x ohmytext y mynewtext|LCS x y|LCS x y IDX|LCS x y IDX MINMATCHLEN 4 WITHMATCHLEN|LCS x y LEN IDX|\
            CONFIG SET proto-max-bulk-len 1mb|LCS x y|SETRANGE x 600000 b|LCS x y|CONFIG SET proto-max-bulk-len 512mb|FLUSHALL|HELLO 2",
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
