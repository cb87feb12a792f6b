//! Requests, found in a connection's read buffer without copying them.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or one line of words
//! (`GET k\r\n`). Its arguments are ranges of the buffer. The parser goes on where it stopped: a request
//! that arrives in pieces is looked at once, however many pieces there are. Limits and messages are
//! those of Redis 7.0.

use super::inline;

/// A line that does not end within this is no line.
const LINE_MAX: usize = 64 * 1024;
/// How much a client that has not authenticated may send in one request.
const UNAUTHENTICATED_ARGUMENTS: i64 = 10;
const UNAUTHENTICATED_BYTES: i64 = 16 * 1024;

/// An argument: where it is in the buffer that it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Offset of its first byte.
    pub start: u32,
    /// How many bytes it has.
    pub len: u32,
}

/// A complete request: which of the parser's arguments are its own. There is at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of the first argument, the command's name.
    pub first: u32,
    /// How many arguments there are, the name included.
    pub count: u32,
}

/// The arguments of a request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    buffer: &'a [u8],
    args: &'a [Arg],
}

impl<'a> Args<'a> {
    /// Arguments of a buffer.
    #[inline]
    pub fn new(buffer: &'a [u8], args: &'a [Arg]) -> Self {
        Self { buffer, args }
    }

    /// How many there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// An argument; 0 is the command's name.
    ///
    /// # Panics
    /// Where there is none.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let arg = self.args[index];
        &self.buffer[arg.start as usize..][..arg.len as usize]
    }

    /// An argument, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// The arguments from one on.
    #[inline]
    pub fn from(&self, index: usize) -> Args<'a> {
        Args {
            buffer: self.buffer,
            args: &self.args[index.min(self.args.len())..],
        }
    }

    /// All of them.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.args
            .iter()
            .map(move |arg| &self.buffer[arg.start as usize..][..arg.len as usize])
    }

    /// Them two by two: fields with values, scores with members. A last one without a second is left out.
    #[inline]
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        (1..self.len())
            .step_by(2)
            .map(move |second| (self.at(second - 1), self.at(second)))
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.args.iter().map(|arg| arg.len as usize).sum()
    }
}

/// What a request may look like.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument in bytes (`proto-max-bulk-len`).
    pub bulk_bytes: i64,
    /// Whether the client has authenticated, or need not.
    pub trusted: bool,
}

/// Why a connection cannot go on. The text is what Redis sends after `-ERR Protocol error: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number after `*` does not end.
    #[error("too big mbulk count string")]
    CountTooLong,
    /// The number after `*` is none, or too large.
    #[error("invalid multibulk length")]
    Count,
    /// More arguments than are believed before a password.
    #[error("unauthenticated multibulk length")]
    CountUntrusted,
    /// The number after `$` does not end.
    #[error("too big bulk count string")]
    LengthTooLong,
    /// There is something else where an argument should begin.
    #[error("expected '$', got '{}'", printable(*.0))]
    NoBulk(u8),
    /// The number after `$` is none, or too large.
    #[error("invalid bulk length")]
    Length,
    /// A longer argument than is believed before a password.
    #[error("unauthenticated bulk length")]
    LengthUntrusted,
    /// A line of words that does not end.
    #[error("too big inline request")]
    LineTooLong,
    /// A quote that is not closed.
    #[error("unbalanced quotes in request")]
    Quotes,
}

/// A line of a reply holds no line ends; Redis writes blanks instead.
fn printable(byte: u8) -> char {
    if matches!(byte, b'\r' | b'\n') {
        ' '
    } else {
        byte as char
    }
}

/// Finds the requests of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// Where parsing goes on.
    at: usize,
    /// Arguments of requests found since [`Parser::forget`], then those of the one that is incomplete.
    args: Vec<Arg>,
    /// The index in `args` at which the incomplete request begins.
    first: usize,
    /// Arguments of the incomplete request that are still to come.
    missing: usize,
    /// The length of the next argument, once its line has been read.
    bulk: Option<usize>,
}

impl Parser {
    /// The arguments that [`Request`]s number.
    #[inline]
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// How many bytes of an argument are announced but not there yet, with its line end.
    pub fn awaited(&self, filled: usize) -> usize {
        self.bulk
            .map_or(0, |len| (self.at + len + 2).saturating_sub(filled))
    }

    /// Forgets the requests found so far. Tells how many leading bytes of the buffer nothing needs any
    /// more; see [`Parser::moved`].
    pub fn forget(&mut self) -> usize {
        self.args.drain(..self.first);
        if self.args.is_empty() {
            self.args.shrink_to(1024);
        }
        self.first = 0;
        self.args.first().map_or(self.at, |arg| arg.start as usize)
    }

    /// The buffer has lost this many leading bytes. Only after [`Parser::forget`].
    pub fn moved(&mut self, bytes: usize) {
        debug_assert_eq!(self.first, 0);
        self.at -= bytes;
        for arg in &mut self.args {
            arg.start -= bytes as u32;
        }
    }

    /// The next complete request of `buffer`, which holds what has arrived so far. Lines of words are
    /// unquoted in place.
    ///
    /// # Errors
    /// What is not the protocol; nothing after it can be understood.
    #[inline]
    pub fn next(
        &mut self,
        buffer: &mut [u8],
        limits: Limits,
    ) -> Result<Option<Request>, ProtocolError> {
        loop {
            if self.missing == 0 {
                match buffer.get(self.at) {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some(count) =
                            self.number(buffer, ProtocolError::CountTooLong, ProtocolError::Count)?
                        else {
                            return Ok(None);
                        };
                        if count > i64::from(i32::MAX) {
                            return Err(ProtocolError::Count);
                        }
                        if count > UNAUTHENTICATED_ARGUMENTS && !limits.trusted {
                            return Err(ProtocolError::CountUntrusted);
                        }
                        if count <= 0 {
                            continue;
                        }
                        self.missing = count as usize;
                    }
                    Some(_) => match self.line(buffer)? {
                        Some(true) => return Ok(Some(self.complete())),
                        Some(false) => continue,
                        None => return Ok(None),
                    },
                }
            }
            while self.missing > 0 {
                if !self.bulk(buffer, limits)? {
                    return Ok(None);
                }
            }
            return Ok(Some(self.complete()));
        }
    }

    #[inline]
    fn complete(&mut self) -> Request {
        let request = Request {
            first: self.first as u32,
            count: (self.args.len() - self.first) as u32,
        };
        self.first = self.args.len();
        request
    }

    /// One argument; false where it is not there yet.
    #[inline]
    fn bulk(&mut self, buffer: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                match buffer.get(self.at) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    // Redis wants the whole line before it looks at how it begins.
                    Some(&other) => {
                        return match find_line(&buffer[self.at..]) {
                            None if buffer.len() - self.at > LINE_MAX => {
                                Err(ProtocolError::LengthTooLong)
                            }
                            None => Ok(false),
                            Some(_) => Err(ProtocolError::NoBulk(other)),
                        };
                    }
                }
                let Some(len) =
                    self.number(buffer, ProtocolError::LengthTooLong, ProtocolError::Length)?
                else {
                    return Ok(false);
                };
                if len < 0 || len > limits.bulk_bytes {
                    return Err(ProtocolError::Length);
                }
                if len > UNAUTHENTICATED_BYTES && !limits.trusted {
                    return Err(ProtocolError::LengthUntrusted);
                }
                self.bulk = Some(len as usize);
                len as usize
            }
        };
        // Whatever the two bytes after it are, they are taken for its line end, as in Redis.
        if buffer.len() - self.at < len + 2 {
            return Ok(false);
        }
        self.args.push(Arg {
            start: self.at as u32,
            len: len as u32,
        });
        self.at += len + 2;
        self.bulk = None;
        self.missing -= 1;
        Ok(true)
    }

    /// The number after the byte at `at`, to the end of its line; `None` where that is not there yet.
    #[inline]
    fn number(
        &mut self,
        buffer: &[u8],
        too_long: ProtocolError,
        wrong: ProtocolError,
    ) -> Result<Option<i64>, ProtocolError> {
        let line = &buffer[self.at..];
        // Almost all numbers have a few digits and are there as a whole.
        let mut value = 0;
        for (at, &byte) in line.iter().enumerate().skip(1).take(9) {
            match byte {
                b'0'..=b'9' if at == 1 || value > 0 => value = value * 10 + i64::from(byte - b'0'),
                b'\r' if at > 1 && at + 1 < line.len() => {
                    self.at += at + 2;
                    return Ok(Some(value));
                }
                _ => break,
            }
        }
        let Some(end) = find_line(line) else {
            return if line.len() > LINE_MAX {
                Err(too_long)
            } else {
                Ok(None)
            };
        };
        let number = crate::number::parse_i64(&line[1..end]).ok_or(wrong)?;
        self.at += end + 2;
        Ok(Some(number))
    }

    /// A line of words: true for a request, false for an empty line, `None` where it does not end yet.
    #[cold]
    fn line(&mut self, buffer: &mut [u8]) -> Result<Option<bool>, ProtocolError> {
        let Some(len) = buffer[self.at..].iter().position(|&byte| byte == b'\n') else {
            return if buffer.len() - self.at > LINE_MAX {
                Err(ProtocolError::LineTooLong)
            } else {
                Ok(None)
            };
        };
        let line = &mut buffer[self.at..self.at + len];
        let start = self.at;
        inline::split(line, |from, words| {
            self.args.push(Arg {
                start: (start + from) as u32,
                len: words as u32,
            })
        })?;
        self.at += len + 1;
        Ok(Some(self.args.len() > self.first))
    }
}

/// Where the first `\r` is, if a byte follows it.
fn find_line(buffer: &[u8]) -> Option<usize> {
    buffer
        .iter()
        .position(|&byte| byte == b'\r')
        .filter(|&at| at + 1 < buffer.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
                        let args =
                            &parser.args()[request.first as usize..][..request.count as usize];
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
            ("*1\r\n\r\n\r\n", "expected '$', got ' '"),
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
    fn what_is_awaited_is_known() {
        let mut parser = Parser::default();
        let mut buffer = b"*2\r\n$3\r\nGET\r\n$1000\r\nabc".to_vec();
        assert_eq!(parser.next(&mut buffer, LIMITS), Ok(None));
        assert_eq!(parser.awaited(buffer.len()), 999);
        assert_eq!(parser.forget(), 8);
    }
}
