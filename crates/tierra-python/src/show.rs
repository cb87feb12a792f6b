//! Results as a notebook and a terminal show them: their first rows.

use std::fmt::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::prelude::*;
use tierra::TextRows;

use crate::error::DataError;

/// Rows that are shown.
pub(crate) const ROWS: usize = 20;

/// The rows as a table of text.
pub(crate) fn text(schema: &SchemaRef, rows: &[RecordBatch], has_more: bool) -> PyResult<String> {
    let table = TextRows::new(schema, rows);
    let table = table.map_err(|error| DataError::new_err(error.to_string()))?;
    let mut text = table.to_string();
    if has_more {
        text.push_str("\n.. and more rows");
    }
    Ok(text)
}

/// The rows as a table of HTML. Names and values are text, whatever is in them.
pub(crate) fn html(schema: &SchemaRef, rows: &[RecordBatch], has_more: bool) -> PyResult<String> {
    let mut html = String::from("<table><thead><tr>");
    for field in schema.fields() {
        element(&mut html, "th", field.name());
    }
    html.push_str("</tr></thead><tbody>");
    let options = FormatOptions::default().with_null("NULL");
    for batch in rows {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|error| DataError::new_err(error.to_string()))?;
        for row in 0..batch.num_rows() {
            html.push_str("<tr>");
            for column in &columns {
                element(&mut html, "td", &column.value(row).to_string());
            }
            html.push_str("</tr>");
        }
    }
    html.push_str("</tbody></table>");
    if has_more {
        html.push_str("<p>.. and more rows</p>");
    }
    Ok(html)
}

fn element(html: &mut String, name: &str, text: &str) {
    // Writing to a String does not fail.
    let _ = write!(html, "<{name}>");
    for character in text.chars() {
        match character {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    let _ = write!(html, "</{name}>");
}
