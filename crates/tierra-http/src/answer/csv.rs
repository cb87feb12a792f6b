//! Rows as CSV, as a load reads it back.

use bytes::Bytes;
use tierra_sql::csv::{write_header, write_rows};

use super::parts::Parts;
use crate::fault::Fault;
use crate::source::Source;

const SEPARATOR: char = ',';

/// Rows as CSV.
pub(super) struct Csv {
    source: Source,
    /// The header, until it is sent.
    header: Option<Vec<u8>>,
}

impl Csv {
    pub(super) fn new(source: Source) -> Result<Self, Fault> {
        let mut header = Vec::new();
        write_header(source.schema(), SEPARATOR, &mut header).map_err(unwritable)?;
        Ok(Self {
            source,
            header: Some(header),
        })
    }
}

impl Parts for Csv {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(batch) = self.source.next().await? else {
            return Ok(self.header.take().map(Bytes::from));
        };
        let mut text = self.header.take().unwrap_or_default();
        write_rows(&batch, SEPARATOR, &mut text).map_err(unwritable)?;
        Ok(Some(text.into()))
    }
}

fn unwritable(error: impl std::fmt::Display) -> Fault {
    Fault::of_statement(
        "0A000",
        format!("the rows cannot be written as CSV: {error}"),
    )
}
