//! Bytes that no client sends: an error or the end of the connection, and the server goes on.

use std::io::{Read, Write};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tierra_postgres::Options;

use crate::client::{
    Client, bind, code_of, describe, execute, field, kinds, message, parse, query, startup, sync,
};
use crate::server::{TestServer, memory, open_to_all, resident_bytes};

#[test]
fn lengths_that_lie_end_the_connection() {
    let server = TestServer::start();
    for packet in [
        &[0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0][..],
        &[0, 0, 0, 0, 0, 3, 0, 0],
        &[0, 0, 0, 7, 0, 3, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
        &[0, 0, 0, 9, 0, 2, 0, 0, 0],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut client = Client::open(server.address);
        client.send(packet);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.until_closed();
    }
    for len in [0_u32, 3, (64 << 20) + 1, u32::MAX] {
        let mut client = server.connect();
        client.send(&[&b"Q"[..], &len.to_be_bytes(), b"SELECT 1\0"].concat());
        let messages = client.until_closed();
        assert_eq!(code_of(&messages).as_deref(), Some("08P01"), "{len}");
        assert_eq!(field(&messages[0].1, b'S'), "FATAL");
    }
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
}

#[test]
fn what_is_announced_is_not_reserved() {
    let _memory = memory();
    let server = TestServer::start();
    let before = resident_bytes();
    let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&[&b"Q"[..], &(60_u32 << 20).to_be_bytes(), b"SELECT"].concat());
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(resident_bytes().saturating_sub(before) < 200 << 20);
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
}

#[test]
fn texts_that_are_no_utf8_are_not_changed_in_silence() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(&message(b'Q', b"SELECT '\xff'\0"));
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("22021"));
    let messages = client.run(&[message(b'P', b"\0SELECT '\xff'\0\0\0"), query("SELECT 1")]);
    assert_eq!(kinds(&messages), "EZ");
    let messages = client.run(&[
        parse("", "SELECT $1 AS x", &[25]),
        bind("", "", 0, &[Some(b"\xff")], &[]),
    ]);
    assert_eq!(code_of(&messages).as_deref(), Some("22021"));
    assert_eq!(client.rows("SELECT 'é'"), [["é"]]);
}

#[test]
fn half_messages_and_unknown_ones_end_the_connection() {
    let server = TestServer::start();
    for bytes in [
        message(b'P', b"\0SELECT 1\0"),
        message(b'B', b"\0\0\0\x05"),
        message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        message(b'E', b""),
        message(b'!', b""),
        message(b'p', b"password"),
    ] {
        let mut client = server.connect();
        client.send(&bytes);
        client.send(&sync());
        let messages = client.until_ready_or_closed();
        assert_eq!(code_of(&messages).as_deref(), Some("08P01"), "{bytes:?}");
    }
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
}

#[test]
fn names_are_limited() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut messages = Vec::new();
    for n in 0..1_001 {
        messages.push(parse(&format!("s{n}"), "SELECT 1", &[]));
    }
    let answers = client.run(&messages);
    assert_eq!(code_of(&answers).as_deref(), Some("54000"));
    assert_eq!(kinds(&answers).matches('1').count(), 1_000);
}

#[test]
fn idle_connections_do_not_stop_others() {
    let server = TestServer::start();
    // Neither logs in.
    let idle: Vec<Client> = (0..160).map(|_| Client::open(server.address)).collect();
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
    drop(idle);
}

/// Whether this process may have so many files.
fn may_have_files(count: u64) -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(count),
        maximum,
    };
    current.is_none_or(|current| current >= count) || setrlimit(Resource::Nofile, limit).is_ok()
}

#[test]
fn a_thousand_idle_sessions_do_not_stop_others() {
    // Both ends of a connection are files of this process, and other tests have some.
    if !may_have_files(4_000) {
        println!("left out: this process may not have as many files");
        return;
    }
    let server = TestServer::with(Options {
        connections_most: 1_001,
        ..open_to_all()
    });
    let silent: Vec<Client> = (0..50).map(|_| Client::open(server.address)).collect();
    let mut idle: Vec<Client> = (0..1_000).map(|_| server.connect()).collect();
    assert_eq!(server.connect().rows("SELECT 1"), [["1"]]);
    for client in idle.iter_mut().step_by(99) {
        assert_eq!(client.rows("SELECT 1"), [["1"]]);
    }
    drop((silent, idle));
}

/// Valid messages with a byte changed, cut or repeated: whatever comes of it, the next client is served.
#[test]
fn no_bytes_stop_the_server() {
    let server = TestServer::start();
    server
        .connect()
        .rows("CREATE TABLE t (n BIGINT, s VARCHAR)");
    let seed = std::env::var("TIERRA_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("TIERRA_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(2) + 1);
    let valid = [
        query("SELECT n, s FROM t; INSERT INTO t VALUES (1, 'a')"),
        query("COPY t FROM STDIN"),
        message(b'd', b"1\ta\n"),
        message(b'c', b""),
        query("COPY t TO STDOUT (FORMAT binary)"),
        parse(
            "a",
            "SELECT s FROM t WHERE n = $1 AND s = ANY($2)",
            &[20, 1009],
        ),
        bind("p", "a", 0, &[Some(b"1"), Some(b"{a,\"b\"}")], &[1]),
        describe(b'S', "a"),
        describe(b'P', "p"),
        execute("p", 1),
        query("BEGIN"),
        query("DECLARE c CURSOR FOR SELECT n FROM t"),
        query("FETCH 3 FROM c"),
        query("ROLLBACK"),
        sync(),
    ];
    for _ in 0..300 {
        let mut bytes = startup(&[("user", "u")]);
        for _ in 0..random.below(12) {
            bytes.extend(&valid[random.below(valid.len())]);
        }
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, random.below(256) as u8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let mut client = Client::open(server.address);
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let _ = client.stream.read_to_end(&mut Vec::new());
    }
    let mut client = server.connect();
    assert_eq!(client.rows("SELECT 1"), [["1"]]);
    // No defect was caught on the way.
    assert_eq!(
        client.rows("SELECT count(*) FROM tierra_slow_queries WHERE error LIKE '%defect%'"),
        [["0"]]
    );
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

/// Messages that cannot be understood are answered as those that can.
#[test]
fn what_cannot_be_read_does_not_confuse_what_follows() {
    let server = TestServer::start();
    let mut client = server.connect();
    // A function call is answered to its end.
    client.send(&message(b'F', b"\0\0\0\x01\0\0\0\0\0\0"));
    let messages = client.until_ready();
    assert_eq!(
        (kinds(&messages).as_str(), code_of(&messages).as_deref()),
        ("EZ", Some("0A000"))
    );
    // The end of a COPY that has failed may be in another encoding.
    client.rows("CREATE TABLE t (n BIGINT)");
    client.send(&query("COPY t FROM STDIN"));
    assert_eq!(client.read().unwrap().0, b'G');
    client.send(&message(b'd', b"x\n1\n"));
    client.send(&message(b'd', &b"2\n".repeat(100_000)));
    client.send(&message(b'c', b""));
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("22P02"));
    client.send(&[message(b'f', b"stopp\xe9\0"), query("SELECT 1")].concat());
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
    // Behind an error everything is passed over up to Sync.
    client.send(
        &[
            parse("", "SELECT nosuch", &[]),
            message(b'Q', b"SELECT '\xff'\0"),
            message(b'P', b"\0SELECT '\xff'\0\0\0"),
            sync(),
            query("SELECT 1"),
        ]
        .concat(),
    );
    assert_eq!(kinds(&client.until_ready()), "EZ");
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
    // The error comes at once, not with the next Sync.
    client.send(&message(b'P', b"\0SELECT '\xff'\0\0\0"));
    assert_eq!(client.read().unwrap().0, b'E');
    client.send(&sync());
    assert_eq!(kinds(&client.until_ready()), "Z");
}

/// Answers before Sync do not gather without bounds.
#[test]
fn a_client_that_does_not_read_fills_no_memory() {
    let _memory = memory();
    let server = TestServer::start();
    let mut client = server.connect();
    let columns = vec!["1 AS a"; 2_000].join(", ");
    let messages = client.run(&[parse("q", &format!("SELECT {columns}"), &[])]);
    assert_eq!(code_of(&messages), None);
    let before = resident_bytes();
    client
        .stream
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let many = describe(b'S', "q").repeat(1_000);
    // 50 KB of answer each; it stops taking them.
    let taken = (0..20).take_while(|_| client.stream.write_all(&many).is_ok());
    let _ = taken.count();
    std::thread::sleep(Duration::from_millis(500));
    let more = resident_bytes().saturating_sub(before);
    assert!(more < 100 << 20, "{more} bytes more");
}

#[test]
fn statements_have_room_for_names_and_for_bytes() {
    let _memory = memory();
    let server = TestServer::start();
    let mut client = server.connect();
    for n in 0..1_000 {
        client.send(&parse(&format!("s{n}"), "SELECT 1", &[]));
    }
    client.send(&sync());
    assert_eq!(code_of(&client.until_ready()), None);
    // The one without a name has a place of its own.
    for _ in 0..3 {
        assert_eq!(kinds(&client.run(&[parse("", "SELECT 2", &[])])), "1Z");
    }
    let one_more = [
        parse("one more", "SELECT 1", &[]),
        parse("s", "SELECT 1", &[]),
    ];
    assert_eq!(code_of(&client.run(&one_more)).as_deref(), Some("54000"));
    client.rows("DEALLOCATE ALL");
    let long = format!("SELECT 1 -- {}", "x".repeat(60 << 20));
    let all = (0..6).map(|n| parse(&format!("long{n}"), &long, &[]));
    let codes = all.map(|parse| code_of(&client.run(&[parse])));
    assert!(codes.flatten().any(|code| code == "54000"));
}
