//! What a Redis has can be moved here, as docs/kv.md says: it writes its commands to a file, and that is sent; or it is
//! copied key by key.

use std::process::Command;

use crate::support::{Client, Redis, Reply, Tierra, until};

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("expected text, got {other:?}"),
    }
}

fn fill(client: &mut Client) {
    for at in 0..300 {
        let db = at % 3;
        for request in [
            format!("SELECT {db}"),
            format!("SET string{at} value\r\n{at}"),
            format!("SET number{at} {at} EX {}", 1000 + at),
            format!("HSET hash{} f{at} v{at} g{at} \0", at % 7),
            format!("ZADD zset{} {}.1 m{at} -inf low 1e300 high", at % 7, at),
            format!("PEXPIREAT hash{} 4102444800{:03}", at % 5, at),
            format!("SETBIT bits{} {at} 1", at % 11),
        ] {
            assert!(
                !matches!(client.ask(&request), Reply::Error(_)),
                "{request}"
            );
        }
    }
}

/// Everything that a database has, key by key.
fn contents(client: &mut Client) -> Vec<(Reply, Vec<Reply>)> {
    let Reply::Array(mut keys) = client.ask("KEYS *") else {
        panic!("keys are a list")
    };
    keys.sort();
    let mut told = Vec::new();
    for key in keys {
        let name = text(key.clone());
        let read = match client.ask(&format!("TYPE {name}")) {
            Reply::Simple(kind) if kind == "string" => format!("GET {name}"),
            Reply::Simple(kind) if kind == "hash" => {
                format!("HMGET {name} f0 g0 f1 g1 f2 f3 f6 f7 f8 f299 g299")
            }
            _ => format!("ZRANGE {name} 0 -1 WITHSCORES"),
        };
        let requests = [read, format!("PEXPIRETIME {name}"), format!("HLEN {name}")];
        told.push((key, requests.map(|request| client.ask(&request)).into()));
    }
    told
}

#[test]
fn what_redis_writes_is_understood() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is moved");
        return;
    };
    let tierra = Tierra::start("");
    let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
    fill(&mut theirs);
    for (setting, value) in [("aof-use-rdb-preamble", "no"), ("appendonly", "yes")] {
        theirs.ask(&format!("CONFIG SET {setting} {value}"));
    }
    let is_written = |client: &mut Client| {
        let info = text(client.ask("INFO persistence"));
        let waits = |what: &str| info.contains(&format!("aof_rewrite_{what}:1"));
        !waits("in_progress") && !waits("scheduled")
    };
    until("Redis has written it", || is_written(&mut theirs));
    // What changes while the file is written is in a second one.
    theirs.ask("SELECT 1");
    theirs.ask("SET late v");
    let folder = redis.folder.path().join("appendonlydir");
    for file in ["appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof"] {
        ours.send_bytes(&std::fs::read(folder.join(file)).unwrap());
    }
    ours.send_bytes(b"ECHO all\r\n");
    loop {
        match ours.receive() {
            Reply::Error(error) => panic!("{error}"),
            Reply::Bulk(bytes) if bytes == b"all" => break,
            _ => {}
        }
    }
    for db in 0..3 {
        for client in [&mut theirs, &mut ours] {
            client.ask(&format!("SELECT {db}"));
        }
        let there = contents(&mut theirs);
        assert!(there.len() > 100, "database {db} has {} keys", there.len());
        assert_eq!(contents(&mut ours), there, "database {db}");
    }
}

/// The lines of Python of docs/kv.md, with these sockets for the ports.
fn loop_of_the_document(there: &std::path::Path, here: &std::path::Path) -> String {
    let document = std::fs::read_to_string("../../docs/kv.md").unwrap();
    let (_, rest) = document.split_once("```python\n").unwrap();
    let (lines, _) = rest.split_once("```").unwrap();
    let socket = |path: &std::path::Path| format!("unix_socket_path={path:?}");
    let lines = lines.replace("port=6379", &socket(there));
    lines.replace("port=7001", &socket(here))
}

#[test]
fn a_loop_copies_what_redis_has() {
    let python = std::env::var("TIERRA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = Command::new(&python).args(["-c", "import redis"]).output();
    let Some(redis) =
        Redis::start().filter(|_| imports.is_ok_and(|output| output.status.success()))
    else {
        println!(
            "redis-server 7.0 is not on the path, or {python} has no redis-py: nothing is copied"
        );
        return;
    };
    let tierra = Tierra::start("");
    let (mut theirs, mut ours) = (redis.connect(), tierra.connect());
    fill(&mut theirs);
    theirs.ask("SELECT 0");
    theirs.ask("RPUSH list a");
    let lines = loop_of_the_document(&redis.folder.path().join("redis.sock"), &tierra.path);
    let run = Command::new(&python).args(["-c", &lines]).output().unwrap();
    assert!(run.status.success(), "{}", text(Reply::Bulk(run.stderr)));
    theirs.ask("DEL list");
    let [there, here] = [&mut theirs, &mut ours].map(contents);
    assert!(
        there.len() > 100 && there.len() == here.len(),
        "{} keys",
        here.len()
    );
    for ((key, there), (_, here)) in there.iter().zip(&here) {
        // When it expires is told in relation to two clocks.
        let times = [&there[1], &here[1]].map(|time| match time {
            Reply::Integer(time) => *time,
            other => panic!("a time is a number: {other:?}"),
        });
        assert!((times[0] - times[1]).abs() < 60_000, "{key:?}: {times:?}");
        assert_eq!((&there[0], &there[2]), (&here[0], &here[2]), "{key:?}");
    }
}
