//! The client's messages, from bytes that are not trusted.
//!
//! pgwire's decoder is not used: it panics on a message that is shorter than it says, reads over a message's end into the next,
//! and replaces bytes that are no UTF-8, which would change values in silence.

use bytes::{Buf, Bytes};

use crate::error::Fault;

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement,
    Portal,
}

/// A message of the client, after it has logged in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Query(String),
    Parse {
        name: String,
        text: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target, String),
    Execute {
        portal: String,
        /// The most rows; 0 for all.
        most: u64,
    },
    Close(Target, String),
    Sync,
    Flush,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    Password(Bytes),
}

/// The arguments of a prepared statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    /// `None` is NULL.
    pub(crate) arguments: Vec<Option<Bytes>>,
    pub(crate) result_formats: Vec<i16>,
}

impl Message {
    /// The message of this type and body.
    pub(crate) fn of(kind: u8, body: Bytes) -> Result<Self, Fault> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => Self::Parse {
                name: body.text()?,
                text: body.text()?,
                types: body.list(Body::u32)?,
            },
            b'B' => Self::Bind(Bind {
                portal: body.text()?,
                statement: body.text()?,
                formats: body.list(Body::i16)?,
                arguments: body.list(Body::value)?,
                result_formats: body.list(Body::i16)?,
            }),
            b'D' => Self::Describe(body.target()?, body.text()?),
            b'C' => Self::Close(body.target()?, body.text()?),
            b'E' => Self::Execute {
                portal: body.text()?,
                // A negative number means all, as in PostgreSQL.
                most: u64::try_from(body.u32()?.cast_signed()).unwrap_or(0),
            },
            b'S' => Self::Sync,
            b'H' => Self::Flush,
            b'X' => Self::Terminate,
            b'd' => Self::CopyData(body.rest()),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(body.text()?),
            b'p' => Self::Password(body.rest()),
            b'F' => return Err(Fault::unsupported("the function call protocol")),
            other => {
                return Err(Fault::protocol(format!(
                    "no message has the type {:?}",
                    char::from(other)
                )));
            }
        };
        match body.0.is_empty() {
            true => Ok(message),
            false => Err(Fault::protocol(format!(
                "a message of type {:?} is longer than what it holds",
                char::from(kind)
            ))),
        }
    }
}

/// What is left of a message's body.
pub(crate) struct Body(pub(crate) Bytes);

impl Body {
    fn short() -> Fault {
        Fault::protocol("a message ends too early")
    }

    fn take(&mut self, len: usize) -> Result<Bytes, Fault> {
        match len <= self.0.len() {
            true => Ok(self.0.split_to(len)),
            false => Err(Self::short()),
        }
    }

    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    /// The next bytes, read in place: a part of the body counts its references.
    fn chunk<const LEN: usize>(&mut self) -> Result<[u8; LEN], Fault> {
        let bytes = *self.0.first_chunk::<LEN>().ok_or_else(Self::short)?;
        self.0.advance(LEN);
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Fault> {
        self.chunk().map(i16::from_be_bytes)
    }

    /// A text that ends with a zero.
    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(Self::short)?;
        let text = std::str::from_utf8(&self.0[..end]).map_err(|_| Fault::not_utf8())?;
        let text = text.to_owned();
        self.0.advance(end + 1);
        Ok(text)
    }

    /// A length and so many bytes; `None` for the length -1.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, Fault> {
        match self.u32()?.cast_signed() {
            -1 => Ok(None),
            len => {
                let len = usize::try_from(len).map_err(|_| Self::short())?;
                self.take(len).map(Some)
            }
        }
    }

    fn list<T>(&mut self, item: fn(&mut Self) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
        let count = self.i16()?.cast_unsigned();
        (0..count).map(|_| item(self)).collect()
    }

    fn target(&mut self) -> Result<Target, Fault> {
        match self.chunk::<1>()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            _ => Err(Fault::protocol(
                "Describe and Close are about 'S', a statement, or 'P', a portal",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: u8, body: &'static [u8]) -> Result<Message, &'static str> {
        Message::of(kind, Bytes::from_static(body)).map_err(|fault| fault.code)
    }

    #[test]
    fn whole_messages_are_read() {
        assert_eq!(
            of(b'Q', b"SELECT 1\0"),
            Ok(Message::Query("SELECT 1".into()))
        );
        let bind = of(
            b'B',
            b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\0",
        )
        .unwrap();
        let Message::Bind(bind) = bind else {
            panic!("{bind:?}")
        };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
        assert_eq!(bind.arguments, [Some(Bytes::from_static(b"hi")), None]);
        assert_eq!((bind.formats, bind.result_formats), (vec![1], vec![]));
        let all = of(b'E', b"\0\xff\xff\xff\xff").unwrap();
        assert_eq!(
            all,
            Message::Execute {
                portal: String::new(),
                most: 0
            }
        );
    }

    /// Each of these panics or reads on in pgwire 0.42.1.
    #[test]
    fn half_messages_and_lies_are_errors() {
        for (kind, body) in [
            (b'Q', &b"SELECT 1"[..]),
            (b'P', b"\0SELECT 1\0"),
            (b'P', b"\0SELECT 1\0\xff\xff"),
            (b'P', b"\0SELECT 1\0\0\x02\0\0\0\x17"),
            (b'B', b"\0\0\0\0\0\x01\0\0\0\x09abc\0\0"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'B', b"\0\0\0\0\0\0"),
            (b'E', b"\0\0"),
            (b'D', b""),
            (b'D', b"X\0"),
            (b'Q', b"SELECT 1\0Q"),
            (b'z', b""),
        ] {
            assert_eq!(of(kind, body), Err("08P01"), "{body:?}");
        }
        assert_eq!(of(b'Q', b"SELECT '\xff'\0"), Err("22021"));
        assert_eq!(of(b'F', b""), Err("0A000"));
    }

    /// Every prefix of a message is an error, and no panic.
    #[test]
    fn no_prefix_is_a_message() {
        let whole = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\x01";
        for end in 0..whole.len() {
            assert!(of(b'B', &whole[..end]).is_err(), "{end}");
        }
    }
}
