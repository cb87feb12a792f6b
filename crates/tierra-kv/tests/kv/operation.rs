//! What the server tells to those who operate it, and does when they say so.

use crate::support::{Client, Redis, Reply, Tierra, assert_alive, bulk, error, ok, text};

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
fn clients_are_listed_in_the_order_in_which_they_are_asked_for() {
    let server = Tierra::start("");
    let redis = Redis::start();
    let connect = |at: usize| match (at, &redis) {
        (0, _) => Some(server.connect()),
        (_, redis) => redis.as_ref().map(|redis| redis.connect()),
    };
    for at in 0..2 {
        let Some(mut clients) = (0..3).map(|_| connect(at)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let ids: Vec<i64> = clients
            .iter_mut()
            .map(|client| match client.ask("CLIENT ID") {
                Reply::Integer(id) => id,
                other => panic!("an id is a number, got {other:?}"),
            })
            .collect();
        let asked = [ids[2], 1_000_000, ids[0], ids[2]].map(|id| id.to_string());
        let list = text(clients[1].ask(&format!("CLIENT LIST ID {}", asked.join(" "))));
        let listed: Vec<&str> = list
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let expected = [ids[2], ids[0], ids[2]].map(|id| format!("id={id}"));
        assert_eq!(listed, expected);
    }
}

/// The commands that the slowlog shows, from the oldest on, and how long each took.
fn shown_as_slow(client: &mut Client) -> Vec<(Vec<String>, i64)> {
    let Reply::Array(entries) = client.ask("SLOWLOG GET -1") else {
        panic!("entries are an array")
    };
    let shown = entries.into_iter().rev().map(|entry| {
        let Reply::Array(fields) = entry else {
            panic!("an entry is an array, got {entry:?}")
        };
        let (Reply::Integer(spent_us), Reply::Array(args)) = (&fields[2], &fields[3]) else {
            panic!("a time and arguments, got {fields:?}")
        };
        let args: Vec<String> = args.iter().cloned().map(text).collect();
        (args, *spent_us)
    });
    shown.collect()
}

/// At a threshold of 0 every command is shown, however short, as by Redis; at a higher one those that take long, whatever makes
/// them so.
#[test]
fn the_slowlog_shows_what_its_threshold_says() {
    let server = Tierra::start("--slowlog-log-slower-than 0 --enable-debug-command yes");
    let redis = Redis::start();
    let mut clients = vec![server.connect()];
    if let Some(redis) = &redis {
        clients.push(redis.connect());
    }
    for client in &mut clients {
        assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than 0"), ok());
        // It is shown itself: it ends after it has cleared the log.
        assert_eq!(client.ask("SLOWLOG RESET"), ok());
    }
    let words = |command: &str, word: &str, count: usize| {
        let words: String = (0..count).map(|n| format!(" {n}{word}")).collect();
        format!("{command}{words}")
    };
    let requests = [
        "HSET h f v".to_owned(),
        "SET k v".to_owned(),
        "GET k".to_owned(),
        "GET k".to_owned(),
        words("HSET h", "value-of-forty-bytes-or-somewhat-longer", 4000),
        "HGETALL h".to_owned(),
        "HLEN h".to_owned(),
        "NOTHING".to_owned(),
        "GET".to_owned(),
        "LPUSH".to_owned(),
        words("ZADD z", "", 100),
        words("AUTH", "secret", 40),
        words("HELLO 2 AUTH default secret", "x", 40),
        "CONFIG SET requirepass secret".to_owned(),
        "CONFIG SET requirepass \"\"".replace('"', ""),
        "PING".to_owned(),
        "MULTI".to_owned(),
        "INCR n".to_owned(),
        "HLEN h".to_owned(),
        "EXEC".to_owned(),
    ];
    let mut shown = Vec::new();
    for client in &mut clients {
        for request in &requests {
            client.ask(request);
        }
        let slow = shown_as_slow(client);
        assert!(
            slow.iter().all(|(_, us)| (0..60_000_000).contains(us)),
            "{slow:?}"
        );
        shown.push(slow.into_iter().map(|slow| slow.0).collect::<Vec<_>>());
    }
    // Redis shows what stands behind AUTH where it is too much.
    let is_open = |arg: &String| arg.contains("secret") && !arg.contains("more arguments");
    assert!(!shown[0].iter().flatten().any(is_open), "{shown:?}");
    let name = |args: Vec<String>| args.into_iter().next().unwrap_or_default();
    let shown: Vec<Vec<String>> = shown
        .into_iter()
        .map(|slow| slow.into_iter().map(name).collect())
        .collect();
    let expected = "SLOWLOG HSET SET GET GET HSET HGETALL HLEN ZADD AUTH HELLO CONFIG CONFIG PING MULTI INCR HLEN";
    assert_eq!(shown[0].join(" "), expected);
    assert!(shown.iter().all(|other| *other == shown[0]), "{shown:?}");

    let client = &mut clients[0];
    client.ask("CONFIG SET slowlog-log-slower-than 20000");
    client.ask("SLOWLOG RESET");
    for request in ["DEBUG SLEEP 0.03", "GET k", "HGETALL h", "PING"] {
        client.ask(request);
    }
    let slow = shown_as_slow(client);
    let [(args, spent_us)] = &slow[..] else {
        panic!("one took long: {slow:?}")
    };
    assert!(
        args[0] == "DEBUG" && (30_000..30_000_000).contains(spent_us),
        "{slow:?}"
    );
    client.ask("CONFIG SET slowlog-log-slower-than -1");
    client.ask("SLOWLOG RESET");
    client.ask("DEBUG SLEEP 0.03");
    assert_eq!(shown_as_slow(client), []);
}

/// Limits of classes change one by one or together, and are shown as Redis shows them; what is wrong changes nothing.
#[test]
fn limits_of_replies_are_set_by_class_as_by_redis() {
    let (server, redis) = (Tierra::start(""), Redis::start());
    let mut clients = vec![server.connect()];
    clients.extend(redis.as_ref().map(Redis::connect));
    let mut replies = vec![Vec::new(); clients.len()];
    for limits in [
        None,
        Some("pubsub 64mb 16mb 90"),
        Some("normal 1gb 0 0 replica 1 2 3"),
        Some("slave 4kb 5 6"),
        Some("PubSub 1 1 1 normal 1000000 1000001 9"),
        Some("pubsub 1 2 3 pubsub 4 5 6"),
        Some("pubsub 1 2"),
        Some("master 1 2 3"),
        Some("normal 9gb 9gb 9 nothing 1 2 3"),
        Some("normal 9gb 9gb 9 replica x 2 3"),
        Some("normal 9gb 9gb 9 replica 1 2 -3"),
        Some("normal 9gb 9gb 9 replica 1 2 3x"),
        Some("normal 0 0 0"),
    ] {
        for (client, replies) in clients.iter_mut().zip(&mut replies) {
            if let Some(limits) = limits {
                let words = ["CONFIG", "SET", "client-output-buffer-limit", limits];
                client.send(&[words.map(|word| word.as_bytes().to_vec()).to_vec()]);
                replies.push(client.receive());
            }
            replies.push(client.ask("CONFIG GET client-output-buffer-limit"));
        }
    }
    let last = Reply::Array(vec![
        bulk("client-output-buffer-limit"),
        bulk("normal 0 0 0 slave 4096 5 6 pubsub 4 5 6"),
    ]);
    assert_eq!(replies[0].last(), Some(&last));
    assert!(
        replies.iter().all(|other| *other == replies[0]),
        "{replies:#?}"
    );
}

/// A client that is told every command has the limit of replicas where normal ones have none.
#[test]
fn a_monitor_that_does_not_read_is_disconnected() {
    let server = Tierra::start("");
    let (mut monitor, mut client) = (server.connect(), server.connect());
    let words = [
        "CONFIG",
        "SET",
        "client-output-buffer-limit",
        "replica 2mb 0 0",
    ];
    client.send(&[words.map(|word| word.as_bytes().to_vec()).to_vec()]);
    assert_eq!(client.receive(), ok());
    assert_eq!(monitor.ask("MONITOR"), ok());
    let echo = format!("ECHO {}", "x".repeat(100_000));
    for _ in 0..60 {
        client.ask(&echo);
    }
    let stats = text(client.ask("INFO stats"));
    assert!(
        stats.contains("client_output_buffer_limit_disconnections:1\r"),
        "{stats}"
    );
    assert!(text(client.ask("CLIENT LIST")).lines().count() == 1);
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
    // It is told of its own commands, too, behind the reply.
    for (request, shown) in [
        ("SELECT 99", "99"),
        ("ECHO \u{1}é\"\\", "\\x01\\xc3\\xa9\\\"\\\\"),
    ] {
        assert!(matches!(
            monitor.ask(request),
            Reply::Error(_) | Reply::Bulk(_)
        ));
        let Reply::Simple(line) = monitor.receive() else {
            panic!("a line is told")
        };
        assert!(line.ends_with(&format!("\"{shown}\"")), "{line}");
    }
    assert_eq!(monitor.ask("RESET"), Reply::Simple("RESET".into()));
    assert_eq!(client.ask("GET k"), bulk("v"));
    assert_eq!(monitor.ask("ECHO x"), bulk("x"));
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
