//! What clients send: the protocol of Redis, and the commands that it carries.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tierra_kv::protocol::{Args, Limits, Parser, ProtocolError};
use tierra_kv::{Config, Server};

/// Requests, as lists of their words.
type Requests = Vec<Vec<Vec<u8>>>;

/// The promise of target `protocol` for `bytes`; `options` chooses the pieces in which they arrive, and whether a
/// password was said.
pub fn check(options: u8, bytes: &[u8]) {
    let limits = Limits {
        bulk_bytes: 1 << 20,
        trusted: options & 1 == 0,
    };
    let piece = 1 + usize::from(options >> 1);
    let whole = parse(bytes, usize::MAX, limits);
    assert_eq!(
        parse(bytes, piece, limits),
        whole,
        "however the bytes arrive"
    );
    // What was found, said in the longer form of the protocol, is found again.
    let (found, _) = whole;
    let again = parse(
        &encode(&found),
        piece,
        Limits {
            trusted: true,
            ..limits
        },
    );
    assert_eq!(again, (found, None));
}

/// The requests in bytes that arrive in such pieces, and why there are no more.
fn parse(bytes: &[u8], piece: usize, limits: Limits) -> (Requests, Option<ProtocolError>) {
    let (mut parser, mut buffer, mut found) = (Parser::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, limits) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    let (first, count) = (request.first as usize, request.count as usize);
                    assert!(count > 0, "a request has a name");
                    let args = Args::new(&buffer, &parser.args()[first..first + count]);
                    found.push(args.iter().map(<[u8]>::to_vec).collect());
                }
                Err(error) => return (found, Some(error)),
            }
        }
        let done = parser.forget();
        buffer.drain(..done);
        parser.moved(done);
    }
    (found, None)
}

fn encode(requests: &Requests) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend(format!("*{}\r\n", request.len()).bytes());
        for word in request {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// The promise of target `server` for bytes that a client sends: they are answered in the protocol, and the server goes
/// on, unless it was asked to end.
///
/// # Panics
/// Where it does not.
pub fn serve(bytes: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("tierra-{}-{number}.sock", std::process::id()));
    let mut config = Config {
        port: 0,
        unixsocket: Some(path.clone()),
        ..Config::default()
    };
    // What a client may make it take is bounded, so that an input is not slow because it is large.
    let settings = "--proto-max-bulk-len 1mb --maxmemory 64mb --near-memory 32mb --far-memory 64mb \
                    --client-output-buffer-limit normal 8mb 0 0 --hz 500";
    config
        .add_arguments(settings.split_whitespace().map(String::from))
        .expect("settings that there are");
    let mut server = Server::bind(config).expect("a socket of its own");
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());

    let mut client = UnixStream::connect(&path).expect("it listens");
    client
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time");
    // The server may have ended the connection before it has read all.
    let _ = client.write_all(bytes);
    let _ = client.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    match client.read_to_end(&mut replies) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("no reply in a minute")
        }
        _ => {}
    }
    let mut rest = &replies[..];
    while !rest.is_empty() {
        match reply(rest) {
            Some(len) => rest = &rest[len..],
            // A client that does not read fast enough is cut off.
            None => {
                assert!(
                    is_beginning(rest),
                    "{:?} is no reply",
                    String::from_utf8_lossy(rest)
                );
                break;
            }
        }
    }
    handle.stop();
    let ended = thread.join();
    assert!(matches!(ended, Ok(Ok(()))), "the server ended by itself");
}

fn is_beginning(bytes: &[u8]) -> bool {
    b"+-:$*_,#=%~(>".contains(&bytes[0])
}

/// How long the reply is with which the bytes begin; `None` where it is none, or not whole.
fn reply(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let text = std::str::from_utf8(&bytes[1..end]).ok();
    let count = || text?.parse::<i64>().ok();
    let mut at = end + 2;
    let parts = match bytes[0] {
        b'+' | b'-' => 0,
        b':' => count().map(|_| 0)?,
        b'_' | b'#' | b',' | b'(' => 0,
        b'$' | b'=' => {
            let len = usize::try_from(count()?).ok();
            at += len.map_or(0, |len| len + 2);
            0
        }
        b'*' | b'~' | b'>' => count()?.max(0),
        b'%' => 2 * count()?,
        _ => return None,
    };
    for _ in 0..parts {
        at += reply(bytes.get(at..).filter(|rest| !rest.is_empty())?)?;
    }
    (at <= bytes.len()).then_some(at)
}
