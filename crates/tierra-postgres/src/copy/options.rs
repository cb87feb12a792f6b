//! The words of COPY: which table or query, and how values are written.

use std::sync::Arc;

use tierra_sql::{Lexeme, Statement};

use super::csv::Csv;
use crate::command::is_for_rows;
use crate::error::Fault;
use crate::words::Words;

/// COPY FROM STDIN.
pub(crate) struct CopyIn {
    pub(crate) table: String,
    /// Empty for all.
    pub(crate) columns: Vec<String>,
    pub(crate) layout: Layout,
    /// The statement, for messages.
    pub(crate) text: String,
}

/// COPY TO STDOUT.
pub(crate) struct CopyOut {
    pub(crate) query: Arc<Statement>,
    pub(crate) layout: Layout,
}

/// How values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Binary,
    Text(Marks),
    Csv(Marks, Csv),
}

/// What stands between values, and in place of NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) header: Header,
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Is the first row.
    None,
    /// Has names.
    Names,
    /// Has names, which must be those of the columns.
    Match,
}

/// Where rows come from or go to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    From,
    To,
}

impl CopyIn {
    /// The statement, if it is COPY FROM.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>, Fault> {
        let mut words = Words::new(statement.lexemes(), 1);
        let Some((table, columns)) = relation(&mut words)? else {
            return Ok(None);
        };
        if !words.next_is("from") {
            return Ok(None);
        }
        if !words.next_is("stdin") {
            return Err(Fault::unsupported("COPY FROM a file of the server")
                .with_hint("\\copy in psql sends a file of the client"));
        }
        Ok(Some(Self {
            table,
            columns,
            layout: layout(words, Direction::From)?,
            text: statement.text(),
        }))
    }
}

impl CopyOut {
    /// The statement, if it is COPY TO STDOUT.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>, Fault> {
        let mut words = Words::new(statement.lexemes(), 1);
        let query = if words.next_is_mark("(") {
            let start = words.place();
            let mut depth = 1;
            while depth > 0 {
                match words.next() {
                    Some(lexeme) if lexeme.is_mark("(") => depth += 1,
                    Some(lexeme) if lexeme.is_mark(")") => depth -= 1,
                    Some(_) => {}
                    None => return Err(Fault::syntax("a bracket is not closed")),
                }
            }
            statement.part(start..words.place() - 1)
        } else {
            let Some((table, columns)) = relation(&mut words)? else {
                return Ok(None);
            };
            let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
            let columns = match columns.is_empty() {
                true => "*".to_owned(),
                false => columns.join(", "),
            };
            let text = format!("SELECT {columns} FROM {}", quoted(&table));
            let mut statements = tierra_sql::statements(&text)?;
            statements.remove(0)
        };
        if !(words.next_is("to") && words.next_is("stdout")) {
            // COPY to a file.
            return Ok(None);
        }
        if !is_for_rows(query.lexemes()) {
            return Err(Fault::syntax(
                "COPY (..) TO STDOUT takes a query, or INSERT, UPDATE, DELETE or MERGE with RETURNING",
            ));
        }
        Ok(Some(Self {
            query: Arc::new(query),
            layout: layout(words, Direction::To)?,
        }))
    }
}

/// A name as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table and its columns.
fn relation(words: &mut Words<'_>) -> Result<Option<(String, Vec<String>)>, Fault> {
    let Some(mut table) = words.next().and_then(Lexeme::name) else {
        return Ok(None);
    };
    let mut before = Vec::new();
    while words.next_is_mark(".") {
        before.push(table);
        table = match words.next().and_then(Lexeme::name) {
            Some(name) => name,
            None => return Err(words.expected("a name")),
        };
    }
    // There is one database with one schema.
    if !matches!(before.as_slice(), [] | ["public"] | ["tierra", "public"]) {
        let name = format!("{}.{table}", before.join("."));
        return Err(Fault::new("42P01", format!("table '{name}' not found")));
    }
    let mut columns = Vec::new();
    if words.next_is_mark("(") {
        loop {
            columns.push(words.name()?);
            if words.next_is_mark(")") {
                break;
            }
            if !words.next_is_mark(",") {
                words.next();
                return Err(words.expected(") or ,"));
            }
        }
    }
    Ok(Some((table.to_owned(), columns)))
}

/// The options as they are written, of which several depend on the format.
#[derive(Default)]
struct Written {
    format: Option<String>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
}

/// `[WITH] (FORMAT csv, HEADER)`, or the older `WITH CSV HEADER`.
fn layout(mut words: Words<'_>, direction: Direction) -> Result<Layout, Fault> {
    let mut written = Written::default();
    words.next_is("with");
    if words.next_is_mark("(") {
        loop {
            let option = words.name()?;
            written.take(&option, &mut words, direction)?;
            if words.next_is_mark(")") {
                break;
            }
            if !words.next_is_mark(",") {
                words.next();
                return Err(words.expected(") or ,"));
            }
        }
    } else {
        while words.peek().is_some() {
            let option = words.name()?;
            match option.as_str() {
                "csv" | "binary" => written.format = Some(option),
                "header" => written.header = Some(Header::Names),
                "delimiter" | "null" | "quote" | "escape" => {
                    words.next_is("as");
                    written.take(&option, &mut words, direction)?;
                }
                _ => return Err(Fault::unsupported(&format!("COPY with {option}"))),
            }
        }
    }
    words.end()?;
    written.layout()
}

impl Written {
    fn take(
        &mut self,
        option: &str,
        words: &mut Words<'_>,
        direction: Direction,
    ) -> Result<(), Fault> {
        let text = |words: &mut Words<'_>| match words.next() {
            Some(Lexeme::Text(text) | Lexeme::Word { text, .. }) => Ok(text.clone()),
            _ => Err(words.expected("a text")),
        };
        match option {
            "format" => self.format = Some(text(words)?.to_lowercase()),
            "delimiter" => self.delimiter = Some(text(words)?),
            "null" => self.null = Some(text(words)?),
            "quote" => self.quote = Some(text(words)?),
            "escape" => self.escape = Some(text(words)?),
            "encoding" => match text(words)?.to_lowercase().as_str() {
                "utf8" | "utf-8" | "unicode" => {}
                _ => return Err(Fault::unsupported("an encoding other than UTF8")),
            },
            "freeze" => {
                if !matches!(words.peek(), Some(lexeme) if lexeme.is_mark(",") || lexeme.is_mark(")"))
                {
                    words.next();
                }
            }
            "header" => {
                let value = match words.peek() {
                    Some(lexeme) if lexeme.is_mark(",") || lexeme.is_mark(")") => "true".to_owned(),
                    None => "true".to_owned(),
                    Some(Lexeme::Number(digit)) => {
                        words.next();
                        digit.clone()
                    }
                    Some(_) => text(words)?.to_lowercase(),
                };
                self.header = Some(match value.as_str() {
                    "true" | "on" | "1" => Header::Names,
                    "false" | "off" | "0" => Header::None,
                    "match" if direction == Direction::From => Header::Match,
                    _ => return Err(Fault::new("22023", "HEADER is true, false or match")),
                });
            }
            other => return Err(Fault::unsupported(&format!("COPY with {other}"))),
        }
        Ok(())
    }

    fn layout(self) -> Result<Layout, Fault> {
        let wrong = |what: &str| Fault::new("22023", format!("COPY: {what}"));
        let one = |text: Option<String>, otherwise: u8, what: &str| match text
            .as_deref()
            .map(str::as_bytes)
        {
            None => Ok(otherwise),
            Some([byte]) if byte.is_ascii() && !b"\r\n\0".contains(byte) => Ok(*byte),
            Some(_) => Err(wrong(&format!(
                "{what} is one character of ASCII, not a new line"
            ))),
        };
        let csv_only = self.quote.is_some() || self.escape.is_some();
        let header = self.header.unwrap_or(Header::None);
        match self.format.as_deref().unwrap_or("text") {
            "binary" => {
                if csv_only
                    || self.delimiter.is_some()
                    || self.null.is_some()
                    || header != Header::None
                {
                    return Err(wrong(
                        "a binary COPY has no delimiter, null, header or quote",
                    ));
                }
                Ok(Layout::Binary)
            }
            "text" => {
                if csv_only {
                    return Err(wrong("quote and escape are for CSV"));
                }
                let delimiter = one(self.delimiter, b'\t', "delimiter")?;
                if b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
                    return Err(wrong(
                        "the delimiter cannot be a letter, a digit, a point or a backslash",
                    ));
                }
                Ok(Layout::Text(Marks {
                    delimiter,
                    null: self.null.unwrap_or_else(|| "\\N".to_owned()),
                    header,
                }))
            }
            "csv" => {
                let quote = one(self.quote, b'"', "quote")?;
                let delimiter = one(self.delimiter, b',', "delimiter")?;
                if quote == delimiter {
                    return Err(wrong("quote and delimiter differ"));
                }
                let csv = Csv {
                    delimiter,
                    quote,
                    escape: one(self.escape, quote, "escape")?,
                };
                let marks = Marks {
                    delimiter,
                    null: self.null.unwrap_or_default(),
                    header,
                };
                Ok(Layout::Csv(marks, csv))
            }
            other => Err(wrong(&format!(
                "format \"{other}\" is not text, csv or binary"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_in(sql: &str) -> Result<CopyIn, &'static str> {
        let statements = tierra_sql::statements(sql).unwrap();
        match CopyIn::of(&statements[0]) {
            Ok(Some(copy)) => Ok(copy),
            Ok(None) => Err("none"),
            Err(fault) => Err(fault.code),
        }
    }

    #[test]
    fn both_ways_of_writing_options_are_read() {
        let copy = copy_in("COPY public.\"T\" (a, \"B\") FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')").unwrap();
        assert_eq!(
            (copy.table.as_str(), copy.columns),
            ("T", vec!["a".to_owned(), "B".to_owned()])
        );
        let marks = |delimiter, null: &str, header| Marks {
            delimiter,
            null: null.to_owned(),
            header,
        };
        let csv = |marks: Marks| {
            let csv = Csv {
                delimiter: marks.delimiter,
                quote: b'"',
                escape: b'"',
            };
            Layout::Csv(marks, csv)
        };
        assert_eq!(copy.layout, csv(marks(b';', "x", Header::Names)));
        let copy = copy_in("copy t from stdin csv header delimiter as '|'").unwrap();
        assert_eq!(copy.layout, csv(marks(b'|', "", Header::Names)));
        let copy = copy_in("COPY t FROM STDIN").unwrap();
        assert_eq!(copy.layout, Layout::Text(marks(b'\t', "\\N", Header::None)));
        assert_eq!(
            copy_in("COPY t FROM STDIN BINARY").unwrap().layout,
            Layout::Binary
        );
        for (sql, code) in [
            ("COPY t TO STDOUT", "none"),
            ("COPY t FROM '/etc/passwd'", "0A000"),
            ("COPY nosuch.t FROM STDIN", "42P01"),
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (DELIMITER 'ab')", "22023"),
            ("COPY t FROM STDIN (FORMAT binary, HEADER)", "22023"),
            ("COPY t FROM STDIN (FORCE_NULL (a))", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv", "42601"),
        ] {
            assert_eq!(copy_in(sql).err(), Some(code), "{sql}");
        }
    }

    #[test]
    fn a_query_ends_at_its_own_bracket() {
        let statements =
            tierra_sql::statements("COPY (SELECT (1) AS \")\") TO STDOUT (FORMAT csv)").unwrap();
        let copy = CopyOut::of(&statements[0]).unwrap().unwrap();
        assert_eq!(copy.query.text(), "SELECT ( 1 ) AS \")\"");
        let statements = tierra_sql::statements("COPY t (a) TO STDOUT").unwrap();
        let copy = CopyOut::of(&statements[0]).unwrap().unwrap();
        assert_eq!(copy.query.text(), "SELECT \"a\" FROM \"t\"");
        let statements = tierra_sql::statements("COPY t TO 'file.csv'").unwrap();
        assert!(CopyOut::of(&statements[0]).unwrap().is_none());
    }
}
