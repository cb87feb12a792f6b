//! Requests, however they arrive, and what is refused.

use proptest::prelude::*;

use super::parser::LINE_MAX;
use super::{Args, Limits, Parser, ProtocolError};

const LIMITS: Limits = Limits {
    bulk_bytes: 512 << 20,
    trusted: true,
};

fn encode(request: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", request.len()).into_bytes();
    for arg in request {
        out.extend(format!("${}\r\n", arg.len()).into_bytes());
        out.extend(arg);
        out.extend(b"\r\n");
    }
    out
}

/// Everything that is found when `bytes` arrive in these pieces, with the buffer compacted in between.
fn parse_pieces(
    bytes: &[u8],
    pieces: &[usize],
    limits: Limits,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut parser, mut buffer, mut found) = (Parser::default(), Vec::new(), Vec::new());
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(pieces.next().unwrap().clamp(1, rest.len()));
        rest = later;
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, limits) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    let args = &parser.args()[request.first as usize..][..request.count as usize];
                    found.push(
                        Args::new(&buffer, args)
                            .iter()
                            .map(<[u8]>::to_vec)
                            .collect(),
                    );
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

proptest! {
    #[test]
    fn requests_are_found_however_they_arrive(
        requests in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..8),
        pieces in prop::collection::vec(1usize..30, 0..100),
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
        prop_assert_eq!(parse_pieces(&bytes, &pieces, LIMITS), (requests, None));
    }

    /// Any bytes at all: no panic, and the pieces they come in make no difference.
    #[test]
    fn any_bytes_mean_the_same_in_one_piece_and_in_many(
        bytes in prop::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'"'), Just(b'1'), Just(b'-'), any::<u8>()], 0..80),
        pieces in prop::collection::vec(1usize..9, 0..80),
    ) {
        prop_assert_eq!(parse_pieces(&bytes, &pieces, LIMITS), parse_pieces(&bytes, &[], LIMITS));
    }
}

fn one(bytes: &[u8], limits: Limits) -> Result<usize, String> {
    let (found, error) = parse_pieces(bytes, &[], limits);
    error.map_or(Ok(found.len()), |error| Err(error.to_string()))
}

#[test]
fn what_is_wrong_is_named_as_redis_names_it() {
    for (bytes, text) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("GET \"k\r\n", "unbalanced quotes in request"),
        ("GET \"k\"x\r\n", "unbalanced quotes in request"),
    ] {
        assert_eq!(one(bytes.as_bytes(), LIMITS), Err(text.into()), "{bytes:?}");
    }
    let long = |start: &str| [start.as_bytes(), &[b'1'; LINE_MAX + 1]].concat();
    assert_eq!(
        one(&long("*"), LIMITS),
        Err("too big mbulk count string".into())
    );
    assert_eq!(
        one(&long("*1\r\n$"), LIMITS),
        Err("too big bulk count string".into())
    );
    assert_eq!(
        one(&long("GET "), LIMITS),
        Err("too big inline request".into())
    );
}

#[test]
fn without_a_password_little_is_believed() {
    let limits = Limits {
        trusted: false,
        ..LIMITS
    };
    assert_eq!(
        one(b"*11\r\n", limits),
        Err("unauthenticated multibulk length".into())
    );
    assert_eq!(
        one(b"*1\r\n$16385\r\n", limits),
        Err("unauthenticated bulk length".into())
    );
    assert_eq!(one(b"*1\r\n$4\r\nPING\r\n", limits), Ok(1));
}

#[test]
fn lines_of_words_are_requests() {
    let (found, error) = parse_pieces(
        b"PING\r\n\r\n*0\r\n*-1\r\n  SET  k \"a\\x41\\n\\\"\" 'it\\'s' \nGET k\r\n",
        &[3, 5, 1],
        LIMITS,
    );
    assert_eq!(error, None);
    let words = |request: &[&str]| {
        request
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found,
        [
            words(&["PING"]),
            words(&["SET", "k", "aA\n\"", "it's"]),
            words(&["GET", "k"])
        ]
    );
}

#[test]
fn words_of_a_line_that_is_refused_are_forgotten() {
    let (mut parser, mut buffer) = (Parser::default(), b" word \"open\n".to_vec());
    let refused = parser.next(&mut buffer, LIMITS);
    assert!(matches!(refused, Err(ProtocolError::Quotes)));
    assert_eq!((parser.args().len(), parser.forget()), (0, 0));
    parser.moved(0);
}

#[test]
fn what_is_awaited_is_known() {
    let mut parser = Parser::default();
    let mut buffer = b"*2\r\n$3\r\nGET\r\n$1000\r\nabc".to_vec();
    assert_eq!(parser.next(&mut buffer, LIMITS), Ok(None));
    assert_eq!(parser.awaited(buffer.len()), 999);
    assert_eq!(parser.forget(), 8);
}

/// Each request is put back once, and the buffer compacted, before it is taken: the same come in the same order.
#[test]
fn a_request_that_was_put_back_comes_again() {
    let text = b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\nSET \"a\\x41\" 'b c'\r\n\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET";
    let (mut parser, mut buffer, mut found) = (Parser::default(), text.to_vec(), Vec::new());
    while let Some(request) = parser.next(&mut buffer, LIMITS).unwrap() {
        parser.put_back(request);
        let done = parser.forget();
        buffer.drain(..done);
        parser.moved(done);
        let again = parser.next(&mut buffer, LIMITS).unwrap().unwrap();
        let args = &parser.args()[again.first as usize..][..again.count as usize];
        let words: Vec<Vec<u8>> = Args::new(&buffer, args)
            .iter()
            .map(<[u8]>::to_vec)
            .collect();
        found.push(words);
    }
    let expected: [&[&str]; 3] = [&["ECHO", ""], &["SET", "aA", "b c"], &["PING"]];
    assert_eq!(
        found,
        expected.map(|words| words
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect::<Vec<_>>())
    );
    buffer.extend_from_slice(b"\r\n$1\r\nk\r\n");
    assert!(parser.next(&mut buffer, LIMITS).unwrap().is_some());
}
