//! What the server promises to clients that behave, and survives from those that do not.

use std::io::Write;

use crate::support::{Client, Reply, Tierra};

fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("expected text, got {other:?}"),
    }
}

/// The server still answers.
fn assert_alive(server: &Tierra) {
    assert_eq!(server.connect().ask("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn a_pipeline_sees_its_own_changes() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.send_bytes(b"SET k 1\r\nGET k\r\nDEL k\r\nGET k\r\nSET k 2\r\nRENAME k l\r\nGET k\r\nGET l\r\nFLUSHALL\r\nGET l\r\n");
    let expected = [
        ok(),
        bulk("1"),
        Reply::Integer(1),
        Reply::Null,
        ok(),
        ok(),
        Reply::Null,
        bulk("2"),
        ok(),
        Reply::Null,
    ];
    for reply in expected {
        assert_eq!(client.receive(), reply);
    }
}

#[test]
fn pipelines_of_any_length_are_answered_in_order() {
    let server = Tierra::start("");
    let (mut one, mut other) = (server.connect(), server.connect());
    let requests = |who: &str| {
        (0..1000)
            .map(|n| format!("SET {who}{n} {n}\r\nGET {who}{n}\r\nMGET {who}0 {who}{n}\r\n"))
            .collect::<String>()
    };
    one.send_bytes(requests("a").as_bytes());
    other.send_bytes(requests("b").as_bytes());
    for client in [&mut one, &mut other] {
        for n in 0..1000 {
            assert_eq!(client.receive(), ok());
            assert_eq!(client.receive(), bulk(&n.to_string()));
            assert_eq!(
                client.receive(),
                Reply::Array(vec![bulk("0"), bulk(&n.to_string())])
            );
        }
    }
}

#[test]
fn as_many_keys_as_one_likes_are_looked_up_at_once() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let (mut mset, mut mget) = ("MSET".to_string(), "MGET missing".to_string());
    for n in 0..1000 {
        mset += &format!(" k{n} {n}");
        mget += &format!(" k{n}");
    }
    assert_eq!(client.ask(&mset), ok());
    let expected = std::iter::once(Reply::Null).chain((0..1000).map(|n| bulk(&n.to_string())));
    assert_eq!(client.ask(&mget), Reply::Array(expected.collect()));
    assert_eq!(
        client.ask(&mget.replace("MGET", "DEL")),
        Reply::Integer(1000)
    );
}

#[test]
fn large_values_come_back_whole_and_in_pieces() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let value: Vec<u8> = (0..5_000_000u32)
        .map(|n| (n * 7 + n / 1000) as u8)
        .collect();
    client.send(&[vec![b"SET".to_vec(), b"large".to_vec(), value.clone()]]);
    assert_eq!(client.receive(), ok());
    assert_eq!(client.ask("GET large"), Reply::Bulk(value.clone()));
    assert_eq!(
        client.ask("GETRANGE large 4999999 -1"),
        Reply::Bulk(value[4_999_999..].to_vec())
    );
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = Tierra::start("");
    let mut client = server.connect();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nal\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.receive(), ok());
    assert_eq!(client.receive(), bulk("v\r\nal"));
}

#[test]
fn what_is_not_the_protocol_ends_the_connection_after_what_was() {
    let server = Tierra::start("");
    for (bytes, replies) in [
        (
            "PING\r\n*x\r\n",
            "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            "*1\r\n$-5\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            "*1\r\n!4\r\n",
            "-ERR Protocol error: expected '$', got '!'\r\n",
        ),
        (
            "*2\r\n$3\r\nGET\r\n$999999999999\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            "SET k \"v\r\n",
            "-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
        ("QUIT\r\nPING\r\n", "+OK\r\n"),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n", ""),
        (
            "GET / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n",
            "-ERR wrong number of arguments for 'get' command\r\n",
        ),
    ] {
        let mut client = server.connect();
        client.send_bytes(bytes.as_bytes());
        assert_eq!(
            String::from_utf8(client.rest()).unwrap(),
            replies,
            "{bytes:?}"
        );
    }
    // A byte that is no letter comes back as it is.
    let mut client = server.connect();
    client.send_bytes(b"*1\r\n\xff4\r\n");
    assert_eq!(
        client.rest(),
        b"-ERR Protocol error: expected '$', got '\xff'\r\n"
    );
    // Garbage, half of a request, an announced length of which nothing comes.
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"*3\r\n$3\r\nSET\r\n",
        b"*1\r\n$536870912\r\nx",
    ] {
        server.connect().send_bytes(bytes);
    }
    assert_alive(&server);
}

#[test]
fn a_client_that_sends_forever_is_disconnected() {
    let server = Tierra::start("--client-query-buffer-limit 1mb");
    let piece = vec![b'x'; 64 * 1024];
    let mut stream = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    stream.write_all(b"*1\r\n$400000000\r\n").unwrap();
    let sent = (0..6000)
        .take_while(|_| stream.write_all(&piece).is_ok())
        .count();
    assert!(sent < 6000, "a client sent {sent} pieces");
    let stats = text(server.connect().ask("INFO stats"));
    assert!(
        stats.contains("client_query_buffer_limit_disconnections:1"),
        "{stats}"
    );
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let server = Tierra::start("--client-output-buffer-limit normal 4mb 0 0");
    let mut client = server.connect();
    client.send(&[vec![b"SET".to_vec(), b"k".to_vec(), vec![b'x'; 1_000_000]]]);
    assert_eq!(client.receive(), ok());
    let mut slow = server.connect();
    slow.send_bytes("GET k\r\n".repeat(50).as_bytes());
    while !text(client.ask("INFO stats")).contains("client_output_buffer_limit_disconnections:1") {}
    // What fits the socket has arrived, then the connection ends.
    let received = slow.rest().len();
    assert!(received < 50 * 1_000_000, "{received} bytes");
    assert_eq!(client.ask("STRLEN k"), Reply::Integer(1_000_000));
}

#[test]
fn too_many_clients_are_refused() {
    let server = Tierra::start("--maxclients 2");
    let (mut one, mut two) = (server.connect(), server.connect());
    assert_eq!(one.ask("PING"), two.ask("PING"));
    assert_eq!(
        server.connect().rest(),
        b"-ERR max number of clients reached\r\n"
    );
    drop(two);
    // The place is free as soon as the server has seen the connection end.
    while text(one.ask("INFO clients")).contains("connected_clients:2") {}
    assert_alive(&server);
}

#[test]
fn without_the_password_nothing_is_answered() {
    let server = Tierra::start("--requirepass secret");
    let mut client = server.connect();
    assert_eq!(
        client.ask("GET k"),
        error("NOAUTH Authentication required.")
    );
    assert_eq!(
        client.ask("AUTH wrong"),
        error("WRONGPASS invalid username-password pair or user is disabled.")
    );
    assert_eq!(
        client.ask("AUTH other secret"),
        error("WRONGPASS invalid username-password pair or user is disabled.")
    );
    assert!(
        matches!(client.ask("HELLO 3"), Reply::Error(text) if text.starts_with("NOAUTH HELLO must be called"))
    );
    // A long request is refused before the password, and read after it in the same pipeline.
    let mset = format!("*{}\r\n$4\r\nMSET\r\n{}", 41, "$1\r\nk\r\n".repeat(40));
    client.send_bytes(format!("AUTH secret\r\n{mset}GET k\r\n").as_bytes());
    assert_eq!(
        [client.receive(), client.receive(), client.receive()],
        [ok(), ok(), bulk("k")]
    );
    let mut stranger = server.connect();
    stranger.send_bytes(mset.as_bytes());
    assert_eq!(
        stranger.rest(),
        b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    );
    assert!(matches!(
        server.connect().ask("HELLO 3 AUTH default secret"),
        Reply::Map(_)
    ));
}

#[test]
fn transactions_fail_when_what_they_watch_has_changed() {
    let server = Tierra::start("");
    let (mut one, mut other) = (server.connect(), server.connect());
    let change = |change: &str, one: &mut Client, other: &mut Client| {
        for request in ["SELECT 0", "FLUSHALL", "SET k 1", "WATCH k missing"] {
            assert_eq!(one.ask(request), ok(), "{request}");
        }
        other.ask(change);
        for (request, reply) in [("MULTI", "OK"), ("INCR n", "QUEUED"), ("INCR n", "QUEUED")] {
            assert_eq!(one.ask(request), Reply::Simple(reply.into()));
        }
        one.ask("EXEC")
    };
    let done = Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]);
    for (request, reply) in [
        ("GET k", &done),
        ("SET other 1", &done),
        ("SET k 2", &Reply::Null),
        ("DEL k", &Reply::Null),
        ("SET missing 1", &Reply::Null),
        ("EXPIRE k 100", &Reply::Null),
        ("PEXPIREAT k 1", &Reply::Null),
        ("FLUSHALL", &Reply::Null),
        ("SWAPDB 0 1", &Reply::Null),
        ("COPY k missing", &Reply::Null),
        ("RENAME k missing", &Reply::Null),
    ] {
        assert_eq!(&change(request, &mut one, &mut other), reply, "{request}");
    }
    // The watch of a key ends with the transaction.
    one.send_bytes(b"SET k 1\r\nWATCH k\r\nMULTI\r\nEXEC\r\nSET k 2\r\nMULTI\r\nGET k\r\nEXEC\r\n");
    let replies: Vec<Reply> = (0..8).map(|_| one.receive()).collect();
    assert_eq!(replies[7], Reply::Array(vec![bulk("2")]));
}

#[test]
fn keys_expire_whether_anyone_looks_or_not() {
    let server = Tierra::start("--hz 100");
    let mut client = server.connect();
    for n in 0..2000 {
        client.send_bytes(format!("SET k{n} v PX 1\r\n").as_bytes());
    }
    for _ in 0..2000 {
        assert_eq!(client.receive(), ok());
    }
    client.ask("SET stays v EX 1000");
    while client.ask("DBSIZE") != Reply::Integer(1) {}
    assert_eq!(client.ask("GET k7"), Reply::Null);
    assert!(text(client.ask("INFO keyspace")).contains("db0:keys=1,expires=1"));
}

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
fn clients_are_listed_named_and_killed() {
    let server = Tierra::start("");
    let (mut one, mut two) = (server.connect(), server.connect());
    assert_eq!(two.ask("CLIENT SETNAME second"), ok());
    assert_eq!(two.ask("CLIENT GETNAME"), bulk("second"));
    let Reply::Integer(id) = two.ask("CLIENT ID") else {
        panic!("an id is a number")
    };
    let list = text(one.ask("CLIENT LIST"));
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(
        list.contains(&format!("id={id} "))
            && list.contains("name=second")
            && list.contains("cmd=client|list"),
        "{list}"
    );
    assert_eq!(one.ask(&format!("CLIENT KILL ID {id}")), Reply::Integer(1));
    assert_eq!(two.rest(), b"");
    assert_eq!(
        one.ask("CLIENT KILL 1.2.3.4:5"),
        error("ERR No such client")
    );
    one.send_bytes(b"CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nPING\r\nECHO last\r\n");
    assert_eq!([one.receive(), one.receive()], [ok(), bulk("last")]);
}

#[test]
fn settings_are_shown_and_changed_all_or_none() {
    let server = Tierra::start("");
    let mut client = server.connect();
    assert_eq!(
        client.ask("CONFIG GET timeout"),
        Reply::Array(vec![bulk("timeout"), bulk("0")])
    );
    assert_eq!(client.ask("CONFIG SET timeout 100 maxclients 50"), ok());
    assert_eq!(
        client.ask("CONFIG GET maxc* timeout"),
        Reply::Array(vec![
            bulk("maxclients"),
            bulk("50"),
            bulk("timeout"),
            bulk("100")
        ])
    );
    let refused = error(
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 1000000 inclusive",
    );
    assert_eq!(client.ask("CONFIG SET timeout 7 maxclients 0"), refused);
    let refused =
        error("ERR CONFIG SET failed (possibly related to argument 'memory-alloc-policy') - ");
    let reply = client.ask("CONFIG SET timeout 7 memory-alloc-policy nonsense");
    assert!(
        matches!((&reply, &refused), (Reply::Error(reply), Reply::Error(start)) if reply.starts_with(start)),
        "{reply:?}"
    );
    assert_eq!(
        client.ask("CONFIG GET timeout"),
        Reply::Array(vec![bulk("timeout"), bulk("100")])
    );
    assert_eq!(client.ask("CONFIG SET memory-alloc-policy only-dram"), ok());
    assert_eq!(
        client.ask("CONFIG GET memory-alloc-policy"),
        Reply::Array(vec![bulk("memory-alloc-policy"), bulk("only-dram")])
    );
    assert!(matches!(client.ask("CONFIG REWRITE"), Reply::Error(_)));
    // As many clients as the system lets a process have open files, or fewer.
    match client.ask("CONFIG SET maxclients 1000000") {
        Reply::Error(text) => assert!(text.contains("try with "), "{text}"),
        reply => assert_eq!(reply, ok()),
    }
}

#[test]
fn passwords_are_not_noted() {
    let server = Tierra::start("--slowlog-log-slower-than 0");
    let mut client = server.connect();
    for request in [
        "CONFIG SET timeout 7 RequirePass secret",
        "AUTH secret",
        "HELLO 2 AUTH default secret",
        "CONFIG SET requirepass secret timeout 8",
    ] {
        assert!(!matches!(client.ask(request), Reply::Error(_)), "{request}");
    }
    let noted = format!("{:?}", client.ask("SLOWLOG GET -1"));
    let bytes = |text: &str| format!("{:?}", text.as_bytes());
    assert!(
        noted.contains(&bytes("(redacted)")) && noted.contains(&bytes("timeout")),
        "{noted}"
    );
    assert!(!noted.contains(&bytes("secret")), "{noted}");
}

#[test]
fn both_protocols_are_spoken() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.ask("ZADD z 1.5 a 2 b");
    client.ask("HSET h f v");
    assert!(matches!(client.ask("HELLO 3"), Reply::Map(fields) if fields[5] == Reply::Integer(3)));
    assert_eq!(
        client.ask("HGETALL h"),
        Reply::Map(vec![bulk("f"), bulk("v")])
    );
    assert_eq!(client.ask("ZSCORE z a"), Reply::Double("1.5".into()));
    let pair =
        |member: &str, score: &str| Reply::Array(vec![bulk(member), Reply::Double(score.into())]);
    assert_eq!(
        client.ask("ZRANGE z 0 -1 WITHSCORES"),
        Reply::Array(vec![pair("a", "1.5"), pair("b", "2")])
    );
    assert_eq!(client.ask("GET missing"), Reply::Null);
    assert!(
        matches!(client.ask("HELLO 2"), Reply::Array(fields) if fields[5] == Reply::Integer(2))
    );
    assert_eq!(
        client.ask("HGETALL h"),
        Reply::Array(vec![bulk("f"), bulk("v")])
    );
}

#[test]
fn info_counts_what_happened() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.send_bytes(b"SET k v\r\nGET k\r\nGET k\r\nGET missing\r\nINCR k\r\nGET\r\n");
    (0..6).for_each(|_| _ = client.receive());
    let info = text(client.ask("INFO everything"));
    for line in [
        "keyspace_hits:2",
        "keyspace_misses:1",
        "cmdstat_get:calls=3,",
        "rejected_calls=1,failed_calls=0",
        "errorstat_ERR:count=2",
        "db0:keys=1,expires=0",
        "near_records:",
        "far_used_bytes:",
        "prefetched_far:",
    ] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
    assert_eq!(client.ask("CONFIG RESETSTAT"), ok());
    assert!(text(client.ask("INFO stats")).contains("keyspace_hits:0"));
}

#[test]
fn a_server_ends_when_it_is_asked_to() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.send_bytes(b"SHUTDOWN NOSAVE\r\n");
    assert_eq!(client.rest(), b"");
    drop(server);
}

#[test]
fn a_server_that_should_save_goes_on_unless_it_is_forced() {
    let server = Tierra::start("");
    let mut client = server.connect();
    for request in ["SHUTDOWN SAVE", "SHUTDOWN NOW save"] {
        let Reply::Error(error) = client.ask(request) else {
            panic!("{request} is refused")
        };
        assert!(
            error.starts_with("ERR Errors trying to SHUTDOWN"),
            "{error}"
        );
        assert!(error.contains("SHUTDOWN NOSAVE"), "{error}");
    }
    let syntax = Reply::Error("ERR syntax error".into());
    for request in [
        "SHUTDOWN SAVE NOSAVE FORCE",
        "SHUTDOWN ABORT NOW",
        "SHUTDOWN LATER",
    ] {
        assert_eq!(client.ask(request), syntax, "{request}");
    }
    client.send_bytes(b"SHUTDOWN SAVE FORCE\r\n");
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_socket_is_not_taken_from_a_server_that_listens() {
    let server = Tierra::start("");
    let config = tierra_kv::Config {
        port: 0,
        unixsocket: Some(server.path.clone()),
        ..Default::default()
    };
    let error = tierra_kv::Server::bind(config)
        .err()
        .map(|error| error.to_string())
        .unwrap();
    assert!(error.contains("tierra.sock"), "{error}");
    assert!(error.contains("another server has it"), "{error}");
    assert_alive(&server);
}

#[test]
fn a_file_that_is_no_socket_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "dear").unwrap();
    let config = tierra_kv::Config {
        port: 0,
        unixsocket: Some(path.clone()),
        ..Default::default()
    };
    let error = tierra_kv::Server::bind(config).err().unwrap().to_string();
    let expected = format!(
        "cannot listen on {}: what is there is not a socket: remove it, or give another unixsocket",
        path.display()
    );
    assert_eq!(error, expected);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear");
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

#[test]
fn a_monitor_is_one_until_it_resets_or_leaves() {
    let server = Tierra::start("");
    let (mut monitor, mut leaves, mut client) =
        (server.connect(), server.connect(), server.connect());
    assert_eq!(monitor.ask("MONITOR"), ok());
    assert_eq!(leaves.ask("MONITOR"), ok());
    drop(leaves);
    assert!(text(client.ask("CLIENT LIST")).contains("flags=O"));
    assert_eq!(client.ask("SET k v"), ok());
    let Reply::Simple(line) = monitor.receive() else {
        panic!("a line is told")
    };
    assert!(line.ends_with("] \"SET\" \"k\" \"v\""), "{line}");
    assert_eq!(monitor.ask("RESET"), Reply::Simple("RESET".into()));
    assert_eq!(client.ask("GET k"), bulk("v"));
    assert_eq!(monitor.ask("ECHO x"), bulk("x"));
}

#[test]
fn few_of_many_are_chosen_and_none_twice() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let words = |name: &str, pair: &dyn Fn(u32) -> String| {
        let all: String = (0..1000).map(|n| format!(" {}", pair(n))).collect();
        format!("{name} {name}{all}")
    };
    assert_eq!(
        client.ask(&words("HSET", &|n| format!("f{n} v{n}"))),
        Reply::Integer(1000)
    );
    assert_eq!(
        client.ask(&words("ZADD", &|n| format!("{n} m{n}"))),
        Reply::Integer(1000)
    );
    for count in [1, 7, 249, 250, 999, 1000, 5000] {
        for (request, first) in [("HRANDFIELD HSET", "f"), ("ZRANDMEMBER ZADD", "m")] {
            let Reply::Array(mut chosen) = client.ask(&format!("{request} {count}")) else {
                panic!("an array")
            };
            assert_eq!(chosen.len(), count.min(1000));
            assert!(chosen.iter().all(
                |name| matches!(name, Reply::Bulk(name) if name.starts_with(first.as_bytes()))
            ));
            chosen.sort();
            chosen.dedup();
            assert_eq!(chosen.len(), count.min(1000));
        }
    }
}
