//! Requests, found in a connection's read buffer without copying them.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or one line of words
//! (`GET k\r\n`). Its arguments are ranges of the buffer. The parser goes on where it stopped: a request
//! that arrives in pieces is looked at once, however many pieces there are. Limits and messages are
//! those of Redis 7.0.

use super::inline;
use super::{Arg, ProtocolError, Request};

/// A line that does not end within this is no line.
pub(super) const LINE_MAX: usize = 64 * 1024;
/// How much a client that has not authenticated may send in one request.
const UNAUTHENTICATED_ARGUMENTS: i64 = 10;
const UNAUTHENTICATED_BYTES: i64 = 16 * 1024;

/// What a request may look like.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument in bytes (`proto-max-bulk-len`).
    pub bulk_bytes: i64,
    /// Whether the client has authenticated, or need not.
    pub trusted: bool,
}

/// Finds the requests of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// Where parsing goes on.
    at: usize,
    /// Arguments of requests found since [`Parser::forget`], then those of the one that is incomplete or was put back.
    args: Vec<Arg>,
    /// The index in `args` at which that one begins.
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
        let done = self.found_bytes();
        self.args.drain(..self.first);
        if self.args.is_empty() {
            self.args.shrink_to(1024);
        }
        self.first = 0;
        done
    }

    /// How many leading bytes of the buffer only the requests found so far need.
    pub fn found_bytes(&self) -> usize {
        let next = self.args.get(self.first);
        next.map_or(self.at, |arg| arg.start as usize)
    }

    /// The buffer has lost this many leading bytes. Only after [`Parser::forget`].
    pub fn moved(&mut self, bytes: usize) {
        debug_assert_eq!(self.first, 0);
        self.at -= bytes;
        for arg in &mut self.args {
            arg.start -= bytes as u32;
        }
    }

    /// The request that was found last is to be found again: the next one is this one.
    pub fn put_back(&mut self, request: Request) {
        debug_assert_eq!(self.first, (request.first + request.count) as usize);
        self.first = request.first as usize;
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
                if self.first < self.args.len() {
                    // It was put back.
                    return Ok(Some(self.complete()));
                }
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
        let split = inline::split(line, |from, words| {
            self.args.push(Arg {
                start: (start + from) as u32,
                len: words as u32,
            })
        });
        // Words before a mistake are no part of a request.
        split.inspect_err(|_| self.args.truncate(self.first))?;
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
