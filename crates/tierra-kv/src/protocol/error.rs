//! What is not the protocol.

/// Why a connection cannot go on. The text is what Redis sends after `-ERR Protocol error: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number after `*` does not end.
    #[error("too big mbulk count string")]
    CountTooLong,
    /// The number after `*` is none, or too large.
    #[error("invalid multibulk length")]
    Count,
    /// More arguments than are accepted before authentication.
    #[error("unauthenticated multibulk length")]
    CountUntrusted,
    /// The number after `$` does not end.
    #[error("too big bulk count string")]
    LengthTooLong,
    /// There is something else where an argument should begin.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    /// The number after `$` is none, or too large.
    #[error("invalid bulk length")]
    Length,
    /// A longer argument than is accepted before authentication.
    #[error("unauthenticated bulk length")]
    LengthUntrusted,
    /// A line of words that does not end.
    #[error("too big inline request")]
    LineTooLong,
    /// A quote that is not closed.
    #[error("unbalanced quotes in request")]
    Quotes,
}

impl ProtocolError {
    /// The text of the error reply. What the client has sent instead of an argument stands in it as it is.
    pub fn reply_text(&self) -> Vec<u8> {
        let mut text = b"ERR Protocol error: ".to_vec();
        match self {
            Self::NoBulk(byte) => {
                text.extend_from_slice(&[b"expected '$', got '", &[*byte][..], b"'"].concat());
            }
            other => text.extend_from_slice(other.to_string().as_bytes()),
        }
        text
    }
}
