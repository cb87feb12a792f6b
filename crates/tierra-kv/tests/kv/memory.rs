//! Where records and tables go, and what happens where there is no room for them.

use crate::support::{Reply, Tierra, bulk, error, ok, text};

#[test]
fn above_maxmemory_nothing_is_added() {
    let server = Tierra::start("--maxmemory 1b");
    let mut client = server.connect();
    client.ask("CONFIG SET maxmemory 0");
    assert_eq!(client.ask("SET k v"), ok());
    assert_eq!(client.ask("CONFIG SET maxmemory 1"), ok());
    let full = error("OOM command not allowed when used memory > 'maxmemory'.");
    for request in [
        "SET l v",
        "HSET h f v",
        "ZADD z 1 m",
        "APPEND k v",
        "INCR n",
        "COPY k l",
    ] {
        assert_eq!(client.ask(request), full, "{request}");
    }
    assert_eq!(client.ask("GET k"), bulk("v"));
    assert_eq!(client.ask("DEL k"), Reply::Integer(1));
}

#[test]
fn what_is_deleted_makes_room_at_once() {
    let server = Tierra::start("--maxmemory 4mb");
    let mut client = server.connect();
    // Of several sizes, so that what is deleted empties no page.
    let set = |at: usize| format!("SET k{at} {}\r\n", "v".repeat([10, 100, 300, 1000][at % 4]));
    let mut fill = |first: usize| {
        let requests: String = (first..first + 500).map(set).collect();
        client.send_bytes(requests.as_bytes());
        let replies: Vec<Reply> = (0..500).map(|_| client.receive()).collect();
        replies.iter().filter(|reply| **reply == ok()).count()
    };
    let mut stored = 0;
    while fill(stored) == 500 {
        stored += 500;
    }
    assert!(stored > 5000, "{stored}");
    assert_eq!(fill(stored + 500), 0);
    let deleted: String = (0..stored)
        .filter(|at| at % 5 == 0)
        .map(|at| format!(" k{at}"))
        .collect();
    let mut other = server.connect();
    let expected = stored.div_ceil(5) as i64;
    assert_eq!(
        other.ask(&format!("DEL{deleted}")),
        Reply::Integer(expected)
    );
    assert_eq!(fill(stored + 1000), 500);
}

#[test]
fn far_memory_may_be_a_file_that_has_no_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let server = Tierra::start(&format!(
        "--far-path {path} --far-memory 3mb --near-memory 1mb --memory-alloc-policy only-pmem"
    ));
    let mut client = server.connect();
    let value = "v".repeat(1000);
    // Three times what the file may hold: the rest goes near, then there is no room.
    let replies: Vec<Reply> = (0..9000)
        .map(|at| client.ask(&format!("SET k{at} {value}")))
        .collect();
    let kept = replies.iter().take_while(|reply| **reply == ok()).count();
    assert!((3500..4200).contains(&kept), "{kept}");
    assert!(
        matches!(&replies[kept], Reply::Error(text) if text.starts_with("OOM ")),
        "{:?}",
        replies[kept]
    );
    assert_eq!(client.ask("OBJECT TIER k7"), bulk("far"));
    assert_eq!(
        client.ask(&format!("OBJECT TIER k{}", kept - 1)),
        bulk("near")
    );
    for at in (0..kept).step_by(97) {
        assert_eq!(client.ask(&format!("GET k{at}")), bulk(&value));
    }
    let info = text(client.ask("INFO tiers"));
    assert!(
        info.contains(&format!("far_source:a file in {path}")),
        "{info}"
    );
    assert_eq!(
        client.ask("CONFIG GET far-path"),
        Reply::Array(vec![bulk("far-path"), bulk(&path.to_string())])
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_cannot_be_far_memory_is_named() {
    for path in ["/nowhere/at/all", "/dev/null"] {
        let mut config = tierra_kv::Config {
            port: 0,
            ..Default::default()
        };
        let folder = tempfile::tempdir().unwrap();
        config.unixsocket = Some(folder.path().join("tierra.sock"));
        config
            .add_arguments(["--far-path".into(), path.into()])
            .unwrap();
        let error = tierra_kv::Server::bind(config).err().unwrap().to_string();
        assert!(
            error.contains(path) && error.contains("far memory"),
            "{error}"
        );
    }
}

#[test]
fn hash_tables_may_be_in_far_memory() {
    for (setting, is_far) in [("yes", false), ("no", true)] {
        let server = Tierra::start(&format!("--hashtable-on-dram {setting}"));
        let mut client = server.connect();
        let requests: Vec<Vec<Vec<u8>>> = (0..20_000)
            .map(|at| {
                ["SET", &format!("k{at}"), "v"]
                    .map(|word| word.as_bytes().to_vec())
                    .to_vec()
            })
            .collect();
        for part in requests.chunks(1000) {
            client.send(part);
            (0..part.len()).for_each(|_| assert_eq!(client.receive(), ok()));
        }
        let info = text(client.ask("INFO tiers"));
        assert_eq!(!info.contains("far_table_bytes:0\r\n"), is_far, "{info}");
        assert_eq!(
            client.ask("MGET k0 k19999 k20000"),
            Reply::Array(vec![bulk("v"), bulk("v"), Reply::Null])
        );
        assert_eq!(client.ask("DBSIZE"), Reply::Integer(20_000));
        assert_eq!(client.ask("FLUSHALL"), ok());
        assert!(text(client.ask("INFO tiers")).contains("far_table_bytes:0\r\n"));
        assert_eq!(
            client.ask("CONFIG GET hashtable-on-dram"),
            Reply::Array(vec![bulk("hashtable-on-dram"), bulk(setting)])
        );
        assert!(matches!(
            client.ask("CONFIG SET hashtable-on-dram yes"),
            Reply::Error(_)
        ));
    }
}

/// A server of four megabytes in all, and a client that has filled it.
fn full() -> (Tierra, crate::support::Client) {
    let server = Tierra::start("--near-memory 4mb --far-memory 0");
    let mut client = server.connect();
    client.ask("MSET k old x 1");
    let value = "v".repeat(1000);
    let is_stored = |at: &usize| client.ask(&format!("SET k{at} {value}")) == ok();
    let stored = (0..10_000).take_while(is_stored).count();
    assert!((1000..8000).contains(&stored), "{stored}");
    (server, client)
}

#[test]
fn a_request_that_finds_no_memory_has_one_reply() {
    let (_server, mut client) = full();
    let long = "v".repeat(100_000);
    for request in [
        format!("SET k {long} GET"),
        format!("GETSET k {long}"),
        format!("SET k {long}"),
    ] {
        // A line would be too long.
        let words = |request: &str| request.split(' ').map(|word| word.into()).collect();
        client.send(&[words(&request), words("PING")]);
        assert!(matches!(client.receive(), Reply::Error(_)));
        assert_eq!(client.receive(), Reply::Simple("PONG".into()));
    }
    assert_eq!(client.ask("GET k"), bulk("old"));
}

#[test]
fn what_was_done_in_part_is_seen_by_who_watches() {
    let (server, mut client) = full();
    // Room for some.
    client.ask("DEL k0 k1 k2 k3 k4 k5 k6 k7 k8 k9");
    let mut watcher = server.connect();
    let many = |name: &str, value: &str| -> String {
        (0..3000)
            .map(|at| format!(" {value}{name}{at} {value}{name}{at}"))
            .collect()
    };
    let fields = many("field", &"f".repeat(50));
    let members: String = (0..3000)
        .map(|at| format!(" {at} {}{at}", "m".repeat(50)))
        .collect();
    for (request, count) in [
        (format!("HSET h{fields}"), "HLEN h"),
        (format!("ZADD z{members}"), "ZCARD z"),
    ] {
        let key = count.split(' ').nth(1).unwrap();
        assert_eq!(watcher.ask(&format!("WATCH {key}")), ok());
        assert!(matches!(client.ask(&request), Reply::Error(_)));
        assert_eq!(watcher.ask("MULTI"), ok());
        watcher.ask(count);
        let is_changed = watcher.ask("EXEC") == Reply::Null;
        let is_there = client.ask(count) != Reply::Integer(0);
        assert!(is_changed && is_there, "{count}: {is_changed} {is_there}");
        client.ask(&format!("DEL {key}"));
    }
    let pairs = many("key", &"k".repeat(50));
    let keys = client.ask("DBSIZE");
    assert!(matches!(
        client.ask(&format!("MSETNX{pairs}")),
        Reply::Error(_)
    ));
    assert_eq!(client.ask("DBSIZE"), keys, "all or none");
}

/// A client that inspects keys (redis-cli --hotkeys, --bigkeys, exporters) does not make them hot.
#[test]
fn asking_about_a_key_is_no_use_of_it() {
    let server = Tierra::start("--maxmemory-policy allkeys-lfu --near-memory 1mb");
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for at in 0..2000 {
        client.ask(&format!("SET k{at} {value}"));
    }
    let is_far = |client: &mut crate::support::Client, at: &usize| {
        client.ask(&format!("OBJECT TIER k{at}")) == bulk("far")
    };
    let far: Vec<usize> = (0..2000)
        .filter(|at| is_far(&mut client, at))
        .take(20)
        .collect();
    assert_eq!(far.len(), 20);
    for at in &far {
        let freq = client.ask(&format!("OBJECT FREQ k{at}"));
        for ask in [
            "OBJECT TIER",
            "OBJECT FREQ",
            "OBJECT ENCODING",
            "TYPE",
            "TTL",
            "EXISTS",
            "MEMORY USAGE",
        ] {
            for _ in 0..100 {
                client.ask(&format!("{ask} k{at}"));
            }
        }
        assert_eq!(client.ask(&format!("OBJECT FREQ k{at}")), freq);
        assert!(is_far(&mut client, at));
    }
}

#[test]
fn expired_keys_are_counted_however_they_are_found() {
    let server = Tierra::start("--hz 1");
    let mut client = server.connect();
    for at in 0..20 {
        assert_eq!(client.ask(&format!("SET k{at} v PX 1")), ok());
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
    for at in 0..20 {
        assert_eq!(client.ask(&format!("GET k{at}")), Reply::Null);
    }
    let stats = text(client.ask("INFO stats"));
    assert!(stats.contains("expired_keys:20\r\n"), "{stats}");
    assert_eq!(client.ask("CONFIG RESETSTAT"), ok());
    assert!(text(client.ask("INFO stats")).contains("expired_keys:0\r\n"));
}
