//! COPY's own text: a line for each row, values escaped with backslashes.

use std::borrow::Cow;

/// Finds the ends of lines in bytes that arrive in parts.
#[derive(Default)]
pub(super) struct Lines {
    /// Bytes that were looked at.
    at: usize,
}

impl Lines {
    /// The length of the first line in `input`, without its end, if it is whole.
    pub(super) fn end(&mut self, input: &[u8]) -> Option<usize> {
        while let Some(byte) = input.get(self.at) {
            match byte {
                b'\n' => return Some(std::mem::take(&mut self.at)),
                // Whatever follows, also a new line, is part of a value.
                b'\\' if self.at + 1 == input.len() => return None,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        None
    }
}

/// The values of a line, as they are written.
pub(super) fn fields(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let mut at = 0;
        while let Some(byte) = line.get(at) {
            match byte {
                b'\\' => at += 2,
                byte if *byte == delimiter => {
                    rest = Some(&line[at + 1..]);
                    return Some(&line[..at]);
                }
                _ => at += 1,
            }
        }
        rest = None;
        Some(line)
    })
}

/// A value without its escapes.
pub(super) fn unescaped(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let mut value = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            value.push(*first);
            continue;
        }
        let Some((letter, tail)) = rest.split_first() else {
            value.push(b'\\');
            break;
        };
        rest = tail;
        match letter {
            b'b' => value.push(8),
            b'f' => value.push(12),
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b't' => value.push(b'\t'),
            b'v' => value.push(11),
            b'0'..=b'7' => {
                let mut byte = letter - b'0';
                for _ in 0..2 {
                    if let [digit @ b'0'..=b'7', tail @ ..] = rest {
                        byte = byte.wrapping_mul(8).wrapping_add(digit - b'0');
                        rest = tail;
                    }
                }
                value.push(byte);
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let mut byte = 0_u8;
                for _ in 0..2 {
                    if let Some((digit, tail)) = rest.split_first()
                        && let Some(digit) = char::from(*digit).to_digit(16)
                    {
                        byte = byte << 4 | digit as u8;
                        rest = tail;
                    }
                }
                value.push(byte);
            }
            other => value.push(*other),
        }
    }
    Cow::Owned(value)
}

/// Writes a value with escapes.
pub(super) fn put_escaped(value: &[u8], delimiter: u8, output: &mut Vec<u8>) {
    for byte in value {
        let letter = match byte {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            byte if *byte == delimiter => delimiter,
            byte => {
                output.push(*byte);
                continue;
            }
        };
        output.extend([b'\\', letter]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_postgresql() {
        for (field, value) in [
            (&b"plain"[..], &b"plain"[..]),
            (b"a\\tb\\\\c", b"a\tb\\c"),
            (b"\\101\\x41\\x4", b"AA\x04"),
            (b"\\q\\", b"q\\"),
            (b"\\\n", b"\n"),
        ] {
            assert_eq!(&*unescaped(field), value);
        }
        let mut output = Vec::new();
        put_escaped(b"a\tb\\\n|\xc3\xa9", b'|', &mut output);
        assert_eq!(output, b"a\\tb\\\\\\n\\|\xc3\xa9");
        assert_eq!(&*unescaped(&output), b"a\tb\\\n|\xc3\xa9");
    }

    #[test]
    fn lines_and_values_end_at_marks_that_are_not_escaped() {
        let mut lines = Lines::default();
        assert_eq!(lines.end(b"a\\"), None);
        assert_eq!(lines.end(b"a\\\nb"), None);
        assert_eq!(lines.end(b"a\\\nb\nrest"), Some(4));
        let all: Vec<&[u8]> = fields(b"a\\\tb\t\tc\\", b'\t').collect();
        assert_eq!(all, [&b"a\\\tb"[..], b"", b"c\\"]);
        assert_eq!(fields(b"", b'\t').count(), 1);
    }
}
