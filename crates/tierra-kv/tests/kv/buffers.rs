//! What a client has sent and is sent, and how much of it may wait.

use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::support::{Client, Redis, Reply, Tierra, error, ok, text, until};

/// A setting of a client, or of the server, among lines of `name=value` or `name:value`.
fn field(lines: &str, name: &str) -> u64 {
    let mut words = lines.split([' ', '\r', '\n']);
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix(['=', ':']));
    value
        .unwrap_or_else(|| panic!("no {name} in {lines}"))
        .parse()
        .unwrap()
}

/// What is known about the client of this number, as soon as something is so.
fn client_once(asker: &mut Client, id: &Reply, is_so: impl Fn(&str) -> bool) -> String {
    let Reply::Integer(id) = id else {
        panic!("an id is a number")
    };
    let mut line = String::new();
    until("it is so", || {
        line = text(asker.ask(&format!("CLIENT LIST ID {id}")));
        is_so(&line)
    });
    line
}

/// What has been executed does not wait any more, and what comes behind what is awaited is not held against it.
#[test]
fn only_what_waits_counts_against_the_limit() {
    let server = Tierra::start("--client-query-buffer-limit 1500000");
    let mut client = server.connect();
    let set = |value: Vec<u8>| vec![b"SET".to_vec(), b"k".to_vec(), value];
    // They come faster than they are executed; the replies are few.
    client.send(&vec![set(vec![b'x'; 1_100_000]); 20]);
    (0..20).for_each(|_| assert_eq!(client.receive(), ok()));
    // There is always a byte of the next request behind.
    let small = b"*2\r\n$4\r\nECHO\r\n$256\r\n";
    let small = [&small[..], &[b'y'; 256], b"\r\n"].concat();
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1100000\r\n");
    client.send_bytes(&[&vec![b'x'; 1_100_000][..], b"\r\n*"].concat());
    assert_eq!(client.receive(), ok());
    for _ in 0..5000 {
        client.send_bytes(&[&small[1..], b"*"].concat());
        assert!(matches!(client.receive(), Reply::Bulk(bytes) if bytes.len() == 256));
    }
    client.send_bytes(b"1\r\n$4\r\nPING\r\n");
    assert_eq!(client.receive(), Reply::Simple("PONG".into()));
}

#[test]
fn who_says_nothing_more_keeps_no_large_buffer() {
    let server = Tierra::start("");
    let (mut client, mut asker) = (server.connect(), server.connect());
    let id = client.ask("CLIENT ID");
    client.send_bytes(b"*2\r\n$6\r\nSTRLEN\r\n$5000000\r\n");
    client.send_bytes(&[&vec![b'x'; 5_000_000][..], b"\r\n*"].concat());
    assert_eq!(client.receive(), Reply::Integer(0));
    let line = client_once(&mut asker, &id, |line| field(line, "qbuf") == 1);
    assert!(field(&line, "tot-mem") < 100_000, "{line}");
    client.send_bytes(b"1\r\n$4\r\nPING\r\n");
    assert_eq!(client.receive(), Reply::Simple("PONG".into()));
    client_once(&mut asker, &id, |line| field(line, "tot-mem") == 0);
}

#[test]
fn what_a_transaction_queues_is_its_clients() {
    let server = Tierra::start("");
    let (mut client, mut asker) = (server.connect(), server.connect());
    let id = client.ask("CLIENT ID");
    let queued = Reply::Simple("QUEUED".into());
    let fill = |client: &mut Client| {
        assert_eq!(client.ask("MULTI"), ok());
        client.send(&[vec![b"SET".to_vec(), b"k".to_vec(), vec![b'x'; 3_000_000]]]);
        assert_eq!(client.receive(), queued);
    };
    fill(&mut client);
    let line = client_once(&mut asker, &id, |line| line.contains("cmd=set "));
    assert!(
        line.contains("multi=1 ") && line.contains("flags=x"),
        "{line}"
    );
    let multi_bytes = field(&line, "multi-mem");
    assert!((3_000_000..3_100_000).contains(&multi_bytes), "{line}");
    assert!(field(&line, "tot-mem") >= multi_bytes, "{line}");
    let memory = text(asker.ask("INFO memory"));
    assert!(
        field(&memory, "mem_clients_normal") >= multi_bytes,
        "{memory}"
    );
    // What cannot be executed any more is not kept.
    assert!(matches!(client.ask("NOTHING"), Reply::Error(_)));
    let line = client_once(&mut asker, &id, |line| field(line, "multi-mem") < 1000);
    assert!(line.contains("multi=1 "), "{line}");
    assert_eq!(client.ask("SET k v"), Reply::Simple("QUEUED".into()));
    assert_eq!(
        client.ask("EXEC"),
        error("EXECABORT Transaction discarded because of previous errors.")
    );
    assert_eq!(client.ask("GET k"), Reply::Null);
    // What is executed is not kept either.
    fill(&mut client);
    assert_eq!(client.ask("EXEC"), Reply::Array(vec![ok()]));
    client_once(&mut asker, &id, |line| field(line, "tot-mem") == 0);
}

/// Requests that are queued wait, too.
#[test]
fn a_transaction_that_grows_forever_is_disconnected() {
    let server = Tierra::start("--client-query-buffer-limit 2mb");
    let value = vec![b'x'; 900_000];
    let head = &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n"[..];
    let set = [head, &value, b"\r\n"].concat();
    let mut stream = UnixStream::connect(&server.path).unwrap();
    stream.write_all(b"MULTI\r\n").unwrap();
    let sent = (0..100).take_while(|_| stream.write_all(&set).is_ok());
    assert!(sent.count() < 100, "it goes on");
    let stats = text(server.connect().ask("INFO stats"));
    assert_eq!(field(&stats, "client_query_buffer_limit_disconnections"), 1);
}

/// One command, or one transaction, whose reply is more than may wait: its client is disconnected while the reply is written, and is sent
/// nothing of it. Who wants no reply is not.
#[test]
fn a_reply_that_is_too_long_is_not_kept_until_it_is_whole() {
    let server = Tierra::start("--client-output-buffer-limit normal 4mb 0 0");
    let redis = Redis::start();
    let mut paths = vec![server.path.clone()];
    if let Some(redis) = &redis {
        let limit = vec![
            "CONFIG",
            "SET",
            "client-output-buffer-limit",
            "normal 4mb 0 0",
        ];
        let mut client = redis.connect();
        client.send(&[limit
            .into_iter()
            .map(|word| word.as_bytes().to_vec())
            .collect()]);
        assert_eq!(client.receive(), ok());
        paths.push(redis.folder.path().join("redis.sock"));
    }
    let values = [
        ("SET k ", 1_000_000),
        ("HSET h f ", 2000),
        ("ZADD z 1 ", 2000),
    ];
    let eight = " k".repeat(8);
    let transaction = format!("MULTI\r\n{}EXEC\r\n", "GET k\r\n".repeat(8));
    let queued = format!("+OK\r\n{}", "+QUEUED\r\n".repeat(8));
    for path in &paths {
        for (request, bytes) in values {
            let request = format!("{request}{}", "x".repeat(bytes));
            assert!(!matches!(
                Client::connect(path).ask(&request),
                Reply::Error(_)
            ));
        }
        for (request, replies) in [
            (&format!("MGET{eight}\r\nPING\r\n")[..], ""),
            ("HRANDFIELD h -100000000\r\n", ""),
            ("HRANDFIELD h -400000 WITHVALUES\r\n", ""),
            ("ZRANDMEMBER z -100000000 WITHSCORES\r\n", ""),
            (&transaction, &queued[..]),
        ] {
            let mut client = Client::connect(path);
            if !replies.is_empty() {
                // Redis drops what comes in the same turn, too.
                let (first, last) = request.split_at(request.len() - "EXEC\r\n".len());
                client.send_bytes(first.as_bytes());
                for _ in 0..9 {
                    assert!(matches!(client.receive(), Reply::Simple(_)));
                }
                client.send_bytes(last.as_bytes());
            } else {
                client.send_bytes(request.as_bytes());
            }
            assert_eq!(client.rest(), b"", "{request} of {}", path.display());
        }
        let mut client = Client::connect(path);
        client.send_bytes(format!("CLIENT REPLY OFF\r\nMGET{eight}\r\n{transaction}").as_bytes());
        client.send_bytes(b"CLIENT REPLY ON\r\nMGET k k\r\n");
        assert_eq!(client.receive(), ok());
        assert!(matches!(client.receive(), Reply::Array(values) if values.len() == 2));
    }
    let stats = text(server.connect().ask("INFO stats"));
    assert_eq!(
        field(&stats, "client_output_buffer_limit_disconnections"),
        5
    );
}
