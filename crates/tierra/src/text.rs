//! Rows and messages as text for a terminal.
//!
//! Stored data must not control the terminal. Control characters in data and names are shown as most languages write them,
//! `\n`, `\x1b`, and so are characters that change the direction of text. Files and programs get them unescaped, as in CSV
//! and JSON.

use std::borrow::Cow;
use std::fmt::{self, Write};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use unicode_width::UnicodeWidthStr;

/// `text` in one line, with everything escaped that a terminal would interpret.
///
/// ```
/// assert_eq!(tierra::printable("a\tb\u{1b}[2J"), r"a\tb\x1b[2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_command)
}

/// A message of several lines, with everything escaped that a terminal would interpret.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| {
        is_command(character) && !matches!(character, '\n' | '\t')
    })
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Nearly every text needs no escape.
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            character if !is_escaped(character) => shown.push(character),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            character if character.is_ascii() => {
                // Writing to a String does not fail.
                let _ = write!(shown, "\\x{:02x}", u32::from(character));
            }
            character => shown.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal may interpret `character` instead of showing it.
fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Direction marks, and separators of lines and paragraphs.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// All rows of a query as a table with frames, NULLs as `NULL`.
pub struct TextRows<'a> {
    schema: &'a Schema,
    batches: &'a [RecordBatch],
    /// The widths of the columns in characters.
    widths: Vec<usize>,
}

impl<'a> TextRows<'a> {
    /// A table of `batches`, all of which have `schema`.
    ///
    /// # Errors
    /// If a column has a type that cannot be shown.
    pub fn new(schema: &'a SchemaRef, batches: &'a [RecordBatch]) -> Result<Self, ArrowError> {
        let heads = schema
            .fields()
            .iter()
            .map(|field| printable(field.name()).width());
        let mut rows = Self {
            widths: heads.collect(),
            schema,
            batches,
        };
        let options = options();
        let is_plan = rows.is_plan();
        for batch in batches {
            for (column, width) in batch.columns().iter().zip(&mut rows.widths) {
                let formatter = ArrayFormatter::try_new(column, &options)?;
                for row in 0..batch.num_rows() {
                    let cell = formatter.value(row).to_string();
                    for line in shown(&cell, is_plan).split('\n') {
                        *width = (*width).max(line.width());
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Whether this is the output of EXPLAIN, whose lines are printed as lines.
    fn is_plan(&self) -> bool {
        let names = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str());
        names.eq(["plan_type", "plan"])
    }

    fn write_frame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('+')?;
        for width in &self.widths {
            fill(f, '-', width + 2)?;
            f.write_char('+')?;
        }
        Ok(())
    }

    /// A row whose cells may have several lines.
    fn write_row(&self, f: &mut fmt::Formatter<'_>, cells: &[Cow<'_, str>]) -> fmt::Result {
        let lines = cells.iter().map(|cell| cell.split('\n').count());
        let lines = lines.max().unwrap_or(1);
        let mut cells: Vec<_> = cells.iter().map(|cell| cell.split('\n')).collect();
        for _ in 0..lines {
            f.write_str("\n|")?;
            for (cell, width) in cells.iter_mut().zip(&self.widths) {
                let text = cell.next().unwrap_or_default();
                write!(f, " {text}")?;
                fill(f, ' ', width - text.width())?;
                f.write_str(" |")?;
            }
        }
        Ok(())
    }
}

/// Writes a character `times` times. The width in `write!` is at most 65,535.
fn fill(f: &mut fmt::Formatter<'_>, character: char, times: usize) -> fmt::Result {
    (0..times).try_for_each(|_| f.write_char(character))
}

impl fmt::Display for TextRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, is_plan) = (options(), self.is_plan());
        self.write_frame(f)?;
        let heads = self.schema.fields().iter();
        let heads: Vec<_> = heads.map(|field| printable(field.name())).collect();
        self.write_row(f, &heads)?;
        f.write_char('\n')?;
        self.write_frame(f)?;
        for batch in self.batches {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
            // The constructor has made them once without an error.
            let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(|_| fmt::Error)?;
            for row in 0..batch.num_rows() {
                let cells = columns.iter().map(|column| column.value(row).to_string());
                let cells: Vec<String> = cells.collect();
                let cells: Vec<_> = cells.iter().map(|cell| shown(cell, is_plan)).collect();
                self.write_row(f, &cells)?;
            }
        }
        f.write_char('\n')?;
        self.write_frame(f)
    }
}

fn shown(cell: &str, is_plan: bool) -> Cow<'_, str> {
    match is_plan {
        true => printable_lines(cell),
        false => printable(cell),
    }
}

fn options() -> FormatOptions<'static> {
    FormatOptions::new().with_null("NULL")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::{ArrayRef, Int32Array, StringArray};
    use arrow::util::pretty::pretty_format_batches_with_options;

    fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
        RecordBatch::try_from_iter(columns.iter().cloned()).unwrap()
    }

    #[test]
    fn what_needs_no_escape_looks_as_arrow_prints_it() {
        let texts = StringArray::from(vec![Some("é 数据"), None, Some(""), Some(r"a\nb")]);
        let numbers = Int32Array::from(vec![Some(-1), Some(20), None, Some(7)]);
        let rows = batch(&[("name", Arc::new(texts)), ("n", Arc::new(numbers))]);
        let plans = StringArray::from(vec!["one\n  two", "three"]);
        let plan = batch(&[
            ("plan_type", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("plan", Arc::new(plans)),
        ]);
        let empty = rows.slice(0, 0);
        for batch in [rows, plan, empty] {
            let batches = [batch];
            let expected = pretty_format_batches_with_options(&batches, &options()).unwrap();
            let found = TextRows::new(batches[0].schema_ref(), &batches).unwrap();
            assert_eq!(found.to_string(), expected.to_string());
        }
    }

    #[test]
    fn a_cell_may_have_any_width() {
        let long = StringArray::from(vec!["y".repeat(100_000), "y".to_owned()]);
        let batches = [batch(&[("x", Arc::new(long))])];
        let table = TextRows::new(batches[0].schema_ref(), &batches).unwrap();
        let table = table.to_string();
        let widths: Vec<_> = table.lines().map(str::len).collect();
        assert!(widths == [100_004; 6], "{widths:?}");
    }

    #[test]
    fn data_and_names_command_nothing() {
        let texts = StringArray::from(vec!["a\nb\u{1b}[2J\u{7}", "\u{9b}1m\u{202e}\u{7f}\r\t\0"]);
        let batches = [batch(&[("x\u{1b}]0;", Arc::new(texts))])];
        let table = TextRows::new(batches[0].schema_ref(), &batches)
            .unwrap()
            .to_string();
        let expected = [
            "+------------------------------+",
            r"| x\x1b]0;                     |",
            "+------------------------------+",
            r"| a\nb\x1b[2J\x07              |",
            r"| \u{9b}1m\u{202e}\x7f\r\t\x00 |",
            "+------------------------------+",
        ];
        assert_eq!(Vec::from_iter(table.lines()), expected);
        assert!(
            !table.chars().any(|c| is_command(c) && c != '\n'),
            "{table:?}"
        );
        assert_eq!(printable_lines("a\n\tb\u{1b}"), "a\n\tb\\x1b");
    }
}
