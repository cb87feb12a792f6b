//! Replies, appended to a connection's write buffer in RESP2 or RESP3.

use crate::number::{push_double, push_i64, push_u64};

/// Where replies go.
#[derive(Debug)]
pub struct Reply {
    /// Bytes to be sent.
    pub buffer: Vec<u8>,
    /// Whether the client asked for RESP3.
    pub resp3: bool,
    /// The buffer takes about so many bytes: no element that goes beyond it is written.
    pub limit_bytes: usize,
    is_over: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            resp3: false,
            limit_bytes: usize::MAX,
            is_over: false,
        }
    }
}

impl Reply {
    /// Whether something was not written because of the limit: what is there is of no use to anybody.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Forgets what was written from a place on, and what was not.
    pub fn truncate(&mut self, len: usize) {
        self.buffer.truncate(len);
        self.is_over = false;
    }

    /// Whether so many bytes more are within the limit. What there is only one of for a request, or for one of its arguments, is
    /// written without asking.
    #[inline]
    fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.buffer.len().saturating_add(bytes) <= self.limit_bytes;
        self.is_over |= !fits;
        fits
    }

    /// The elements of another reply.
    pub fn append(&mut self, other: &Reply) {
        if self.takes(other.buffer.len()) {
            self.buffer.extend_from_slice(&other.buffer);
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: usize) {
        if self.takes(0) {
            self.push_header(kind, number);
        }
    }

    #[inline]
    fn push_header(&mut self, kind: u8, number: usize) {
        self.buffer.push(kind);
        push_u64(&mut self.buffer, number as u64);
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.buffer.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line ends.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.buffer.push(b'+');
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// An error: a word in capitals, then what is wrong. Line ends become blanks, and go at its end.
    pub fn error(&mut self, text: &[u8]) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let end = text.iter().rposition(|byte| !is_line_end(byte));
        let text = &text[..end.map_or(0, |last| last + 1)];
        self.buffer.push(b'-');
        self.buffer.extend(text.iter().map(|&byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                byte
            }
        }));
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        match number {
            0 => self.buffer.extend_from_slice(b":0\r\n"),
            1 => self.buffer.extend_from_slice(b":1\r\n"),
            _ => {
                self.buffer.push(b':');
                push_i64(&mut self.buffer, number);
                self.buffer.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.takes(bytes.len()) {
            return;
        }
        // One reservation for the whole of it: a large value is copied once.
        self.buffer.reserve(bytes.len() + 32);
        self.push_header(b'$', bytes.len());
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// Bytes, or nothing.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A number as bytes.
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Nothing.
    #[inline]
    pub fn null(&mut self) {
        self.buffer
            .extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.buffer
            .extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array: `len` replies follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// A map: `pairs` times two replies follow.
    pub fn map(&mut self, pairs: usize) {
        if self.resp3 {
            self.header(b'%', pairs)
        } else {
            self.header(b'*', 2 * pairs)
        }
    }

    /// A set: `len` replies follow.
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len);
    }

    /// A number with a fraction.
    pub fn double(&mut self, value: f64) {
        if self.resp3 {
            if !self.takes(0) {
                return;
            }
            self.buffer.push(b',');
            push_double(&mut self.buffer, value);
            self.buffer.extend_from_slice(b"\r\n");
        } else {
            self.bulk_double(value);
        }
    }

    /// A number with a fraction as bytes, whatever the protocol.
    pub fn bulk_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(32);
        push_double(&mut text, value);
        self.bulk(&text);
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if self.resp3 {
            if !self.takes(text.len()) {
                return;
            }
            self.push_header(b'=', text.len() + 4);
            self.buffer.extend_from_slice(b"txt:");
            self.buffer.extend_from_slice(text);
            self.buffer.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Reply)) -> [String; 2] {
        [false, true].map(|resp3| {
            let mut reply = Reply {
                resp3,
                ..Reply::default()
            };
            write(&mut reply);
            String::from_utf8(reply.buffer).unwrap()
        })
    }

    #[test]
    fn beyond_the_limit_nothing_is_written() {
        for resp3 in [false, true] {
            let mut reply = Reply {
                resp3,
                limit_bytes: 1000,
                ..Reply::default()
            };
            reply.bulk(&[b'x'; 500]);
            assert!(!reply.is_over());
            let len = reply.buffer.len();
            reply.bulk(&[b'x'; 500]);
            assert!(reply.is_over() && reply.buffer.len() == len);
            let long = Reply {
                buffer: vec![b'x'; 500],
                ..Reply::default()
            };
            let write: [fn(&mut Reply, &Reply); 5] = [
                |reply, _| reply.bulk(&[b'x'; 100]),
                |reply, _| reply.array(10),
                |reply, _| reply.double(0.1),
                |reply, _| reply.verbatim([b'x'; 100]),
                |reply, long| reply.append(long),
            ];
            for write in write {
                reply.truncate(len);
                assert!(!reply.is_over());
                for _ in 0..1000 {
                    write(&mut reply, &long);
                }
                assert!(reply.is_over());
                assert!(reply.buffer.len() < 1200, "{}", reply.buffer.len());
            }
        }
    }

    #[test]
    fn replies_speak_both_protocols() {
        assert_eq!(both(|r| r.bulk(b"a\r\nb")), ["$4\r\na\r\nb\r\n"; 2]);
        assert_eq!(both(|r| r.integer(-12)), [":-12\r\n"; 2]);
        assert_eq!(both(Reply::null), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(Reply::null_array), ["*-1\r\n", "_\r\n"]);
        assert_eq!(both(|r| r.map(3)), ["*6\r\n", "%3\r\n"]);
        assert_eq!(both(|r| r.set(3)), ["*3\r\n", "~3\r\n"]);
        assert_eq!(both(|r| r.double(1.5)), ["$3\r\n1.5\r\n", ",1.5\r\n"]);
        assert_eq!(
            both(|r| r.double(f64::NEG_INFINITY)),
            ["$4\r\n-inf\r\n", ",-inf\r\n"]
        );
        assert_eq!(
            both(|r| r.verbatim("a")),
            ["$1\r\na\r\n", "=5\r\ntxt:a\r\n"]
        );
        assert_eq!(both(|r| r.error(b"ERR a\r\nb")), ["-ERR a  b\r\n"; 2]);
    }
}
