//! What is not the protocol.

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
