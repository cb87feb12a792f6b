//! Appends to a table: few rows through the tail's log, many as segments.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::error::{AppendError, InputError};
use crate::slice_bytes::slice_bytes;
use crate::table::Table;
use crate::table::requests::{SeenRows, TableChange};
use crate::tail;
use crate::write::loader::{Loader, TAIL_APPEND_ROWS};

/// Larger batches become segments at once, as do those with [`TAIL_APPEND_ROWS`].
const TAIL_APPEND_BYTES: usize = 64 << 20;

impl Table {
    /// Appends rows: all of them, durable on return, or none. Returns their number. Blocks.
    ///
    /// # Errors
    /// [`AppendError`]: rows that do not fit the table, a duplicate key, a full or failed pool; the table is unchanged.
    pub fn append(self: &Arc<Self>, batches: &[RecordBatch]) -> Result<u64, AppendError> {
        let accepted = batches.iter().map(|batch| self.input().accept(batch));
        let accepted = accepted.collect::<Result<Vec<_>, _>>()?;
        if let Some(batch) = self.as_tail_batch(&accepted)? {
            let rows = batch.num_rows() as u64;
            self.append_to_tail(batch)?;
            return Ok(rows);
        }
        let mut loader = self.loader();
        for batch in accepted {
            loader.push(batch)?;
        }
        Ok(loader.finish()?.rows)
    }

    /// Accepted rows as one batch that shares no memory with others, if they are few enough for one log record.
    pub(crate) fn as_tail_batch(
        &self,
        batches: &[RecordBatch],
    ) -> Result<Option<RecordBatch>, InputError> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= TAIL_APPEND_ROWS {
            return Ok(None);
        }
        let batch = tail::owned(&self.schema(), batches);
        let batch = batch.map_err(|source| InputError::Arrow {
            table: self.spec().name.clone(),
            source,
        })?;
        let bytes: usize = batch.columns().iter().map(slice_bytes).sum();
        Ok((bytes < TAIL_APPEND_BYTES).then_some(batch))
    }

    /// Appends rows that [`Table::as_tail_batch`] returned; returns the bytes logged.
    pub(crate) fn append_to_tail(self: &Arc<Self>, batch: RecordBatch) -> Result<u64, AppendError> {
        if batch.num_rows() == 0 {
            return Ok(0);
        }
        let taken_bytes: usize = batch.columns().iter().map(slice_bytes).sum();
        let change = TableChange::new(self.clone(), SeenRows::default(), Some(batch))?;
        let logged_bytes = change.record.len_bytes();
        self.requests().commit(vec![change])?;
        self.storage().note_taken(taken_bytes as u64);
        Ok(logged_bytes)
    }

    /// Starts a bulk load: whole segments, which [`Loader::finish`] makes visible together.
    pub fn loader(self: &Arc<Self>) -> Loader {
        Loader::new(self.clone())
    }
}
