//! JSON in the layout of committed results: one row per line.
//!
//! A pretty printer gives every sample a line; a compact one makes a single line. With one row per line, a diff of two runs
//! shows which points moved.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Nesting up to which members have lines of their own: the file's object and its lists.
const SPREAD_DEPTH: usize = 2;

/// `value` as JSON, members of its two outer levels on lines of their own.
pub(crate) fn row_per_line<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(
        &mut out,
        RowPerLine::default(),
    ))?;
    out.push(b'\n');
    Ok(String::from_utf8(out).expect("serde_json writes UTF-8"))
}

#[derive(Default)]
struct RowPerLine {
    depth: usize,
    is_empty: bool,
}

impl RowPerLine {
    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        out.write_all(bracket)
    }

    fn member<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.is_empty = false;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= SPREAD_DEPTH {
            self.new_line(out)
        } else if first {
            Ok(())
        } else {
            out.write_all(b" ")
        }
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < SPREAD_DEPTH && !self.is_empty {
            self.new_line(out)?;
        }
        self.is_empty = false;
        out.write_all(bracket)
    }

    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for RowPerLine {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.member(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.member(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_per_line() {
        let value = serde_json::json!({"a": [{"x": [1, 2], "y": {}}, {"x": []}], "b": [], "c": 1});
        let text = row_per_line(&value).unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": [\n    {\"x\": [1, 2], \"y\": {}},\n    {\"x\": []}\n  ],\n  \"b\": [],\n  \"c\": 1\n}\n"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
