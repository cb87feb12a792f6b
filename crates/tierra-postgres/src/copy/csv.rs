//! CSV as COPY has it: quotes may hold anything, and only what stands without them can be NULL.

use std::borrow::Cow;

use crate::error::Fault;

/// What quotes and ends values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csv {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: u8,
}

/// Finds the ends of records in bytes that arrive in parts.
#[derive(Default)]
pub(super) struct Records {
    /// Bytes that were looked at, and whether the next is within quotes.
    at: usize,
    is_quoted: bool,
}

impl Records {
    /// The length of the first record in `input`, without its end, if it is whole.
    pub(super) fn end(&mut self, csv: Csv, input: &[u8]) -> Option<usize> {
        while let Some(byte) = input.get(self.at) {
            let byte = *byte;
            if self.is_quoted && byte == csv.escape && csv.escape != csv.quote {
                match input.get(self.at + 1) {
                    None => return None,
                    Some(next) if [csv.quote, csv.escape].contains(next) => self.at += 1,
                    Some(_) => {}
                }
            } else if byte == csv.quote {
                // A doubled quote ends the quotes and begins them again.
                self.is_quoted = !self.is_quoted;
            } else if byte == b'\n' && !self.is_quoted {
                self.is_quoted = false;
                return Some(std::mem::take(&mut self.at));
            }
            self.at += 1;
        }
        None
    }

    /// Whether the input ends within quotes.
    pub(super) fn is_open(&self) -> bool {
        self.is_quoted
    }
}

/// A value, and whether any of it was quoted.
pub(super) type Field<'a> = (Cow<'a, [u8]>, bool);

/// The values of a record.
pub(super) fn fields(csv: Csv, record: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Fault>> {
    let mut rest = Some(record);
    std::iter::from_fn(move || {
        let record = rest?;
        let end = record
            .iter()
            .position(|byte| *byte == csv.delimiter || *byte == csv.quote);
        match end {
            None => {
                rest = None;
                Some(Ok((Cow::Borrowed(record), false)))
            }
            Some(end) if record[end] == csv.delimiter => {
                rest = Some(&record[end + 1..]);
                Some(Ok((Cow::Borrowed(&record[..end]), false)))
            }
            Some(_) => {
                let (value, after) = match with_quotes(csv, record) {
                    Ok(found) => found,
                    Err(fault) => {
                        rest = None;
                        return Some(Err(fault));
                    }
                };
                rest = after;
                Some(Ok((Cow::Owned(value), true)))
            }
        }
    })
}

/// A value of which a part is quoted, and what follows its delimiter.
fn with_quotes(csv: Csv, record: &[u8]) -> Result<(Vec<u8>, Option<&[u8]>), Fault> {
    let (mut value, mut is_quoted, mut at) = (Vec::new(), false, 0);
    while let Some(byte) = record.get(at) {
        let byte = *byte;
        let next = record.get(at + 1);
        if is_quoted
            && byte == csv.escape
            && next.is_some_and(|next| *next == csv.quote || *next == csv.escape)
        {
            value.extend(next);
            at += 1;
        } else if byte == csv.quote {
            is_quoted = !is_quoted;
        } else if byte == csv.delimiter && !is_quoted {
            return Ok((value, Some(&record[at + 1..])));
        } else {
            value.push(byte);
        }
        at += 1;
    }
    match is_quoted {
        true => Err(Fault::new("22P04", "a quote is not closed")),
        false => Ok((value, None)),
    }
}

/// Writes a value, in quotes if it needs them.
pub(super) fn put(csv: Csv, value: &[u8], null: &[u8], is_only: bool, output: &mut Vec<u8>) {
    let needs_quotes = value == null
        // It would end the input.
        || (is_only && value == b"\\.")
        || value
            .iter()
            .any(|byte| [csv.delimiter, csv.quote, b'\n', b'\r'].contains(byte));
    if !needs_quotes {
        output.extend_from_slice(value);
        return;
    }
    output.push(csv.quote);
    for byte in value {
        if [csv.quote, csv.escape].contains(byte) {
            output.push(csv.escape);
        }
        output.push(*byte);
    }
    output.push(csv.quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Csv = Csv {
        delimiter: b',',
        quote: b'"',
        escape: b'"',
    };

    fn all(record: &str) -> Vec<(String, bool)> {
        let fields = fields(CSV, record.as_bytes());
        fields
            .map(|field| {
                let (value, quoted) = field.unwrap();
                (String::from_utf8(value.into_owned()).unwrap(), quoted)
            })
            .collect()
    }

    #[test]
    fn quotes_hold_anything() {
        let field = |text: &str, quoted| (text.to_owned(), quoted);
        assert_eq!(
            all("a,,\"\""),
            [field("a", false), field("", false), field("", true)]
        );
        assert_eq!(
            all("\"x,\"\"y\"\"\n\",z"),
            [field("x,\"y\"\n", true), field("z", false)]
        );
        assert_eq!(all("a\"b,c\"d"), [field("ab,cd", true)]);
        assert!(fields(CSV, b"\"open").next().unwrap().is_err());
        let other = Csv {
            escape: b'\\',
            ..CSV
        };
        let (value, _) = fields(other, b"\"a\\\"b\\\\\"").next().unwrap().unwrap();
        assert_eq!(&*value, b"a\"b\\");
    }

    #[test]
    fn records_end_outside_of_quotes_wherever_they_are_cut() {
        let text = b"1,\"a\n\"\"b\"\n2,c\nrest";
        for cut in 0..text.len() {
            let mut records = Records::default();
            let first = records
                .end(CSV, &text[..cut])
                .or_else(|| records.end(CSV, text));
            assert_eq!(first, Some(9), "cut at {cut}");
        }
        let mut records = Records::default();
        assert_eq!(records.end(CSV, b"\"open\n"), None);
        assert!(records.is_open());
    }

    #[test]
    fn what_is_written_is_read_again() {
        for value in ["", "a", "x,y", "say \"hi\"", "two\nlines", "\\.", "NULL"] {
            for null in ["", "NULL"] {
                let mut output = Vec::new();
                put(CSV, value.as_bytes(), null.as_bytes(), true, &mut output);
                let text = String::from_utf8(output).unwrap();
                let found = all(&text);
                assert_eq!(found[0].0, value);
                assert!(found[0].1 || found[0].0 != null, "it would be NULL");
            }
        }
    }
}
