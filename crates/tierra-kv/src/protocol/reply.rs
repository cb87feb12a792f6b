//! Replies, appended to a connection's write buffer in RESP2 or RESP3.
//!
//! ```text
//!  full: │ piece │ piece │ piece with one large value │   buffer: │ what is written to        │
//! ```
//!
//! Many replies are many pieces: what has been written is never copied to make room for more. A piece that has no
//! room for the next element is full, and another one is begun, of [`PIECE_BYTES`] or as long as that element.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::number::{push_double, push_i64, push_u64};

/// Bytes of a piece, unless it is begun for a longer value.
const PIECE_BYTES: usize = 256 * 1024;
/// What an element takes beside the bytes of its value, at most.
const FRAME_BYTES: usize = 32;

/// Where replies go.
#[derive(Debug)]
pub struct Reply {
    /// The last bytes to be sent.
    buffer: Vec<u8>,
    /// Those before them.
    full: VecDeque<Vec<u8>>,
    full_bytes: usize,
    /// Whether the client asked for RESP3.
    pub resp3: bool,
    /// So many bytes may be there, about: no element that goes beyond it is written.
    pub limit_bytes: usize,
    is_over: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            full: VecDeque::new(),
            full_bytes: 0,
            resp3: false,
            limit_bytes: usize::MAX,
            is_over: false,
        }
    }
}

impl Reply {
    /// Whether something was not written because of the limit: what is there is of no use.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes that were written and not [taken](Self::take_sent).
    #[inline]
    pub fn len(&self) -> usize {
        self.full_bytes + self.buffer.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next piece has to be given ([`give`](Self::give)), or is begun when it is written to.
    #[inline]
    pub fn has_buffer(&self) -> bool {
        self.buffer.capacity() > 0
    }

    /// The piece that is written to next, where there is none.
    #[inline]
    pub fn give(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty() && !self.has_buffer());
        self.buffer = buffer;
    }

    /// Room for an element of so many bytes beside its frame.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.buffer.capacity() - self.buffer.len() < bytes.saturating_add(FRAME_BYTES) {
            self.begin_piece(bytes);
        }
    }

    /// Makes room where many small replies, which do not ask for it, may follow each other.
    #[inline]
    pub fn make_some_room(&mut self) {
        self.make_room(0);
    }

    #[cold]
    fn begin_piece(&mut self, bytes: usize) {
        let capacity = bytes.saturating_add(FRAME_BYTES).max(PIECE_BYTES);
        let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(capacity));
        if !full.is_empty() {
            self.full_bytes += full.len();
            self.full.push_back(full);
        }
    }

    /// Bytes that are no element of a reply.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// The first pieces, as many as `slices` takes and `most` bytes of them, without the first `skipped` bytes, which lie in the
    /// first. How many pieces these are.
    pub fn pieces<'a>(&'a self, skipped: usize, most: usize, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut skip, mut left, mut count) = (skipped, most, 0);
        for (slice, piece) in slices
            .iter_mut()
            .zip(self.full.iter().chain([&self.buffer]))
        {
            let end = piece.len().min(skip.saturating_add(left));
            if end == skip {
                break;
            }
            *slice = IoSlice::new(&piece[skip..end]);
            left -= end - skip;
            skip = 0;
            count += 1;
        }
        count
    }

    /// The only piece, where there is one.
    #[inline]
    pub fn only_piece(&self) -> Option<&[u8]> {
        self.full.is_empty().then_some(&self.buffer[..])
    }

    /// Takes the first piece away, if the first `sent` bytes of all have been sent and it is within them.
    pub fn take_sent(&mut self, sent: &mut usize) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let first = self.full.front().unwrap_or(&self.buffer);
        *sent = sent.checked_sub(first.len())?;
        match self.full.pop_front() {
            Some(first) => {
                self.full_bytes -= first.len();
                Some(first)
            }
            None => Some(std::mem::take(&mut self.buffer)),
        }
    }

    /// Takes away what would be written to, where nothing is there.
    #[inline]
    pub fn take_buffer(&mut self) -> Option<Vec<u8>> {
        (self.is_empty() && self.has_buffer()).then(|| std::mem::take(&mut self.buffer))
    }

    /// All pieces, in order.
    pub fn into_pieces(self) -> impl Iterator<Item = Vec<u8>> {
        self.full.into_iter().chain([self.buffer])
    }

    /// Forgets what was written from a place on, and what was not.
    pub fn truncate(&mut self, len: usize) {
        self.is_over = false;
        self.cut(len);
    }

    /// Forgets what was written from a place on.
    pub fn cut(&mut self, len: usize) {
        while self.full_bytes > len
            && let Some(last) = self.full.pop_back()
        {
            self.full_bytes -= last.len();
            self.buffer = last;
        }
        self.buffer.truncate(len - self.full_bytes);
    }

    /// Whether so many bytes more are within the limit. What there is only one of for a request, or for one of its arguments, is
    /// written without asking.
    #[inline]
    fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.len().saturating_add(bytes) <= self.limit_bytes;
        self.is_over |= !fits;
        fits
    }

    /// The elements of another reply.
    pub fn append(&mut self, other: &Reply) {
        if self.takes(other.len()) {
            for piece in other.full.iter().chain([&other.buffer]) {
                self.raw(piece);
            }
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: usize) {
        if self.takes(0) {
            self.make_room(0);
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
        self.make_room(bytes.len());
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
        self.make_room(0);
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
            self.make_room(0);
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
            self.make_room(text.len());
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
            String::from_utf8(reply.into_pieces().flatten().collect()).unwrap()
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
            let len = reply.len();
            reply.bulk(&[b'x'; 500]);
            assert!(reply.is_over() && reply.len() == len);
            let mut long = Reply::default();
            long.raw(&[b'x'; 500]);
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
                assert!(reply.len() < 1200, "{}", reply.len());
            }
        }
    }

    /// The bytes are those of one long buffer, whatever is written, forgotten and sent between; and none of them is ever moved.
    #[test]
    fn pieces_are_one_reply() {
        let (mut reply, mut oracle, mut random) = (Reply::default(), Vec::new(), 7u64);
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % limit
        };
        for _ in 0..4000 {
            let value = vec![below(256) as u8; below(5) as usize * 70_000 + below(300) as usize];
            match below(8) {
                0 => {
                    let len = below(oracle.len() as u64 + 1) as usize;
                    reply.truncate(len);
                    oracle.truncate(len);
                }
                1 => {
                    let (mut skipped, mut slices) = (0, [IoSlice::new(&[]); 3]);
                    let count = reply.pieces(0, 1 << 20, &mut slices);
                    let shown: usize = slices[..count].iter().map(|slice| slice.len()).sum();
                    let mut sent = below(shown as u64 + 1) as usize;
                    let all = sent;
                    while let Some(piece) = reply.take_sent(&mut sent) {
                        skipped += piece.len();
                    }
                    assert_eq!(skipped + sent, all);
                    assert_eq!(oracle.drain(..skipped).len(), skipped);
                }
                2 => {
                    reply.integer(1234);
                    oracle.extend(b":1234\r\n");
                }
                _ => {
                    reply.bulk(&value);
                    oracle.extend(format!("${}\r\n", value.len()).bytes());
                    oracle.extend([&value[..], b"\r\n"].concat());
                }
            }
            assert_eq!(reply.len(), oracle.len());
            let longest = reply.full.iter().map(Vec::capacity).max();
            assert!(
                longest.is_none_or(|bytes| bytes < 2 * PIECE_BYTES),
                "{longest:?}"
            );
        }
        assert!(reply.full.len() > 10);
        assert!(reply.into_pieces().flatten().eq(oracle));
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
