//! Rows for the client, each in a message of its own, as clients expect them.

use bytes::{BufMut, BytesMut};

use super::binary::SIGNATURE;
use super::csv;
use super::options::{Header, Layout};
use super::text;
use crate::values::column::Column;
use crate::values::{Field, Format};
use crate::wire::messages::Put;

/// Writes what a COPY sends.
pub(crate) struct CopyOutput {
    layout: Layout,
    has_begun: bool,
    value: BytesMut,
    line: Vec<u8>,
}

impl CopyOutput {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            has_begun: false,
            value: BytesMut::new(),
            line: Vec::new(),
        }
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.layout == Layout::Binary
    }

    /// The first line, if it has names.
    pub(crate) fn put_header(&mut self, fields: &[Field], output: &mut BytesMut) {
        let names = |with: &dyn Fn(&str, &mut Vec<u8>), delimiter: u8| {
            let mut line = Vec::new();
            for (place, field) in fields.iter().enumerate() {
                if place > 0 {
                    line.push(delimiter);
                }
                with(&field.name, &mut line);
            }
            line.push(b'\n');
            line
        };
        let line = match &self.layout {
            Layout::Text(marks) if marks.header != Header::None => names(
                &|name, line| text::put_escaped(name.as_bytes(), marks.delimiter, line),
                marks.delimiter,
            ),
            Layout::Csv(marks, csv) if marks.header != Header::None => {
                let null = marks.null.as_bytes();
                let is_only = fields.len() == 1;
                names(
                    &|name, line| csv::put(*csv, name.as_bytes(), null, is_only, line),
                    marks.delimiter,
                )
            }
            _ => return,
        };
        output.framed(b'd', |body| body.put_slice(&line));
    }

    /// The header of the binary form goes with the first row.
    fn put_signature(&mut self, body: &mut BytesMut) {
        if !std::mem::replace(&mut self.has_begun, true) {
            body.put_slice(SIGNATURE);
            body.put_u64(0);
        }
    }

    /// A row.
    pub(crate) fn put_row(&mut self, columns: &[Column], row: usize, output: &mut BytesMut) {
        if self.is_binary() {
            output.framed(b'd', |body| {
                self.put_signature(body);
                body.put_i16(columns.len() as i16);
                for column in columns {
                    column.put(row, Format::Binary, body);
                }
            });
            return;
        }
        self.line.clear();
        for (place, column) in columns.iter().enumerate() {
            self.value.clear();
            let is_there = column.put_text_or_null(row, &mut self.value);
            match &self.layout {
                Layout::Text(marks) => {
                    if place > 0 {
                        self.line.push(marks.delimiter);
                    }
                    match is_there {
                        true => text::put_escaped(&self.value, marks.delimiter, &mut self.line),
                        false => self.line.extend_from_slice(marks.null.as_bytes()),
                    }
                }
                Layout::Csv(marks, csv) => {
                    if place > 0 {
                        self.line.push(marks.delimiter);
                    }
                    let null = marks.null.as_bytes();
                    match is_there {
                        true => {
                            csv::put(*csv, &self.value, null, columns.len() == 1, &mut self.line)
                        }
                        false => self.line.extend_from_slice(null),
                    }
                }
                Layout::Binary => {}
            }
        }
        self.line.push(b'\n');
        output.framed(b'd', |body| body.put_slice(&self.line));
    }

    /// The end.
    pub(crate) fn put_end(&mut self, output: &mut BytesMut) {
        if self.is_binary() {
            output.framed(b'd', |body| {
                self.put_signature(body);
                body.put_i16(-1);
            });
        }
        output.copy_done();
    }
}
