//! Rows as JSON objects. The answer is one object, so it has at most so many rows and bytes, and says whether there were more.

use std::collections::HashSet;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use serde::Serialize;
use serde_json::value::RawValue;
use tierra_sql::json;

use crate::fault::Fault;
use crate::source::Source;

/// The most rows of an answer.
pub(crate) const ROWS_MOST: usize = 10_000;
/// The bytes of rows after which an answer ends.
const BYTES_MOST: usize = 64 << 20;
/// Rows that are written between two looks at the bytes.
const STEP_ROWS: usize = 256;

#[derive(Serialize)]
struct Answer<'a> {
    columns: Vec<Column<'a>>,
    rows: &'a RawValue,
    count: usize,
    /// Whether there were more rows.
    cut: bool,
    elapsed_ms: f64,
    bytes_near: u64,
    bytes_far: u64,
}

#[derive(Serialize)]
struct Column<'a> {
    name: &'a str,
    r#type: String,
}

/// The answer with the rows of `source`. The statement ends with it, though there were more rows.
pub(super) async fn text(mut source: Source) -> Result<String, Fault> {
    refuse_duplicates(source.schema())?;
    let schema = source.schema().clone();
    let mut writer = json::writer(Vec::new());
    let (mut count, mut cut) = (0, false);
    'rows: while let Some(batch) = source.next().await? {
        let mut start = 0;
        while start < batch.num_rows() {
            if count == ROWS_MOST || writer.get_mut().len() >= BYTES_MOST {
                cut = true;
                break 'rows;
            }
            let step = STEP_ROWS
                .min(batch.num_rows() - start)
                .min(ROWS_MOST - count);
            writer
                .write(&batch.slice(start, step))
                .map_err(unwritable)?;
            (start, count) = (start + step, count + step);
        }
    }
    writer.finish().map_err(unwritable)?;
    let rows = String::from_utf8(writer.into_inner()).map_err(unwritable)?;
    // Parsed once more: what is no JSON is never sent as such.
    let rows = RawValue::from_string(rows).map_err(unwritable)?;
    let columns = schema.fields().iter().map(|field| Column {
        name: field.name(),
        r#type: type_name(field.data_type()),
    });
    let work = source.work();
    let answer = Answer {
        columns: columns.collect(),
        rows: &rows,
        count,
        cut,
        elapsed_ms: source.elapsed().as_secs_f64() * 1e3,
        bytes_near: work.bytes_near,
        bytes_far: work.bytes_far,
    };
    let text = serde_json::to_string(&answer).map_err(unwritable)?;
    source.end().await?;
    Ok(text)
}

/// An object has one member of a name: of two columns one would be lost.
fn refuse_duplicates(schema: &Schema) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    let twice = schema
        .fields()
        .iter()
        .find(|field| !seen.insert(field.name()));
    match twice {
        None => Ok(()),
        Some(field) => Err(Fault::of_statement(
            "42701",
            format!(
                "there are two columns '{}', of which a JSON object can have one: rename one with AS, or accept text/csv",
                field.name()
            ),
        )),
    }
}

/// A type as SQL names it, or else as arrow does.
fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        other => other.to_string(),
    }
}

fn unwritable(error: impl std::fmt::Display) -> Fault {
    Fault::of_statement(
        "0A000",
        format!("the rows cannot be written as JSON: {error}"),
    )
}
