//! What the server survives from clients that do not behave, and does not tell to those that may not know.

use std::io::Write;

use crate::support::{Reply, Tierra, assert_alive, bulk, error, ok, text, until};

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
        ("QUIT\r\n*1\n'\r\n", "+OK\r\n"),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n", ""),
        ("POST / HTTP/1.1\r\n*x\r\n", ""),
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
    until("it is disconnected", || {
        text(client.ask("INFO stats")).contains("client_output_buffer_limit_disconnections:1")
    });
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
    until("it has gone", || {
        !text(one.ask("INFO clients")).contains("connected_clients:2")
    });
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
