//! Rows in the streaming format of Arrow IPC: `pyarrow.ipc.open_stream(response)` reads columns without a driver.

use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;

use super::parts::Parts;
use crate::fault::Fault;
use crate::source::Source;

/// Rows in Arrow's format.
pub(super) struct ArrowStream {
    source: Source,
    /// Writes into a buffer that is taken away after each batch; `None` once the end is written.
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl ArrowStream {
    pub(super) fn new(source: Source) -> Result<Self, Fault> {
        let writer = StreamWriter::try_new(Vec::new(), source.schema()).map_err(unwritable)?;
        Ok(Self {
            source,
            writer: Some(writer),
        })
    }
}

impl Parts for ArrowStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let batch = self.source.next().await?;
        match &batch {
            Some(batch) => writer.write(batch).map_err(unwritable)?,
            None => writer.finish().map_err(unwritable)?,
        }
        let part = std::mem::take(writer.get_mut());
        if batch.is_none() {
            self.writer = None;
        }
        Ok(Some(part))
    }
}

fn unwritable(error: ArrowError) -> Fault {
    Fault::of_statement(
        "0A000",
        format!("the rows cannot be written as an Arrow stream: {error}"),
    )
}
