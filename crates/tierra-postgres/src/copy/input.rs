//! Rows from the client's bytes, which arrive in parts of any length.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use bytes::{Buf, BytesMut};

use super::binary::{self, Row};
use super::csv::{self, Csv};
use super::options::{Header, Layout, Marks};
use super::text;
use crate::error::Fault;
use crate::values::oid_of;
use crate::values::read::{Builder, text_of};
use crate::wire::MESSAGE_MOST_BYTES;

/// Rows and bytes that are handed on together.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 8 << 20;

/// What is handed the columns of some rows.
pub(crate) type Sink<'a> = dyn FnMut(Vec<ArrayRef>) -> Result<(), Fault> + 'a;

/// Reads what a COPY sends.
pub(crate) struct CopyInput {
    source: Source,
    input: BytesMut,
    rows: Rows,
    is_done: bool,
}

enum Source {
    Text {
        marks: Marks,
        lines: text::Lines,
    },
    Csv {
        csv: Csv,
        marks: Marks,
        records: csv::Records,
    },
    Binary {
        has_header: bool,
    },
}

/// The values so far.
struct Rows {
    names: Vec<String>,
    oids: Vec<u32>,
    builders: Vec<Builder>,
    /// The next column.
    at: usize,
    rows: usize,
    bytes: usize,
    /// The line or row that is read, from 1.
    line: u64,
}

impl CopyInput {
    /// For these columns.
    pub(crate) fn new(layout: &Layout, columns: &[(String, DataType)]) -> Result<Self, Fault> {
        let builders = columns.iter().map(|(name, ty)| {
            Builder::new(ty)
                .ok_or_else(|| Fault::unsupported(&format!("COPY of column \"{name}\"")))
        });
        let rows = Rows {
            names: columns.iter().map(|(name, _)| name.clone()).collect(),
            oids: columns.iter().map(|(_, ty)| oid_of(ty)).collect(),
            builders: builders.collect::<Result<_, _>>()?,
            at: 0,
            rows: 0,
            bytes: 0,
            line: 0,
        };
        let source = match layout.clone() {
            Layout::Binary => Source::Binary { has_header: false },
            Layout::Text(marks) => Source::Text {
                marks,
                lines: text::Lines::default(),
            },
            Layout::Csv(marks, csv) => Source::Csv {
                csv,
                marks,
                records: csv::Records::default(),
            },
        };
        Ok(Self {
            source,
            input: BytesMut::new(),
            rows,
            is_done: false,
        })
    }

    /// Takes more bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.is_done {
            // After the end of the data there may be more lines.
            return Ok(());
        }
        self.input.extend_from_slice(bytes);
        if self.input.len() > MESSAGE_MOST_BYTES + bytes.len() {
            return Err(self
                .rows
                .located(Fault::new("54000", "a row is longer than 64 MiB")));
        }
        while !self.is_done && self.step()? {
            self.rows.pass_on_if_full(sink)?;
        }
        Ok(())
    }

    /// Takes the end.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if !self.is_done && !self.input.is_empty() {
            match &self.source {
                Source::Binary { .. } => {
                    return Err(self
                        .rows
                        .located(Fault::new("22P04", "the data ends within a row")));
                }
                Source::Csv { records, .. } if records.is_open() => {
                    return Err(self
                        .rows
                        .located(Fault::new("22P04", "a quote is not closed")));
                }
                // The last line need not end.
                _ => self.feed(b"\n", sink)?,
            }
            if !self.is_done && !self.input.is_empty() {
                return Err(self
                    .rows
                    .located(Fault::new("22P04", "the data ends within a value")));
            }
        }
        self.rows.pass_on(sink)
    }

    /// Reads one row; `false` if it is not whole.
    fn step(&mut self) -> Result<bool, Fault> {
        let Self {
            source,
            input,
            rows,
            is_done,
        } = self;
        match source {
            Source::Text { marks, lines } => {
                let Some(end) = lines.end(input) else {
                    return Ok(false);
                };
                let line = input.split_to(end);
                input.advance(1);
                let line = line.strip_suffix(b"\r").unwrap_or(&line);
                rows.line += 1;
                if line == b"\\." {
                    *is_done = true;
                } else if rows.line == 1 && marks.header != Header::None {
                    let names = text::fields(line, marks.delimiter)
                        .map(|name| text::unescaped(name).into_owned());
                    rows.check_header(marks.header, names.collect())?;
                } else {
                    for field in text::fields(line, marks.delimiter) {
                        if field == marks.null.as_bytes() {
                            rows.text(None)?;
                        } else {
                            rows.text(Some(&text::unescaped(field)))?;
                        }
                    }
                    rows.end_row()?;
                }
            }
            Source::Csv {
                csv,
                marks,
                records,
            } => {
                let Some(end) = records.end(*csv, input) else {
                    return Ok(false);
                };
                let record = input.split_to(end);
                input.advance(1);
                let record = record.strip_suffix(b"\r").unwrap_or(&record);
                rows.line += 1;
                if record == b"\\." {
                    *is_done = true;
                } else if rows.line == 1 && marks.header != Header::None {
                    let names = csv::fields(*csv, record).map(|field| Ok(field?.0.into_owned()));
                    rows.check_header(marks.header, names.collect::<Result<_, Fault>>()?)?;
                } else {
                    for field in csv::fields(*csv, record) {
                        let (value, is_quoted) = field.map_err(|fault| rows.located(fault))?;
                        match !is_quoted && *value == *marks.null.as_bytes() {
                            true => rows.text(None)?,
                            false => rows.text(Some(&value))?,
                        }
                    }
                    rows.end_row()?;
                    let breaks = record.iter().filter(|byte| **byte == b'\n').count();
                    rows.line += breaks as u64;
                }
            }
            Source::Binary { has_header } => {
                if !*has_header {
                    *has_header = binary::header(input)?;
                    return Ok(*has_header);
                }
                match binary::row(input, rows.names.len()).map_err(|fault| rows.located(fault))? {
                    None => return Ok(false),
                    Some(Row::End) => *is_done = true,
                    Some(Row::Values(values)) => {
                        rows.line += 1;
                        for value in values {
                            rows.binary(value)?;
                        }
                        rows.end_row()?;
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Rows {
    /// The error with the line and column that it is about.
    fn located(&self, fault: Fault) -> Fault {
        let column = self.names.get(self.at);
        let place = match column {
            Some(name) if self.at > 0 || self.line > 0 => {
                format!("line {}, column \"{name}\"", self.line)
            }
            _ => format!("line {}", self.line),
        };
        Fault {
            message: format!("{place}: {}", fault.message),
            ..fault
        }
    }

    fn text(&mut self, value: Option<&[u8]>) -> Result<(), Fault> {
        let Some(builder) = self.builders.get_mut(self.at) else {
            let fault = Fault::new("22P04", "there is a value more than there are columns");
            return Err(self.located(fault));
        };
        let pushed = match value {
            Some(value) => {
                self.bytes += value.len();
                text_of(value).and_then(|text| builder.push_text(text))
            }
            None => {
                builder.push_null();
                Ok(())
            }
        };
        pushed.map_err(|fault| self.located(fault))?;
        self.at += 1;
        Ok(())
    }

    fn binary(&mut self, value: Option<bytes::Bytes>) -> Result<(), Fault> {
        let builder = &mut self.builders[self.at];
        let pushed = match value {
            Some(value) => {
                self.bytes += value.len();
                builder.push_binary(self.oids[self.at], value)
            }
            None => {
                builder.push_null();
                Ok(())
            }
        };
        pushed.map_err(|fault| self.located(fault))?;
        self.at += 1;
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), Fault> {
        if let Some(name) = self.names.get(self.at) {
            let fault = Fault::new(
                "22P04",
                format!("line {}: no value for column \"{name}\"", self.line),
            );
            return Err(fault);
        }
        self.at = 0;
        self.rows += 1;
        Ok(())
    }

    fn check_header(&self, header: Header, names: Vec<Vec<u8>>) -> Result<(), Fault> {
        let expected = self.names.iter().map(String::as_bytes);
        if header == Header::Match && !names.iter().map(Vec::as_slice).eq(expected) {
            return Err(Fault::new(
                "22P04",
                format!(
                    "the names in the first line are not {}",
                    self.names.join(", ")
                ),
            ));
        }
        Ok(())
    }

    fn pass_on_if_full(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        match self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            true => self.pass_on(sink),
            false => Ok(()),
        }
    }

    fn pass_on(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        sink(self.builders.iter_mut().map(Builder::finish).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int32Type;

    type Found = Vec<(Option<i32>, Option<String>)>;

    fn read(options: &str, data: &[u8], part: usize) -> Result<Found, Fault> {
        let sql = format!("COPY t FROM STDIN {options}");
        let statements = tierra_sql::statements(&sql).unwrap();
        let copy = super::super::CopyIn::of(&statements[0])?.unwrap();
        let columns = [
            ("n".to_owned(), DataType::Int32),
            ("s".to_owned(), DataType::Utf8),
        ];
        let mut input = CopyInput::new(&copy.layout, &columns)?;
        let mut found = Vec::new();
        let mut sink = |columns: Vec<ArrayRef>| {
            let (n, s) = (
                columns[0].as_primitive::<Int32Type>(),
                columns[1].as_string::<i32>(),
            );
            let rows = (0..n.len()).map(|row| {
                (
                    n.is_valid(row).then(|| n.value(row)),
                    s.is_valid(row).then(|| s.value(row).to_owned()),
                )
            });
            found.extend(rows);
            Ok(())
        };
        for part in data.chunks(part) {
            input.feed(part, &mut sink)?;
        }
        input.finish(&mut sink)?;
        Ok(found)
    }

    #[test]
    fn all_formats_are_read_however_they_are_cut() {
        let row = |n: i32, s: Option<&str>| (Some(n), s.map(str::to_owned));
        let expected = [
            row(1, Some("a\tb\nc")),
            (None, None),
            row(3, Some("")),
            row(4, Some("\"q\"")),
        ];
        let binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\
            \0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x05a\tb\nc\
            \0\x02\xff\xff\xff\xff\xff\xff\xff\xff\
            \0\x02\0\0\0\x04\0\0\0\x03\0\0\0\0\
            \0\x02\0\0\0\x04\0\0\0\x04\0\0\0\x03\"q\"\xff\xff";
        for (options, data) in [
            (
                "",
                &b"1\ta\\tb\\nc\n\\N\t\\N\n3\t\n4\t\"q\"\n\\.\nignored"[..],
            ),
            ("", b"1\ta\\tb\\nc\r\n\\N\t\\N\r\n3\t\r\n4\t\"q\""),
            (
                "CSV HEADER",
                b"n,s\n1,\"a\tb\nc\"\n,\n3,\"\"\n4,\"\"\"q\"\"\"\n",
            ),
            (
                "(FORMAT csv, HEADER match, DELIMITER ';', NULL 'x')",
                b"n;s\n1;\"a\tb\nc\"\nx;x\n3;\n4;\"\"\"q\"\"\"",
            ),
            ("BINARY", binary),
        ] {
            for part in [1, 2, 3, 7, 1000] {
                assert_eq!(
                    read(options, data, part).unwrap(),
                    expected,
                    "{options}, parts of {part}"
                );
            }
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        for (options, data, code, place) in [
            ("", &b"1\ta\nx\tb\n"[..], "22P02", "line 2, column \"n\""),
            ("", b"1\n", "22P04", "line 1"),
            ("", b"1\ta\tb\n", "22P04", "line 1"),
            (
                "CSV",
                b"1,\"a\n\"\n9999999999,b\n",
                "22003",
                "line 3, column \"n\"",
            ),
            ("CSV", b"1,\"a", "22P04", "not closed"),
            ("", b"1\t\xff\n", "22021", "line 1, column \"s\""),
            (
                "BINARY",
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0",
                "22P04",
                "within a row",
            ),
            ("(FORMAT csv, HEADER match)", b"s,n\n", "22P04", "n, s"),
        ] {
            let fault = read(options, data, 3).unwrap_err();
            assert_eq!(fault.code, code, "{data:?}: {}", fault.message);
            assert!(fault.message.contains(place), "{}", fault.message);
        }
    }
}
