//! What a client has sent and is sent, and how much of it may wait.

use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::support::{Client, Reply, Tierra, error, ok, text};

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
fn until(asker: &mut Client, id: &Reply, is_so: impl Fn(&str) -> bool) -> String {
    let Reply::Integer(id) = id else {
        panic!("an id is a number")
    };
    loop {
        let line = text(asker.ask(&format!("CLIENT LIST ID {id}")));
        if is_so(&line) {
            return line;
        }
    }
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
    let line = until(&mut asker, &id, |line| field(line, "qbuf") == 1);
    assert!(field(&line, "tot-mem") < 100_000, "{line}");
    client.send_bytes(b"1\r\n$4\r\nPING\r\n");
    assert_eq!(client.receive(), Reply::Simple("PONG".into()));
    until(&mut asker, &id, |line| field(line, "tot-mem") == 0);
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
    let line = until(&mut asker, &id, |line| line.contains("cmd=set "));
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
    let line = until(&mut asker, &id, |line| field(line, "multi-mem") < 1000);
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
    until(&mut asker, &id, |line| field(line, "tot-mem") == 0);
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
