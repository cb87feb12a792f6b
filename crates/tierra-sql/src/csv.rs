//! Rows as comma- or tab-separated values, which a load ([`crate::load`]) reads back unchanged.
//!
//! NULL is an empty field. An empty string is an empty field in quotes. Arrow's writer writes both the same.

use std::io::{self, Write};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::Schema,
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

/// Separators of other files. A name that contains one is quoted, so that it is not read as several names.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// Writes the names of the columns.
///
/// # Errors
/// Those of `out`.
pub fn write_header(schema: &Schema, separator: char, out: &mut impl Write) -> io::Result<()> {
    let mut line = String::new();
    for (place, field) in schema.fields().iter().enumerate() {
        separate(place, separator, &mut line);
        match field.name().contains(SEPARATORS) {
            true => push_quoted(field.name(), &mut line),
            false => push_field(field.name(), separator, &mut line),
        }
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// Writes a record for each row.
///
/// # Errors
/// Those of `out`, and a value that cannot be written as text.
pub fn write_rows(
    batch: &RecordBatch,
    separator: char,
    out: &mut impl Write,
) -> Result<(), ArrowError> {
    let options = FormatOptions::new();
    let columns = batch.columns().iter().map(|column| {
        let nulls = column.logical_nulls();
        Ok((ArrayFormatter::try_new(column, &options)?, nulls))
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let (mut line, mut text) = (String::new(), String::new());
    for row in 0..batch.num_rows() {
        line.clear();
        for (place, (values, nulls)) in columns.iter().enumerate() {
            separate(place, separator, &mut line);
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                text.clear();
                values.value(row).write(&mut text)?;
                push_field(&text, separator, &mut line);
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn separate(place: usize, separator: char, line: &mut String) {
    if place > 0 {
        line.push(separator);
    }
}

/// Adds a value. It is quoted if it would be read as something else without quotes.
fn push_field(text: &str, separator: char, line: &mut String) {
    match !text.is_empty() && !text.contains([separator, '"', '\n', '\r']) {
        true => line.push_str(text),
        false => push_quoted(text, line),
    }
}

fn push_quoted(text: &str, line: &mut String) {
    line.push('"');
    for (place, part) in text.split('"').enumerate() {
        if place > 0 {
            line.push_str("\"\"");
        }
        line.push_str(part);
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, NullArray, StringViewArray};

    use super::*;

    #[test]
    fn null_and_the_empty_string_differ() {
        let texts = [Some("a,b"), Some(""), None, Some("\"x\"\r\n"), Some(" y ")];
        let columns: [(&str, ArrayRef); 3] = [
            (
                "the \"text\"",
                Arc::new(StringViewArray::from(texts.to_vec())),
            ),
            (
                "n",
                Arc::new(Int32Array::from(vec![
                    Some(1),
                    None,
                    None,
                    Some(-4),
                    Some(5),
                ])),
            ),
            ("", Arc::new(NullArray::new(5))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        write_header(&batch.schema(), ',', &mut out).unwrap();
        write_rows(&batch, ',', &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\"the \"\"text\"\"\",n,\"\"\n\"a,b\",1,\n\"\",,\n,,\n\"\"\"x\"\"\r\n\",-4,\n y ,5,\n"
        );
    }
}
