//! Lines of words, as people type them into telnet: quotes and escapes are taken away in place.

use super::ProtocolError;

/// Splits a line into words, up to its end or its first zero byte. Each is given by where it begins in the
/// line, which then holds it unquoted, and how long it is.
pub(crate) fn split(
    line: &mut [u8],
    mut word: impl FnMut(usize, usize),
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at == line.len() || line[at] == 0 {
            return Ok(());
        }
        let start = at;
        // What is written is never longer than what was read.
        let mut end = at;
        let mut quote = None;
        loop {
            let (byte, taken) = match (quote, line.get(at).copied()) {
                (Some(_), None) => return Err(ProtocolError::Quotes),
                (Some(b'"'), Some(b'\\')) => escaped(&line[at + 1..]),
                (Some(b'\''), Some(b'\\')) if line.get(at + 1) == Some(&b'\'') => (b'\'', 2),
                (Some(open), Some(close)) if open == close => {
                    // A closing quote ends the word: a blank or nothing comes next.
                    if line.get(at + 1).is_some_and(|byte| !is_space(*byte)) {
                        return Err(ProtocolError::Quotes);
                    }
                    at += 1;
                    break;
                }
                (None, Some(open @ (b'"' | b'\''))) => {
                    quote = Some(open);
                    at += 1;
                    continue;
                }
                (None, None | Some(b' ' | b'\n' | b'\r' | b'\t' | 0)) => break,
                (_, Some(byte)) => (byte, 1),
            };
            line[end] = byte;
            end += 1;
            at += taken;
        }
        word(start, end - start);
        if line.get(at) == Some(&0) {
            return Ok(());
        }
    }
}

/// The byte that a backslash and what follows it stand for, and how many bytes they are together.
fn escaped(after: &[u8]) -> (u8, usize) {
    match after {
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            let digit =
                |byte: &u8| char::from(*byte).to_digit(16).expect("a hexadecimal digit") as u8;
            (digit(high) << 4 | digit(low), 4)
        }
        [b'n', ..] => (b'\n', 2),
        [b'r', ..] => (b'\r', 2),
        [b't', ..] => (b'\t', 2),
        [b'b', ..] => (8, 2),
        [b'a', ..] => (7, 2),
        [other, ..] => (*other, 2),
        [] => (b'\\', 1),
    }
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}
