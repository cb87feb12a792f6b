//! Records of a CSV file (RFC 4180), with a flag per quoted field and the line on which each record begins.
//!
//! The tests compare it with the `csv` crate. That crate does not distinguish an empty field from a quoted one, accepts
//! the end of the file as a closing quote, and counts lines correctly only in some files.
//!
//! A field that begins with a quote ends at the next quote that is not doubled. After it the record or the field must end;
//! anything else means that a quote is missing. Elsewhere a quote is an ordinary character. Records end at LF, CRLF or
//! CR. An empty line is no record, except if records have one field, which such a line leaves empty.

use std::io::{self, Read};
use std::ops::Range;

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// A longer record is treated as one without its closing quote, before it takes all memory.
const RECORD_MOST_BYTES: usize = 1 << 28;
/// The most fields of a record: more than the names of a table's columns.
const FIELDS_MOST: usize = 1 << 17;

/// One field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Its bytes, without the quotes around them.
    pub(super) bytes: &'a [u8],
    /// Whether it was quoted.
    pub(super) quoted: bool,
}

/// One record; its buffers are reused for the next.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    text: Vec<u8>,
    fields: Vec<(Range<usize>, bool)>,
}

impl Record {
    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The field at `place`.
    ///
    /// # Panics
    /// If there are fewer fields.
    pub(super) fn field(&self, place: usize) -> Field<'_> {
        let (range, quoted) = &self.fields[place];
        Field {
            bytes: &self.text[range.clone()],
            quoted: *quoted,
        }
    }

    /// All fields.
    pub(super) fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        (0..self.len()).map(|place| self.field(place))
    }
}

/// Why there is no next record.
#[derive(Debug)]
pub(super) enum RecordError {
    /// The file cannot be read.
    Io(io::Error),
    /// The record being read is malformed.
    Malformed {
        /// The field, from 0.
        place: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
}

/// Reads records.
pub(super) struct Records<R> {
    input: R,
    delimiter: u8,
    /// For each byte, whether it ends a field without quotes.
    ends_field: [bool; 256],
    /// Bytes that were read; those before `at` are not needed any more.
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    bytes_read: u64,
    /// The line that `at` is in, from 1.
    line: u64,
    one_field: bool,
}

impl<R: Read> Records<R> {
    pub(super) fn new(input: R, delimiter: u8) -> Self {
        let mut ends_field = [false; 256];
        for byte in [delimiter, b'\n', b'\r'] {
            ends_field[usize::from(byte)] = true;
        }
        Self {
            input,
            delimiter,
            ends_field,
            buffer: vec![0; BUFFER_BYTES],
            at: 0,
            filled: 0,
            bytes_read: 0,
            line: 1,
            one_field: false,
        }
    }

    /// From now on a record has one field, so an empty line is a record too.
    pub(super) fn expect_one_field(&mut self) {
        self.one_field = true;
    }

    /// Bytes of the records read so far.
    pub(super) fn position_bytes(&self) -> u64 {
        self.bytes_read - (self.filled - self.at) as u64
    }

    /// The next record, if there is one.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<bool, RecordError> {
        record.text.clear();
        record.fields.clear();
        if self.bytes_read == 0 && self.rest()?.starts_with(b"\xef\xbb\xbf") {
            // A byte order mark is not part of the first name.
            self.at += 3;
        }
        while let Some(end @ (b'\n' | b'\r')) = self.peek()?
            && !self.one_field
        {
            self.end_line(end)?;
        }
        record.line = self.line;
        if self.peek()?.is_none() {
            return Ok(false);
        }
        loop {
            let start = record.text.len();
            let quoted = self.peek()? == Some(b'"');
            let end = if quoted {
                self.at += 1;
                self.quoted_field(record)?;
                self.peek()?
            } else {
                self.plain_field(record)?
            };
            record.fields.push((start..record.text.len(), quoted));
            if record.fields.len() > FIELDS_MOST {
                return Err(RecordError::Malformed {
                    place: record.fields.len() - 1,
                    fault: "its record has more fields than a table can have columns",
                });
            }
            match end {
                Some(byte) if byte == self.delimiter => self.at += 1,
                None => return Ok(true),
                Some(end @ (b'\n' | b'\r')) => {
                    self.end_line(end)?;
                    return Ok(true);
                }
                Some(_) => {
                    let place = record.fields.len() - 1;
                    let fault = "text after its closing quote; inside quotes a quote is doubled";
                    return Err(RecordError::Malformed { place, fault });
                }
            }
        }
    }

    /// Reads up to a delimiter or the end of the record and returns that byte; `None` at the end of the file.
    #[inline]
    fn plain_field(&mut self, record: &mut Record) -> Result<Option<u8>, RecordError> {
        loop {
            let rest = &self.buffer[self.at..self.filled];
            let mut len = 0;
            while len < rest.len() && !self.ends_field[usize::from(rest[len])] {
                len += 1;
            }
            record.text.extend_from_slice(&rest[..len]);
            let end = rest.get(len).copied();
            self.at += len;
            if end.is_some() {
                return Ok(end);
            }
            check_length(record)?;
            if self.rest()?.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Reads up to and including the closing quote.
    fn quoted_field(&mut self, record: &mut Record) -> Result<(), RecordError> {
        loop {
            let rest = self.rest()?;
            if rest.is_empty() {
                return Err(RecordError::Malformed {
                    place: record.fields.len(),
                    fault: "its opening quote is never closed",
                });
            }
            let quote = rest.iter().position(|byte| *byte == b'"');
            let text = &rest[..quote.unwrap_or(rest.len())];
            record.text.extend_from_slice(text);
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            self.at += text.len();
            self.line += lines as u64;
            check_length(record)?;
            if quote.is_some() {
                self.at += 1;
                if self.peek()? != Some(b'"') {
                    return Ok(());
                }
                record.text.push(b'"');
                self.at += 1;
            }
        }
    }

    /// Consumes the end of a line that begins with the byte `end`.
    fn end_line(&mut self, end: u8) -> Result<(), RecordError> {
        self.at += 1;
        if end == b'\r' && self.peek()? == Some(b'\n') {
            self.at += 1;
        }
        self.line += 1;
        Ok(())
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, RecordError> {
        Ok(self.rest()?.first().copied())
    }

    /// Bytes that were read and not consumed; empty only at the end of the file.
    #[inline]
    fn rest(&mut self) -> Result<&[u8], RecordError> {
        if self.at == self.filled {
            self.refill()?;
        }
        Ok(&self.buffer[self.at..self.filled])
    }

    #[cold]
    fn refill(&mut self) -> Result<(), RecordError> {
        self.filled = loop {
            match self.input.read(&mut self.buffer) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RecordError::Io(error)),
            }
        };
        self.at = 0;
        self.bytes_read += self.filled as u64;
        Ok(())
    }
}

fn check_length(record: &Record) -> Result<(), RecordError> {
    if record.text.len() <= RECORD_MOST_BYTES {
        return Ok(());
    }
    Err(RecordError::Malformed {
        place: record.fields.len(),
        fault: "its record is longer than 256 MiB; is a closing quote missing?",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Yields one byte at a time, so that every record crosses the end of the buffer at every position.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let taken = self.0.len().min(1);
            buffer[..taken].copy_from_slice(&self.0[..taken]);
            self.0 = &self.0[taken..];
            Ok(taken)
        }
    }

    type Read1 = (u64, Vec<(String, bool)>);

    fn all(records: &mut Records<impl Read>) -> Result<Vec<Read1>, String> {
        let (mut record, mut found) = (Record::default(), Vec::new());
        loop {
            match records.read(&mut record) {
                Ok(true) => {
                    let text = |field: Field<'_>| String::from_utf8_lossy(field.bytes).into_owned();
                    let fields = record.iter().map(|field| (text(field), field.quoted));
                    found.push((record.line, fields.collect()));
                }
                Ok(false) => return Ok(found),
                Err(error) => return Err(format!("line {}: {error:?}", record.line)),
            }
        }
    }

    fn of(text: &[u8]) -> Result<Vec<Read1>, String> {
        all(&mut Records::new(text, b','))
    }

    #[test]
    fn quotes_and_lines_are_told() {
        let field = |text: &str, quoted| (text.to_owned(), quoted);
        assert_eq!(
            of(b"\xef\xbb\xbfa,\"\",\r\n\r\n\"x\n\"\"y\"\"\",5\" pipe\rlast").unwrap(),
            [
                (
                    1,
                    vec![field("a", false), field("", true), field("", false)]
                ),
                (3, vec![field("x\n\"y\"", true), field("5\" pipe", false)]),
                (5, vec![field("last", false)]),
            ]
        );
        assert_eq!(of(b"").unwrap(), []);
        assert_eq!(of(b"\n\r\n").unwrap(), []);
        assert_eq!(of(b"1,").unwrap()[0].1.len(), 2);
    }

    #[test]
    fn a_blank_line_is_a_record_of_one_field() {
        let mut records = Records::new(&b"n\n\n1\n\r\n"[..], b',');
        records.expect_one_field();
        let lines: Vec<u64> = all(&mut records).unwrap().iter().map(|r| r.0).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }

    #[test]
    fn a_quote_that_is_forgotten_is_an_error() {
        for (text, line, place, fault) in [
            (&b"a,b\n1,\"oops\n2,x\n3,y\n"[..], 2, 1, "never closed"),
            (b"a\n\"", 2, 0, "never closed"),
            (b"a\n\"\"\"", 2, 0, "never closed"),
            (b"1,\"oops\n2,\"fine\"\n", 1, 1, "after its closing quote"),
        ] {
            let error = of(text).unwrap_err();
            for part in [
                format!("line {line}:"),
                format!("place: {place}"),
                fault.into(),
            ] {
                assert!(error.contains(&part), "{error}");
            }
        }
    }

    proptest! {
        /// The records equal those of the `csv` crate, for every split of the bytes.
        #[test]
        fn records_are_those_of_the_csv_crate(
            text in proptest::collection::vec(proptest::sample::select(b"ab,\"\"\r\n".to_vec()), 0..40)
        ) {
            let found = of(&text);
            let trickled = all(&mut Records::new(Trickle(&text), b','));
            prop_assert_eq!(&found, &trickled);
            if let Ok(found) = found {
                let mut oracle = csv::ReaderBuilder::new();
                let oracle = oracle.flexible(true).has_headers(false).from_reader(&text[..]);
                let expected: Vec<Vec<String>> = oracle
                    .into_byte_records()
                    .map(|record| {
                        let record = record.unwrap();
                        record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
                    })
                    .collect();
                let fields = |record: &Read1| record.1.iter().map(|field| field.0.clone()).collect();
                let found: Vec<Vec<String>> = found.iter().map(fields).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
