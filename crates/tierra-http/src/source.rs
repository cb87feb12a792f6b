//! Rows on their way to the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use tierra_sql::{Rows, Session, Work};

use crate::body;
use crate::fault::Fault;
use crate::shared::Shared;

/// Rows of a statement, and what must live as long.
pub(crate) struct Source {
    rows: Rows,
    /// The batch that was read before the answer began.
    first: Option<RecordBatch>,
    began: Instant,
    shared: Arc<Shared>,
    /// Whether the end of the rows commits the transaction.
    commits: bool,
    /// Dropped last: its end ends the statement.
    session: Session,
}

impl Source {
    pub(crate) fn new(
        rows: Rows,
        first: Option<RecordBatch>,
        began: Instant,
        shared: Arc<Shared>,
        session: Session,
        commits: bool,
    ) -> Self {
        Self {
            rows,
            first,
            began,
            shared,
            commits,
            session,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    pub(crate) fn work(&self) -> Work {
        self.rows.work()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next rows; an error if the last one was read and the transaction cannot be committed.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        if let Some(batch) = self.first.take() {
            return Ok(Some(batch));
        }
        let next = self.shared.within(self.rows.next()).await.transpose()?;
        if next.is_none() {
            self.end().await?;
        }
        Ok(next)
    }

    /// Commits the transaction of the rows, of which no more will be read.
    pub(crate) async fn end(&mut self) -> Result<(), Fault> {
        match std::mem::take(&mut self.commits) {
            true => self.shared.within(body::commit(&self.session)).await,
            false => Ok(()),
        }
    }
}
