//! Result rows as text: a table for people, CSV or JSON for programs.
//!
//! CSV and JSON are written batch by batch as the query yields them. A table needs the widths of all fields, so it holds
//! its rows until the last one.

use std::io::Write;

use arrow::error::ArrowError;
use clap::ValueEnum;
use futures::TryStreamExt;
use tierra::{
    TextRows,
    sql::{Rows, csv, json},
};

use super::CommandError;

/// The format of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns with frames
    #[default]
    Table,
    /// Comma-separated values with a header; NULL is an empty field, an empty string is ""
    Csv,
    /// One array of objects per statement; numbers that JSON lacks are strings: "NaN", "Infinity"
    Json,
}

/// Writes all rows of `rows` to `out` and returns their number.
pub(crate) async fn write_rows(
    format: Format,
    rows: &mut Rows,
    out: &mut impl Write,
) -> Result<u64, CommandError> {
    let schema = rows.schema().clone();
    let mut count = 0;
    match format {
        Format::Table => {
            let batches = rows.collect().await.map_err(tierra::Error::from)?;
            count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            let table = TextRows::new(&schema, &batches).map_err(unwritable)?;
            writeln!(out, "{table}").map_err(CommandError::Output)?;
        }
        Format::Csv => {
            csv::write_header(&schema, ',', out).map_err(CommandError::Output)?;
            while let Some(batch) = rows.try_next().await.map_err(tierra::Error::from)? {
                count += batch.num_rows() as u64;
                csv::write_rows(&batch, ',', out).map_err(unwritable)?;
            }
        }
        Format::Json => {
            let mut writer = json::writer(&mut *out);
            while let Some(batch) = rows.try_next().await.map_err(tierra::Error::from)? {
                count += batch.num_rows() as u64;
                writer.write(&batch).map_err(unwritable)?;
            }
            writer.finish().map_err(unwritable)?;
            writeln!(out).map_err(CommandError::Output)?;
        }
    }
    out.flush().map_err(CommandError::Output)?;
    Ok(count)
}

/// Arrow's writers wrap the errors of their output.
fn unwritable(error: ArrowError) -> CommandError {
    match error {
        ArrowError::IoError(_, source) => CommandError::Output(source),
        error => CommandError::Unwritable(error),
    }
}
