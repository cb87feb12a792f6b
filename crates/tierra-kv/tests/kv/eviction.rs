//! A cache: with each `maxmemory-policy` new keys are taken, others go for them, and no more is stored than `maxmemory` allows.

use crate::support::{Client, Reply, Tierra, ok, until};

fn full() -> Reply {
    Reply::Error("OOM command not allowed when used memory > 'maxmemory'.".into())
}

/// Sends commands at once; their replies.
fn ask_all(client: &mut Client, commands: impl Iterator<Item = String>) -> Vec<Reply> {
    let commands: Vec<String> = commands.collect();
    client.send_bytes(commands.concat().as_bytes());
    commands.iter().map(|_| client.receive()).collect()
}

/// A number of INFO.
fn number(client: &mut Client, name: &str) -> u64 {
    let Reply::Bulk(info) = client.ask("INFO everything") else {
        panic!("INFO is text")
    };
    let info = String::from_utf8(info).unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}"))
        .parse()
        .unwrap()
}

#[test]
fn new_keys_are_taken_and_others_go() {
    const MAX: u64 = 1 << 20;
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let server = Tierra::start(&format!("--maxmemory 1mb --maxmemory-policy {policy}"));
        let mut client = server.connect();
        // A hash now and then, some of which are not small; of several sizes in two databases.
        let command = |at: usize| match at % 50 {
            0 => format!("SELECT {}\r\n", at / 50 % 2),
            1 => {
                let fields: String = (0..at % 300).map(|at| format!(" f{at} v")).collect();
                format!("HSET h{at}{fields} f v\r\n")
            }
            2 => format!("EXPIRE h{} 1000\r\n", at - 1),
            _ => format!(
                "SET k{at} {} EX {}\r\n",
                "v".repeat(at * 7 % 900),
                1000 + at % 77
            ),
        };
        for first in (0..12_000).step_by(1000) {
            let replies = ask_all(&mut client, (first..first + 1000).map(command));
            for (at, reply) in (first..).zip(replies) {
                let is_fine = reply == ok() || matches!(reply, Reply::Integer(_));
                assert!(is_fine, "{policy}: {reply:?} to {}", command(at));
            }
            let stored = number(&mut client, "used_memory_dataset");
            let stored = stored + number(&mut client, "used_memory_overhead");
            assert!(stored <= MAX, "{policy}: {stored}");
        }
        let evicted = number(&mut client, "evicted_keys");
        assert!(evicted > 8000, "{policy}: {evicted}");
        // All that is counted goes with the keys.
        client.ask("CONFIG SET maxmemory 1");
        for db in 0..2 {
            client.ask(&format!("SELECT {db}"));
            until("all are evicted", || {
                client.ask("DBSIZE") == Reply::Integer(0)
            });
        }
        until("nothing is counted", || {
            number(&mut client, "used_memory_dataset") == 0
        });
        assert_eq!(client.ask("SET k v EX 1000"), full(), "{policy}");
        assert_eq!(client.ask("CONFIG SET maxmemory 0"), ok());
        assert_eq!(client.ask("SET k v EX 1000"), ok(), "{policy}");
    }
}

#[test]
fn keys_that_do_not_expire_stay_and_fill_memory() {
    for policy in [
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let server = Tierra::start(&format!("--maxmemory 600kb --maxmemory-policy {policy}"));
        let mut client = server.connect();
        let value = "v".repeat(100);
        let expiring = (0..2000).map(|at| format!("SET e{at} {value} PX 1000000\r\n"));
        let replies = ask_all(&mut client, expiring);
        assert!(replies.iter().all(|reply| *reply == ok()), "{policy}");
        let stays = (0..20_000).map(|at| format!("SET s{at} {value}\r\n"));
        let replies = ask_all(&mut client, stays);
        let stored = replies.iter().position(|reply| *reply != ok()).unwrap();
        assert!(replies[stored..].iter().all(|reply| *reply == full()));
        assert!(stored > 2000, "{policy}: {stored}");
        // Those that expire had to go first, all of them.
        assert_eq!(client.ask("DBSIZE"), Reply::Integer(stored as i64));
        assert_eq!(number(&mut client, "evicted_keys"), 2000, "{policy}");
        let there = ask_all(
            &mut client,
            (0..stored).map(|at| format!("EXISTS s{at}\r\n")),
        );
        assert!(there.iter().all(|reply| *reply == Reply::Integer(1)));
    }
}

#[test]
fn uses_are_told_where_they_are_counted_for_long() {
    let server = Tierra::start("--memory-alloc-policy only-dram --maxmemory-policy allkeys-lfu");
    let mut client = server.connect();
    for key in ["seldom", "often"] {
        client.ask(&format!("SET {key} v"));
    }
    for _ in 0..30 {
        client.ask("GET often");
    }
    let mut uses = |key: &str| match client.ask(&format!("OBJECT FREQ {key}")) {
        Reply::Integer(uses) => uses,
        other => panic!("{other:?}"),
    };
    let (seldom, often) = (uses("seldom"), uses("often"));
    assert!(often > seldom + 5, "{often} {seldom}");
}
