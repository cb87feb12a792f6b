//! What the server tells to those who operate it, and does when they say so.

use crate::support::{Redis, Reply, Tierra, assert_alive, bulk, error, ok, text};

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

/// What takes long because of its arguments or its reply is noted, however fast the command is with few of them.
#[test]
fn the_slowlog_shows_what_is_long() {
    let server = Tierra::start("--slowlog-log-slower-than 0");
    let mut client = server.connect();
    let words = |command: &str, word: &str, count: usize| {
        let words: String = (0..count).map(|n| format!(" {n}{word}")).collect();
        format!("{command}{words}")
    };
    for request in [
        "HSET h f v".to_owned(),
        "GET k".to_owned(),
        words("HSET h", "value-of-forty-bytes-or-somewhat-longer", 4000),
        "HGETALL h".to_owned(),
        "HLEN h".to_owned(),
        "HGETALL nothing".to_owned(),
        words("ZADD z", "", 100),
        words("AUTH", "secret", 40),
        words("HELLO 2 AUTH default secret", "x", 40),
        "MULTI".to_owned(),
        "HGETALL h".to_owned(),
        "HLEN h".to_owned(),
        "EXEC".to_owned(),
    ] {
        client.ask(&request);
    }
    let Reply::Array(entries) = client.ask("SLOWLOG GET -1") else {
        panic!("entries are an array")
    };
    let noted: Vec<Vec<String>> = entries
        .into_iter()
        .rev()
        .map(|entry| match entry {
            Reply::Array(fields) => match &fields[3] {
                Reply::Array(args) => args.iter().cloned().map(text).collect(),
                other => panic!("arguments are an array, got {other:?}"),
            },
            other => panic!("an entry is an array, got {other:?}"),
        })
        .collect();
    let names: Vec<&str> = noted.iter().map(|args| &args[0][..]).collect();
    let expected = ["HSET", "HGETALL", "ZADD", "AUTH", "HELLO", "HGETALL"];
    assert_eq!(names, expected);
    assert!(
        noted
            .iter()
            .flatten()
            .all(|arg| !arg.contains("secret") || arg.contains("more arguments")),
        "{noted:?}"
    );
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
